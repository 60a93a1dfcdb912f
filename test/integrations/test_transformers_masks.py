"""Masks that the door of transformers reads: all pairs beside `sdpa_mask`, which makes arrays of the same arguments."""
import os
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import masking_utils as mu  # noqa: E402

import flashc  # noqa: E402
from flashc.integrations import _transformers_mask as reader  # noqa: E402
from flashc.integrations._transformers_mask import Conjunction, ModelMask, make_mask  # noqa: E402

KEYS = 40  # At most; the values of keys are rows of a unit matrix.
#: How many random masks are compared.
RUNS = int(os.environ.get("FLASHC_DOOR_RUNS", 12))


def pairs(mask, batch, queries, keys, is_step=False):
    """Returns the pairs that a mask keeps, [B, 2, Nq, Nk], as flashc.attention or flashc.decode computes them. Equal
    scores give equal probabilities to all keys that a query sees, and values of 0 and 1 show which these are."""
    q, k = torch.zeros(batch, 2, queries, 16), torch.zeros(batch, 1, keys, 16)
    v = torch.eye(keys, KEYS).expand(batch, 1, -1, -1).contiguous()
    if is_step:
        lengths, window, keep = mask.of_decode(queries, keys, batch, q.device)
        o = flashc.decode(q, k, v, lengths, causal=False, window=window, mask=keep, layout="bhsd")
    else:
        window, keep = mask.of_attention(queries, keys)
        o = flashc.attention(q, k, v, window=window, mask=keep, enable_gqa=True)
    return o[..., :keys] > 0


def every_other(b, h, i, j):
    return (i + j + b) % 2 == 0


def any_of(words):
    """A function of a user that refers to an array and to a number."""
    least = 3
    return lambda b, h, i, j: (words[b, j] > least) | (i - j == 1)


class Case:
    """A random mask, as a model may ask for it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.batch, self.seed = rng.randint(1, 3), seed
        self.queries, past = rng.choice([1, 1, 2, 5, 12, 17, 20]), rng.choice([0, 0, 3, 11])
        self.kv_offset = rng.choice([0, 0, rng.randint(0, past)])
        self.q_offset, self.is_packed = past, False
        self.keys = past - self.kv_offset + self.queries + rng.choice([0, 0, 0, 6])  # More as in a static cache.
        total = self.kv_offset + self.keys
        self.padding, base = None, self.base(total)
        self.generator = torch.Generator().manual_seed(seed)
        if rng.random() < 0.3:
            base = mu.or_masks(base, rng.choice([every_other, any_of(self.words(total)), self.blocks(total)]))
        if rng.random() < 0.2:
            base = mu.and_masks(base, rng.choice([every_other, mu.sliding_window_overlay(9)]))
        if past == 0 and self.keys == self.queries and rng.random() < 0.4:
            self.is_packed = True
            positions = self.positions()
            ids = mu.find_packed_sequence_indices(positions)
            ids = torch.zeros_like(positions) if ids is None else ids
            base = mu.remap_positions_for_packed_sequence(base, positions)
            if rng.random() < 0.3:
                base = mu.or_masks(base, self.blocks(total))
            base = mu.and_masks(base, mu.packed_sequence_mask_function(ids))
        elif rng.random() < 0.6:
            self.padding = self.pad(total)
        self.function, self.offset = base, self.q_offset
        if not self.is_packed and rng.random() < 0.3:
            self.offset = torch.tensor(self.q_offset)

    def words(self, total):
        return torch.randint(0, 6, (self.batch, total), generator=torch.Generator().manual_seed(self.seed))

    def base(self, total):
        kind = self.rng.choice(["causal", "causal", "window", "both", "all", "chunks"])
        size = self.rng.choice([1, 4, 8])
        if kind == "chunks":
            return mu.chunked_causal_mask_function(size, torch.randint(0, 3, (self.batch,)))
        return {"causal": lambda: mu.causal_mask_function, "all": lambda: mu.bidirectional_mask_function,
                "window": lambda: mu.sliding_window_causal_mask_function(size),
                "both": lambda: mu.sliding_window_bidirectional_mask_function(size)}[kind]()

    def blocks(self, total):
        ids = torch.full((self.batch, total), -1)
        for b in range(self.batch):
            begin = self.rng.randint(0, total - 1)
            ids[b, begin:begin + self.rng.randint(1, 9)] = 0
            ids[b, begin + 10:begin + 13] = 1
        return mu.blockwise_overlay(ids)

    def positions(self):
        rows = []
        for _ in range(self.batch):
            row = []
            while len(row) < self.queries:
                row += range(self.rng.randint(1, 8))
            rows.append(row[:self.queries])
        return torch.tensor(rows)

    def pad(self, total):
        columns, kind = torch.arange(total), self.rng.choice(["left", "right", "some", "none", "short"])
        if kind == "none":
            return torch.ones(self.batch, total, dtype=torch.bool)
        if kind == "some":
            return torch.rand(self.batch, total, generator=self.generator) < 0.7
        if kind == "short":  # As with a static cache: the rest is not there yet.
            return torch.ones(self.batch, max(1, total - 6), dtype=torch.bool)
        size = torch.randint(0, max(1, total // 2), (self.batch, 1), generator=self.generator)
        return columns >= size if kind == "left" else columns < total - size

    def arguments(self):
        return dict(batch_size=self.batch, q_length=self.queries, kv_length=self.keys, q_offset=self.offset,
                    kv_offset=self.kv_offset, mask_function=self.function, attention_mask=self.padding)

    def want(self):
        return mu.sdpa_mask(**self.arguments(), allow_is_causal_skip=False, use_vmap=False)


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_masks(seed):
    case = Case(seed)
    want = case.want()
    mask = make_mask(**case.arguments())
    assert isinstance(mask, ModelMask) and mask.shape == (case.batch, 1, case.queries, case.keys)
    assert torch.equal(pairs(mask, case.batch, case.queries, case.keys), want.expand(-1, 2, -1, -1)), case.arguments()
    if mask.of_decode(case.queries, case.keys, case.batch, torch.device("cpu")) is not None:
        have = pairs(mask, case.batch, case.queries, case.keys, is_step=True)
        assert torch.equal(have, want.expand(-1, 2, -1, -1)), case.arguments()


def test_offsets_are_those_of_the_time_when_the_mask_was_made():
    """A static cache adds to the tensor of its length before attention runs."""
    offset = torch.tensor(3)
    mask = make_mask(1, 4, 9, offset, 0, mu.and_masks(mu.causal_mask_function, every_other))
    want = mu.sdpa_mask(1, 4, 9, 3, 0, mu.and_masks(mu.causal_mask_function, every_other), allow_is_causal_skip=False)
    offset.add_(5)
    assert torch.equal(pairs(mask, 1, 4, 9), want.expand(-1, 2, -1, -1))
