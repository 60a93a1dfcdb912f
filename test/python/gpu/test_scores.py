"""Score functions on a GPU, with and without masks, against f32 attention by the rule of flashc.bench; and every
function of flashc.ops against f64. Skipped where there is no GPU."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops  # noqa: E402
from flashc.bench._check import Reference  # noqa: E402
from scores import FUNCTIONS, MASKS, NAMES, make_scores  # noqa: E402
from .tensors import positions  # noqa: E402

BATCH, HEADS, KEY_HEADS = 2, 4, 2
LENGTHS = [(1, 257), (63, 65), (65, 1), (257, 331), (331, 63)]


def to_gpu(x):
    return torch.from_numpy(np.array(x)).cuda()  # a scalar stays a scalar


def check(nq, nk, d, dtype, mask=None, score=None, **keywords):
    """Compares flashc with f32 attention. The output may have twice the error of plain attention in `dtype`. The
    log-sum-exp may differ by a thousandth of the scores, since the kernel's tanh has eleven bits."""
    q, k, v = (torch.randn(BATCH, heads, n, d, device="cuda").to(dtype)
               for heads, n in ((HEADS, nq), (KEY_HEADS, nk), (KEY_HEADS, nk)))
    grid = positions(BATCH, HEADS, nq, nk)
    rescore = None if score is None else lambda s: score(s, *grid).expand(s.shape)
    reference = Reference(q, k, v, None if mask is None else mask(*grid), rescore)
    if score is not None:
        keywords["score"] = score
    if mask is not None:
        keywords["mask"] = mask
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, **keywords)
    comparison = reference.compare(o)
    assert not comparison.problem, (comparison, nq, nk)
    dead = reference.lse == -torch.inf
    assert torch.equal(dead, lse == -torch.inf)
    assert torch.all((lse - reference.lse)[~dead].abs() <= 1e-3 * (1 + reference.lse[~dead].abs())), (nq, nk)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("name", NAMES)
def test_score(rng, name, d, dtype):
    for nq, nk in LENGTHS:
        score = make_scores(torch, to_gpu, rng, BATCH, HEADS, nq, nk)[name]
        check(nq, nk, d, dtype, score=score)


@pytest.mark.parametrize("d, dtype", [(64, torch.float16), (128, torch.bfloat16)], ids=["64-f16", "128-bf16"])
@pytest.mark.parametrize("number, name", list(enumerate(NAMES)), ids=NAMES)
def test_score_and_mask(rng, number, name, d, dtype):
    mask = list(MASKS.values())[(number + d // 128) % len(MASKS)]
    for nq, nk in LENGTHS:
        score = make_scores(torch, to_gpu, rng, BATCH, HEADS, nq, nk)[name]
        check(nq, nk, d, dtype, mask, score)


# The scores of AFFINE are s plus terms that are affine in j, which the tensor cores can add.
#: Schedules that leave no shared memory for slopes. The tensor cores then add nothing, and each score takes a
#: multiply-add instead.
FULL = {d: f"consumers=2,kv-tile=64,stages={stages},q-stages=1,store=registers" for d, stages in ((64, 13), (128, 6))}
AFFINE = ["alibi", "alibi of the other sign", "slope of a query", "rows cut off"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d", [32, 64, 96, 128, 192, 256])
@pytest.mark.parametrize("name", AFFINE)
def test_bias_on_tensor_cores(rng, name, d, dtype):
    for number, (nq, nk) in enumerate(LENGTHS):
        score = make_scores(torch, to_gpu, rng, BATCH, HEADS, nq, nk)[name]
        mask = [None, *MASKS.values()][(number + d // 32) % (1 + len(MASKS))]
        check(nq, nk, d, dtype, mask, score)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("tile", [16, 80, 128, 144, 224])
def test_bias_on_tensor_cores_by_tile(rng, tile, dtype):
    """Queries are zero and each sees one key, so the log-sum-exp is the bias. Slopes have any size, some are subnormal
    in f16; tiles have any number of columns."""
    nk = 300
    slopes = to_gpu(np.float32([3.3e-7, -1e-4, 0.7001, -5.3, 61.7, 1000.1]))
    q, k = (torch.zeros(1, len(slopes), n, 64, device="cuda", dtype=dtype) for n in (nk, nk))
    score = lambda s, b, h, i, j: s + slopes[h] * (j - i)  # noqa: E731
    got = flashc.attention(q, k, k, score=score, mask=lambda b, h, i, j: j == i // 2 * 2 + i % 3, return_lse=True,
                           schedule=f"consumers=1,kv-tile={tile},stages=2")[1][0].double()
    i = torch.arange(nk, device="cuda")
    j = i // 2 * 2 + i % 3
    want = slopes.double()[:, None] * (j - i)
    seen = j < nk
    # The kernel computes the bias as slope * column + slope * (first column of the tile - i), in f32.
    size = slopes.double().abs()[:, None] * nk
    assert torch.all((got - want).abs()[:, seen] <= 2**-21 * size + 1e-6)
    assert torch.all(got[:, ~seen] == -torch.inf)


@pytest.mark.parametrize("schedule", [None, "full", "persistent=false"])
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 1e35])
@pytest.mark.parametrize("d", [64, 128])
def test_rows_that_the_mask_empties_have_no_score(d, value, schedule):
    """A row without keys has o = 0 and lse = -inf, whatever is added to its scores, such as uninitialised memory.
    Single rows, whole tiles or all rows are empty."""
    schedule = FULL[d] if schedule == "full" else schedule
    for nq, nk, kept in ((300, 1000, 0.5), (700, 333, 0.01), (260, 257, 0.0)):
        lengths = torch.randint(1, nk + 1, (nq,), device="cuda") * (torch.rand(nq, device="cuda") < kept)
        lengths[128:256] = 0  # empties a tile of queries
        bias = torch.where(lengths == 0, value, torch.randn(nq, device="cuda"))
        slopes = torch.where(lengths == 0, value, 0.01 * torch.randn(nq, device="cuda"))
        q, k, v = (torch.randn(1, 2, n, d, device="cuda").to(torch.bfloat16) for n in (nq, nk, nk))
        mask = lambda b, h, i, j: j < lengths[i]  # noqa: E731
        for terms in (lambda i, j: bias[i], lambda i, j: slopes[i] * (j - i)):
            o, lse = flashc.attention(q, k, v, mask=mask, score=lambda s, b, h, i, j: s + terms(i, j),
                                      return_lse=True, schedule=schedule)
            dead = lengths == 0
            assert torch.all(o[:, :, dead] == 0) and torch.all(lse[:, :, dead] == -torch.inf)
            i, j = torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")[None, :]
            added = torch.where(dead[:, None], torch.zeros((), device="cuda"), terms(i, j))
            reference = Reference(q, k, v, j < lengths[:, None], lambda s: s + added)
            comparison = reference.compare(o)
            assert not comparison.problem, comparison


@pytest.mark.parametrize("d", [64, 128])
def test_conditions_on_the_score_and_the_key(rng, d):
    """Compares a condition that repeats along the keys with a condition on the score, which does not repeat."""
    def score(s, b, h, i, j):
        return torch.where((s > 0) == (j % 2 == 0), s, -0.5 * s)
    for nq, nk in LENGTHS:
        check(nq, nk, d, torch.bfloat16, score=score)


LONG_SCORES = {
    # At these distances the added terms are in the thousands, and so may be the largest score of a row.
    "backwards": lambda s, b, h, i, j: s + 0.7 * (j - i),
    "forwards": lambda s, b, h, i, j: s + 0.3 * (i - j),
    "magnitude": lambda s, b, h, i, j: s - 0.3 * abs(i - j),
    "of a head": lambda s, b, h, i, j: s - 2.0 ** -(h + 1.0) * (i - j),
}
LONG_MASKS = {
    "none": None,
    "causal": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 1000),
    "rows without keys": lambda b, h, i, j: (i % 7 != 0) & (j < i),
}


@pytest.mark.parametrize("schedule", [None, "full"])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("mask", LONG_MASKS)
@pytest.mark.parametrize("name", LONG_SCORES)
def test_long_distances(rng, name, mask, d, schedule):
    """Checks some of 16384 queries: the output, and the log-sum-exp to within a few roundings of the largest term."""
    schedule = FULL[d] if schedule == "full" else schedule
    score, mask, nq, nk = LONG_SCORES[name], LONG_MASKS[mask], 16384, 16384
    q, k, v = (torch.randn(1, 2, n, d, device="cuda").to(torch.bfloat16) for n in (nq, nk, nk))
    keywords = {"schedule": schedule} if mask is None else {"schedule": schedule, "mask": mask}
    o, lse = flashc.attention(q, k, v, score=score, return_lse=True, **keywords)
    without = flashc.attention(q, k, v, score=score, **keywords)
    for first in (0, 8000, nq - 130):
        rows = slice(first, first + 130)
        b, h, _, j = positions(1, 2, nq, nk)
        i = torch.arange(first, first + 130, device="cuda").view(1, 1, -1, 1)
        scores = score(q[:, :, rows].double() @ k.double().mT * d**-0.5, b, h, i.double(), j.double())
        if mask is not None:
            scores = torch.where(mask(b, h, i, j), scores, -torch.inf)
        want = torch.logsumexp(scores, -1)
        dead = want == -torch.inf
        assert torch.equal(dead, lse[:, :, rows] == -torch.inf)
        assert torch.all((lse[:, :, rows] - want)[~dead].abs() <= 2e-3 + 2**-22 * want[~dead].abs()), (first, name)
        output = torch.where(dead[..., None], 0.0, torch.softmax(scores, -1)) @ v.double()
        for got in (o, without):
            error = (got[:, :, rows].double() - output).abs().max().item()
            assert error <= 3e-2, (error, first, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("bits", range(16))
def test_bias(rng, bits, dtype):
    for nq, nk in ((63, 257), (131, 65)):
        shape = [extent if bits >> dim & 1 else 1 for dim, extent in enumerate((BATCH, HEADS, nq, nk))]
        bias = torch.randn(shape, device="cuda").to(dtype)
        check(nq, nk, 64, torch.bfloat16, score=lambda s, b, h, i, j: s + bias[
            tuple(0 if extent == 1 else x for extent, x in zip(shape, (b, h, i, j)))].float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64],
                         ids=["f32", "bf16", "f16", "i32", "i64"])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("gap", [0, 1])
def test_bias_views(rng, gap, offset, dtype):
    """Kernels read two neighbours at once where they are aligned. Arrays begin at any offset, and their rows have any
    length."""
    causal = lambda b, h, i, j: j <= i  # noqa: E731
    for nq, nk, d, mask in ((64, 128, 64, None), (257, 331, 64, None), (130, 1024, 128, None), (500, 512, 64, causal),
                            (511, 400, 128, causal), (1, 63, 64, None)):
        rows = torch.randn(BATCH, HEADS, nq, offset + nk + gap, device="cuda")
        bias = (3 * rows).to(dtype)[..., offset:offset + nk]
        check(nq, nk, d, torch.bfloat16, mask, lambda s, b, h, i, j: s + bias[b, h, i, j].float())
        few = bias[:1, :, :, :]
        check(nq, nk, d, torch.bfloat16, mask, lambda s, b, h, i, j: s + few[0, h // 2, i, j].float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.bool, torch.int8],
                         ids=["f32", "bf16", "f16", "i32", "bool", "i8"])
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("gap", [0, 1])
def test_key_views(rng, gap, offset, dtype):
    """Repeats test_bias_views for a bias that depends only on the key, and for bytes, which are read two at a time."""
    causal = lambda b, h, i, j: j <= i  # noqa: E731
    for nq, nk, d, mask in ((64, 128, 64, None), (257, 331, 64, None), (130, 1024, 128, causal), (500, 513, 64, causal),
                            (1, 63, 256, None), (70, 1, 64, None)):
        rows = 3 * torch.randn(BATCH, HEADS, offset + nk + gap, device="cuda")
        bias = (rows > 0 if dtype == torch.bool else rows.to(dtype))[..., offset:offset + nk]
        one = bias[0, 0]
        # With one query, the rounding errors of the weights do not average out, so with bf16 the norm of all errors
        # could exceed the limit.
        dtype_of_q = torch.float16 if nq == 1 else torch.bfloat16
        check(nq, nk, d, dtype_of_q, mask, lambda s, b, h, i, j: s + bias[b, h, j].float())
        check(nq, nk, d, dtype_of_q, mask, lambda s, b, h, i, j: s + one[j].float())


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("gap", [0, 1])
def test_views_of_flags(rng, gap, offset):
    """Masks of flags for pairs or for keys. The arrays begin at any offset, and their rows have any length."""
    for nq, nk, d in ((64, 128, 64), (257, 331, 64), (130, 1024, 128), (500, 513, 128), (1, 63, 256), (70, 1, 64)):
        flags = (torch.rand(BATCH, HEADS, nq, offset + nk + gap, device="cuda") < 0.6)[..., offset:offset + nk]
        of_keys = flags[:, 0, 0]
        check(nq, nk, d, torch.bfloat16, lambda b, h, i, j: flags[b, h, i, j])
        check(nq, nk, d, torch.float16, lambda b, h, i, j: of_keys[b, j])
        check(nq, nk, d, torch.bfloat16, score=lambda s, b, h, i, j: torch.where(flags[b, h, i, j], s, -s))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(rng, name):
    """The log-sum-exp over one key is its score. Kernels use hardware instructions for sin, cos, tanh, log and
    others."""
    of_number, (low, high) = FUNCTIONS[name]
    x = rng.uniform(low, high, 200).astype(np.float32)
    want = np.array([of_number(float(number)) for number in x], np.float64)
    table, function = to_gpu(x), getattr(ops, name)
    q, k = (torch.zeros(1, 1, n, 64, device="cuda", dtype=torch.bfloat16) for n in (200, 1))
    got = flashc.attention(q, k, k, score=lambda s, b, h, i, j: function(table[i]), return_lse=True)[1]
    error = np.abs(got[0, 0].cpu().numpy() - want)
    print(f"{name}: {(error / np.maximum(np.abs(want), 1e-30)).max():.2e} relative, {error.max():.2e}")
    relative = 6e-4 if name == "tanh" else 5e-6
    assert np.all(error <= relative * np.abs(want) + 1e-6)


def test_names_of_torch(rng):
    x = to_gpu(rng.uniform(-0.9, 0.9, 64).astype(np.float32))
    q, k = (torch.zeros(1, 1, n, 64, device="cuda", dtype=torch.bfloat16) for n in (64, 1))
    for function in (torch.erf, torch.special.erfc, torch.expm1, torch.log1p, torch.atan, torch.arctan, torch.sinh,
                     torch.cosh, torch.asinh, torch.arcsinh, torch.atanh, torch.asin, torch.acos, torch.round,
                     torch.trunc, torch.sign, torch.reciprocal, torch.sigmoid, torch.relu,
                     torch.nn.functional.gelu, torch.nn.functional.silu, torch.nn.functional.softplus,
                     torch.nn.functional.logsigmoid, lambda x: torch.atan2(x, x + 1), lambda x: x.erf().expm1()):
        got = flashc.attention(q, k, k, score=lambda s, b, h, i, j: function(x[i]), return_lse=True)[1][0, 0]
        assert torch.allclose(got.double(), function(x.double()), rtol=1e-5, atol=2e-6), function
