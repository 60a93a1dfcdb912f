"""flashc.attention_backward on tensors on a GPU against gradients in f64. Skipped where there is no GPU."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops, scores  # noqa: E402
from scores import MASKS, NAMES, make_scores  # noqa: E402
from .guarded import guarded, random  # noqa: E402
from .tensors import positions  # noqa: E402

LENGTHS = [(1, 257), (63, 65), (65, 1), (257, 331), (331, 63)]


def get_gradients(q, k, v, do, dlse, keep, rescore):
    """Returns o, lse and the gradients of q, k and v, computed by PyTorch in f64. The gradient of a query that sees no
    key is 0."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).mT * q.shape[-1]**-0.5
    grid = positions(*s.shape)
    if rescore is not None:
        s = rescore(s, *grid).expand(s.shape).double()
    sees = torch.ones_like(s, dtype=torch.bool)
    if keep is not None:
        sees = torch.as_tensor(keep(*grid), device="cuda").expand(s.shape)
    sees = sees & (s > -torch.inf)  # a key whose score is -inf counts as masked
    any_key = sees.any(-1, keepdim=True)
    s = torch.where(sees, s, torch.where(any_key, -torch.inf, 0.0))
    lse = s.logsumexp(-1)
    o = torch.where(any_key, s.softmax(-1) @ v.repeat_interleave(group, 1), 0.0)
    total = (o * do.double()).sum()
    if dlse is not None:
        total = total + torch.where(any_key[..., 0], lse * dlse.double(), 0.0).sum()
    gradients = torch.autograd.grad(total, (q, k, v))
    return o.detach(), torch.where(any_key[..., 0], lse, -torch.inf).detach(), gradients


def check(b, hq, hk, nq, nk, d, dv=None, dtype=torch.bfloat16, keep=None, rescore=None, swapped=False, with_dlse=False,
          limit=None, **keywords):
    """Inputs have NaN after them, and results are NaN before the call."""
    dv = dv or d
    q, do = (random(b, hq, nq, x, dtype=dtype, swapped=swapped) for x in (d, dv))
    k, v = (random(b, hk, nk, x, dtype=dtype, swapped=swapped) for x in (d, dv))
    dlse, lse = guarded((b, hq, nq), torch.float32)[0], guarded((b, hq, nq), torch.float32)[0]
    dlse.copy_(torch.randn(dlse.shape, device="cuda"))
    o64, lse64, _ = get_gradients(q, k, v, do, None, keep, rescore)
    lse.copy_(lse64)
    o = guarded(o64.shape, dtype)[0]
    o.copy_(o64)
    # The kernel gets o in 16 bits. The rounding of o changes delta = rowsum(do o) - dlse, as another dlse would.
    rounding = ((o.double() - o64) * do.double()).sum(-1)
    want = get_gradients(q, k, v, do, (dlse.double() if with_dlse else 0) - rounding, keep, rescore)[2]
    outs = [guarded(x.shape, dtype) for x in (q, k, v)]
    flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse if with_dlse else None, enable_gqa=True,
                              out=tuple(out for out, _ in outs), **keywords)
    limit = limit or {torch.bfloat16: 5e-3, torch.float16: 1e-3}[dtype]
    for name, (out, behind), expected in zip(("dq", "dk", "dv"), outs, want):
        # The limit is relative to the norm. With few keys dq and dk are small, and with one key they are 0, but the
        # rounding error of do V^T - delta stays as large, so `floor` is added to the norm.
        norm = expected.norm()
        floor = 3e-3 * d**0.5 * expected.numel()**0.5 * do.double().abs().mean()
        error = (out.double() - expected).norm()
        assert error <= limit * (norm + floor), (name, nq, nk, d, dv, error, norm, floor)
        assert behind.isnan().all()


def is_causal(nq, nk):
    return lambda b, h, i, j: j <= i + nk - nq


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d,dv", [(8, 8), (40, 96), (64, 64), (72, 72), (96, 96), (128, 128), (128, 64),
                                  (192, 192), (256, 256), (192, 128), (40, 200), (136, 8)])
def test_bounds(d, dv, dtype):
    for nq, nk in LENGTHS + [(1000, 1000), (131, 517)]:
        check(2, 6, 3, nq, nk, d, dv, dtype)
        check(2, 3, 3, nq, nk, d, dv, dtype, is_causal(nq, nk), with_dlse=True, causal=True)
        check(2, 6, 1, nq, nk, d, dv, dtype,
              lambda b, h, i, j: (j - i - nk + nq >= -40) & (j - i - nk + nq <= 9), window=(40, 9))


def test_random_shapes(rng):
    for _ in range(40):
        heads, group = (int(rng.choice(x)) for x in ([1, 1, 2, 5, 8], [1, 1, 4, 8]))
        nq, nk = (int(rng.choice([1, 2, 63, 129, 193, 500, 701, 1024])) for _ in range(2))
        case = dict(b=int(rng.choice([1, 1, 2, 3])), hq=heads * group, hk=heads, nq=nq, nk=nk,
                    d=int(rng.choice([64, 128, 40, 192, 256])), swapped=bool(rng.integers(2)),
                    with_dlse=bool(rng.integers(2)))
        print(case)
        if rng.integers(2):
            check(**case)
        else:
            check(**case, keep=is_causal(nq, nk), causal=True)


@pytest.mark.parametrize("name", NAMES)
def test_score(rng, name):
    """f16 scores of 2^11 and more have no fraction bits, so the exponential of a score has the error of that
    rounding."""
    for nq, nk in ((63, 65), (257, 331), (331, 63)):
        score = make_scores(torch, lambda x: torch.from_numpy(np.array(x)).cuda(), rng, 2, 4, nq, nk)[name]
        check(2, 4, 2, nq, nk, 64, dtype=torch.bfloat16, rescore=score, score=score)
        for d in (128, 256):
            check(2, 4, 2, nq, nk, d, dtype=torch.bfloat16, keep=is_causal(nq, nk), rescore=score, score=score,
                  causal=True)


@pytest.mark.parametrize("name", MASKS)
def test_mask(name):
    for nq, nk in LENGTHS + [(517, 700)]:
        check(2, 4, 2, nq, nk, 64, keep=MASKS[name], mask=MASKS[name])
        check(2, 4, 2, nq, nk, 128, keep=MASKS[name], mask=MASKS[name])
        check(2, 4, 2, nq, nk, 192, keep=MASKS[name], mask=MASKS[name])


def test_packed_sequences():
    """Offsets in an array bound the loops."""
    ends = torch.tensor([0, 100, 101, 290, 290, 517], device="cuda", dtype=torch.int32)
    owner = torch.bucketize(torch.arange(517, device="cuda"), ends, right=True).to(torch.int32)

    def same(b, h, i, j):
        return owner[i] == owner[j]

    check(2, 4, 2, 517, 517, 128, keep=same, mask=same)


@pytest.mark.parametrize("factor", [1, 8, 60])
@pytest.mark.parametrize("d", [64, 128, 192])
def test_soft_cap(d, factor):
    """Where d > 64, a warp whose arguments of tanh are all small evaluates a polynomial."""
    q, k, v, do = (random(2, 4, 331, d) for _ in range(4))
    q *= factor
    o, lse, want = get_gradients(q, k, v, do, None, is_causal(331, 331),
                                 lambda s, b, h, i, j: 30.0 * torch.tanh(s / 30.0))
    got = flashc.attention_backward(q, k, v, o.to(q.dtype), lse.float(), do, causal=True,
                                    score=lambda s, b, h, i, j: 30.0 * ops.tanh(s / 30.0))
    for one, expected in zip(got, want):
        assert (one.double() - expected).norm() <= (2e-2 if factor == 60 else 1e-2) * expected.norm()


@pytest.mark.parametrize("score", [None, scores.alibi(4), scores.soft_cap(30), scores.soft_cap(50)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d, factor", [(64, 1), (64, 3), (72, 1), (128, 1), (128, 3), (256, 1)])
def test_the_only_key_of_a_row_has_weight_1(d, factor, dtype, score):
    """Query i sees key i alone, so o is v and dv is do. The two passes may compute the tanh of a soft cap by different
    methods (docs/hopper-softmax.md), so its weight may be off by the sum of their errors."""
    q, k, v, do = (random(2, 4, 331, d, dtype=dtype) for _ in range(4))
    q *= factor

    def only_key(b, h, i, j):
        return i == j

    o, lse = flashc.attention(q, k, v, mask=only_key, score=score, return_lse=True)
    dv = flashc.attention_backward(q, k, v, o, lse, do, mask=only_key, score=score)[2]
    assert torch.equal(o, v)
    if "soft_cap" not in str(score):
        assert torch.equal(dv, do)
        return
    off = (2.0**-11 + 2.0**-12) * lse.abs() + torch.finfo(dtype).eps  # the last term is P's and dv's rounding
    assert ((dv - do).abs().float() <= off[..., None] * do.abs().float()).all()


def test_large_magnitudes():
    q, k, v, do = (random(2, 4, 700, 64) * factor for factor in (5, 3, 3, 1))
    o, lse = flashc.attention(q, k, v, causal=True, return_lse=True)
    want = get_gradients(q, k, v, do, None, is_causal(700, 700), None)[2]
    for one, expected in zip(flashc.attention_backward(q, k, v, o, lse, do, causal=True), want):
        assert (one.double() - expected).norm() <= 2e-2 * expected.norm()


@pytest.mark.parametrize("d", [128, 256])
def test_launches_agree(d):
    q, k, v, do = (random(2, heads, 700, d) for heads in (8, 2, 2, 8))
    o, lse = flashc.attention(q, k, v, causal=True, enable_gqa=True, return_lse=True)
    first = flashc.attention_backward(q, k, v, o, lse, do, causal=True, enable_gqa=True, deterministic=True)
    other, busy = torch.cuda.Stream(), torch.randn(2048, 2048, device="cuda")
    for _ in range(100):
        with torch.cuda.stream(other):  # keeps the GPU busy with something else
            busy @ busy
        again = flashc.attention_backward(q, k, v, o, lse, do, causal=True, enable_gqa=True, deterministic=True)
        assert all(torch.equal(x, y) for x, y in zip(first, again))


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("d", [64, 128, 192])
def test_any_order(d, group):
    """Where at most two heads add to dk and dv, their bits are always equal. Elsewhere dk and dv, and dq everywhere,
    may differ by rounding."""
    q, k, v, do = (random(2, heads, 1500, d) for heads in (8, 8 // group, 8 // group, 8))
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True)
    first = flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True)
    exact = flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True, deterministic=True)
    for _ in range(20):
        again = flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True)
        assert group > 2 or (torch.equal(first[1], again[1]) and torch.equal(first[2], again[2]))
        for one, other in zip(again, exact):
            assert (one.float() - other.float()).norm() <= 5e-3 * other.float().norm()


def test_refuses_any_order():
    q, k, v, do = (random(1, 2, 128, 64) for _ in range(4))
    o, lse = flashc.attention(q, k, v, return_lse=True)
    with pytest.raises(flashc.CompileError, match="split-gradients=queries or each for a deterministic backward pass"):
        flashc.attention_backward(q, k, v, o, lse, do, deterministic=True, schedule="split-gradients=none")


@pytest.mark.parametrize("d", [64, 128])
def test_each_gradient_alone(d):
    """Runs the loop nests that large head dimensions use, on small head dimensions."""
    check(2, 6, 3, 331, 257, d, keep=is_causal(331, 257), causal=True, schedule="split-gradients=each")


def test_large_head_dimensions_are_refused():
    q = random(1, 2, 64, 264)
    with pytest.raises(flashc.Error, match="8 to 256"):
        flashc.attention_backward(q, q, q, q, torch.zeros(1, 2, 64, device="cuda"), q)


def test_gradients_are_refused():
    q, lse = random(1, 2, 20, 64), torch.zeros(1, 2, 20, device="cuda")
    with pytest.raises(flashc.Error, match="q without gradients"):
        flashc.attention_backward(q.clone().requires_grad_(), q, q, q, lse, q)
