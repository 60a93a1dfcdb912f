"""A server without a model: requests that share pages of a cache, with random keys and values. It makes the batch of
each step as vLLM does, and computes the right attention of a step. For tests of the door to vLLM."""
import random as dice
from typing import Any, List, NamedTuple

import decoding
import torch
from flashc.integrations import _vllm_step as door


class Batch(NamedTuple):
    """A step. The last rows of the arrays are padding, which is NaN."""
    offsets: List[int]  # of the requests' new tokens
    lengths: Any  # [B] in int32
    table: Any  # [B, M] in int32
    slots: Any  # [offsets[B]] in int64: where the new tokens go
    query: Any  # [rows, Hq, D]
    key: Any  # [rows, Hk, D]
    value: Any
    past: List[Any]  # of each request [tokens, Hk, 2 D]: the keys and values, the new ones among them

    @property
    def tokens(self):
        return self.offsets[-1]

    @property
    def padding(self):
        return self.query.shape[0] - self.tokens


class Server:
    """Requests come, have their prompts computed in chunks, decode, and go. Some begin with pages of another request.

    Args:
        order: the order of the dimensions (pages, Hk, page, 2 D) in memory, as a permutation of 0, 1, 2, 3.
        grain: numbers of the cache and of the new tokens are multiples of it. None: any numbers.
    """

    def __init__(self, seed, heads, key_heads, depth, *, page=16, pages=96, slots=12, order=(0, 1, 2, 3),
                 dtype=torch.float32, device="cpu", grain=None, cache_dtype=None):
        self.random, self.heads, self.page, self.slots = dice.Random(seed), heads, page, slots
        self.dtype, self.device, self.grain = dtype, device, grain
        self.generator = torch.Generator(device=device).manual_seed(seed)
        shape = pages, key_heads, page, 2 * depth
        memory = torch.full([shape[axis] for axis in order], torch.nan, device=device).to(cache_dtype or dtype)
        self.cache = memory.permute([order.index(axis) for axis in range(4)])
        self.free = list(range(1, pages))  # page 0 is the one that vLLM never gives to a request
        self.random.shuffle(self.free)
        self.users = {}  # how many requests have a page
        self.requests = []  # [pages, rows [tokens, Hk, 2 D], number of tokens that are still to come]

    def normal(self, *shape):
        x = torch.randn(*shape, device=self.device, generator=self.generator)
        return (x if self.grain is None else (x / self.grain).round() * self.grain).to(self.dtype)

    def arrive(self):
        """Adds a request, which may begin with the full pages of another one."""
        pages, rows = [], self.normal(0, *self.cache.shape[1::2])
        if self.requests and self.random.random() < 0.5:
            other = self.random.choice(self.requests)
            full = self.random.randint(0, min(other[1].shape[0] // self.page, self.slots // 2))
            pages, rows = other[0][:full], other[1][:full * self.page]
            for entry in pages:
                self.users[entry] += 1
        limit = self.slots * self.page - rows.shape[0]
        self.requests.append([pages, rows, self.random.randint(1, min(limit, 120))])

    def leave(self, request):
        """Removes a request. Its pages get NaN unless another request has them."""
        self.requests = [x for x in self.requests if x is not request]  # lists of tensors have no ==
        for entry in request[0]:
            self.users[entry] -= 1
            if not self.users[entry]:
                self.cache[entry] = torch.nan
                self.free.append(entry)

    def step(self, queries=None, padding=None):
        """Returns the next batch, of which the new tokens are not in the cache yet.

        Args:
            queries: the number of new tokens of every request; None: a number for each, from none up.
            padding: rows after the tokens; None: a few.
        """
        for request in [x for x in self.requests if self.random.random() < 0.1]:
            self.leave(request)
        while len(self.requests) < 2 or len(self.requests) < 7 and self.random.random() < 0.5:
            self.arrive()
        offsets, slots, past = [0], [], []
        for request in list(self.requests):
            pages, rows, rest = request
            count = queries or self.random.choice([0, 1, 1, 1, 5, 16, 63, min(rest, 70)])
            count = min(count, self.slots * self.page - rows.shape[0])
            if queries and count < queries or len(self.free) * self.page < count + self.page:
                self.leave(request)  # there is no room for it, as when vLLM preempts a request
                continue
            begin = rows.shape[0]
            rows = torch.cat([rows, self.normal(count, *rows.shape[1:])])
            pages = pages + [self.free.pop() for _ in range(-(-rows.shape[0] // self.page) - len(pages))]
            for entry in pages[len(request[0]):]:
                self.users[entry] = 1
            request[:] = pages, rows, max(1, rest - count)
            slots += [pages[t // self.page] * self.page + t % self.page for t in range(begin, rows.shape[0])]
            offsets.append(offsets[-1] + count)
            past.append(rows)
        if not self.requests or not slots:
            return self.step(queries, padding)
        padding = self.random.choice([0, 3, 16]) if padding is None else padding
        table = torch.zeros(len(past), self.slots, dtype=torch.int32)
        for row, (pages, *_) in zip(table, self.requests):
            row[:len(pages)] = torch.tensor(pages, dtype=torch.int32)
        new = torch.cat([rows[rows.shape[0] - (end - begin):] for rows, begin, end in zip(past, offsets, offsets[1:])])
        empty = torch.full((padding, *new.shape[1:]), torch.nan, device=self.device, dtype=self.dtype)
        key, value = torch.cat([new, empty]).chunk(2, -1)
        query = torch.cat([self.normal(offsets[-1], self.heads, key.shape[2]),
                           torch.full((padding, self.heads, key.shape[2]), torch.nan, device=self.device,
                                      dtype=self.dtype)])
        lengths = torch.tensor([rows.shape[0] for rows in past], dtype=torch.int32)
        return Batch(offsets, *(x.to(self.device) for x in (lengths, table, torch.tensor(slots))), query, key, value,
                     past)


def right(batch, keep=None, rescore=None, sinks=None):
    """Returns the attention of a batch, [tokens, Hq, D] in f64. `keep(b, h, i, j)` and `rescore(s, b, h, i, j)` are
    functions of the number of the request, and of positions; without `keep` attention is causal."""
    outs = [batch.query[:0].double()]
    for b, (rows, begin, end) in enumerate(zip(batch.past, batch.offsets, batch.offsets[1:])):
        key, value = rows.chunk(2, -1)
        outs.append(decoding.attention(
            batch.query[None, begin:end], key[None], value[None], torch.tensor([rows.shape[0]]),
            keep and (lambda _, h, i, j, b=b: keep(b, h, i, j)),
            rescore and (lambda s, _, h, i, j, b=b: rescore(s, b, h, i, j)), sinks)[0][0])
    return torch.cat(outs)


def window(size):
    """Returns the keep function of a causal window of `size` keys."""
    return lambda b, h, i, j: (j <= i) & (i - j < size)


def soft_cap(cap):
    return lambda s, b, h, i, j: cap * torch.tanh(s / cap)


def alibi(slopes, rescore=lambda s, b, h, i, j: s):
    """Returns the biases of ALiBi after another score."""
    return lambda s, b, h, i, j: rescore(s, b, h, i, j) - torch.tensor(slopes, device=s.device)[h] * (i - j).abs()


SLOPES, SINKS = [0.1, 0.2, 0.3, 0.05], [0.5, -1.0, 2.0, 0.0]

#: Layers with 4 query heads: {name: (keywords of `layer_of`, keywords of `right`)}.
LAYERS = {
    "causal": ({}, {}),
    "window": (dict(window=40), dict(keep=window(40))),
    "soft cap": (dict(soft_cap=2.0), dict(rescore=soft_cap(2.0))),
    "alibi": (dict(slopes=SLOPES), dict(rescore=alibi(SLOPES))),
    "alibi and soft cap": (dict(slopes=SLOPES, soft_cap=2.0), dict(rescore=alibi(SLOPES, soft_cap(2.0)))),
    "sinks and window": (dict(sinks=SINKS, window=40), dict(keep=window(40), sinks=SINKS)),
    "batch invariant": (dict(batch_invariant=True), {}),
}


def layer_of(server, sinks=None, **options):
    """Returns the layer whose keys and values are in the cache of a server."""
    depth = server.cache.shape[3] // 2
    sinks = None if sinks is None else torch.tensor(sinks, device=server.device)
    return door.Layer(depth, depth**-0.5, sinks=sinks, **options)


def step_of(server, batch, places, plan=None, **fields):
    """Returns the step of a batch. `plan` makes its calls; without one, queries are packed."""
    calls = plan and plan(batch.offsets, batch.lengths, batch.table, (1, 3))
    offsets = torch.tensor(batch.offsets, dtype=torch.int32, device=server.device)
    return door.Step(batch.tokens, offsets, batch.lengths, batch.table, places.find(batch.slots, batch.tokens),
                     calls=calls, **fields)


def check(server, batch, step, layer, tolerance, scales=(), **keywords):
    """Computes a step, and compares it with `right(batch, **keywords)`. `scales` are those of keys and values in a
    cache of 8 bits."""
    out = torch.full_like(batch.query, torch.nan)
    cache = server.cache.view(torch.uint8) if scales else server.cache
    layer.write(step, batch.key, batch.value, cache, *scales)
    layer.attend_cache(step, batch.query, cache, out, *scales)
    if keywords.get("sinks") is not None:
        keywords["sinks"] = torch.tensor(keywords["sinks"], device=out.device)
    torch.testing.assert_close(out[:batch.tokens].double(), right(batch, **keywords), rtol=10 * tolerance,
                               atol=tolerance)
    assert out[batch.tokens:].isnan().all()
