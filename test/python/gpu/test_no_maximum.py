"""Kernels without a running maximum, and sums of rows on the tensor cores, on a GPU, against f32 attention by the rule
of flashc.bench: ragged lengths, rows without keys, scores and masks, large exponents, NaN. Skipped where there is no
GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402

LENGTHS = [(1, 1), (1, 257), (63, 65), (65, 1), (257, 331), (331, 63), (1000, 1000)]
MASKS = {
    "none": None,
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (i - j <= 40) & (j - i <= 9),
    "some rows empty": lambda b, h, i, j: (j <= i - 20) & (i % 3 != 0),
}
SCORES = {
    "plain": (None, None),
    "soft cap": (lambda s, b, h, i, j: 30.0 * ops.tanh(s / 30.0), lambda s, b, h, i, j: 30.0 * torch.tanh(s / 30.0)),
    "minus infinity": (lambda s, b, h, i, j: ops.where(j % 5 == 2, -float("inf"), s),
                       lambda s, b, h, i, j: torch.where(j % 5 == 2, -torch.inf, s)),
    "large": (lambda s, b, h, i, j: s * 400.0, lambda s, b, h, i, j: s * 400.0),
}


@pytest.fixture(autouse=True)
def seed():
    print("seed", torch.seed())


def inputs(nq, nk, d, dtype):
    return [torch.randn(2, heads, n, d, device="cuda").to(dtype) for heads, n in ((4, nq), (2, nk), (2, nk))]


def reference(q, k, v, mask, score):
    axes = [torch.arange(extent, device="cuda") for extent in (2, 4, q.shape[2], k.shape[2])]
    grid = [axis.view([-1 if dim == place else 1 for dim in range(4)]) for place, axis in enumerate(axes)]
    keep = None if mask is None else mask(*grid)
    return Reference(q, k, v, keep, None if score is None else lambda s: score(s, *grid).expand(s.shape))


def most_keys(mask, nq, nk):
    """Returns the largest number of keys that a query sees."""
    if mask is None:
        return nk
    return int(mask(0, 0, torch.arange(nq)[:, None], torch.arange(nk)).expand(nq, nk).sum(1).max())


def check(schedule, mask, scores, d, dtype, scale=1.0):
    """`scale` multiplies the queries."""
    in_kernel, in_torch = scores
    keywords = {name: value for name, value in (("mask", mask), ("score", in_kernel)) if value is not None}
    for nq, nk in LENGTHS:
        q, k, v = inputs(nq, nk, d, dtype)
        q = q * scale
        expected = reference(q, k, v, mask, in_torch)
        # A kernel without a maximum needs the tensor cores to sum up the rows. They do so only if the kernel does not
        # compute the log-sum-exp.
        for with_lse in (False,) if "unified" in schedule else (False, True):
            result = flashc.attention(q, k, v, enable_gqa=True, return_lse=with_lse, schedule=schedule, **keywords)
            o, lse = result if with_lse else (result, None)
            comparison = expected.compare(o)
            if "unified" in schedule and most_keys(mask, nq, nk) <= 1:  # a row's only weight may be inexact
                error = (o.float() - expected.o).abs() - 2**-7 * expected.o.abs()
                assert torch.all(error <= 0), (nq, nk, with_lse)
            else:
                assert not comparison.problem, (comparison, nq, nk, with_lse)
            dead = expected.lse == -torch.inf
            assert torch.all(o[dead] == 0), (nq, nk, with_lse)
            if with_lse:
                assert torch.equal(dead, lse == -torch.inf), (nq, nk)
                assert torch.all((lse - expected.lse)[~dead].abs() <= 1e-3 * (1 + expected.lse[~dead].abs())), (nq, nk)


@pytest.mark.parametrize("scale", [1.0, 60.0])  # with 60, most scores are at the cap or at its negative
@pytest.mark.parametrize("cap", [30.0, 55.0])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("d", [64, 128])
def test_no_maximum(d, mask, cap, scale):
    scores = (lambda s, b, h, i, j: cap * ops.tanh(s / cap), lambda s, b, h, i, j: cap * torch.tanh(s / cap))
    check("max=unified", MASKS[mask], scores, d, torch.bfloat16, scale)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("schedule", ["consumers=3,kv-tile=80,stages=4", "consumers=2,kv-tile=128,stages=2,q-stages=2",
                                      "consumers=2,kv-tile=112,stages=2"])
def test_no_maximum_of_wide_values(schedule, mask):
    check(f"max=unified,{schedule}", MASKS[mask], SCORES["soft cap"], 128, torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("d", [128, 192, 256])
def test_sums_of_wide_values_on_the_tensor_cores(d, mask, dtype):
    q, k, v = inputs(331, 257, d, dtype)
    keywords = {} if MASKS[mask] is None else {"mask": MASKS[mask]}
    expected = reference(q, k, v, MASKS[mask], None)
    o = flashc.attention(q, k, v, enable_gqa=True, schedule="tensor-sums=true", **keywords)
    assert not expected.compare(o).problem
    assert torch.all(o[expected.lse == -torch.inf] == 0)
    # Weights are rounded before they are summed, so values of 1 give exactly 1.
    o = flashc.attention(q, k, torch.ones_like(v), enable_gqa=True, schedule="tensor-sums=true", **keywords)
    assert torch.all((o == 1) | ((o == 0) & (expected.lse == -torch.inf)[..., None]))


@pytest.mark.parametrize("d", [64, 128])
def test_an_only_key_has_a_weight_of_one(d):
    """Without a maximum, the exponential of a query's only key may be any number. It is rounded in the product and in
    the sum alike."""
    q, k, v = inputs(331, 331, d, torch.bfloat16)
    v = v.repeat_interleave(2, 1)
    o = flashc.attention(q, k.repeat_interleave(2, 1), v, mask=lambda b, h, i, j: j == i, score=SCORES["soft cap"][0],
                         schedule="max=unified")
    assert torch.all((o.float() - v.float()).abs() <= 2**-8 * v.float().abs())


def test_masked_keys_have_no_part():
    """A masked key's weight is exactly 0, however large its value is."""
    q, k, v = inputs(65, 200, 64, torch.bfloat16)
    v[:, :, 100:] = 3e38
    score = SCORES["soft cap"][0]
    o = flashc.attention(q, k, v, enable_gqa=True, mask=lambda b, h, i, j: j < 100, score=score,
                         schedule="max=unified")
    expected = flashc.attention(q, k[:, :, :100].contiguous(), v[:, :, :100].contiguous(), enable_gqa=True, score=score)
    assert (o - expected).abs().max() <= 0.02


@pytest.mark.parametrize("d", [64, 128])
def test_nan_is_seen_without_a_maximum(d):
    for key in (0, 5, 131, 199):
        q, k, v = inputs(200, 200, d, torch.bfloat16)
        k[:, :, key, 3] = float("nan")
        o = flashc.attention(q, k, v, enable_gqa=True, causal=True, score=SCORES["soft cap"][0],
                             schedule="max=unified")
        assert torch.isnan(o[:, :, key:]).all() and torch.isfinite(o[:, :, :key]).all()


def test_refuses():
    q, k, v = inputs(64, 64, 64, torch.bfloat16)
    with pytest.raises(flashc.CompileError, match="expected a score region whose values have a known bound"):
        flashc.attention(q, k, v, enable_gqa=True, schedule="max=unified")
    with pytest.raises(flashc.CompileError, match="expected tensor-sums for max=unified"):
        flashc.attention(q, k, v, enable_gqa=True, return_lse=True, schedule="max=unified")
    wide, score = inputs(64, 64, 96, torch.bfloat16), SCORES["soft cap"][0]
    with pytest.raises(flashc.CompileError, match="expected tensor-sums for max=unified"):
        flashc.attention(*wide, enable_gqa=True, score=score, schedule="max=unified")
    with pytest.raises(flashc.CompileError, match="expected bf16 for max=unified, got 'f16'"):
        flashc.attention(*(x.half() for x in inputs(64, 64, 128, torch.bfloat16)), enable_gqa=True, score=score,
                         schedule="max=unified")
