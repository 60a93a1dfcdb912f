"""Checks gradients of the tensors that scores read against PyTorch's gradients of the eager formula in f64. The tests
on the CPU and on a GPU share this file."""
import itertools

import numpy as np
import torch

import flashc
from scores import MASKS, make_scores


def positions(*shape, device):
    """Returns b, h, i and j as tensors that broadcast to the shape."""
    return [torch.arange(extent, device=device).view([-1 if dim == place else 1 for dim in range(4)])
            for place, extent in enumerate(shape)]


def wanted(q, k, v, o, lse, do, keep, rescore, made, factors=1.0, group=1):
    """Returns dq, dk and dv in f64, and a gradient for each array of `made`: None if the score does not read the array.
    The weights follow from the rounded `o` and `lse`; PyTorch differentiates the score."""
    q, k, v, o, do, lse = (x.detach().double() for x in (q, k, v, o, do, lse))
    hk, scale = k.shape[1], q.shape[-1]**-0.5
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    x = (q @ k.mT * scale).requires_grad_()
    grid = positions(*x.shape, device=q.device)
    s = rescore(x, *grid).expand(x.shape).double()
    sees = (s > -torch.inf) & (lse > -torch.inf)[..., None]
    if keep is not None:
        sees = sees & torch.as_tensor(keep(*grid), device=q.device).expand(s.shape)
    p = torch.where(sees, (s.detach() - lse.clamp(-1e30)[..., None]).exp(), 0.0)
    ds = p * (do @ v.mT * factors - (do * o).sum(-1, keepdim=True))
    # Where the mask drops a score, its derivative may be any number, even NaN.
    passed = torch.where(sees & (p > 0), s, 0.0)
    dx, *captured = torch.autograd.grad((passed * ds.detach()).sum(), (x, *made), allow_unused=True)
    dx = torch.zeros_like(x) if dx is None else dx

    def add_groups(y):
        return y.view(y.shape[0], hk, group, *y.shape[2:]).sum(2)
    return scale * dx @ k, add_groups(scale * dx.mT @ q), add_groups((p * factors).mT @ do), captured


class Maker:
    """Makes arrays that require gradients, on a device."""

    def __init__(self, device, seed=0):
        self.device, self.made = device, []
        self.rng = np.random.default_rng(seed)

    def __call__(self, x):
        """Turns a NumPy array into a tensor for make_scores."""
        x = torch.from_numpy(np.array(x)).to(self.device)
        if x.is_floating_point():
            x.requires_grad_()
            self.made.append(x)
        return x

    def normal(self, *shape, dtype="float32"):
        return self(self.rng.standard_normal(shape).astype(dtype))

    def integers(self, low, high, *shape):
        return self(self.rng.integers(low, high, shape).astype(np.int32))


def make_captured(make, b, h, nq, nk):
    """Returns scores by name. `make` makes their arrays. Every score has arrays of its own, and together the scores
    cover every form of index in every position."""
    n = make.normal
    group = 2
    bias, wide, turned = n(h, nq, nk), n(h, nq + 5, nk + 7), n(nk, h, nq)
    of_batches, of_pairs, of_all = n(b, nq, nk), n(nq, nk), n(b, h, nq, nk, dtype="float16")
    turned_pairs = n(nk, nq)
    broadcast, spread = n(1, h, 1, nk), n(h, 1, nk)
    table, reverse, shared = n(h, nq + nk - 1), n(nq + nk - 1, h), n(nq + nk - 1)
    near, near2, absolute = n(h, 33), n(17, h), n(h, max(nq, nk))
    buckets, bucket = n(h, 12), make.integers(0, 12, nq + nk)
    scalar, one = make(np.float32(0.7)), n(1)
    slopes, of_groups, heads, of_batch, of_both = n(h), n(h // group), n(h), n(b), n(b, h)
    rows, cols, blocks, later = n(h, nq), n(b, nk), n(h, nq // 16 + 1), n(nk // 8 + 1)
    ids, key_ids = make.integers(0, 7, nq), make.integers(0, 7, nk)
    of_ids, of_key_ids = n(7), n(7, h)
    half, every, far = n(h, nq + nk - 1, dtype="float16"), n(h, 2 * nq), n(h, nq + nk)
    distances, ends, flipped = n(h, max(nq, nk)), n(h, nk + 3), n(nk, h, nq + 1)
    every_second, expanded = every[:, ::2], n(h, 1, nk).expand(-1, nq, -1)
    up, down = -(-nq // 7), -(-nk // 7)  # rows of a grid with 7 columns
    grid, of_block_row, of_block_column = n(up + down - 1, 13, h), n(b, h, nq, down), n(h, nq, 7, dtype="float16")
    sums, of_index, index = n(nq + nk - 1), n(9, h), make.integers(0, 9, nq, nk)
    return {
        "bias": lambda s, b, h, i, j: s + bias[h, i, j],
        "wide bias": lambda s, b, h, i, j: s + wide[h, i, j] * 0.5,
        "turned bias": lambda s, b, h, i, j: s * (1 + 0.1 * turned[j, h, i]),
        "bias of batches": lambda s, b, h, i, j: s + of_batches[b, i, j],
        "bias of pairs": lambda s, b, h, i, j: s + of_pairs[i, j],
        "turned bias of pairs": lambda s, b, h, i, j: s + turned_pairs[j, i],
        "bias of all in f16": lambda s, b, h, i, j: s + of_all[b, h, i, j],
        "broadcast bias": lambda s, b, h, i, j: s + broadcast[0, h, 0, j],
        "spread": lambda s, b, h, i, j: s + spread[h, 0, j] + broadcast[0, h, 0, j],
        "table": lambda s, b, h, i, j: s + table[h, i - j + (nk - 1)],
        "reversed table": lambda s, b, h, i, j: s + reverse[j - i + (nq - 1), h],
        "table of all heads": lambda s, b, h, i, j: s + shared[i - j + (nk - 1)],
        "clipped table": lambda s, b, h, i, j: s + near[h, (i - j).clip(-16, 16) + 16],
        "clipped below": lambda s, b, h, i, j: s + near2[(j - i).clip(0, 16), h],
        "table of magnitudes": lambda s, b, h, i, j: s + absolute[h, abs(i - j)],
        "buckets": lambda s, b, h, i, j: s + buckets[h, bucket[i - j + (nk - 1)].long()],
        "a scalar": lambda s, b, h, i, j: s * scalar,
        "one element": lambda s, b, h, i, j: s / (1.5 + one[0] * one[0]),
        "slopes": lambda s, b, h, i, j: s + slopes[h] * (j - i) * 0.05,
        "slopes by exp": lambda s, b, h, i, j: s - slopes[h].exp() * abs(i - j) * 0.1,
        "of key heads": lambda s, b, h, i, j: s * (1 + of_groups[h // group]),
        "two tensors": lambda s, b, h, i, j: s * slopes[h] + rows[h, i] * cols[b, j],
        "one tensor twice": lambda s, b, h, i, j: s + rows[h, i] * rows[0, i] + rows[h, 0],
        "one table twice": lambda s, b, h, i, j: s + table[h, i - j + (nk - 1)] * table[0, i - j + (nk - 1)],
        "rows and columns": lambda s, b, h, i, j: s + far[h, i] + far[h, j],
        "of batches": lambda s, b, h, i, j: s * of_batch[b],
        "of batches and heads": lambda s, b, h, i, j: s * of_both[b, h] + of_both[b, h],
        "learned cap": lambda s, b, h, i, j: (2 + heads[h]**2) * (s / (2 + heads[h]**2)).tanh(),
        "learned wave": lambda s, b, h, i, j: s + ((i - j) * heads[h] * 0.1).sin(),
        "in some heads": lambda s, b, h, i, j: torch.where(h % 2 == 0, s, s + heads[h] * (j - i) * 0.1),
        "on one side": lambda s, b, h, i, j: torch.where(j <= i, s, s + slopes[h]),
        "blocks of rows": lambda s, b, h, i, j: s + blocks[h, i // 16],
        "blocks of columns": lambda s, b, h, i, j: s + later[j // 8],
        "documents": lambda s, b, h, i, j: s + of_ids[ids[i].long()],
        "documents of keys": lambda s, b, h, i, j: s + of_key_ids[key_ids[j].long(), h],
        "table in f16": lambda s, b, h, i, j: s + half[h, j - i + (nq - 1)],
        "every second": lambda s, b, h, i, j: s + every_second[h, i],
        "expanded": lambda s, b, h, i, j: s + expanded[h, i, j],
        "distances from the end": lambda s, b, h, i, j: s + distances[h, i - j],
        "keys from the end": lambda s, b, h, i, j: s + ends[h - 1, j - 2],
        "queries from the end": lambda s, b, h, i, j: s * (1 + 0.1 * far[h, 3 - i]),
        "pairs from the end": lambda s, b, h, i, j: s + flipped[j - nk + 1, h, -1 - i],
        "a clip from the end": lambda s, b, h, i, j: s + near[h, (i - j).clip(-33, 32)],
        "grid": lambda s, b, h, i, j: s + grid[i // 7 - j // 7 + (down - 1), i % 7 - j % 7 + 6, h],
        "rows of a grid": lambda s, b, h, i, j: s + of_block_row[b, h, i, j // 7],
        "columns of a grid": lambda s, b, h, i, j: s + of_block_column[h, i, j % 7],
        "sums": lambda s, b, h, i, j: s + sums[i + j],
        "a grid from the end": lambda s, b, h, i, j: s + grid[i // 7 - j // 7, i % 7 - j % 7, h],
        "sums from the end": lambda s, b, h, i, j: s + sums[i + j - nq] * sums[nk - 1 - i - j],
        "an index of pairs": lambda s, b, h, i, j: s + of_index[index[i, j].long(), h],
        "bias and table": lambda s, b, h, i, j: s * (1 + 0.1 * bias[h, i, j]) + table[h, i - j + (nk - 1)],
    }


def names(kind):
    """Returns the names of the scores that read a floating-point array."""
    found = []
    make = Maker("cpu")
    scores = make_all(kind, make, 1, 2, 5, 5)
    for name, score in scores.items():
        s = torch.zeros(1, 2, 5, 5, dtype=torch.float64)
        total = score(s, *positions(1, 2, 5, 5, device="cpu"))
        if total.requires_grad:
            found.append(name)
    return found


def make_all(kind, make, b, h, nq, nk):
    if kind == "scores":
        return make_scores(torch, make, make.rng, b, h, nq, nk)
    return make_captured(make, b, h, nq, nk)


#: All scores of scores.py that read floating-point arrays, and all scores of this file.
CASES = [("scores", name) for name in names("scores")] + [("captured", name) for name in names("captured")]


def gradients(kind, name, device, shape, dtype, keep=None, limit=1e-4, limit_of_captured=1e-4, seed=0,
              **keywords):
    """Checks o, dq, dk, dv and the gradients of the tensors that a score reads. Returns these gradients."""
    b, h, hk, nq, nk, d = shape
    make = Maker(device, seed)
    rescore = make_all(kind, make, b, h, nq, nk)[name]
    q, k, v = (torch.randn(b, heads, n, d, device=device).to(dtype).requires_grad_()
               for heads, n in ((h, nq), (hk, nk), (hk, nk)))
    do = torch.randn(b, h, nq, d, device=device).to(dtype)
    o, lse = flashc.attention(q, k, v, score=rescore, mask=keep, enable_gqa=True, return_lse=True, **keywords)
    *want, of_captured = wanted(q, k, v, o, lse, do, keep, rescore, make.made, group=h // hk)
    read = [x for x, gradient in zip(make.made, of_captured) if gradient is not None]
    assert read, "expected a score that reads numbers"
    want += [gradient for gradient in of_captured if gradient is not None]
    got = torch.autograd.grad(o, (q, k, v, *read), do)
    scale = do.double().abs().mean()
    for number, (x, y, of) in enumerate(zip(got, want, (q, k, v, *read))):
        assert x.shape == of.shape and x.dtype == of.dtype
        x, y = x.double(), y.double()
        assert not x.isnan().any(), (name, number)
        # Gradients may cancel to about 0; then the error is relative to `floor`, the size of the rounding errors.
        floor = (0.02 if number < 3 else 0.3) * scale * y.numel()**0.5
        most = limit if number < 3 else 2e-3 if of.dtype == torch.float16 else limit_of_captured
        assert (x - y).norm() <= most * (y.norm() + floor), (name, number, float((x - y).norm()), float(y.norm()))
    return got[3:]
