"""Steps of a server, in which sequences have different numbers of queries: inputs, masks and scores, and a reference,
for tests on the CPU and on a GPU."""
import random as dice
from typing import Any, NamedTuple, Tuple


class Step(NamedTuple):
    q: Any  # [total, Hq, D]
    cache: Tuple[Any, ...]  # k, v, lengths, and the block table if there are pages
    offsets: Any  # [B + 1]
    keys: Any  # a list of [length, Hk, D]
    values: Any
    lengths: Any  # a list of (queries, keys)

    @property
    def total(self):
        return self.q.shape[0]


def sequences(torch, seed, hq, hk, d, dv, dtype, device, page=16, lengths=None):
    """Draws a step. Rows after a sequence's end, and pages of no sequence, are NaN. Entries of the table after the last
    page are -1. Three rows follow the last sequence's queries. `page` is None for caches without pages."""
    rng = dice.Random(seed)
    if lengths is None:
        lengths = []
        for _ in range(rng.randint(1, 9)):
            queries = rng.choice([0, 1, 1, 1, 2, 7, 16, 63, 65, 130, 257])
            lengths.append((queries, max(0, queries + rng.choice([-3, 0, 1, 50, 127, 128, 500, 1009]))))
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float32, device=device, generator=generator).to(dtype)
    keys, values = ([normal(count, hk, x) for _, count in lengths] for x in (d, dv))
    most = max(1, *(count for _, count in lengths))
    sizes = torch.tensor([count for _, count in lengths], dtype=torch.int32, device=device)
    offsets = [0]
    for queries, _ in lengths:
        offsets.append(offsets[-1] + queries)
    q, offsets = normal(offsets[-1] + 3, hq, d), torch.tensor(offsets, dtype=torch.int32, device=device)
    if page is None:
        k, v = (torch.full((len(lengths), most, hk, x), torch.nan, dtype=dtype, device=device) for x in (d, dv))
        for b, (_, count) in enumerate(lengths):
            k[b, :count], v[b, :count] = keys[b], values[b]
        return Step(q, (k, v, sizes), offsets, keys, values, lengths)
    slots = -(-most // page) + rng.randint(0, 3)
    pages = sum(-(-count // page) for _, count in lengths) + 3
    free = list(range(pages))
    rng.shuffle(free)
    k, v = (torch.full((pages, page, hk, x), torch.nan, dtype=dtype, device=device) for x in (d, dv))
    table = torch.full((len(lengths), slots), -1, dtype=torch.int32)
    for b, (_, count) in enumerate(lengths):
        for begin in range(0, count, page):
            entry = free.pop()
            table[b, begin // page] = entry
            end = min(begin + page, count)
            k[entry, :end - begin], v[entry, :end - begin] = keys[b][begin:end], values[b][begin:end]
    return Step(q, (k, v, sizes, table.to(device)), offsets, keys, values, lengths)


#: {name: (torch, flashc.ops, flashc.scores) -> (keywords of flashc.decode, the mask or None, the score or None)}. Masks
#: and scores of the reference take tensors of b, h, i and j.
CODES = {
    "causal": lambda torch, ops, scores: ({}, lambda b, h, i, j: j <= i, None),
    "all keys": lambda torch, ops, scores: ({"causal": False}, None, None),
    "window": lambda torch, ops, scores: ({"window": 40}, lambda b, h, i, j: (j <= i) & (i - j <= 40), None),
    "dilated": lambda torch, ops, scores: ({"mask": lambda b, h, i, j: (i - j) % 3 != 1},
                                           lambda b, h, i, j: (j <= i) & ((i - j) % 3 != 1), None),
    "by head": lambda torch, ops, scores: ({"mask": lambda b, h, i, j: i - j <= 16 * h + b},
                                           lambda b, h, i, j: (j <= i) & (i - j <= 16 * h + b), None),
    "soft cap": lambda torch, ops, scores: ({"score": scores.soft_cap(20)}, lambda b, h, i, j: j <= i,
                                            lambda s, b, h, i, j, n: 20 * torch.tanh(s / 20)),
    "alibi": lambda torch, ops, scores: ({"score": lambda s, b, h, i, j: s - 0.05 * (h + 1) * (i - j)},
                                         lambda b, h, i, j: j <= i,
                                         lambda s, b, h, i, j, n: s - 0.05 * (h + 1) * (i - j)),
    "lengths": lambda torch, ops, scores: (
        {"score": lambda s, b, h, i, j: s + 0.01 * (ops.query_length() + 2 * ops.key_length() - i)},
        lambda b, h, i, j: j <= i, lambda s, b, h, i, j, n: s + 0.01 * (n[0] + 2 * n[1] - i)),
}


def reference(torch, step, keep, rescore):
    """Returns o [total, Hq, Dv] and the log-sum-exp [Hq, total] in f32 or f64."""
    total, hq, d = step.q.shape
    precise = torch.float64 if step.q.dtype == torch.float32 else torch.float32
    o = torch.zeros(total, hq, step.values[0].shape[2], dtype=precise, device=step.q.device)
    sums = torch.full((hq, total), -torch.inf, dtype=precise, device=step.q.device)
    begin = 0
    for b, (queries, count) in enumerate(step.lengths):
        if queries and count:
            rows = slice(begin, begin + queries)
            q = step.q[rows].to(precise).transpose(0, 1)
            k, v = (x[b].to(precise).transpose(0, 1).repeat_interleave(hq // x[b].shape[1], 0)
                    for x in (step.keys, step.values))
            h = torch.arange(hq, device=q.device)[:, None, None]
            i = torch.arange(queries, device=q.device)[:, None] + count - queries
            j = torch.arange(count, device=q.device)
            s = q @ k.transpose(1, 2) * d**-0.5
            if rescore is not None:
                s = rescore(s, b, h, i, j, (queries, count))
            if keep is not None:
                s = s.masked_fill(~keep(b, h, i, j).expand(s.shape), -torch.inf)
            sums[:, rows] = s.logsumexp(-1)
            o[rows] = (s.softmax(-1).nan_to_num(0.0) @ v).transpose(0, 1)
        begin += queries
    return o, sums
