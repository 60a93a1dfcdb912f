"""In packed and cached calls on a GPU, named masks and the lengths that masks and scores ask for refer to each
sequence. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import decoding  # noqa: E402
import flashc  # noqa: E402
from flashc import masks, ops  # noqa: E402
from test_alignment import LENGTHS, NAMED  # noqa: E402
from .tensors import qkv  # noqa: E402

BF16 = torch.bfloat16
MANY = [*LENGTHS, (211, 507), (300, 129), (1, 200)]


def packed(dim=64):
    """Returns q, k, v and the offsets of queries and of keys."""
    offsets, key_offsets = (torch.tensor([0, *part], device="cuda").cumsum(0).int() for part in zip(*MANY))
    q, k, v = qkv(1, 4, 2, int(offsets[-1]), int(key_offsets[-1]), dim)
    return [x[0].transpose(0, 1).contiguous() for x in (q, k, v)], offsets, key_offsets


def close(got, want):
    return torch.allclose(got.float(), want.float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", NAMED)
def test_named_masks_in_packed_sequences(name):
    """Compares with one call of attention for each sequence."""
    (q, k, v), offsets, key_offsets = packed()
    make, _ = NAMED[name]
    o = flashc.varlen_attention(q, k, v, offsets, key_offsets, mask=make(), enable_gqa=True)
    for s, (nq, nk) in enumerate(MANY):
        if nq == 0 or nk == 0:
            continue
        part = [x[start[s]:start[s + 1]].transpose(0, 1)[None] for x, start in
                ((q, offsets), (k, key_offsets), (v, key_offsets))]
        want = flashc.attention(*part, mask=make(), enable_gqa=True)
        assert close(o[offsets[s]:offsets[s + 1]], want[0].transpose(0, 1)), (name, s)


@pytest.mark.parametrize("keywords, mask", [({"causal": True}, masks.causal()), ({"window": (90, 3)},
                                                                                 masks.sliding_window(90, 3))])
def test_packed_masks_are_those_of_the_argument(keywords, mask):
    inputs, *offsets = packed(128)
    results = []
    for how in (keywords, {"mask": mask}):
        q, k, v = (x.clone().requires_grad_() for x in inputs)
        o, lse = flashc.varlen_attention(q, k, v, *offsets, enable_gqa=True, return_lse=True, **how)
        torch.manual_seed(0)
        results.append((o, lse, *torch.autograd.grad(o, (q, k, v), torch.randn_like(o))))
    for got, want in zip(*results):
        assert close(got, want)


def test_lengths_in_packed_sequences():
    inputs, *offsets = packed()

    def run(mask, score):
        q, k, v = (x.clone().requires_grad_() for x in inputs)
        o = flashc.varlen_attention(q, k, v, *offsets, mask=mask, score=score, enable_gqa=True)
        torch.manual_seed(0)
        return o, *torch.autograd.grad(o, (q, k, v), torch.randn_like(o))
    nq, nk = (torch.tensor(part, device="cuda") for part in zip(*MANY))  # the lengths of the sequences, as arrays
    got = run(lambda s, h, i, j: (j >= ops.key_length() - 70) | (i == ops.query_length() - 1),
              lambda x, s, h, i, j: x * (1 + (j - i - ops.key_length() + ops.query_length()) * 0.001))
    want = run(lambda s, h, i, j: (j >= nk[s] - 70) | (i == nq[s] - 1),
               lambda x, s, h, i, j: x * (1 + (j - i - nk[s] + nq[s]) * 0.001))
    for x, y in zip(got, want):
        assert close(x, y)


@pytest.mark.parametrize("tokens", [1, 3, 130])
@pytest.mark.parametrize("page", [0, 16])
def test_caches(page, tokens):
    cached = [300, 131, 257, 640]
    cache = decoding.Cache(cached, 2, 64, 64, 640, page, "cuda", BF16)
    q = torch.randn(len(cached), tokens, 8, 64, device="cuda").to(BF16)
    lengths = torch.tensor(cached, device="cuda")
    for make, rule in NAMED.values():
        decoding.check(cache, q, 8e-3, keep=lambda b, h, i, j: rule(i, j), mask=make(), causal=False)  # noqa: B023
    decoding.check(cache, q, 8e-3, keep=lambda b, h, i, j: (j <= i) & (j >= lengths[b] - 50),
                   mask=lambda b, h, i, j: j >= ops.key_length() - 50)
    o = flashc.decode(q, *cache.arguments(), score=lambda x, b, h, i, j: x - 0.02 * (ops.key_length() - j) * h +
                      0.1 * ops.query_length())
    want, _ = decoding.attention(q, cache.k, cache.v, cache.lengths,
                                 rescore=lambda x, b, h, i, j: x - 0.02 * (lengths[b] - j) * h + 0.1 * tokens)
    assert (o.double() - want).norm() <= 8e-3 * want.norm()
