"""Checks flashc.decode against the formula in f64, for the tests on the CPU and on a GPU. Rows of caches that no key
uses are NaN."""
import numpy as np
import torch

import flashc


def attention(q, k, v, lengths, keep=None, rescore=None, sinks=None):
    """Returns o [B, T, Hq, Dv] and the log-sum-exp [B, Hq, T] in f64, for q [B, T, Hq, D] and k, v [B, N, Hk, D].
    `keep` and `rescore` are functions of positions in the sequence."""
    q, k, v = (x.double() for x in (q, k, v))
    batch, tokens, heads, depth = q.shape
    group = heads // k.shape[2]
    o = torch.zeros(batch, tokens, heads, v.shape[3], dtype=torch.float64, device=q.device)
    lse = torch.full((batch, heads, tokens), -torch.inf, dtype=torch.float64, device=q.device)
    head = torch.arange(heads, device=q.device)[:, None, None]
    for b, length in enumerate(lengths.tolist()):
        keys, values = (x[b, :length].repeat_interleave(group, 1).transpose(0, 1) for x in (k, v))
        s = q[b].transpose(0, 1) @ keys.mT * depth**-0.5
        i = torch.arange(tokens, device=q.device)[:, None] + length - tokens
        j = torch.arange(length, device=q.device)
        if rescore is not None:
            s = rescore(s, torch.tensor(b, device=q.device), head, i, j)
        kept = (j <= i) if keep is None else keep(torch.tensor(b, device=q.device), head, i, j)
        s = s.masked_fill(~kept.expand(s.shape), -torch.inf)
        if sinks is not None:
            s = torch.cat([s, sinks.double()[:, None, None].expand(heads, tokens, 1)], -1)
        lse[b] = s.logsumexp(-1) if s.shape[-1] else -torch.inf
        p = (s - lse[b].clamp(min=-1e300)[..., None]).exp()
        o[b] = (p[..., :length] @ values).transpose(0, 1)
    return o, lse


#: Options of flashc.decode by name. `keep` is not an option but the mask that results from the options.
MASKS = {
    "window": dict(window=50, keep=lambda b, h, i, j: (j <= i) & (j >= i - 50)),
    "both sides": dict(window=(50, 30), causal=False, keep=lambda b, h, i, j:
                       (j <= i + 30) & (j >= i - 50)), "all": dict(causal=False, keep=lambda b, h, i, j: j >= 0),
    "strided": dict(mask=lambda b, h, i, j: (i-j) % 3 == 0, keep=lambda b, h, i, j:
                    (j <= i) & ((i-j) % 3 == 0)), "heads": dict(mask=lambda b, h, i, j: j >= h * 10,
                                                                keep=lambda b, h, i, j: (j <= i) & (j >= h * 10)),
    "sink and window": dict(mask=lambda b, h, i, j: (j < 4) | (i - j < 20), keep=lambda b, h, i, j:
                            (j <= i) & ((j < 4) | (i - j < 20)))
}


class Cache:
    """The keys and values of sequences, and caches that contain them. All other elements of the caches are NaN. If
    `stored` is a type of 8 bits, `k` and `v` are the dequantized caches, and `scales` says what has a scale of its own:
    "all" (one scale for everything), "heads", "pages" or "pages and heads"."""

    def __init__(self, lengths, heads, depth, value_depth, capacity, page=0, device="cpu", dtype=torch.float32,
                 order="nhd", interleaved=False, stored=None, scales="all"):
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device=device)
        batch = len(lengths)
        self.k, self.v = (torch.randn(batch, capacity, heads, d, device=device).to(dtype) for d in (depth, value_depth))
        self.page, self.table = page, None
        if not page:
            self.k_cache, self.v_cache = self.k.clone(), self.v.clone()
            for b, length in enumerate(lengths):
                self.k_cache[b, length:], self.v_cache[b, length:] = torch.nan, torch.nan
        else:
            self._fill_pages(lengths, capacity, page, interleaved)
        if order == "hnd":  # in memory, the rows of a head follow each other
            self.k_cache, self.v_cache = (x.transpose(1, 2).contiguous().transpose(1, 2)
                                          for x in (self.k_cache, self.v_cache))
        self.scales = {}
        if stored:
            self.k, self.k_cache, self.scales["k_scale"] = self._quantise(self.k, self.k_cache, stored, scales)
            self.v, self.v_cache, self.scales["v_scale"] = self._quantise(self.v, self.v_cache, stored, scales)

    def _quantise(self, x, cache, stored, scales):
        """Returns the dequantized values of each sequence, the cache of 8 bits, and its scales. The scales of pages
        that no sequence uses are NaN."""
        shape = (len(cache) if "pages" in scales else 1, cache.shape[2] if "heads" in scales else 1)
        largest = 3.0 / (100.0 if stored == torch.int8 else 300.0)
        scale = (torch.rand(shape, device=cache.device) + 0.5) * largest
        wide = cache.float() / scale[:, None, :, None]
        if stored == torch.int8:
            wide = wide.round().clamp(-128, 127).nan_to_num(nan=-128.0)
        else:
            wide = wide.clamp(-448, 448)
        narrow = wide.to(stored)
        values = narrow.float() * scale[:, None, :, None]
        result = x.float()
        for b, length in enumerate(self.lengths.tolist()):
            if self.table is None:
                result[b, :length] = values[b, :length]
            else:
                pages = values[self.table[b, :-(-length // self.page)].long()]
                result[b, :length] = pages.flatten(0, 1)[:length]
        if shape[0] > 1:
            owned = torch.zeros(len(cache), dtype=torch.bool, device=cache.device)
            for b, length in enumerate(self.lengths.tolist()):
                owned[self.table[b, :-(-length // self.page)].long()] = True
            scale[~owned] = torch.nan
        form = scale[0, 0] if scales == "all" else scale[0] if scales == "heads" else scale
        return result, narrow, form.clone()

    def _fill_pages(self, lengths, capacity, page, interleaved):
        batch, device, dtype = len(lengths), self.k.device, self.k.dtype
        slots = -(-capacity // page)
        pages = batch * slots + 3
        shape = pages, page, self.k.shape[2]
        if interleaved and self.k.shape[3] == self.v.shape[3]:
            both = torch.full((pages, 2, *shape[1:], self.k.shape[3]), torch.nan, device=device, dtype=dtype)
            self.k_cache, self.v_cache = both[:, 0], both[:, 1]
        else:
            self.k_cache, self.v_cache = (torch.full((*shape, x.shape[3]), torch.nan, device=device, dtype=dtype)
                                          for x in (self.k, self.v))
        # After the last page of a sequence, the entries of the table are out of range.
        table = np.full((batch, slots), 1 << 30, np.int32)
        free = list(np.random.default_rng(int(torch.randint(1 << 30, ()))).permutation(pages))
        for b, length in enumerate(lengths):
            for slot in range(-(-length // page)):
                number, first = int(free.pop()), slot * page
                table[b, slot] = number
                rows = min(page, length - first)
                for cache, x in ((self.k_cache, self.k), (self.v_cache, self.v)):
                    cache[number, :rows] = x[b, first:first + rows]
        self.table = torch.from_numpy(table).to(device)

    def free(self, first, entry=-1):
        """Fills the rows before key `first(length)` of each sequence with NaN. The table entries of pages that lie
        wholly before that key become `entry`; if `entry` is None, they stay."""
        for b, length in enumerate(self.lengths.tolist()):
            begin = max(first(length), 0)
            for cache in (self.k_cache, self.v_cache):
                if self.table is None:
                    cache[b, :begin] = torch.nan
                for slot in range(-(-begin // self.page) if self.page else 0):
                    cache[self.table[b, slot], :begin - slot * self.page] = torch.nan
            if self.table is not None and entry is not None:
                self.table[b, :begin // self.page] = entry

    def arguments(self):
        return (self.k_cache, self.v_cache, self.lengths) + (() if self.table is None else (self.table,))


def check(cache, q, limit, keep=None, rescore=None, sinks=None, **keywords):
    """Compares flashc.decode with the formula. Returns o."""
    o, lse = flashc.decode(q, *cache.arguments(), return_lse=True, score=rescore, sinks=sinks, **cache.scales,
                           **keywords)
    want_o, want_lse = attention(q, cache.k, cache.v, cache.lengths, keep, rescore, sinks)
    assert not o.isnan().any() and not lse.isnan().any()
    assert (o.double() - want_o).norm() <= limit * (want_o.norm() + 1e-3), float(
        (o.double() - want_o).norm() / want_o.norm())
    assert torch.equal(lse.isinf(), want_lse.isinf())
    seen = ~want_lse.isinf()
    error = (lse.double() - want_lse)[seen].abs()
    assert not error.numel() or error.max() <= 5e-3 * want_lse[seen].abs().max().clamp(min=1.0), float(error.max())
    return o
