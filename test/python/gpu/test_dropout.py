"""Dropout on a GPU: the mask bit for bit, o and gradients against f64, and seeds from PyTorch's generator."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import guarded, random  # noqa: E402

PHILOX = (-123456789123456789, 987654321987654321)
LENGTHS = [(1, 1), (1, 257), (65, 63), (131, 517), (700, 300)]


def seeds():
    return torch.tensor(PHILOX, device="cuda")


def mask_of(shape, p):
    return torch.from_numpy(flashc.dropout_mask(shape, p, PHILOX)).cuda()


def is_causal(nq, nk):
    i, j = torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")
    return j <= i + nk - nq


def reference(q, k, v, scaled, keep=None, sinks=None):
    """Returns o in f64, as a function that PyTorch can differentiate."""
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).mT * q.shape[-1]**-0.5
    s = s if keep is None else torch.where(keep, s, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    any_key = (s > -torch.inf).any(-1, keepdim=True)
    p = torch.where(any_key, torch.where(any_key, s, 0.0).softmax(-1), 0.0)[..., :k.shape[2]]
    return (p * scaled) @ v.repeat_interleave(group, 1)


def close(got, want, limit, name, floor=1e-3):
    floor *= want.numel()**0.5
    assert (got.double() - want).norm() <= limit * (want.norm() + floor), name


@pytest.mark.parametrize("schedule", [None, "kv-tile=80", "kv-tile=16", "consumers=1,persistent=false"])
@pytest.mark.parametrize("d", [64, 128])
def test_mask(d, schedule):
    """Scores are 0, and the values are columns of the identity, so o is nonzero exactly where dropout keeps a weight.
    In the backward pass do is the identity, and dv shows the same."""
    b, h, nq, nk = 2, 3, 150, d
    q, k = (torch.zeros(b, h, n, d, dtype=torch.bfloat16, device="cuda") for n in (nq, nk))
    eye = torch.eye(d, dtype=torch.bfloat16, device="cuda").expand(b, h, d, d)
    for p in (1 / 256, 0.1, 0.5, 0.9):
        want = mask_of((b, h, nq, nk), p)
        o, lse = flashc.attention(q, k, eye, dropout_p=p, philox=seeds(), return_lse=True, schedule=schedule)
        assert torch.equal(o != 0, want)
        weight = torch.tensor(1 / nk / (1 - round(p * 256) / 256), device="cuda")
        assert torch.allclose(o[want].float(), weight, rtol=1e-2)
        if schedule is not None:
            continue
        for begin in range(0, nq, d):
            rows = min(d, nq - begin)
            do = torch.zeros(b, h, nq, d, dtype=torch.bfloat16, device="cuda")
            do[:, :, torch.arange(begin, begin + rows), torch.arange(rows)] = 1
            for form in (None, "split-gradients=queries", "split-gradients=each"):
                dv = flashc.attention_backward(q, k, eye, o, lse, do, dropout_p=p, philox=seeds(), schedule=form)[2]
                assert torch.equal(dv[..., :rows] != 0, want[:, :, begin:begin + rows].mT), form


def check(b, hq, hk, nq, nk, d, dtype, p=0.2, causal=False, keep=None, **keywords):
    q, do = random(b, hq, nq, d, dtype=dtype), random(b, hq, nq, d, dtype=dtype)
    k, v = random(b, hk, nk, d, dtype=dtype), random(b, hk, nk, d, dtype=dtype)
    scaled = mask_of((b, hq, nq, nk), p).double() / (1 - round(p * 256) / 256)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    keep = is_causal(nq, nk) if causal else keep
    sinks = keywords.get("sinks")
    o64 = reference(*leaves, scaled, keep, None if sinks is None else sinks.double())
    limit = 5e-3 if dtype is torch.bfloat16 else 1e-3
    keywords = {"dropout_p": p, "philox": seeds(), "causal": causal, "enable_gqa": True, **keywords}
    o, lse = flashc.attention(q, k, v, return_lse=True, **keywords)
    close(o, o64, limit, "o")
    close(flashc.attention(q, k, v, **keywords), o64, limit, "o alone")
    plain = {**keywords, "dropout_p": 0.0, "philox": None}
    assert torch.allclose(lse, flashc.attention(q, k, v, return_lse=True, **plain)[1], atol=1e-5, equal_nan=True)
    want = [x.nan_to_num(0.0) for x in torch.autograd.grad((o64 * do.double()).sum(), leaves)]
    outs = [guarded(x.shape, x.dtype) for x in (q, k, v)]
    more = (None,) if sinks is not None else ()
    for deterministic in (False, True):
        flashc.attention_backward(q, k, v, o64.detach().to(dtype), lse, do, out=(*(out for out, _ in outs), *more),
                                  deterministic=deterministic, **keywords)
        for name, (out, behind), expected in zip(("dq", "dk", "dv"), outs, want):
            # With one key, the exact dq and dk are 0. The kernel's dq and dk are not 0, because the rounding of o
            # changes delta. A floor of 1 allows for this.
            close(out, expected, 2 * limit, (name, nq, nk, d, deterministic), 1.0 if nk == 1 else 1e-3)
            assert behind.isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d", [40, 64, 128, 256])
def test_numbers(d, dtype):
    for nq, nk in LENGTHS:
        check(2, 6, 3, nq, nk, d, dtype)
        check(2, 6, 2, nq, nk, d, dtype, causal=True)


@pytest.mark.parametrize("d", [64, 128])
def test_masks(d):
    """Windows, documents and packed sequences begin at any row, while tiles stay aligned with the blocks of random
    numbers."""
    n = 1111
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")
    check(1, 4, 4, n, n, d, torch.bfloat16, keep=(i - j >= 0) & (i - j <= 77), window=77)
    check(1, 4, 2, n, n, d, torch.bfloat16, keep=(i - j) % 3 > 0, mask=lambda b, h, i, j: (i - j) % 3 > 0)
    ends = torch.tensor([5, 301, 302, 1000, n], device="cuda", dtype=torch.int32)
    ids = torch.bucketize(j, ends, right=True).to(torch.int32)
    check(1, 4, 4, n, n, d, torch.bfloat16, keep=(ids[:, None] == ids) & (j <= i),
          mask=flashc.masks.causal() & flashc.masks.documents(ids, sorted=True))
    keep = torch.rand(1, 4, n, n, device="cuda") < 0.7
    check(1, 4, 4, n, n, d, torch.bfloat16, keep=keep, mask=keep)
    check(1, 4, 2, n, n, d, torch.bfloat16, causal=True, sinks=torch.randn(4, device="cuda"))
    offsets = torch.cat([torch.zeros(1, device="cuda", dtype=torch.int32), ends])
    q, k, v = (random(1, 4, n, d) for _ in range(3))
    o = flashc.varlen_attention(*(x[0].transpose(0, 1) for x in (q, k, v)), offsets, causal=True, dropout_p=0.2,
                                philox=seeds())
    scaled = mask_of((1, 4, n, n), 0.2).double() / (1 - 51 / 256)
    want = reference(*(x.double() for x in (q, k, v)), scaled, (ids[:, None] == ids) & (j <= i))
    close(o.transpose(0, 1)[None], want, 5e-3, "packed")


def test_generator():
    """The drop-in takes seeds from PyTorch's generator: each replay of a CUDA graph, and each call of compiled code,
    has others."""
    from flashc.torch import scaled_dot_product_attention
    q, k, v = (random(2, 4, 200, 64).requires_grad_() for _ in range(3))

    def step():
        o = scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True)
        return o, *torch.autograd.grad(o.float().square().sum(), (q, k, v))

    torch.manual_seed(3)
    first, second = step(), step()
    torch.manual_seed(3)
    again = step()
    assert torch.equal(first[0], again[0]) and not torch.equal(first[0], second[0])
    assert torch.equal(first[3], again[3])
    # New leaves, because no backward pass outside of the capture may have used them.
    q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append([x.clone() for x in results])
    assert not any(torch.equal(x, y) for x, y in zip(*seen))
    compiled = torch.compile(lambda: scaled_dot_product_attention(q, k, v, dropout_p=0.5), fullgraph=True)
    assert not torch.equal(compiled(), compiled())
    # Where the values are ones, an element of o is the sum of the weights that the row keeps, and summing dv gives the
    # same total.
    ones = torch.ones_like(v).requires_grad_()
    o = compiled_ones(scaled_dot_product_attention, q, k, ones)
    o.float().sum().backward()
    assert torch.allclose(ones.grad.float().sum(2), o.float().sum(2), rtol=2e-2)


def compiled_ones(attend, q, k, ones):
    return torch.compile(lambda x: attend(q, k, x, dropout_p=0.5), fullgraph=True)(ones)


def test_equal_seeds_equal_bits():
    q, k, v, do = (random(4, 8, 1000, 64) for _ in range(4))
    first = None
    for _ in range(20):
        o, lse = flashc.attention(q, k, v, dropout_p=0.3, philox=seeds(), return_lse=True)
        found = (o, *flashc.attention_backward(q, k, v, o, lse, do, dropout_p=0.3, philox=seeds(), deterministic=True))
        first = found if first is None else first
        assert all(torch.equal(x, y) for x, y in zip(found, first))
