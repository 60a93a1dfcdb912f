"""Gradients of attention on the CPU with all masks and scores, against the formula in f64, and against difference
quotients of the forward pass in f64, which need no formula."""
import types

import numpy as np
import pytest

import flashc
from flashc import masks
from flashc._runtime import calls
from reference import aligned, attention, attention_backward, inputs
from scores import MASKS, NAMES, NUMPY, by_head, in_groups, make_scores

# Largest error of a gradient, relative to its largest element. With types of 16 bits, P and dX are rounded for the
# products.
TOLERANCE = {"float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}
LENGTHS = [(33, 47), (47, 33), (1, 47), (21, 1)]
NQ, NK, DV = 33, 47, 24


def make_case(rng, b, hq, hk, nq, nk, d, dv=DV, dtype=np.float32, keep=None, score=None, scale=None, has_dlse=True):
    """Returns q, k, v, o, lse, do and dlse."""
    q, k, v = inputs(rng, b, hq, hk, nq, nk, d, dv, dtype)
    with np.errstate(all="ignore"):
        o, lse = attention(q, k, v, keep, score, scale)
    do = rng.standard_normal(o.shape).astype(dtype)
    dlse = rng.standard_normal(lse.shape).astype(np.float32) if has_dlse else None
    return q, k, v, o.astype(dtype), lse.astype(np.float32), do, dlse


def assert_close(got, want, arrays, dtype="float32"):
    """Checks that gradients have the shapes and the type of q, k and v, are close, and are 0 where a query sees
    nothing."""
    for x, y, like in zip(got, want, arrays):
        assert x.shape == like.shape and x.dtype == like.dtype
        x = x.astype(np.float64)
        assert np.abs(x - y).max(initial=0) <= TOLERANCE[dtype] * (1 + np.abs(y).max(initial=0))
    assert np.all(got[0][np.isinf(arrays[4])] == 0)


def check(case, keep=None, score=None, scale=None, **keywords):
    """`keep` is the mask of the reference, and `keywords` are for flashc. For a mask array that is added to scores,
    `score` is only for the reference."""
    *arrays, dlse = case
    if not isinstance(keywords.get("mask"), np.ndarray):
        keywords["score"] = score
    got = flashc.attention_backward(*arrays, dlse=dlse, scale=scale, enable_gqa=True, **keywords)
    with np.errstate(all="ignore"):
        want = attention_backward(*arrays, dlse, keep, score, scale)
    assert_close(got, want, arrays, arrays[0].dtype.name)


# --- Masks and scores -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("nq, nk", LENGTHS)
@pytest.mark.parametrize("d, dtype, has_dlse", [(8, "float32", False), (40, "float32", True), (40, "float16", True)])
def test_plain(rng, nq, nk, d, dtype, has_dlse):
    check(make_case(rng, 2, 4, 1, nq, nk, d, dtype=dtype, has_dlse=has_dlse))


@pytest.mark.parametrize("keywords, left, right", [(dict(causal=True), None, 0), (dict(window=(5, 3)), 5, 3),
                                                   (dict(window=4, causal=True), 4, 0)])
@pytest.mark.parametrize("nq, nk", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_window(rng, keywords, left, right, nq, nk, dtype):
    """With more queries than keys, the first queries see no key."""
    keep = aligned(nq, nk, left, right)
    case = make_case(rng, 2, 4, 2, nq, nk, 8, 40, dtype, keep)
    assert np.isinf(case[4]).any() == (nq > nk)
    check(case, keep, **keywords)


OFFSETS, KEY_OFFSETS = np.array([0, 9, 9, 20, NQ]), np.array([0, 20, 23, 23, NK])
IDS = np.sort(np.random.default_rng(0).integers(0, 5, NK)).astype(np.int32)
ALL_MASKS = {
    "block_causal": masks.block_causal(16, "top-left"),
    "block_diffusion": masks.block_diffusion(16, 8),
    "causal": masks.causal(3),
    "chunked": masks.chunked(13, "top-left"),
    "dilated_window": masks.dilated_window(20, 3, 7, "top-left"),
    "documents": masks.documents(IDS, sorted=True),
    "key_padding": masks.key_padding(np.array([40, 5])),
    "neighborhood": masks.neighborhood(NQ, 9),
    "packed": masks.packed(OFFSETS, KEY_OFFSETS, causal=True),
    "prefix_lm": masks.prefix_lm(10, "top-left"),
    "shared_prefix": masks.shared_prefix(5, IDS, "top-left"),
    "sink_window": masks.sink_window(2, 9, "top-left"),
    "sliding_window": masks.sliding_window(9, 3, "top-left"),
}


def test_there_are_all_masks():
    assert set(ALL_MASKS) == set(masks.__all__) - {"Mask"}


@pytest.mark.parametrize("number, name", list(enumerate(ALL_MASKS)))
def test_mask(rng, number, name):
    mask, d = ALL_MASKS[name], (8, 40)[number % 2]
    check(make_case(rng, 2, 4, 1, NQ, NK, d, keep=mask), mask, mask=mask)


@pytest.mark.parametrize("number, names", list(enumerate(in_groups(NAMES))))
def test_scores(rng, number, names):
    """Every second group of scores has a mask, and each score is used in two heads."""
    (nq, nk), mask = LENGTHS[number % 2], list(MASKS.values())[number % len(MASKS)] if number % 2 else None
    b, hq, hk = 2, 2 * len(names), (1, 2)[number % 2]
    made = make_scores(NUMPY, lambda x: x, rng, b, hq, nq, nk)
    score = by_head([made[name] for name in names])
    check(make_case(rng, b, hq, hk, nq, nk, 8, keep=mask, score=score), mask, score, mask=mask)


@pytest.mark.parametrize("name", MASKS)
def test_mask_of_code(rng, name):
    mask = MASKS[name]
    check(make_case(rng, 2, 4, 1, 130, 150, 8, keep=mask), mask, mask=mask)


def test_arrays_as_masks(rng):
    bias, kept = rng.standard_normal((4, 1, NK)).astype(np.float32), rng.random((2, 1, NQ, NK)) < 0.3
    kept[:, :, ::7] = False
    score = lambda s, b, h, i, j: s + bias  # noqa: E731
    check(make_case(rng, 2, 4, 1, NQ, NK, 8, score=score), None, score, mask=bias)
    keep = lambda b, h, i, j: kept  # noqa: E731
    check(make_case(rng, 2, 4, 1, NQ, NK, 8, keep=keep), keep, mask=kept)


@pytest.mark.parametrize("scale", [0.25, -0.3, 0])
def test_scale(rng, scale):
    check(make_case(rng, 1, 2, 2, 9, NK, 8, scale=scale), scale=scale)


def test_no_query_sees_a_key(rng):
    """If no query sees a key, gradients are 0, whatever the scores, o and do are."""
    q, k, v, o, lse, do, _ = make_case(rng, 1, 2, 1, NQ, NK, 8)
    got = flashc.attention_backward(q * 1e30, k, v, o, np.full_like(lse, -np.inf), do, enable_gqa=True)
    assert all(np.all(x == 0) for x in got)


# --- Differences of the forward pass ----------------------------------------------------------------------------------

SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
SCORES = {"plain": None, "soft cap": lambda s, b, h, i, j: 3 * np.tanh(s / 3),
          "alibi": lambda s, b, h, i, j: s + SLOPES[h] * (j - i)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("nq, nk", LENGTHS[:2])
def test_against_differences(rng, causal, name, nq, nk):
    """Tests the gradient of sum(do * o) + sum(dlse * lse) along a random direction."""
    score, keep = SCORES[name], aligned(nq, nk, right=0) if causal else None
    q, k, v, o, lse, do, dlse = make_case(rng, 2, 4, 1, nq, nk, 8, keep=keep, score=score)
    directions = [rng.standard_normal(x.shape) for x in (q, k, v)]

    def loss(step):
        moved = [x + step * direction for x, direction in zip((q, k, v), directions)]
        o, lse = attention(*moved, keep, score)
        return (do * o).sum() + (dlse * np.where(np.isinf(lse), 0, lse)).sum()
    got = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, causal=causal, score=score, enable_gqa=True)
    terms = [x.astype(np.float64) * direction for x, direction in zip(got, directions)]
    want = (loss(1e-4) - loss(-1e-4)) / 2e-4
    assert abs(sum(x.sum() for x in terms) - want) <= 1e-5 * sum(np.linalg.norm(x) for x in terms)


# --- Arrays -----------------------------------------------------------------------------------------------------------

def test_layout(rng):
    keep = aligned(19, 23, right=0)
    case = make_case(rng, 2, 4, 2, 19, 23, 16, 8, keep=keep)
    want = attention_backward(*case, keep)
    q, k, v, o, lse, do, dlse = (np.ascontiguousarray(x.swapaxes(1, 2)) if x.ndim == 4 else x for x in case)
    got = flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, causal=True, enable_gqa=True, layout="bshd",
                                    static_shapes=True)
    assert all(x.shape == y.shape for x, y in zip(got, (q, k, v)))
    assert_close([x.swapaxes(1, 2) for x in got], want, case)


def test_strides(rng):
    """q, k and v are slices of one array [B, N, 3, H, D], seen as [B, H, N, D]. The results have the same order in
    memory."""
    qkv = rng.standard_normal((2, 31, 3, 4, 16)).astype(np.float32)
    q, k, v = (qkv[:, :, part].swapaxes(1, 2) for part in range(3))
    k, v = k[:, ::-1], v[:, ::-1]
    o, lse = flashc.attention(q, k, v, return_lse=True)
    do = rng.standard_normal(o.shape).astype(np.float32)
    got = flashc.attention_backward(q, k, v, o, lse, do)
    assert_close(got, attention_backward(q, k, v, o, lse, do), (q, k, v, o, lse))
    assert got[0].swapaxes(1, 2).flags.c_contiguous


def test_out(rng):
    case = make_case(rng, 2, 4, 1, NQ, NK, 8)
    *arrays, dlse = case
    dq = np.full((2, 4, NQ, 12), np.nan, np.float32)[..., :8]
    dv = np.full((2, NK, 1, DV), np.nan, np.float32).swapaxes(1, 2)
    got = flashc.attention_backward(*arrays, dlse=dlse, enable_gqa=True, out=(dq, None, dv))
    assert got[0] is dq and got[2] is dv
    assert_close(got, attention_backward(*case), arrays)


class Bits:
    """An array of bf16, which NumPy lacks."""
    dtype = "bfloat16"

    def __init__(self, x):
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        self.bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        self.__array_interface__ = {**self.bits.__array_interface__, "typestr": "<V2"}

    def get(self):
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("d", [8, 40])
def test_bfloat16(rng, d):
    """Tests arrays of a framework that cannot allocate, so results go to `out`."""
    keep = aligned(NQ, NK, right=0)
    q, k, v, o, lse, do, dlse = make_case(rng, 1, 4, 1, NQ, NK, d, keep=keep)
    q, k, v, o, do = map(Bits, (q, k, v, o, do))
    out = [Bits(np.full(x.bits.shape, np.nan)) for x in (q, k, v)]
    flashc.attention_backward(q, k, v, o, lse, do, dlse=dlse, causal=True, enable_gqa=True, out=out)
    want = attention_backward(*(x.get() for x in (q, k, v, o)), lse, do.get(), dlse, keep)
    assert_close([x.get() for x in out], want, [*(x.get() for x in (q, k, v, o)), lse], "bfloat16")


@pytest.mark.parametrize("nq, nk", [(0, 7), (7, 0), (0, 0)])
def test_no_elements(rng, nq, nk):
    q, k, v = inputs(rng, 1, 2, 2, nq, nk, 8, 16)
    o = np.zeros((1, 2, nq, 16), np.float32)
    got = flashc.attention_backward(q, k, v, o, np.full((1, 2, nq), -np.inf, np.float32), o)
    assert all(x.shape == y.shape and np.all(x == 0) for x, y in zip(got, (q, k, v)))


# --- Refusals ---------------------------------------------------------------------------------------------------------

def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def make_arguments():
    return dict(q=zeros(1, 2, 5, 8), k=zeros(1, 2, 7, 8), v=zeros(1, 2, 7, 16), o=zeros(1, 2, 5, 16),
                lse=zeros(1, 2, 5), do=zeros(1, 2, 5, 16))


def read_only(x):
    x.flags.writeable = False
    return x


OUT = zeros(1, 2, 5, 8), zeros(1, 2, 7, 8), zeros(1, 2, 7, 16)


@pytest.mark.parametrize("change, error, words", [
    (dict(k=zeros(1, 2, 7, 16)), flashc.ArgumentError, "q and k of one head dimension D"),
    (dict(k=zeros(1, 1, 7, 8), v=zeros(1, 1, 7, 16)), flashc.ArgumentError, "as many heads in k and v as in q"),
    (dict(v=zeros(1, 2, 6, 16)), flashc.ArgumentError, "k and v of one length Nk"),
    (dict(v=zeros(1, 2, 7, 16, dtype=np.float16)), flashc.UnsupportedTypeError, "q, k and v of one element type"),
    (dict(o=zeros(1, 2, 5, 8)), flashc.ArgumentError, r"o of shape \[B, Hq, Nq, Dv\] = \[1, 2, 5, 16\], got"),
    (dict(o=zeros(1, 2, 5, 16, dtype=np.float16)), flashc.UnsupportedTypeError, "o of f32, got f16"),
    (dict(do=zeros(1, 2, 16, 5)), flashc.ArgumentError, r"do of shape \[B, Hq, Nq, Dv\] = \[1, 2, 5, 16\], got"),
    (dict(do=zeros(1, 2, 5, 16, dtype=np.float16)), flashc.UnsupportedTypeError, "do of f32, got f16"),
    (dict(do=zeros(1, 2, 16, 5).swapaxes(2, 3)), flashc.ArgumentError, "last dimension of do to be contiguous"),
    (dict(do=3.0), flashc.UnsupportedTypeError, "expected an array"),
    (dict(lse=zeros(1, 2, 6)), flashc.ArgumentError, r"lse of shape \[B, Hq, Nq\] = \[1, 2, 5\]"),
    (dict(lse=zeros(1, 2, 5, dtype=np.float16)), flashc.UnsupportedTypeError, "lse of f32, got f16"),
    (dict(dlse=zeros(1, 2, 5, 1)), flashc.ArgumentError, r"dlse of shape \[B, Hq, Nq\] = \[1, 2, 5\]"),
    (dict(dlse=zeros(1, 2, 5, dtype=np.float16)), flashc.UnsupportedTypeError, "dlse of f32, got f16"),
    (dict(dlse=zeros(1, 2, 10)[:, :, ::2]), flashc.ArgumentError, "last dimension of dlse"),
    (dict(layout="bsdh"), flashc.ArgumentError, "expected layout 'bhsd'"),
    (dict(layout="bshd", enable_gqa=True), flashc.ArgumentError, "heads|length"),
    (dict(scale=np.inf), flashc.ArgumentError, "a finite scale"),
    (dict(deterministic=zeros(2)), flashc.UnsupportedTypeError, "deterministic to be True or False"),
    (dict(window=(1, 2, 3)), flashc.ArgumentError, "window to be"),
    (dict(mask=zeros(3, 3)), flashc.ArgumentError, "mask that broadcasts to"),
    (dict(score=lambda s, b, h, i, j: s + OUT[0][j]), flashc.Error, "expected"),
    (dict(out=OUT[0]), flashc.ArgumentError, r"out to be \(dq, dk, dv\), got <class 'numpy.ndarray'>"),
    (dict(out=OUT[:2]), flashc.ArgumentError, r"out to be \(dq, dk, dv\), got 2 arrays"),
    (dict(out=(OUT[0], OUT[0], OUT[2])), flashc.ArgumentError, r"out\[1\] \(dk\) of shape \(1, 2, 7, 8\)"),
    (dict(out=(*OUT[:2], OUT[2].astype("f2"))), flashc.UnsupportedTypeError, r"out\[2\] \(dv\) of f32, got f16"),
    (dict(out=(read_only(OUT[0].copy()), *OUT[1:])), flashc.ArgumentError, r"out\[0\] \(dq\) to be an array that can"),
    (dict(out=(np.broadcast_to(zeros(8), (1, 2, 5, 8)), *OUT[1:])), flashc.ArgumentError, r"out\[0\] \(dq\)"),
])
def test_refusals(change, error, words):
    with pytest.raises(error, match=words):
        flashc.attention_backward(**make_arguments() | change)


@pytest.mark.parametrize("deterministic", [False, True])
def test_order_of_sums(rng, deterministic):
    arguments = {name: rng.standard_normal(x.shape).astype(np.float32) for name, x in make_arguments().items()}
    first, again = (flashc.attention_backward(**arguments, deterministic=deterministic) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(first, again))


def test_out_apart_from_all_else(rng):
    arguments = make_arguments()
    table = zeros(1, 2, 7, 8)
    memory = zeros(1, 2, 12, 8)
    for change, words in ((dict(out=(arguments["q"], None, None)), r"out\[0\] \(dq\) to be apart from q"),
                          (dict(out=(None, None, arguments["v"])), r"out\[2\] \(dv\) to be apart from v"),
                          (dict(v=zeros(1, 2, 7, 8), o=memory[:, :, :5], do=zeros(1, 2, 5, 8),
                                out=(None, memory[:, :, 4:11], None)), r"out\[1\] \(dk\) to be apart from o"),
                          (dict(out=(memory[:, :, :5], memory[:, :, 4:11], None)),
                           r"out\[1\] \(dk\) to be apart from out\[0\] \(dq\)"),
                          (dict(out=(None, table, None), score=lambda s, b, h, i, j: s + table[b, h, j, 0]),
                           r"out\[1\] \(dk\) to be apart from an array that the mask or the score reads")):
        with pytest.raises(flashc.ArgumentError, match=words):
            flashc.attention_backward(**arguments | change)


def test_arrays_on_a_gpu():
    """Arrays on several devices are refused before CUDA is called."""
    def on_gpu(x):
        interface = {**x.__array_interface__, "version": 3, "stream": None}
        return types.SimpleNamespace(__cuda_array_interface__=interface, device=types.SimpleNamespace(id=3))
    arguments = make_arguments()
    with pytest.raises(flashc.ArgumentError, match="one device"):
        flashc.attention_backward(**arguments | dict(k=on_gpu(arguments["k"])))
    with pytest.raises(flashc.ArgumentError, match="do on the CPU, where q is"):
        flashc.attention_backward(**arguments | dict(do=on_gpu(arguments["do"])))


def test_gradients_of_gradients(monkeypatch):
    """Gradients of gradients do not exist: an input that requires a gradient is refused while gradients are
    recorded."""
    class Recorded(np.ndarray):
        requires_grad = True
    arguments = make_arguments() | dict(dlse=zeros(1, 2, 5))
    bias, table = zeros(5, 7).view(Recorded), zeros(7).view(Recorded)
    changes = [(name, {name: x.view(Recorded)}) for name, x in arguments.items()]
    changes += [("an array that the mask or the score reads", change)
                for change in (dict(mask=bias), dict(score=lambda s, b, h, i, j: s + table[j]))]
    monkeypatch.setattr(calls, "records_gradients", lambda: False)
    for name, change in changes:
        flashc.attention_backward(**arguments | change)
    monkeypatch.setattr(calls, "records_gradients", lambda: True)
    for name, change in changes:
        with pytest.raises(flashc.Error, match=f"expected {name} without gradients"):
            flashc.attention_backward(**arguments | change)
