"""How the decoding benchmark calls libraries that read caches as servers do. Stand-ins for the libraries compute plain
attention of the arguments that they are given."""

import sys
import types

import pytest

torch = pytest.importorskip("torch")

import fake_cuda  # noqa: E402
from flashc.bench import _decode, _decode_grid, _peers, _serving_peers  # noqa: E402

# The names of the operators' arguments in vLLM 0.33.
FWD = """q k v k_new v_new q_v out cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q seqused_k max_seqlen_q
max_seqlen_k page_table kv_batch_idx leftpad_k rotary_cos rotary_sin seqlens_rotary q_descale k_descale v_descale
softmax_scale is_causal window_size_left window_size_right softcap is_rotary_interleaved scheduler_metadata num_splits
pack_gqa sm_margin s_aux cp_world_size cp_rank cp_tot_seqused_k"""
METADATA = """batch_size max_seqlen_q max_seqlen_k num_heads num_heads_k headdim headdim_v qkv_dtype seqused_k
cu_seqlens_q cu_seqlens_k cu_seqlens_k_new seqused_q leftpad_k page_size max_seqlen_k_new is_causal window_size_left
window_size_right has_softcap num_splits pack_gqa sm_margin"""


@pytest.fixture(autouse=True)
def made(monkeypatch):
    return fake_cuda.install_graphs(monkeypatch, _decode)


def attention(q, offsets, sequences):
    """Returns causal attention of packed queries. `sequences` has K and V [n, Hk, D] of each sequence."""
    o = torch.empty_like(q)
    for (k, v), begin, end in zip(sequences, offsets, offsets[1:]):
        k, v = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1).transpose(0, 1) for x in (k, v))
        count, queries = k.shape[1], end - begin
        hides = torch.arange(count) > torch.arange(count - queries, count)[:, None]
        scores = q[begin:end].float().transpose(0, 1) @ k.mT * q.shape[2]**-0.5
        o[begin:end] = (scores.masked_fill(hides, -torch.inf).softmax(-1) @ v).transpose(0, 1).to(q.dtype)
    return o


def operator(function, names):
    """Returns `function` with a schema, as an operator of PyTorch has it."""
    schema = types.SimpleNamespace(arguments=[types.SimpleNamespace(name=name) for name in names.split()])

    def call(**arguments):
        assert list(arguments) == names.split()
        return function(types.SimpleNamespace(**arguments))
    call.default = types.SimpleNamespace(_schema=schema)
    return call


class FakeFA3(_serving_peers.FlashAttention3):
    """FlashAttention-3 with the operators of vLLM 0.33."""

    def operators(self):
        return types.SimpleNamespace(fwd=operator(self.fwd, FWD),
                                     get_scheduler_metadata=operator(self.get_scheduler_metadata, METADATA))

    @staticmethod
    def get_scheduler_metadata(it):
        assert it.is_causal and len(it.seqused_k) == it.batch_size and it.max_seqlen_k == int(it.seqused_k.max())
        return torch.tensor([it.num_heads, it.num_heads_k, it.headdim, it.page_size or 0])

    @staticmethod
    def fwd(it):
        page = it.k.shape[1] if it.page_table is not None else 0
        assert it.scheduler_metadata.tolist() == [it.q.shape[1], it.k.shape[2], it.q.shape[2], page]
        assert it.max_seqlen_q == int(it.cu_seqlens_q.diff().max()) and it.softmax_scale == it.q.shape[2]**-0.5
        caches = [x[it.page_table.long()].flatten(1, 2) if page else x for x in (it.k, it.v)]
        sequences = [tuple(x[b, :n] for x in caches) for b, n in enumerate(it.seqused_k.tolist())]
        it.out.copy_(attention(it.q, it.cu_seqlens_q.tolist(), sequences))
        return [it.out, None]


class FakeWrapper:
    """The wrappers of FlashInfer."""
    made = []

    def __init__(self, workspace, layout, **options):
        self.layout = layout
        self.made.append((type(self).__name__, options))

    def _plan(self, offsets, first, pages, last, query_heads, key_heads, depth, page):
        self.offsets, self.first, self.pages, self.last = offsets, first.tolist(), pages.long(), last.tolist()
        self.extents = query_heads, key_heads, depth, page

    def run(self, q, cache):
        query_heads, key_heads, depth, page = self.extents
        assert q.shape[1:] == (query_heads, depth) and all(x.is_contiguous() for x in cache)
        k, v = (x if self.layout == "NHD" else x.transpose(1, 2) for x in cache)
        assert k.shape[1:] == (page, key_heads, depth)
        sequences = []
        for begin, end, last in zip(self.first, self.first[1:], self.last):
            count = (end - begin - 1) * page + last
            sequences.append(tuple(x[self.pages[begin:end]].flatten(0, 1)[:count] for x in (k, v)))
        return attention(q, self.offsets, sequences)


class Decoding(FakeWrapper):
    def plan(self, first, pages, last, *extents, q_data_type, kv_data_type):
        self._plan(list(range(len(first))), first, pages, last, *extents)


class Prefill(FakeWrapper):
    def plan(self, offsets, first, pages, last, *extents, causal, q_data_type, kv_data_type):
        assert causal
        self._plan(offsets.tolist(), first, pages, last, *extents)


@pytest.fixture
def wrappers(monkeypatch):
    """Installs a stand-in for flashinfer. Returns the list of the wrappers that are made, with their options."""
    monkeypatch.setattr(_serving_peers, "WORKSPACE_BYTES", 1)
    monkeypatch.setattr(FakeWrapper, "made", [])
    monkeypatch.setitem(sys.modules, "flashinfer", types.SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=Decoding, BatchPrefillWithPagedKVCacheWrapper=Prefill))
    return FakeWrapper.made


def measure(**changes):
    peers = {**_serving_peers.peers(), "fa3": FakeFA3()}
    cell = _decode_grid.Cell(**{"batch": 2, "keys": 48, "query_heads": 4, "key_heads": 2, "depth": 16, **changes})
    row = _decode.measure(cell, {"flashc": {}}, peers.values(), device="cpu")
    assert not row.notes and not row.failed
    return list(row.microseconds)


@pytest.mark.parametrize("changes", [{"layout": "nhd"}, {"layout": "hnd", "lengths": "even"}])
def test_one_query(changes, wrappers):
    assert measure(page=16, **changes) == ["flashc", "fa3", "flashinfer", "flashinfer-cuda-cores"]
    assert wrappers == [("Decoding", {"use_tensor_cores": True}), ("Decoding", {"use_tensor_cores": False})]


@pytest.mark.parametrize("changes", [{"lengths": "even"}, {"layout": "hnd", "queries": "32"}])
def test_several_queries(changes, wrappers):
    assert measure(page=16, **{"layout": "nhd", "queries": "5", **changes}) == [
        "flashc", "fa3", "flashinfer", "flashinfer-fa2"]
    assert wrappers == [("Prefill", {"backend": "auto"}), ("Prefill", {"backend": "fa2"})]


def test_a_step_is_one_call_and_a_call_of_each_kind(wrappers):
    assert measure(batch=4, keys=64, page=16, layout="nhd", queries="2x1+1x40+1x3", lengths="even") == [
        "flashc", "flashc:calls", "fa3", "flashinfer", "flashinfer-fa2"]


def test_caches_without_pages(made):
    assert measure(queries="5") == ["flashc", "fa3"]
    assert measure(batch=3, queries="2x1+1x40", lengths="even") == ["flashc", "flashc:calls", "fa3"]
    assert [contender.count for contender in made] == [64] * 5


def test_wrong_rows_of_any_kind_are_noticed():
    """Only the sequences of the first kind are wrong."""
    class Wrong(FakeFA3):
        @staticmethod
        def fwd(it):
            o, lse = FakeFA3.fwd(it)
            o[:2] += 1
            return [o, lse]

    cell = _decode_grid.Cell(3, 48, 4, 2, 16, queries="2x1+1x40")
    row = _decode.measure(cell, {"flashc": {}}, [Wrong()], device="cpu")
    assert row.notes["fa3"].startswith("wrong: relative error ") and row.failed


def test_libraries_that_are_missing_or_other_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(_serving_peers.importlib.util, "find_spec", lambda name: None)
    assert _serving_peers.FlashAttention3().missing() == "no module vllm, and no --fa3"
    assert _serving_peers.FlashInfer.missing() == "no module flashinfer"
    path = tmp_path / "fa3.so"
    assert _serving_peers.FlashAttention3(str(path)).missing() == f"no file {path}"
    path.write_bytes(b"")
    assert _serving_peers.FlashAttention3(str(path)).missing() is None
    with pytest.raises(OSError):
        _serving_peers.FlashAttention3(str(path)).operators()
    with pytest.raises(_peers.Refused, match="expected other arguments than q"):
        _serving_peers._call(operator(None, "k v"), q=1, k=2)


def test_the_library_of_an_installed_vllm_is_found(tmp_path, monkeypatch):
    found = tmp_path / "vllm_flash_attn" / "_vllm_fa3_C.abi3.so"
    found.parent.mkdir()
    found.write_bytes(b"")
    monkeypatch.setattr(_serving_peers.importlib.util, "find_spec",
                        lambda name: types.SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    assert _serving_peers.FlashAttention3().missing() is None
    assert _serving_peers.FlashAttention3()._path() == found
