"""Tiles with the rows of a group's heads on a GPU (`heads=` in the schedule), against f64."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import flashc  # noqa: E402
from flashc import masks  # noqa: E402
from .guarded import BF16, F16, guarded, qkv, random  # noqa: E402

#: Query heads, key heads and heads of a tile. 64 is no multiple of 3, 5 and 7: some rows of a tile are empty.
HEADS = [(8, 2, 4), (8, 1, 8), (16, 1, 16), (4, 2, 2), (10, 2, 5), (14, 2, 7), (8, 1, 4), (6, 2, 3)]
LENGTHS = [(1, 77), (5, 300), (16, 1000), (33, 129), (64, 64), (130, 517)]


def positions(nq, nk):
    """Returns the queries' positions, aligned with the last key, and the keys' positions."""
    return torch.arange(nq, device="cuda")[:, None] + nk - nq, torch.arange(nk, device="cuda")[None]


def reference(q, k, v, keep=None, bias=None, sinks=None):
    """Returns o and the log-sum-exp in f64."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).double(), v.repeat_interleave(group, 1).double()
    s = q.double() @ k.mT * q.shape[-1]**-0.5
    s = s if bias is None else s + bias
    s = s if keep is None else s.masked_fill(~keep, -torch.inf)
    lse = torch.logsumexp(s, -1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.double()[None, :, None])
    return torch.nan_to_num(torch.exp(s - lse[..., None]), 0.0) @ v, lse


def check(got, want):
    (o, lse), (expected, expected_lse) = got, want
    assert torch.isfinite(o).all()
    assert (o.double() - expected).norm() <= 4e-3 * expected.norm()
    is_finite = torch.isfinite(expected_lse)
    assert torch.equal(torch.isfinite(lse), is_finite)
    assert ((lse.double() - expected_lse)[is_finite].abs() < 1e-3).all()


def attend(q, k, v, schedule, **options):
    out, after = guarded(q.shape, q.dtype)
    result = flashc.attention(q, k, v, schedule=schedule, return_lse=True, out=out, enable_gqa=True, **options)
    assert torch.isnan(after).all()
    return result


@pytest.mark.parametrize("schedule", ["", ",consumers=1", ",splits=3"])
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("d", [64, 128, 256])
def test_lengths(d, heads, schedule):
    hq, hk, shared = heads
    for nq, nk in LENGTHS:
        q, k, v = qkv(2, hq, hk, nq, nk, d, dtype=F16 if nq == 33 else BF16)
        i, j = positions(nq, nk)
        check(attend(q, k, v, f"heads={shared}{schedule}"), reference(q, k, v))
        check(attend(q, k, v, f"heads={shared}{schedule}", causal=True), reference(q, k, v, j <= i))
        check(attend(q, k, v, f"heads={shared}{schedule}", causal=True, window=(20, 0)),
              reference(q, k, v, (j <= i) & (j >= i - 20)))


@pytest.mark.parametrize("schedule", ["", ",consumers=1"])
@pytest.mark.parametrize("heads", [(8, 2, 4), (10, 2, 5), (16, 2, 8), (8, 2, 2)], ids=str)
@pytest.mark.parametrize("lengths", [(16, 300), (70, 70), (257, 257), (5, 1000)], ids=str)
def test_masks_and_scores(lengths, heads, schedule):
    (nq, nk), (hq, hk, shared) = lengths, heads
    q, k, v = qkv(2, hq, hk, nq, nk, 128)
    i, j = positions(nq, nk)
    first = i - (nk - nq)
    limits = torch.tensor([nk // 2 + 1, nk], device="cuda", dtype=torch.int32)
    ends, sinks = torch.rand(hq, device="cuda") * nk, torch.randn(hq, device="cuda")
    bits = torch.rand(hq, nq, nk, device="cuda") > 0.3
    slopes = torch.rand(hq, device="cuda")

    def test(want, **options):
        check(attend(q, k, v, f"heads={shared}{schedule}", **options), want)
    test(reference(q, k, v, j < limits[:, None, None, None]), mask=masks.key_padding(limits))
    test(reference(q, k, v, j < ends[:, None, None]), mask=lambda b, h, i, j: j < ends[h])
    test(reference(q, k, v, bits), mask=lambda b, h, i, j: bits[h, i, j])
    test(reference(q, k, v, j // 32 == i // 32), mask=masks.chunked(32))
    test(reference(q, k, v, j <= i, sinks=sinks), causal=True, sinks=sinks)
    test(reference(q, k, v, j <= i, bias=(slopes[:, None, None] * (j - first)).double()), causal=True,
         score=lambda x, b, h, i, j: x + slopes[h] * (j - i))
    if nq == nk:
        ids = torch.sort(torch.randint(0, 5, (nk,), device="cuda", dtype=torch.int32)).values
        test(reference(q, k, v, ids[:, None] == ids[None]), mask=masks.documents(ids, sorted=True))


@pytest.mark.parametrize("schedule", [None, "heads={}", "heads={},splits=4"])
@pytest.mark.parametrize("cell", [(32, 8, 16, 16), (32, 8, 7, 64), (8, 2, 33, 16), (16, 2, 20, 128), (10, 2, 24, 16)],
                         ids=str)
def test_caches_with_pages(cell, schedule):
    """Without a schedule, the chosen kernel."""
    hq, hk, queries, page = cell
    batch, pages, d = 3, 40, 128
    k_cache, v_cache = random(batch * pages, page, hk, d), random(batch * pages, page, hk, d)
    table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
    lengths = torch.tensor([queries, page * 3 + queries + 1, page * pages - 5], device="cuda", dtype=torch.int32)
    q = random(batch, queries, hq, d)
    o, lse = flashc.decode(q, k_cache, v_cache, lengths, table, return_lse=True,
                           schedule=schedule and schedule.format(hq // hk))
    for b in range(batch):
        n = int(lengths[b])
        k, v = (x[table[b].long()].reshape(-1, hk, d)[:n].transpose(0, 1)[None] for x in (k_cache, v_cache))
        i, j = positions(queries, n)
        want = reference(q[b:b + 1].transpose(1, 2), k, v, j <= i)
        rows = lse[b:b + 1]
        check((o[b:b + 1].transpose(1, 2), rows if rows.shape == want[1].shape else rows.transpose(1, 2)), want)


def test_refused():
    q, k, v = qkv(1, 8, 2, 16, 16, 64)
    with pytest.raises(flashc.Error, match="divide the group of 4 query heads"):
        attend(q, k, v, "heads=3")
    with pytest.raises(flashc.Error, match="expected heads=1 with dropout"):
        attend(q, k, v, "heads=4", dropout_p=0.5)
