"""Calls of flashc.decode that share lengths, options, mask and score: the results of flashc.decode, with caches that
grow, and nothing stale."""
import pytest

torch = pytest.importorskip("torch")

import flashc  # noqa: E402
from flashc import _decode, _torch_tensors, masks, scores  # noqa: E402
from flashc._decode import SharedDecode  # noqa: E402
from flashc._runtime.options import Options  # noqa: E402

BATCH, HEADS, GROUP, DEPTH = 2, 2, 2, 16
ROWS = [1, 2, 3, 63, 64, 65, 66, 128, 129, 64, 130]


def arrays(rows, tokens=1, depth=DEPTH, dtype=torch.float32):
    q = torch.randn(BATCH, HEADS * GROUP, tokens, DEPTH, dtype=dtype)
    return q, torch.randn(BATCH, HEADS, rows, DEPTH, dtype=dtype), torch.randn(BATCH, HEADS, rows, depth, dtype=dtype)


def lengths_of(rows):
    return torch.tensor([rows, (rows + 1) // 2], dtype=torch.int32)


def check(q, k, v, lengths, mask=None, score=None, sinks=None, window=None, shared=None):
    """Compares a call with flashc.decode; returns what was called."""
    shared = shared or SharedDecode(lengths, Options(False, window, None, 0.0, True), mask, score)
    have = shared(q, k, v, sinks)
    want = flashc.decode(q.contiguous(), k.contiguous(), v.contiguous(), lengths, causal=False, window=window,
                         mask=mask, score=score, sinks=sinks, layout="bhsd")
    assert have.is_contiguous() and torch.equal(have, want.transpose(1, 2))
    return shared


def of_padding(rows):
    padding = torch.rand(BATCH, rows) < 0.7
    return masks.Mask(lambda b, h, i, j: flashc.ops.array(padding)[b, j], "padding")


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("how", [
    lambda rows: {}, lambda rows: {"window": (20, 0)}, lambda rows: {"score": scores.soft_cap(5.0)},
    lambda rows: {"sinks": torch.randn(HEADS * GROUP)}, lambda rows: {"mask": of_padding(rows)},
    lambda rows: {"mask": of_padding(rows), "window": (70, 0), "score": scores.soft_cap(2.0)}])
def test_caches_that_grow(tokens, how):
    for rows in ROWS:
        check(*arrays(rows, tokens, 24), lengths_of(rows), **how(rows))


def test_caches_that_grow_share_a_case(monkeypatch):
    made, case = [], _decode._case
    _decode._grown.clear()
    monkeypatch.setattr(_decode, "_case", lambda *given: made.append(given[0]["k_cache"].shape[2]) or case(*given))
    shared = [SharedDecode(lengths_of(rows), Options(False, None, None, 0.0, True)) for rows in range(1, 131)]
    for rows, one in enumerate(shared, 1):
        one(*arrays(rows))
    assert made == [1, 65, 129]
    flashc.configure(disk_cache=False)  # The kernels of a case end with their context.
    assert _decode._grown == {}


def test_cases_differ_by_all_else():
    """Interleaved calls, each of which needs another kernel or other arguments."""
    def of_half():
        return [x.half() for x in arrays(9)]
    lengths = lengths_of(9)
    for _ in range(2):
        check(*arrays(9), lengths)
        check(*arrays(9, 2), lengths)
        check(*arrays(9, 1, 8), lengths)
        check(*of_half(), lengths)
        check(*arrays(9), lengths, sinks=torch.zeros(HEADS * GROUP))
        q, k, v = arrays(9)
        check(q, k[:, :1], v[:, :1], lengths)
        check(q[:1], k[:1], v[:1], lengths[:1])


def test_caches_with_other_strides(monkeypatch):
    """Parts of larger caches are read where they are; other strides and addresses cost a copy."""
    q, k, v = arrays(40)
    lengths, shared = lengths_of(30), None
    for x, y in ((k[:, :, :30], v[:, :, :30]), (k[:, :, 5:35], v[:, :, 5:35]), (k[:, :, :30], v[:, :, 5:35].clone())):
        shared = check(q, x, y, lengths, shared=shared)
    reversed_dims = [x.transpose(2, 3).contiguous().transpose(2, 3)[:, :, :30] for x in (k, v)]
    check(q, *reversed_dims, lengths, shared=shared)
    memory = torch.randn(k[:, :, :30].numel() + 1)
    moved = memory[1:].view(BATCH, HEADS, 30, DEPTH)  # Its address is no multiple of 16 bytes.
    assert moved.data_ptr() % 16
    check(q, moved.clone(), moved.clone(), lengths, shared=shared)
    copied, suitable = [], _torch_tensors.suitable
    monkeypatch.setattr(_torch_tensors, "suitable", lambda x: copied.append(suitable(x) is not x) or suitable(x))
    check(q, moved, moved.clone(), lengths, shared=shared)
    assert copied[:3] == [False, True, False]
    monkeypatch.undo()
    check(q.transpose(1, 2).contiguous().transpose(1, 2), k[:, :, :30], v[:, :, :30], lengths, shared=shared)


def test_arrays_are_read_by_every_call():
    padding, q, (k, v) = torch.ones(BATCH, 12, dtype=torch.bool), arrays(12)[0], arrays(12)[1:]
    mask = masks.Mask(lambda b, h, i, j: flashc.ops.array(padding)[b, j], "padding")
    lengths = lengths_of(12)
    shared = check(q, k, v, lengths, mask)
    padding[:, 3:] = False
    lengths[1] = 12
    check(q, k, v, lengths, mask, shared=shared)


def test_sinks_of_16_bits_are_converted():
    sinks = torch.randn(HEADS * GROUP).bfloat16()
    q, k, v = [x.bfloat16() for x in arrays(12)]
    check(q, k, v, lengths_of(12), sinks=sinks)
    check(*[x.double() for x in arrays(12)], lengths_of(12), sinks=sinks)
    with pytest.raises(flashc.UnsupportedTypeError, match="expected sinks of"):
        SharedDecode(lengths_of(12), Options(enable_gqa=True))(q, k, v, sinks.int())


def test_what_is_refused():
    shared = SharedDecode(lengths_of(9), Options(False, None, None, 0.0, True))
    q, k, v = arrays(9)
    shared(q, k, v)
    with pytest.raises(flashc.ArgumentError, match="expected k_cache and v_cache of as many rows"):
        shared(q, k, arrays(8)[2])
    with pytest.raises(flashc.ArgumentError, match="expected k_cache of 4 dimensions"):
        shared(q, k[0], v)
    with pytest.raises(flashc.ArgumentError, match="expected lengths from 0 to 8"):
        shared(q, *arrays(8)[1:])
    with pytest.raises(flashc.ArgumentError, match="expected as many heads|heads of q to be a multiple"):
        shared(q[:, :3], k, v)
    mask = of_padding(9)
    with pytest.raises(flashc.ArgumentError, match="expected at least 12 elements in dimension 1"):
        SharedDecode(lengths_of(9), Options(enable_gqa=True), mask)(*arrays(12))


def test_arrays_that_require_gradients_are_refused():
    bias = torch.randn(16, requires_grad=True)
    shared = SharedDecode(lengths_of(9), Options(enable_gqa=True), None, lambda s, b, h, i, j: s + bias[j])
    q, k, v = arrays(9)
    with torch.no_grad():
        shared(q, k, v)
    for _ in range(2):
        with pytest.raises(flashc.Error, match="without gradients"):
            shared(q, k, v)
    with pytest.raises(flashc.Error, match="expected q without gradients"):
        shared(q.requires_grad_(), k, v)
