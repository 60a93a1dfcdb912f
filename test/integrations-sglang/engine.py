"""A scheduler without a model: requests in SGLang's own pools, with random keys and values. It makes SGLang's
ForwardBatch of each step, and computes the right attention of each layer."""
import dataclasses
import random as dice
import types
from typing import Any, List, NamedTuple

import paged_server
import torch
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

CONTEXT = 192  # tokens of a request at most


@dataclasses.dataclass
class Request:
    row: int  # of the table of requests
    pages: List[int]
    layers: List[Any]  # of each layer [tokens, Hk, 2 D]: the keys and values

    @property
    def length(self):
        return self.layers[0].shape[0]


class Batch(NamedTuple):
    """The attention of a layer in a step, as `paged_server.right` reads it."""
    query: Any  # [tokens, Hq, D]
    key: Any
    value: Any
    offsets: List[int]
    past: List[Any]


def runner_of(**changes):
    """Returns the attributes of a model runner that a backend reads."""
    model = types.SimpleNamespace(is_encoder_decoder=False, is_local_attention_model=False, context_len=CONTEXT)
    return types.SimpleNamespace(**{**dict(
        model_config=model, use_mla_backend=False, page_size=16, is_draft_worker=False, device="cpu",
        kv_index_translator=types.SimpleNamespace(is_translating=False), dtype=torch.float32,
        kv_cache_dtype=torch.float32, kv_cache_dtype_str="auto", sliding_window_size=None, req_to_token_pool=None,
        token_to_kv_pool=None), **changes})


class Engine:
    """Requests come, have their prompts computed in chunks, decode, and go. Some begin with pages of another request.

    Args:
        layers: the keywords of each layer's RadixAttention.
        window_pool: layers with windows have a pool of their own (SGLang's SWAKVPool).
    """

    def __init__(self, seed, layers=({},), *, heads=4, key_heads=2, depth=32, page=16, pages=80, window_pool=False,
                 dtype=torch.float32, cache_dtype=None, device="cpu"):
        self.random, self.heads, self.key_heads, self.depth = dice.Random(seed), heads, key_heads, depth
        self.page, self.dtype, self.device = page, dtype, device
        torch.manual_seed(seed)
        cache_dtype = cache_dtype or dtype
        shape = dict(page_size=page, dtype=cache_dtype, head_num=key_heads, head_dim=depth, device=device,
                     enable_memory_saver=False)
        size = (pages - 1) * page
        if window_pool:
            sides = [options.get("sliding_window_size", -1) for options in layers]
            self.pool = SWAKVPool(size, size, swa_attention_layer_ids=[i for i, x in enumerate(sides) if x > -1],
                                  full_attention_layer_ids=[i for i, x in enumerate(sides) if x == -1], **shape)
            self.mapping = torch.zeros(pages * page, dtype=torch.int64, device=device)
            self.pool.register_mapping(self.mapping)
            self.window = max(sides)
            self.others = [0, *self.random.sample(range(1, pages), pages - 1)]
            parts = self.pool.full_kv_pool, self.pool.swa_kv_pool
        else:
            self.pool, self.mapping = MHATokenToKVPool(size, layer_num=len(layers), **shape), None
            parts = self.pool,
        for part in parts:
            for x in (*part.k_buffer, *part.v_buffer):
                x.view(cache_dtype).copy_(torch.full(x.shape, torch.nan))
        self.table = ReqToTokenPool(12, CONTEXT, device, enable_memory_saver=False)
        self.table.req_to_token.copy_(torch.randint(0, pages * page, self.table.req_to_token.shape))
        self.layers = [RadixAttention(**{**dict(num_heads=heads, head_dim=depth, scaling=depth**-0.5,
                                                num_kv_heads=key_heads, layer_id=i), **options})
                       for i, options in enumerate(layers)]
        self.free, self.rows, self.users, self.requests = list(range(1, pages)), list(range(1, 12)), {}, []
        self.random.shuffle(self.free)
        self.runner = runner_of(page_size=page, dtype=dtype, kv_cache_dtype=cache_dtype, req_to_token_pool=self.table,
                                token_to_kv_pool=self.pool, device=device)

    # --- Requests -----------------------------------------------------------------------------------------------------

    def arrive(self):
        pages, layers = [], [torch.zeros(0, self.key_heads, 2 * self.depth, device=self.device)] * len(self.layers)
        if self.requests and self.random.random() < 0.5:
            other = self.random.choice(self.requests)
            full = self.random.randint(0, other.length // self.page)
            if self.mapping is not None:  # Pages before the window have no keys of layers with windows.
                full = 0
            pages, layers = other.pages[:full], [x[:full * self.page] for x in other.layers]
        for page in pages:
            self.users[page] += 1
        self.requests.append(Request(self.rows.pop(), list(pages), layers))
        self._write(self.requests[-1], 0)

    def leave(self, request):
        self.requests = [x for x in self.requests if x is not request]
        self.rows.append(request.row)
        for page in request.pages:
            self.users[page] -= 1
            if not self.users[page]:
                self.free.append(page)

    def _write(self, request, first):
        """Writes the places of a request's pages into SGLang's tables, from page `first` on."""
        for number, page in enumerate(request.pages[first:], first):
            begin = number * self.page
            places = torch.arange(self.page, device=self.device) + page * self.page
            width = min(self.page, CONTEXT - begin)
            self.table.req_to_token[request.row, begin:begin + width] = places[:width].int()
            if self.mapping is not None:
                self.mapping[places] = torch.arange(self.page, device=self.device) + self.others[page] * self.page

    def _grow(self, request, count):
        """Gives a request pages for new tokens. Returns whether there are enough."""
        wanted = -(-(request.length + count) // self.page)
        missing = wanted - len(request.pages)
        if request.length + count > CONTEXT or missing > len(self.free):
            return False
        first = len(request.pages)
        request.pages += [self.free.pop() for _ in range(missing)]
        for page in request.pages[first:]:
            self.users[page] = 1
        self._write(request, first)
        if self.mapping is not None:  # SGLang frees the pages before the window.
            for number in range(max(0, request.length - self.window) // self.page):
                places = torch.arange(self.page, device=self.device) + request.pages[number] * self.page
                self.mapping[places] = 0
        return True

    # --- Steps --------------------------------------------------------------------------------------------------------

    def step(self, mode, queries=None):
        """Returns SGLang's batch of the next step, and the requests with their numbers of new tokens.

        Args:
            mode: ForwardMode.DECODE, EXTEND, MIXED or TARGET_VERIFY.
            queries: the number of new tokens of each request; None: random numbers.
        """
        for request in [x for x in self.requests if self.random.random() < 0.1]:
            self.leave(request)
        while len(self.requests) < 2 or len(self.requests) < 7 and self.random.random() < 0.5:
            self.arrive()
        found = []
        for request in list(self.requests):
            count = queries or self.random.choice([1, 1, 2, 5, 16, 63])
            if queries and not request.length:
                continue
            if self._grow(request, count):
                found.append((request, count))
            else:
                self.leave(request)
        if not found:
            return self.step(ForwardMode.EXTEND) if queries is None else (None, None)
        lengths = torch.tensor([request.length + count for request, count in found], device=self.device)
        counts = torch.tensor([count for _, count in found], device=self.device)
        slots = torch.cat([self.table.req_to_token[r.row, r.length:r.length + count].long() for r, count in found])
        batch = ForwardBatch(
            forward_mode=mode, batch_size=len(found), input_ids=torch.zeros_like(slots),
            req_pool_indices=torch.tensor([r.row for r, _ in found], device=self.device),
            seq_lens=lengths - counts if mode.is_target_verify() else lengths, out_cache_loc=slots,
            seq_lens_sum=int(lengths.sum()), seq_lens_cpu=lengths.cpu(), positions=torch.zeros_like(slots))
        if mode.is_extend() and not mode.is_target_verify():
            batch.extend_seq_lens, batch.extend_prefix_lens = counts.int(), (lengths - counts).int()
            batch.extend_seq_lens_cpu, batch.extend_prefix_lens_cpu = counts.tolist(), (lengths - counts).tolist()
        return batch, found

    def attention(self, number, found):
        """Returns new tokens of a layer, and what they attend to."""
        offsets, new = [0], []
        for request, count in found:
            rows = torch.randn(count, self.key_heads, 2 * self.depth, device=self.device).to(self.dtype)
            request.layers[number] = torch.cat([request.layers[number].to(self.dtype), rows])
            offsets.append(offsets[-1] + count)
            new.append(rows)
        key, value = (x.contiguous() for x in torch.cat(new).chunk(2, -1))
        query = torch.randn(offsets[-1], self.heads, self.depth, device=self.device).to(self.dtype)
        return Batch(query, key, value, offsets, [request.layers[number] for request, _ in found])


def keep(window=None, is_causal=True):
    """Returns the keep function of a layer, or None for causal attention. `window`: the keys before the own one."""
    if window is None and is_causal:
        return None
    if not is_causal:
        return lambda b, h, i, j: (i - j).abs() <= (CONTEXT if window is None else window)
    return paged_server.window(window + 1)


def check(engine, backend, batch, found, tolerance, **keywords):
    """Runs all layers of a step, and compares them with the formula. `keywords`: of each layer, for
    `paged_server.right`; and its sinks, for the layer too."""
    for number, layer in enumerate(engine.layers):
        step, how = engine.attention(number, found), dict(keywords.get(f"layer{number}", {}))
        more = {} if how.get("sinks") is None else {"sinks": how["sinks"]}
        out = backend.forward(step.query.flatten(1), step.key.clone(), step.value.clone(), layer, batch, **more)
        want = paged_server.right(step, **how)
        assert out.shape == (step.offsets[-1], engine.heads * engine.depth)
        torch.testing.assert_close(out.view_as(want).double(), want, rtol=10 * tolerance, atol=tolerance)
