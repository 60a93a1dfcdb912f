"""flashc.attention on tensors on a GPU: numbers against f64, streams, refusals. Skipped where there is no GPU."""
import random
import time

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .tensors import positions, qkv  # noqa: E402


def reference(q, k, v, keep=None, score=None, scale=None, dtype=torch.float64):
    """Returns o and lse, computed in `dtype`."""
    q, k, v = (x.to(dtype) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    b, h, i, j = positions(*s.shape)
    if score is not None:
        s = score(s, b, h, i, j)
    if keep is not None:
        s = torch.where(keep(b, h, i, j), s, -torch.inf)
    lse = s.logsumexp(-1)
    return torch.softmax(s, -1).nan_to_num(0).to(dtype) @ v, lse


def check(q, k, v, keep=None, rescore=None, scale=None, **keywords):
    """Checks that the error is at most twice that of plain attention in the input type."""
    o, lse = flashc.attention(q, k, v, scale=scale, return_lse=True, **keywords)
    want, want_lse = reference(q, k, v, keep, rescore, scale)
    plain, _ = reference(q, k, v, keep, rescore, scale, q.dtype)
    bound = 2 * (plain.double() - want).abs().max() + 1e-3 * want.abs().max() + 1e-6
    assert o.shape == want.shape and ((o.double() - want).abs().max() <= bound).item()
    dead = want_lse == -torch.inf
    assert torch.equal(dead, lse == -torch.inf) and torch.all(o[dead] == 0)
    assert torch.all((lse.double() - want_lse)[~dead].abs() <= 2e-3 + 1e-3 * want_lse[~dead].abs())


LENGTHS = [(1, 1), (63, 65), (65, 63), (1, 257), (257, 1), (1000, 1000), (131, 517)]


@pytest.mark.parametrize("nq, nk", LENGTHS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_causal_and_grouped(nq, nk, dtype):
    for d, dv in ((64, 64), (128, 128), (72, 104)):
        q, k, v = qkv(2, 6, 3, nq, nk, d, dv, dtype)
        check(q, k, v, enable_gqa=True)
        check(q, k, v, lambda b, h, i, j: j <= i + nk - nq, causal=True, enable_gqa=True)
        check(q, k, v, lambda b, h, i, j: (j - i - nk + nq >= -40) & (j - i - nk + nq <= 9), window=(40, 9),
              enable_gqa=True)


def test_random_shapes():
    """A persistent kernel distributes heads and tiles over its CTAs. The shapes have fewer tiles than CTAs, an odd
    number of tiles, or many tiles for each CTA."""
    numbers = random.Random(torch.initial_seed())
    for _ in range(60):
        d, dv = numbers.choice([(64, 64), (128, 128), (256, 256), (192, 128), (40, 96)])
        batch, heads, group = numbers.choice([1, 1, 2, 3, 17]), numbers.choice([1, 1, 2, 5,
                                                                                8]), numbers.choice([1, 1, 4])
        nq, nk = (numbers.choice([1, 2, 63, 129, 193, 500, 701, 1024, 1537]) for _ in range(2))
        case = dict(b=batch, hq=heads * group, hk=heads, nq=nq, nk=nk, d=d, dv=dv,
                    dtype=numbers.choice([torch.bfloat16, torch.float16]))
        print(case)
        q, k, v = qkv(**case)
        kind, left, right = numbers.choice(["all", "causal", "window"]), numbers.randint(0, 300), numbers.randint(0, 99)
        if kind == "all":
            check(q, k, v, enable_gqa=True)
        elif kind == "causal":
            check(q, k, v, lambda b, h, i, j: j <= i + nk - nq, causal=True, enable_gqa=True)
        else:
            check(q, k, v, lambda b, h, i, j: (j - i - nk + nq >= -left) & (j - i - nk + nq <= right),
                  window=(left, right), enable_gqa=True)


MASKS = {
    "top left": lambda b, h, i, j: j <= i,
    "window": lambda b, h, i, j: (j <= i) & (i - j < 37) | (j < 4),
    "stripes": lambda b, h, i, j: (i - j) % 3 == 0,
    "blocks": lambda b, h, i, j: (i // 50 == j // 50) | ~(j > 5),
    "floor of a negative": lambda b, h, i, j: (j - 200) // 7 <= (i - 100) // 4,
    "per head": lambda b, h, i, j: (j + h) % (h + 1) < b + 1,
    "absolute": lambda b, h, i, j: abs(i - j) <= 4,
    "nothing in some rows": lambda b, h, i, j: (i % 5 != 0) & (j < i),
}
SCORES = {
    "slope": lambda s, b, h, i, j: s + (j - i) * 0.125,
    "cap": lambda s, b, h, i, j: 3 * torch.tanh(s / 3),
    "branches": lambda s, b, h, i, j: torch.where(s > 0, s * 0.5, s * 2),
    "minus infinity": lambda s, b, h, i, j: torch.where(j < i - 3, s, -torch.inf),
    "powers": lambda s, b, h, i, j: s**2 - s**3 * 0.1,
    "rounded": lambda s, b, h, i, j: torch.floor(s) + torch.ceil(s * 2) * 0.5,
    "functions": lambda s, b, h, i, j: torch.exp(-torch.abs(s)) + torch.sin(s) * torch.cos(s),
}


@pytest.mark.parametrize("name", MASKS)
def test_mask(name):
    for nq, nk in ((300, 300), (129, 517), (517, 129)):
        check(*qkv(2, 4, 4, nq, nk, 64), MASKS[name], mask=MASKS[name])


@pytest.mark.parametrize("name", SCORES)
def test_score(name):
    # A score with jumps, such as floor, can turn an error in the last bit of a product into a large one. So for the
    # score "rounded" q and k are multiples of 1/2, whose products are exact in f16.
    scale = 2.0**-3
    for nq, nk in ((300, 300), (129, 517)):
        q, k, v = qkv(2, 4, 4, nq, nk, 64, dtype=torch.float16)
        if name == "rounded":
            q, k = (q * 2).round() / 2, (k * 2).round() / 2
        check(q, k, v, None, SCORES[name], scale, score=SCORES[name])


def test_mask_arrays():
    q, k, v = qkv(2, 4, 4, 129, 300, 64)
    for shape in ((2, 4, 129, 300), (1, 4, 1, 300), (129, 300), (129, 1), (300,)):
        keep = torch.rand(shape, device="cuda") < 0.5
        check(q, k, v, lambda b, h, i, j: keep.expand(2, 4, 129, 300), mask=keep)
        for dtype in (torch.float32, torch.bfloat16):
            bias = torch.randn(shape, device="cuda").to(dtype)
            check(q, k, v, None, lambda s, b, h, i, j: s + bias.to(s.dtype), mask=bias)
    turned = (torch.rand(300, 129, device="cuda") < 0.5).T
    check(q, k, v, lambda b, h, i, j: turned.expand(2, 4, 129, 300), mask=turned)


def test_bias_of_minus_infinity():
    q, k, v = qkv(1, 2, 2, 129, 300, 64)
    bias = torch.where(torch.rand(129, 300, device="cuda") < 0.5, 0.0, -torch.inf)
    bias[7] = bias[128] = -torch.inf
    check(q, k, v, None, lambda s, b, h, i, j: s + bias.to(s.dtype), mask=bias)


def test_captures():
    q, k, v = qkv(3, 4, 4, 129, 300, 64)
    slopes = torch.tensor([0.5, 0.25, -0.125, 0], device="cuda")
    lengths = torch.tensor([300, 0, 17], device="cuda", dtype=torch.int32)
    documents = torch.randint(0, 4, (300,), device="cuda")
    factor = torch.tensor(0.5, device="cuda")
    check(q, k, v, lambda b, h, i, j: j < lengths[b], lambda s, b, h, i, j: s * factor + slopes[h] * (j - i),
          mask=lambda b, h, i, j: j < lengths[b], score=lambda s, b, h, i, j: s * factor + slopes[h] * (j - i))

    def same_document(b, h, i, j):
        return documents[i] == documents[j]
    check(q, k, v, same_document, mask=same_document)
    table = torch.randn(9, device="cuda")
    check(q, k, v, None, lambda s, b, h, i, j: s + table[(i - j).clamp(0, 8)],
          score=lambda s, b, h, i, j: s + table[(i - j).clip(0, 8)])


def test_layouts_and_strides():
    qkv = torch.randn(2, 300, 3, 4, 64, device="cuda", dtype=torch.bfloat16)
    q, k, v = (qkv[:, :, part] for part in range(3))
    o = flashc.attention(q, k, v, layout="bshd", causal=True)
    want, _ = reference(*(x.transpose(1, 2) for x in (q, k, v)), lambda b, h, i, j: j <= i)
    assert o.is_contiguous() and (o.transpose(1, 2).double() - want).abs().max() < 2e-2
    seen = flashc.attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=True)
    assert torch.equal(seen.transpose(1, 2), o) and seen.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("nk", [0, 5])
def test_no_keys(nk):
    q, k, v = qkv(2, 4, 4, 129, nk, 64)
    o, lse = flashc.attention(q, k, v, mask=lambda b, h, i, j: j < 0, return_lse=True)
    assert torch.all(o == 0) and torch.all(lse == -torch.inf)
    assert flashc.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 129, 64)


def test_current_stream():
    q, k, v = qkv(1, 2, 2, 300, 300, 64)
    want = flashc.attention(q, k, v)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            late = q.clone().zero_()
            late.copy_(q)
            got = flashc.attention(late, k, v)
        stream.synchronize()
        assert torch.equal(got, want)


class Interface:
    """A tensor that has only the CUDA array interface."""

    def __init__(self, x, stream=None):
        self.x = x
        self.__cuda_array_interface__ = dict(x.__cuda_array_interface__, stream=stream, version=3)


class OnlyDLPack:
    def __init__(self, x):
        self.x, self.__dlpack_device__ = x, x.__dlpack_device__

    def __dlpack__(self, *, stream=None):
        return self.x.__dlpack__(stream=stream)


def test_interfaces():
    q, k, v = qkv(1, 2, 2, 300, 300, 64, dtype=torch.float16)
    want, with_lse = flashc.attention(q, k, v), flashc.attention(q, k, v, return_lse=True)[0]
    torch.cuda.synchronize()
    # The kernel with lse and the one without sum up rows in different ways.
    assert (want.float() - with_lse.float()).abs().max() < 1e-3
    for kind in (Interface, OnlyDLPack):
        out, lse = torch.empty_like(q), torch.empty(1, 2, 300, device="cuda")
        flashc.attention(kind(q), kind(k), kind(v), out=(kind(out), kind(lse)))
        torch.cuda.synchronize()
        assert torch.equal(out, with_lse)
        # The kernel of flashc.compile also computes lse. It must run even though no array for lse can be allocated for
        # these interfaces.
        for run, want_of_run in ((flashc.attention, want), (flashc.compile(q, k, v), with_lse)):
            out.fill_(float("nan"))
            torch.cuda.synchronize()
            run(kind(q), kind(k), kind(v), out=kind(out))
            torch.cuda.synchronize()
            assert torch.equal(out, want_of_run)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = k.clone()
    out = torch.empty_like(q)
    flashc.attention(q, Interface(late, stream.cuda_stream), v, out=out)
    assert torch.equal(out, want)


def test_kernel_object():
    q, k, v = qkv(1, 4, 2, 300, 300, 64)
    kernel = flashc.compile(q, k, v, causal=True, enable_gqa=True, return_lse=False)
    assert torch.equal(kernel(q, k, v), flashc.attention(q, k, v, causal=True, enable_gqa=True))


def test_refusals():
    q, k, v = qkv(1, 4, 4, 64, 64, 64)
    for arrays, error, words in (
            ((q, k, v.cpu()), ValueError, "on one device, got q on GPU 0 and v on the CPU"),
            ((q.float(), k.float(), v.float()), TypeError, "bf16 or f16 on a GPU, got f32"),
            ((q.double(), k.double(), v.double()), TypeError, "got f64"),
            ((q, k.mT.contiguous().mT, v), ValueError, "last dimension of k to be contiguous"),
            ((torch.randn(1, 4, 64 * 64 + 1, device="cuda").bfloat16()[..., 1:].view(1, 4, 64, 64), k, v), ValueError,
             "16")):
        with pytest.raises(error, match=words) as caught:
            flashc.attention(*arrays)
        print(caught.value)
    shifted = torch.randn(1 * 4 * 64 * 64 + 1, device="cuda").bfloat16()[1:].view(1, 4, 64, 64)
    with pytest.raises(ValueError, match="16"):
        flashc.attention(shifted, k, v)
    flashc.attention(q, k, v)


def test_host_time(monkeypatch):
    """Prints the microseconds that a call takes on the host. On a quiet machine they are far below the bound."""
    monkeypatch.undo()
    q, k, v = qkv(1, 1, 1, 64, 64, 64)
    with torch.no_grad():
        flashc.attention(q, k, v)
        times = []
        for _ in range(50):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                flashc.attention(q, k, v)
            times.append((time.perf_counter() - start) / 100 * 1e6)
    times.sort()
    print(f"flashc.attention: {times[25]:.1f} us a call")
    assert times[0] < 50
