"""Masks and scores ask a traced value what they may ask a tensor: its device, its type, a conversion."""
import re

import numpy as np
import pytest

import flashc
from flashc._trace.trace import trace
from test_lists import check

torch = pytest.importorskip("torch")

IDS = np.random.default_rng(3).integers(0, 4, (3, 37)).astype(np.int32)
BIAS = np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32)
LONG = np.zeros((2, 65), np.float32)


class Holder:
    ids, bias, one = torch.tensor(IDS), torch.tensor(BIAS), torch.tensor(1.25)


def as_transformers_joins(b, h, i, j):
    result = b >= 0
    return result & (j <= i).to(result.device) & i.new_ones((), dtype=torch.bool, device=i.device)


CAUSAL = lambda b, h, i, j: j <= i  # noqa: E731
MASKS = {
    "joined": (as_transformers_joins, CAUSAL),
    "device of torch": (lambda b, h, i, j: (j <= i) & torch.ones((), dtype=torch.bool, device=j.device), CAUSAL),
    "to device": (lambda b, h, i, j: i.to("cpu") >= j.to(torch.device("cuda"), non_blocking=True), CAUSAL),
    "to device by keyword": (lambda b, h, i, j: i.to(device=j.device) >= j.to(0), CAUSAL),
    "to both": (lambda b, h, i, j: (i / 4).to(i.device, torch.int32) >= (j / 4).to("cuda:0", dtype=torch.int64),
                lambda b, h, i, j: i // 4 >= j // 4),
    "to type": (lambda b, h, i, j: (i / 4).to(torch.long, copy=True) >= (j / 4).to(dtype=int),
                lambda b, h, i, j: i // 4 >= j // 4),
    "to other": (lambda b, h, i, j: (i / 4).to(j) >= (j / 4).to(other=i), lambda b, h, i, j: i // 4 >= j // 4),
    "to type of an array": (lambda b, h, i, j: (i / 4).to(IDS.dtype) >= (j / 4).to(Holder.ids.dtype),
                            lambda b, h, i, j: i // 4 >= j // 4),
    "type": (lambda b, h, i, j: (i / 4).type("torch.LongTensor") >= (j / 4).astype(np.int32),
             lambda b, h, i, j: i // 4 >= j // 4),
    "array to device": (lambda b, h, i, j: IDS.to(i.device)[0, j] == IDS.cpu()[0][i],
                        lambda b, h, i, j: IDS[0, j] == IDS[0, i]),
    "array to type": (lambda b, h, i, j: IDS.to(torch.bool)[0, j] & ~IDS.bool()[1][j],
                      lambda b, h, i, j: (IDS[0, j] != 0) & (IDS[1, j] == 0) & (i >= 0)),
    "tensor of a number": (lambda b, h, i, j: i - j >= torch.tensor(2), lambda b, h, i, j: i - j >= 2),
    "tensor on the left": (lambda b, h, i, j: torch.tensor(2) <= i - j, lambda b, h, i, j: i - j >= 2),
    "array of a number": (lambda b, h, i, j: i - j >= np.array(2), lambda b, h, i, j: i - j >= 2),
    "nothing but a tensor": (lambda b, h, i, j: torch.tensor(True), lambda b, h, i, j: i + j >= 0),
    "full": (lambda b, h, i, j: torch.full_like(i, 7) >= j - i.new_full((), 2, dtype=torch.int32),
             lambda b, h, i, j: (j <= 9) & (i >= 0)),
    "row": (lambda b, h, i, j: any_of(IDS[1:3] if False else IDS, i, j),
            lambda b, h, i, j: (IDS[:, 0] == i[..., None] % 4).any(-1) & (j >= 0)),
}


def any_of(rows, i, j):
    found = j < 0
    for row in rows:
        found = found | (row[0] == i % 4)
    return found


@pytest.mark.parametrize("name", MASKS)
def test_masks(rng, name):
    check(rng, mask=MASKS[name][0], keep=MASKS[name][1])


SCORES = {
    "finfo": (lambda s, b, h, i, j: torch.where(j <= i, s, torch.finfo(s.dtype).min / 2),
              lambda s, b, h, i, j: np.where(j <= i, s, -1.7e38)),
    "full like": (lambda s, b, h, i, j: torch.where(j <= i, s, torch.full_like(s, -1e9)),
                  lambda s, b, h, i, j: np.where(j <= i, s, -1e9)),
    "number of a type": (lambda s, b, h, i, j: s + torch.tensor(0.5, dtype=s.dtype, device=s.device) * (i > j),
                         lambda s, b, h, i, j: s + 0.5 * (i > j)),
    "new tensor": (lambda s, b, h, i, j: s * s.new_tensor(0.5) + s.new_full((), 3),
                   lambda s, b, h, i, j: s * 0.5 + 3),
    "behind an attribute": (lambda s, b, h, i, j: s * Holder.one, lambda s, b, h, i, j: s * 1.25),
    "bfloat16": (lambda s, b, h, i, j: s.to(torch.bfloat16) + (i - j).to(s.dtype) / 8,
                 lambda s, b, h, i, j: s + (i - j) / 8),
    "row": (lambda s, b, h, i, j: s + sum(x * (n + 1) for n, x in enumerate(BIAS[h])),
            lambda s, b, h, i, j: s + (BIAS[h] * [1, 2, 3]).sum(-1)),
    "integers as numbers": (lambda s, b, h, i, j: s + IDS.float()[0, j] / 2, lambda s, b, h, i, j: s + IDS[0, j] / 2),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(rng, name):
    check(rng, score=SCORES[name][0], rescore=SCORES[name][1])


def test_types_and_devices():
    found = []

    def mask(b, h, i, j):
        found.extend(
            [i.dtype, (i > j).dtype, (i * 0.5).dtype, IDS.dtype,
             BIAS.to(torch.int64).dtype, i.device, IDS.device])
        return i >= j
    trace(mask, None, device=-1)
    assert found == [torch.int64, torch.bool, torch.float32, torch.int32, torch.int64, torch.device("cpu"),
                     torch.device("cpu")]
    found.clear()
    trace(lambda b, h, i, j: found.append(i.device) or i >= j, None, device=3)
    assert found == [torch.device("cuda", 3)]


def test_a_number_that_is_trained_is_captured():
    factor = torch.tensor(2.0, requires_grad=True)
    hidden = Holder()
    hidden.one = factor
    assert len(trace(None, lambda s, b, h, i, j: s * hidden.one).captures) == 1


@pytest.mark.parametrize("mask, words", [
    (lambda b, h, i, j: i.to("nonsense") > 3, "a type of numbers, integers or conditions, got 'nonsense'"),
    (lambda b, h, i, j: i.to() > 3, "expected to\\(dtype\\), .* got nothing"),
    (lambda b, h, i, j: i.to(torch.int32, where=3) > 3, "expected to\\(dtype\\), .* got where"),
    (lambda b, h, i, j: sum(LONG[0]) > i, "a row of at most 64 elements, got 65"),
    (lambda b, h, i, j: torch.full_like(i, 1).new_full((2,), 1) > i, "without dimensions"),
])
def test_refusals(mask, words):
    with pytest.raises(flashc.TraceError) as caught:
        trace(mask, None)
    assert re.search(words, str(caught.value).split("\n")[0])
