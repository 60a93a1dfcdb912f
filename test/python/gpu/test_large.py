"""Sums, grids and offsets that exceed 32 bits, on a GPU. Skipped where there is no GPU, or too little memory.

If a reference of the whole result does not fit, single rows are checked: o and dq of a query, and dk and dv of a key,
by the formulas in f32. These take the log-sum-exp from the kernel; it is checked against the scores of the same
queries."""

import math

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402
from .guarded import BF16, assert_right, bottom_right, fresh_numbers, random  # noqa: E402, F401

WIDE = 65537  # number of batches or heads, more than CUDA allows along y and z


def needs(gigabytes):
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < gigabytes << 30:
        pytest.skip(f"expected {gigabytes} GiB of free memory")


def assert_near(got, want, what, bound=8e-3):
    """Checks the relative error. It is relative to the norm of `want`, or to 1e-3 if the norm is smaller, as for the
    gradient of a query that sees one key."""
    error = (got.float() - want).norm() / want.norm().clamp_min(1e-3)
    assert error < bound, f"{what}: relative error {error:.2e}"


class Rows:
    """Checks attention and gradients of single queries and keys, for a batch of one. `keep(i, j)` is the mask."""

    def __init__(self, q, k, v, keep, do=None):
        self.q, self.k, self.v, self.do, self.keep = q[0], k[0], v[0], None if do is None else do[0], keep
        self.group, self.scale = q.shape[1] // k.shape[1], 1 / math.sqrt(q.shape[3])

    def positions(self, count):
        return torch.arange(count, device="cuda")

    def check_query(self, h, i, o, lse, dq=None):
        k, v, q = self.k[h // self.group].float(), self.v[h // self.group].float(), self.q[h, i].float()
        s = torch.where(self.keep(i, self.positions(len(k))), k @ q * self.scale, -torch.inf)
        assert abs(torch.logsumexp(s, 0) - lse[0, h, i]) < 1e-3
        p = torch.softmax(s, 0)
        assert_near(o[0, h, i], p @ v, f"o of head {h}, query {i}")
        if dq is not None:
            do = self.do[h, i].float()
            dx = p * (v @ do - do @ o[0, h, i].float())
            assert_near(dq[0, h, i], dx @ k * self.scale, f"dq of head {h}, query {i}")

    def check_key(self, h, j, o, lse, dk, dv):
        k, v = self.k[h, j].float(), self.v[h, j].float()
        want_dk, want_dv = torch.zeros_like(k), torch.zeros_like(v)
        for head in range(h * self.group, (h + 1) * self.group):
            q, do = self.q[head].float(), self.do[head].float()
            keep = self.keep(self.positions(len(q)), j)
            p = torch.where(keep, torch.exp(q @ k * self.scale - lse[0, head]), 0)
            dx = p * (do @ v - (do * o[0, head].float()).sum(-1))
            want_dk += dx @ q * self.scale
            want_dv += p @ do
        assert_near(dk[0, h, j], want_dk, f"dk of head {h}, key {j}")
        assert_near(dv[0, h, j], want_dv, f"dv of head {h}, key {j}")

    def check_gradients(self, gradients, o, lse):
        dq, dk, dv = gradients
        heads, key_heads, nq, nk = len(self.q), len(self.k), self.q.shape[1], self.k.shape[1]
        for h, i in ((0, 0), (0, nq - 1), (heads // 2, nq // 2), (heads - 1, 63), (heads - 1, nq - 1)):
            self.check_query(h, i, o, lse, dq)
        for h, j in ((0, 0), (key_heads // 2, nk // 2 + 1), (key_heads - 1, 64), (key_heads - 1, nk - 1)):
            self.check_key(h, j, o, lse, dk, dv)


def half(*shape):
    """Returns normal(0, 1) without making an f32 array of that size."""
    array = torch.empty(shape, device="cuda", dtype=BF16)
    for part in array.view(-1, shape[-2] * shape[-1]):
        part.normal_()
    return array


def poisoned(x):
    return torch.empty_like(x).fill_(float("nan"))


def run(q, k, v, do, **how):
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, **how)
    out = tuple(map(poisoned, (q, k, v)))
    flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True, out=out, **how)
    return o, lse, out


# --- Workspaces of 2 GiB and more -------------------------------------------------------------------------------------

def positions(bytes_of_position):
    """Returns for how many positions the sums take more than 2 GiB. It is no multiple of a tile."""
    return (2 << 30) // bytes_of_position // 64 * 64 + 65


@pytest.mark.parametrize("hq,hk,d,of_position", [
    (32, 8, 128, 4 * 32 * 128 + 8 * 8 * 128), (8, 8, 128, 4 * 8 * 128),  # dq, and dk and dv of groups
    (24, 8, 64, 4 * 24 * 64 + 8 * 8 * 64), (10, 2, 256, 8 * 2 * 256)])  # d = 256: no sums of dq
def test_gradients_of_more_than_2_gib_of_sums(hq, hk, d, of_position):
    n = positions(of_position)
    needs(32)
    q, k, v, do = half(1, hq, n, d), half(1, hk, n, d), half(1, hk, n, d), half(1, hq, n, d)
    o, lse, out = run(q, k, v, do, causal=True)
    Rows(q, k, v, lambda i, j: j <= i, do).check_gradients(out, o, lse)


def test_deterministic_gradients_of_more_than_2_gib_of_sums():
    hq, hk, d = 16, 4, 128
    n = positions(8 * hq * d)  # sums of dk and dv for each query head
    needs(16)
    q, k, v, do = half(1, hq, n, d), half(1, hk, n, d), half(1, hk, n, d), half(1, hq, n, d)
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, causal=True)
    first, again = (flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True, causal=True, deterministic=True)
                    for _ in range(2))
    Rows(q, k, v, lambda i, j: j <= i, do).check_gradients(first, o, lse)
    assert all(torch.equal(x, y) for x, y in zip(first, again))


def test_sums_beyond_2_to_the_31_elements():
    """The sums of dq have 2^31 + 2^26 elements, so offsets of the last query heads in them do not fit into 32 bits."""
    b, h, n, d = 2, 33, 256 * 1024, 128
    needs(64)
    assert b * h * n * d > 1 << 31
    q, k, v, do = half(b, h, n, d), half(b, 1, n, d), half(b, 1, n, d), half(b, h, n, d)
    o, lse, out = run(q, k, v, do, window=512)
    keep = lambda i, j: (j <= i) & (j >= i - 512)  # noqa: E731
    for batch in range(b):
        parts = [x[batch:batch + 1] for x in (q, k, v, do, o, lse)]
        rows = Rows(*parts[:3], keep, parts[3])
        rows.check_gradients([x[batch:batch + 1] for x in out], parts[4], parts[5])


def test_a_million_positions():
    """With 32 query heads and 8 key heads, the backward pass takes 69 GB: 17 GB of them are sums of dq, and 9 GB sums
    of dk and dv."""
    n, hq, hk, d = 1 << 20, 32, 8, 128
    needs(72)
    q, k, v, do = half(1, hq, n, d), half(1, hk, n, d), half(1, hk, n, d), half(1, hq, n, d)
    o, lse, out = run(q, k, v, do, window=1024)
    rows = Rows(q, k, v, lambda i, j: (j <= i) & (j >= i - 1024), do)
    dq, dk, dv = out
    for h, i in ((0, 0), (15, n // 2 + 1), (31, n - 1)):
        rows.check_query(h, i, o, lse, dq)
    for h, j in ((0, 0), (7, n - 1)):
        rows.check_key(h, j, o, lse, dk, dv)


def test_packed_rows_of_more_than_2_to_the_31_elements():
    hq, hk, d, length, count = 32, 8, 128, 4096, 130
    total = length * count
    needs(48)
    assert total * hq * d > 1 << 31
    q, k, v, do = half(total, hq, d), half(total, hk, d), half(total, hk, d), half(total, hq, d)
    starts = torch.arange(0, total + 1, length, device="cuda", dtype=torch.int32)
    for x in (q, k, v):
        x.requires_grad_()
    o, lse = flashc.varlen_attention(q, k, v, starts, causal=True, enable_gqa=True, return_lse=True)
    o.backward(do)
    for number in (0, 64, count - 1):
        rows = slice(number * length, (number + 1) * length)
        one = [x[rows].detach().transpose(0, 1)[None] for x in (q, k, v, do, o)]
        assert_right(one[4], *one[:3], keep=bottom_right(length, length))
        gradients = [x.grad[rows].transpose(0, 1)[None] for x in (q, k, v)]
        lse_of_one = lse[:, rows][None] if lse.shape[0] == hq else lse[rows].T[None]
        Rows(*one[:3], lambda i, j: j <= i, one[3]).check_gradients(gradients, one[4], lse_of_one)


# --- More than 65,535 batches or heads --------------------------------------------------------------------------------

def dense(q, k, v, keep):
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
    s = torch.where(keep, q.float() @ k.transpose(2, 3) / math.sqrt(q.shape[3]), -torch.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


@pytest.mark.parametrize("b,hq,hk,nq,nk,how", [
    (WIDE, 1, 1, 8, 8, {}), (WIDE, 2, 1, 5, 9, {"causal": True}), (1, WIDE, WIDE, 8, 8, {}),
    (1, 2 * WIDE, WIDE, 7, 9, {"causal": True}), (WIDE, 1, 1, 8, 8, {"deterministic": True}),
    (1, WIDE, WIDE, 130, 8, {"schedule": "persistent=false"})])
def test_wide_grids(b, hq, hk, nq, nk, how):
    q, k, v, do = random(b, hq, nq, 64), random(b, hk, nk, 64), random(b, hk, nk, 64), random(b, hq, nq, 64)
    backward = {key: value for key, value in how.items() if key != "schedule"}
    forward = {key: value for key, value in how.items() if key != "deterministic"}
    o, lse = flashc.attention(q, k, v, enable_gqa=True, return_lse=True, **forward)
    inputs = [x.float().requires_grad_() for x in (q, k, v)]
    i, j = torch.arange(nq, device="cuda")[:, None], torch.arange(nk, device="cuda")
    keep = j <= i + nk - nq if how.get("causal") else j >= 0
    want, want_lse = dense(*inputs, keep)
    assert_near(o, want.detach(), "o")
    assert_near(o[-1, -1], want[-1, -1].detach(), "the last o")
    assert (lse - want_lse).abs().max() < 1e-2
    want.backward(do.float())
    out = tuple(map(poisoned, (q, k, v)))
    flashc.attention_backward(q, k, v, o, lse, do, enable_gqa=True, out=out, **backward)
    for name, got, x in zip(("dq", "dk", "dv"), out, inputs):
        assert_near(got, x.grad, name)
        assert_near(got[-1, -1], x.grad[-1, -1], f"the last {name}")


def test_wide_grids_of_heads_that_masks_ask_for():
    """A mask and a score depend on the batch and the head, which kernels compute from one grid coordinate."""
    for b, h in ((WIDE, 2), (2, WIDE)):
        q, k, v = (random(b, h, 8, 64) for _ in "qkv")
        drop = torch.randint(0, 8, (b, h), device="cuda", dtype=torch.int32)
        bias = torch.randn(b, h, device="cuda")
        o = flashc.attention(q, k, v, mask=lambda b, h, i, j: j != drop[b, h],
                             score=lambda s, b, h, i, j: s + bias[b, h] * j)
        s = q.float() @ k.float().transpose(2, 3) / 8 + bias[..., None, None] * torch.arange(8, device="cuda")
        s = torch.where(torch.arange(8, device="cuda") != drop[..., None, None], s, -torch.inf)
        assert_near(o, torch.softmax(s, -1) @ v.float(), f"o of {b} batches and {h} heads")


def test_column_sums_of_wide_grids():
    for b, h in ((WIDE, 1), (1, WIDE)):
        q, k, v = (random(b, h, 8, 64) for _ in "qkv")
        lse = flashc.attention(q, k, v, return_lse=True)[1]
        s = q.float() @ k.float().transpose(2, 3) / 8
        assert_near(flashc.column_sums(q, k, lse), torch.softmax(s, -1).sum(2), "c")


@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("splits", [None, 3])
def test_decode_of_wide_batches(page, splits):
    b, hk, rows, d = WIDE, 1, 48, 64
    q = random(b, 1, 2, d)
    k, v = random(b, rows, hk, d), random(b, rows, hk, d)
    lengths = torch.randint(1, rows + 1, (b,), device="cuda", dtype=torch.int32)
    table = None
    caches = k, v
    if page:
        order = torch.randperm(b * rows // page, device="cuda").to(torch.int32)
        table = order.view(b, -1)
        caches = tuple(torch.empty(b * rows // page, page, hk, d, device="cuda", dtype=BF16) for _ in "kv")
        for cache, x in zip(caches, (k, v)):
            cache[order.long()] = x.view(-1, page, hk, d)
    o = flashc.decode(q, *caches, lengths, table, splits=splits)
    keep = torch.arange(rows, device="cuda") < lengths[:, None]
    want, _ = dense(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), keep[:, None, None])
    assert_near(o, want.transpose(1, 2), "o")
    assert_near(o[-1], want[-1].transpose(0, 1), "the last o")


def test_new_tokens_of_wide_batches():
    b, hk, d = WIDE, 2, 64
    k_cache, v_cache = (torch.zeros(b, 4, hk, d, device="cuda", dtype=BF16) for _ in "kv")
    k, v = random(b, 1, hk, d), random(b, 1, hk, d)
    positions = torch.randint(0, 4, (b,), device="cuda", dtype=torch.int32)
    flashc.append_kv(k_cache, v_cache, k, v, positions=positions)
    batches = torch.arange(b, device="cuda")
    for cache, x in ((k_cache, k), (v_cache, v)):
        assert torch.equal(cache[batches, positions.long()], x[:, 0])
        cache[batches, positions.long()] = 0
        assert not cache.any()


def test_merges_of_wide_batches():
    o, lse = torch.randn(2, WIDE, 1, 3, 64, device="cuda"), torch.randn(2, WIDE, 1, 3, device="cuda")
    merged, total = flashc.merge_states(o, lse)
    assert_near(merged, (torch.softmax(lse, 0)[..., None] * o).sum(0), "o")
    assert (total - torch.logsumexp(lse, 0)).abs().max() < 1e-4


def test_gradients_of_captured_tables_of_wide_batches():
    b = WIDE
    q = random(b, 1, 8, 64)
    slopes = torch.randn(8, 8, device="cuda", requires_grad=True)
    o = flashc.attention(q, q, q, score=lambda s, b, h, i, j: s + slopes[i, j])
    o.float().square().sum().backward()
    again = slopes.detach().clone().requires_grad_()
    x = q.float()
    p = torch.softmax(x @ x.transpose(2, 3) / 8 + again, -1)
    (p @ x).square().sum().backward()
    # The bound is large, since the derivatives of 65,537 batches cancel each other, but their errors do not.
    assert_near(slopes.grad, again.grad, "the gradient of the table", bound=6e-2)
