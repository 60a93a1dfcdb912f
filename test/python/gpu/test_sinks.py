"""Sinks on a GPU: an additional column in every softmax, and its gradient, against f64."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import ops  # noqa: E402
from .guarded import guarded, random  # noqa: E402

LENGTHS = [(1, 1), (1, 257), (65, 63), (131, 517), (700, 300)]


def make_sinks(heads):
    """Returns sinks of several sizes, from -inf to 40."""
    sinks = guarded((heads,), torch.float32)[0]
    sinks.copy_(torch.randn(heads, device="cuda") * 3)
    sinks[0], sinks[-1] = -torch.inf, 40.0
    return sinks


def reference(q, k, v, sinks, keep=None, rescore=None):
    """Returns o and lse in f64, as functions that PyTorch can differentiate. A row without keys has only the sink."""
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).mT * q.shape[-1]**-0.5
    s = s if rescore is None else rescore(s)
    s = s if keep is None else torch.where(keep, s, -torch.inf)
    column = sinks[None, :, None, None].expand(*s.shape[:3], 1)
    both = torch.cat([s, column], -1)
    any_key = (both > -torch.inf).any(-1, keepdim=True)
    both = torch.where(any_key, both, 0.0)
    o = torch.where(any_key, both.softmax(-1)[..., :-1] @ v.repeat_interleave(group, 1), 0.0)
    return o, torch.where(any_key[..., 0], both.logsumexp(-1), -torch.inf)


def is_causal(nq, nk):
    i, j = torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")
    return j <= i + nk - nq


def close(got, want, limit, name, terms=0):
    """Compares in the norm. Each element of `got` is a sum of `terms` rounded terms of either sign. `terms` is 0 if
    there are so few terms that their rounding does not matter."""
    floor = 1e-3 * want.numel()**0.5 + 4e-2 * terms**0.5
    assert (got.double() - want).norm() <= limit * (want.norm() + floor), name


def check(b, hq, hk, nq, nk, d, dtype, causal=False, rescore=None, limit=None, **keywords):
    q, do = random(b, hq, nq, d, dtype=dtype), random(b, hq, nq, d, dtype=dtype)
    k, v = random(b, hk, nk, d, dtype=dtype), random(b, hk, nk, d, dtype=dtype)
    sinks, dlse = make_sinks(hq), torch.randn(b, hq, nq, device="cuda")
    leaves = [x.double().requires_grad_() for x in (q, k, v, sinks)]
    o64, lse64 = reference(*leaves, is_causal(nq, nk) if causal else None, rescore)
    limit = limit or (5e-3 if dtype is torch.bfloat16 else 1e-3)
    o, lse = flashc.attention(q, k, v, causal=causal, sinks=sinks, enable_gqa=True, return_lse=True, **keywords)
    alone = flashc.attention(q, k, v, causal=causal, sinks=sinks, enable_gqa=True, **keywords)
    for one in (o, alone):
        close(one, o64, limit, "o")
    exists = lse64 > -torch.inf
    assert torch.equal(lse > -torch.inf, exists)
    assert ((lse - lse64)[exists].abs() <= 2e-3).all()
    total = (o64 * do.double()).sum() + (torch.where(exists, lse64, 0.0) * dlse.double()).sum()
    want = [x.nan_to_num(0.0) for x in torch.autograd.grad(total, leaves)]
    outs = [guarded(x.shape, x.dtype) for x in (q, k, v, sinks)]
    for schedule in (None, "split-gradients=queries") if d == 64 else (None,):
        flashc.attention_backward(q, k, v,
                                  o64.detach().to(dtype),
                                  lse64.detach().float(), do, dlse=dlse, causal=causal, sinks=sinks, enable_gqa=True,
                                  out=tuple(out for out, _ in outs), schedule=schedule, **keywords)
        for name, (out, behind), expected in zip(("dq", "dk", "dv", "dsinks"), outs, want):
            # With a single key, dP - delta almost cancels, but delta has an error from the rounding of o. So the limit
            # is larger.
            close(out, expected, (5 if min(nq, nk) == 1 else 2) * limit, (name, nq, nk, d, schedule),
                  terms=b * nq if name == "dsinks" else 0)
            assert behind.isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("d", [40, 64, 128, 256])
def test_sinks(d, dtype):
    for nq, nk in LENGTHS:
        check(2, 6, 3, nq, nk, d, dtype)
        check(2, 6, 2, nq, nk, d, dtype, causal=True)


@pytest.mark.parametrize("d", [64, 128])
def test_scores_and_schedules(d):
    for schedule in (None, "persistent=false", "store=registers", "consumers=1"):
        q, k, v = (random(2, 4, 331, d) for _ in range(3))
        sinks = make_sinks(4)
        want = reference(*(x.double() for x in (q, k, v, sinks)), is_causal(331, 331),
                         lambda s: 20.0 * torch.tanh(s / 20.0))
        o, lse = flashc.attention(q, k, v, causal=True, score=lambda s, b, h, i, j: 20.0 * ops.tanh(s / 20.0),
                                  sinks=sinks, return_lse=True, schedule=schedule)
        close(o, want[0], 5e-3, schedule)
        assert (lse - want[1]).abs().max() <= 2e-3
        o = flashc.attention(q, k, v, causal=True, score=lambda s, b, h, i, j: 20.0 * ops.tanh(s / 20.0), sinks=sinks,
                             schedule=schedule)
        close(o, want[0], 5e-3, schedule)


def test_masks():
    """A row without keys has only the sink. In packed sequences every row has the sink of its head."""
    q, k, v = (random(1, 4, 400, 64) for _ in range(3))
    sinks = make_sinks(4)
    i = torch.arange(400, device="cuda")
    keep = (i[None] < 300) & (i[:, None] % 3 > 0)
    want = reference(*(x.double() for x in (q, k, v, sinks)), keep)
    o, lse = flashc.attention(q, k, v, mask=lambda b, h, i, j: (j < 300) & (i % 3 > 0), sinks=sinks, return_lse=True)
    close(o, want[0], 5e-3, "o")
    assert torch.equal(lse[:, :, 0], sinks[None]) and not o[:, :, ::3].any()
    offsets = torch.tensor([0, 1, 130, 130, 400], device="cuda", dtype=torch.int32)
    owner = torch.bucketize(i, offsets[1:], right=True)
    o = flashc.varlen_attention(*(x[0].transpose(0, 1) for x in (q, k, v)), offsets, sinks=sinks)
    want = reference(*(x.double() for x in (q, k, v, sinks)), owner[:, None] == owner)
    close(o.transpose(0, 1)[None], want[0], 5e-3, "packed")


def test_equal_bits():
    q, do = random(4, 8, 1000, 64), random(4, 8, 1000, 64)
    k, v, sinks = random(4, 2, 1000, 64), random(4, 2, 1000, 64), make_sinks(8)
    o, lse = flashc.attention(q, k, v, sinks=sinks, enable_gqa=True, return_lse=True)
    first = None
    for _ in range(100):
        found = flashc.attention_backward(q, k, v, o, lse, do, sinks=sinks, enable_gqa=True)[3]
        first = found if first is None else first
        assert torch.equal(found, first)


def test_recorded_and_compiled():
    leaves = [random(2, 4, 200, 64).requires_grad_() for _ in range(3)] + [make_sinks(4).requires_grad_()]

    def attend(q, k, v, sinks):
        return flashc.attention(q, k, v, causal=True, sinks=sinks)

    o64, _ = reference(*(x.double() for x in leaves), is_causal(200, 200))
    do = random(2, 4, 200, 64)
    want = torch.autograd.grad((o64 * do.double()).sum(), leaves)
    for function in (attend, torch.compile(attend, fullgraph=True)):
        o = function(*leaves)
        close(o, o64.detach(), 5e-3, "o")
        for name, x, expected in zip(("dq", "dk", "dv", "dsinks"), torch.autograd.grad(o, leaves, do), want):
            close(x, expected.double().nan_to_num(0.0), 1e-2, name, terms=2 * 200 if name == "dsinks" else 0)
