"""flashc.column_sums on tensors on a GPU against sums in f64. Skipped where there is no GPU."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from scores import MASKS, NAMES, make_scores  # noqa: E402
from .guarded import guarded, random  # noqa: E402
from .tensors import positions  # noqa: E402

LENGTHS = [(1, 257), (63, 65), (65, 1), (257, 331), (331, 63)]
PER = ["query_head", "key_head"]


def check(b, hq, hk, nq, nk, d, dtype=torch.bfloat16, keep=None, rescore=None, swapped=False, **keywords):
    """Inputs have NaN after them, and the result is NaN before the call. The log-sum-exp comes from the reference, so
    the error of a sum comes only from the kernel's own exponentials: about 1e-3, since the kernel's tanh has eleven
    bits."""
    q, k = random(b, hq, nq, d, dtype=dtype, swapped=swapped), random(b, hk, nk, d, dtype=dtype, swapped=swapped)
    s = q.double() @ k.double().repeat_interleave(hq // hk, 1).mT * d**-0.5
    grid = positions(*s.shape)
    if rescore is not None:
        s = rescore(s, *grid).expand(s.shape).double()
    if keep is not None:
        s = torch.where(torch.as_tensor(keep(*grid), device="cuda"), s, -torch.inf)
    lse, _ = guarded((b, hq, nq), torch.float32)
    lse.copy_(s.logsumexp(-1))
    dead = lse.isinf()[..., None]
    want = torch.where(dead, 0.0, torch.exp(s - torch.where(dead, 0.0, lse[..., None].double()))).sum(2)
    for per in PER:
        heads = hq if per == "query_head" else hk
        out, behind = guarded((b, heads, nk), torch.float32)
        flashc.column_sums(q, k, lse, enable_gqa=True, per=per, out=out, **keywords)
        sums = want if per == "query_head" else want.view(b, hk, hq // hk, nk).sum(2)
        error = (out.double() - sums).abs()
        assert (error <= 2e-3 * sums + 1e-4 * (1 + sums.mean())).all(), (per, nq, nk, d, error.max(), sums.max())
        assert behind.isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d", [8, 64, 72, 128, 192, 256])
def test_bounds(d, dtype):
    for nq, nk in LENGTHS + [(1000, 1000), (131, 517)]:
        check(2, 6, 3, nq, nk, d, dtype)
        check(2, 6, 3, nq, nk, d, dtype, lambda b, h, i, j: j <= i + nk - nq, causal=True)
        check(2, 6, 3, nq, nk, d, dtype, lambda b, h, i, j: (j - i - nk + nq >= -40) & (j - i - nk + nq <= 9),
              window=(40, 9))


def test_random_shapes(rng):
    """A persistent kernel distributes heads and tiles over its CTAs. The shapes have fewer tiles than CTAs, an odd
    number of tiles, or many tiles for each CTA."""
    for _ in range(60):
        heads, group = (int(rng.choice(x)) for x in ([1, 1, 2, 5, 8], [1, 1, 4]))
        nq, nk = (int(rng.choice([1, 2, 63, 129, 193, 500, 701, 1024, 1537])) for _ in range(2))
        case = dict(b=int(rng.choice([1, 1, 2, 3, 17])), hq=heads * group, hk=heads, nq=nq, nk=nk,
                    d=int(rng.choice([64, 128, 256, 40])), swapped=bool(rng.integers(2)))
        print(case)
        if rng.integers(2):
            check(**case)
        else:
            check(**case, keep=lambda b, h, i, j: j <= i + nk - nq, causal=True)


@pytest.mark.parametrize("name", NAMES)
def test_score(rng, name):
    for nq, nk in LENGTHS:
        score = make_scores(torch, lambda x: torch.from_numpy(np.array(x)).cuda(), rng, 2, 4, nq, nk)[name]
        check(2, 4, 2, nq, nk, 64, torch.float16, None, score, score=score)
        check(2, 4, 2, nq, nk, 128, torch.float16, lambda b, h, i, j: j <= i + nk - nq, score, score=score,
              causal=True)


@pytest.mark.parametrize("name", MASKS)
def test_mask(name):
    for nq, nk in LENGTHS + [(517, 700)]:
        check(2, 4, 2, nq, nk, 128, torch.bfloat16, MASKS[name], mask=MASKS[name])


def test_documents():
    """Offsets in an array bound the loops."""
    ends = torch.tensor([0, 100, 101, 290, 517], device="cuda", dtype=torch.int32)
    owner = torch.bucketize(torch.arange(517, device="cuda"), ends, right=True).to(torch.int32)

    def same(b, h, i, j):
        return owner[i] == owner[j]

    check(2, 4, 2, 517, 517, 128, torch.bfloat16, same, mask=same)


def test_launches_agree():
    q, k = random(2, 8, 700, 128), random(2, 8, 700, 128)
    lse = flashc.attention(q, k, k, causal=True, return_lse=True)[1]
    for per in PER:
        first = flashc.column_sums(q, k, lse, causal=True, per=per)
        assert all(torch.equal(flashc.column_sums(q, k, lse, causal=True, per=per), first) for _ in range(20))


def test_gradients_are_refused():
    q, k, lse = random(1, 2, 20, 64), random(1, 2, 30, 64), torch.zeros(1, 2, 20, device="cuda")
    with pytest.raises(flashc.Error, match="q without gradients"):
        flashc.column_sums(q.requires_grad_(), k, lse)
    with torch.no_grad():
        flashc.column_sums(q, k, lse)


def test_streams():
    """Inputs that another stream of the caller writes are read after they are written."""
    q, k, lse = random(1, 4, 500, 64), random(1, 4, 600, 64), torch.full((1, 4, 500), 3.0, device="cuda")
    want = flashc.column_sums(q, k, lse)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        late = q.clone()
        got = flashc.column_sums(late, k, lse)
    torch.cuda.synchronize()
    assert torch.equal(got, want)
