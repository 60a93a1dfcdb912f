"""Negative indices, which count from the end, on a GPU, against float32 attention. test_captured_gradients.py tests
gradients of tables that are read with such indices. Skipped where there is no GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops  # noqa: E402
from flashc.bench import _check  # noqa: E402
from .tensors import positions, qkv  # noqa: E402

LISTED = [0.5, -1.0, 2.0, 0.25, 1.5]


def check(shape, d=64, mask=None, score=None, wanted=None):
    """`wanted` is the score for tensors, if it must be written in another way."""
    b, h, nq, nk = shape
    q, k, v = qkv(b, h, h, nq, nk, d)
    o, lse = flashc.attention(q, k, v, mask=mask, score=score, return_lse=True)
    at = positions(b, h, nq, nk)
    keep = torch.ones((), dtype=torch.bool, device="cuda") if mask is None else mask(*at)
    wanted = wanted or score
    problem = _check.Reference(q, k, v, keep.broadcast_to(b, h, nq, nk),
                               wanted and (lambda s: wanted(s, *at)), None).compare(o, lse).problem
    assert not problem, problem


@pytest.mark.parametrize("shape", [(1, 2, 1, 63), (2, 3, 131, 65), (1, 2, 257, 337), (1, 4, 4, 1009)])
def test_indices_count_from_the_end(shape):
    n = max(shape[2:])
    table, wide = torch.randn(n, device="cuda"), torch.randn(4, 2 * n, device="cuda")
    listed = torch.tensor(LISTED, device="cuda")
    bits = torch.rand(2, n, device="cuda") < 0.7
    check(shape, score=lambda s, b, h, i, j: s + table[j - 1] - 0.5 * table[i - 1])
    check(shape, d=128, score=lambda s, b, h, i, j: s + wide[h - 1, i - j] * wide[-1 - b, -1 - j])
    check(shape, score=lambda s, b, h, i, j: s + LISTED[(i + j) % 9 - 5],
          wanted=lambda s, b, h, i, j: s + listed[(i + j) % 9 - 5])
    check(shape, mask=lambda b, h, i, j: bits[0 - b, j - i] | (i == j % n))


def test_distances_that_a_mask_keeps():
    table = torch.randn(1009, device="cuda")
    check((1, 2, 1009, 1009), d=128, mask=lambda b, h, i, j: j <= i, score=lambda s, b, h, i, j: s + table[i - j])


def test_indices_outside_are_clamped():
    wide = torch.full((100,), float("nan"), device="cuda")
    wide[40:45] = torch.randn(5, device="cuda")
    table = wide[40:45]
    check((1, 2, 131, 257), score=lambda s, b, h, i, j: ops.where(abs(i - j) < 5, s + table[i - j], s),
          wanted=lambda s, b, h, i, j: torch.where((i - j).abs() < 5, s + table[(i - j).clamp(-5, 4)], s))
    check((1, 2, 131, 257), score=lambda s, b, h, i, j: s + table[i - j],
          wanted=lambda s, b, h, i, j: s + table[torch.where(i < j, i - j + 5, i - j).clamp(0, 4)])


def test_decode():
    table = torch.randn(40, device="cuda")
    q = torch.randn(2, 1, 4, 64, device="cuda", dtype=torch.bfloat16)
    cache = torch.randn(2, 64, 2, 64, device="cuda", dtype=torch.bfloat16)
    lengths = torch.tensor([37, 5], device="cuda", dtype=torch.int32)
    _, lse = flashc.decode(q, cache, cache, lengths, score=lambda s, b, h, i, j: 0 * s + table[j - i - 1],
                           return_lse=True)
    for b, n in enumerate(lengths.tolist()):
        want = table[torch.arange(n, device="cuda") - n].logsumexp(0)
        assert torch.allclose(lse[b].flatten().float(), want, atol=1e-4)
