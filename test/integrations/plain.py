"""Plain attention in f64, by operations that PyTorch differentiates: the reference of the tests of integrations."""
import torch

import flashc


def positions(queries, keys):
    """Returns i and j, as tensors that broadcast to [queries, keys]."""
    return torch.arange(queries)[:, None], torch.arange(keys)[None, :]


def band(queries, keys, causal=False, left=-1, right=-1):
    """Returns the mask [queries, keys] of a causal bound and a window, with the last query at the last key."""
    i, j = positions(queries, keys)
    i = i + keys - queries
    kept = torch.ones(queries, keys, dtype=torch.bool)
    if left >= 0:
        kept &= j >= i - left
    if causal or right >= 0:
        kept &= j <= i + (0 if causal else right)
    return kept


def attention(q, k, v, kept=None, scale=None, bias=None, weights=None):
    """Returns o and the log-sum-exp of q [..., Hq, Nq, D], k and v [..., Hk, Nk, D]. `weights`: factors of the
    probabilities, as dropout has them."""
    group = q.shape[-3] // max(k.shape[-3], 1)
    q, k, v = q.double(), k.double().repeat_interleave(group, -3), v.double().repeat_interleave(group, -3)
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if bias is None else s + bias
    s = s if kept is None else s.masked_fill(~kept, -torch.inf)
    empty = (s == -torch.inf).all(-1, keepdim=True)
    p = s.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    return (p if weights is None else p * weights) @ v, s.logsumexp(-1)


def dropout_weights(shape, p, seed):
    """Returns the factors that dropout gives to the probabilities [B, Hq, Nq, Nk], from a seed and an offset in
    uint64."""
    kept = torch.from_numpy(flashc.dropout_mask(shape, p, seed.view(torch.int64).tolist()))
    return kept / (1 - round(p * 256) / 256)


def packed(q, k, v, offsets, key_offsets, used=None, weights=None, slopes=None, **how):
    """Returns o [total_q, Hq, D] and the log-sum-exp [Hq, total_q] of packed sequences. `used`: how many of each
    sequence's keys take part. `weights`: of all queries and keys. `how`: for `band`, and scale."""
    scale = how.pop("scale", None)
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    outputs, sums = [], []
    for number, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        first, last = key_offsets[number:number + 2]
        last = last if used is None else first + used[number]
        inside = slice(begin, end), slice(first, last)
        i, j = positions(end - begin, last - first)
        bias = None if slopes is None else -slopes[:, None, None] * (j - i - (last - first) + (end - begin)).abs()
        o, lse = attention(q[:, inside[0]], k[:, inside[1]], v[:, inside[1]],
                           band(end - begin, last - first, **how), scale, bias,
                           None if weights is None else weights[:, inside[0], inside[1]])
        outputs.append(o)
        sums.append(lse)
    return torch.cat(outputs, 1).transpose(0, 1), torch.cat(sums, 1)


def close(got, want, tolerance, name=""):
    """Checks two tensors up to `tolerance` times the largest element; -inf must be in the same places."""
    assert got.shape == want.shape, f"{name}: {tuple(got.shape)} instead of {tuple(want.shape)}"
    infinite = want == -torch.inf
    assert torch.equal(got == -torch.inf, infinite), name
    got, want = got.double().masked_fill(infinite, 0), want.masked_fill(infinite, 0)
    error = (got - want).abs().max() if got.numel() else 0
    assert error <= tolerance * (1 + (want.abs().max() if want.numel() else 0)), f"{name} off by {error}"
