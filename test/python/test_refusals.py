"""Arguments of flashc.attention that no kernel supports, each with the words of its exception."""
import numpy as np
import pytest

import flashc
from test_arrays import on_gpu

ARGUMENT, TYPE = flashc.ArgumentError, flashc.UnsupportedTypeError


def ones(*shape, dtype="f4"):
    return np.ones(shape, dtype)


Q = ones(2, 4, 5, 16)
K = ones(2, 4, 7, 16)


@pytest.mark.parametrize("q, k, v, error, words", [
    (ones(4, 5, 16), K, K, ARGUMENT, r"expected q of 4 dimensions \[B, H, N, D\], got shape \(4, 5, 16\)"),
    (Q, ones(2, 4, 7, 16, 1), K, ARGUMENT, "expected k of 4 dimensions"),
    (Q, K, ones(16), ARGUMENT, "expected v of 4 dimensions"),
    (Q, ones(3, 4, 7, 16), ones(3, 4, 7, 16), ARGUMENT, r"q and k of one batch B, got q \(2, 4, 5, 16\), k \(3, 4"),
    (Q, K, ones(1, 4, 7, 16), ARGUMENT, "k and v of one batch B"),
    (Q, K, ones(2, 2, 7, 16), ARGUMENT, "k and v of one number of heads Hk"),
    (Q, K, ones(2, 4, 8, 16), ARGUMENT, "k and v of one length Nk"),
    (Q, ones(2, 4, 7, 8), K, ARGUMENT, "q and k of one head dimension D"),
    (Q, ones(2, 2, 7, 16), ones(2, 2, 7, 16), ARGUMENT, "unless enable_gqa=True"),
    (ones(2, 4, 5, 0), ones(2, 4, 7, 0), K, ARGUMENT, "head dimensions of at least 1"),
    (Q, K, ones(2, 4, 7, 0), ARGUMENT, "head dimensions of at least 1"),
    (Q, ones(2, 4, 7, 16, dtype="f2"), K, TYPE, "one element type, got q of f32 and k of f16"),
    (Q, K, ones(2, 4, 7, 16, dtype="f2"), TYPE, "one element type, got q of f32 and v of f16"),
    (Q.astype("i4"), K.astype("i4"), K.astype("i4"), TYPE, "got int32"),
    (Q.astype("c8"), K, K, TYPE, "got complex64"),
    (Q.astype(">f4"), K, K, TYPE, "byte order"),
    (ones(2, 4, 5, 32)[..., ::2], K, K, ARGUMENT, "last dimension of q to be contiguous .stride 1., got stride 2"),
    (Q, K[..., ::-1], K, ARGUMENT, "last dimension of k to be contiguous .stride 1., got stride -1"),
    (Q, K, ones(2, 4, 16, 7).swapaxes(2, 3), ARGUMENT, "last dimension of v to be contiguous .stride 1., got stride 7"),
    ([1, 2, 3], K, K, TYPE, "^q: expected an array .*, got builtins.list"),
    (Q, None, K, TYPE, "^k: expected an array .*, got builtins.NoneType"),
    (Q, on_gpu(K), K, ARGUMENT, "on one device, got q on the CPU and k on GPU 3"),
    (on_gpu(Q), on_gpu(K), K, ARGUMENT, "on one device, got q on GPU 3 and v on the CPU"),
    (on_gpu(Q), on_gpu(K), on_gpu(K), TYPE, "bf16 or f16 on a GPU, got f32"),
    (on_gpu(Q.astype("f8")), on_gpu(K.astype("f8")), on_gpu(K.astype("f8")), TYPE, "got f64"),
    (flashc.ArraySpec((2, 4, 5, 16), "f32"), K, K, ARGUMENT, "with elements in memory"),
])
def test_arrays(q, k, v, error, words):
    with pytest.raises(error, match=words):
        flashc.attention(q, k, v)


STRANGE = {"a number": 3, "text": "x", "a class": np.ndarray, "complex numbers": ones(2, dtype="c8"),
           "another byte order": ones(2, dtype=">f4")}
NAMED = {
    "sinks": lambda x: flashc.attention(Q, K, K, sinks=x), "mask": lambda x: flashc.attention(Q, K, K, mask=x),
    "out": lambda x: flashc.attention(Q, K, K, out=x), "lse": lambda x: flashc.column_sums(Q, K, x),
    "lengths": lambda x: flashc.decode(K, K, K, x), "v_cache": lambda x: flashc.decode(K, K, x, [1, 1]),
    "positions": lambda x: flashc.append_kv(K.copy(), K.copy(), Q[:, :, :0], Q[:, :, :0], positions=x),
    "k_scale": lambda x: flashc.decode(K, K.astype("i1"), K.astype("i1"), [1, 1], k_scale=x, v_scale=ones(1)),
    "q": lambda x: flashc.decode(x, K, K, [1, 1]), "o": lambda x: flashc.merge_states([x, x], ones(2, 2, 4, 5)),
    "table": lambda x: flashc.attention(Q, K, K, score=flashc.scores.relative_bias(x)),
    "captured": lambda captured: flashc.attention(Q, K, K, score=lambda s, b, h, i, j: s + captured[h]),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_strange_array_is_named(name):
    for kind, x in STRANGE.items():
        if name == "captured" and kind in ("a number", "text", "a class") or name == "mask" and kind == "a class":
            continue  # A score may refer to anything, and a mask may be any function.
        with pytest.raises((ARGUMENT, TYPE), match=rf"\b{name}\b"):
            NAMED[name](x)


def test_strides_within_elements():
    raw = np.zeros(4096, np.uint8)
    q = np.ndarray((1, 2, 5, 8), np.float32, raw, 0, (400, 190, 33, 4))
    with pytest.raises(ARGUMENT, match="strides of whole elements of 4 bytes"):
        flashc.attention(q, q, q)


@pytest.mark.parametrize("keywords, error, words", [
    ({"layout": "sbhd"}, ARGUMENT, "expected layout 'bhsd' .* or 'bshd' .*, got 'sbhd'"),
    ({"layout": None}, ARGUMENT, "got None"),
    ({"scale": float("nan")}, ARGUMENT, "expected a finite scale of 32 bits, got nan"),
    ({"scale": float("inf")}, ARGUMENT, "got inf"),
    ({"scale": 1e39}, ARGUMENT, r"got 1e\+39"),
    ({"scale": 10**400}, ARGUMENT, "got inf"),
    ({"scale": "1"}, TYPE, "expected scale to be a number or None, got .1."),
    ({"scale": True}, TYPE, "expected scale to be a number or None, got True"),
    ({"scale": "one"}, TYPE, "expected scale to be a number or None, got 'one'"),
    ({"window": (1, 2, 3)}, ARGUMENT, r"window to be \(left, right\), got \(1, 2, 3\)"),
    ({"window": 1.5}, TYPE, "left side of window to be an integer or None, got 1.5"),
    ({"window": (1, True)}, TYPE, "right side of window .*, got True"),
    ({"schedule": 3}, TYPE, "schedule to be text"),
    ({"mask": np.ones((3, 7), bool)}, ARGUMENT, r"\[B, Hq, Nq, Nk\] = \[2, 4, 5, 7\], got shape \(3, 7\)"),
    ({"mask": np.ones((1, 2, 4, 5, 7), bool)}, ARGUMENT, "broadcasts to"),
    ({"mask": np.ones((5, 7), "i4")}, TYPE, "mask of bool .*, got int32"),
    ({"mask": np.ones((5, 7), "i1")}, TYPE, "mask of bool .*, got int8"),
    ({"mask": "causal"}, TYPE, "expected an array"),
    ({"mask": on_gpu(np.ones((5, 7), bool))}, ARGUMENT, "expected the mask on the CPU, where q is, got one on GPU 3"),
    ({"score": 3}, TYPE, "expected score to be a function"),
    ({"out": ones(2, 4, 5, 8)}, ARGUMENT, r"expected out of shape \(2, 4, 5, 16\), got \(2, 4, 5, 8\)"),
    ({"out": ones(2, 4, 5, 16, dtype="f2")}, TYPE, "expected out of f32, got f16"),
    ({"out": on_gpu(Q)}, ARGUMENT, "expected out on the CPU, where q is, got one on GPU 3"),
    ({"out": Q}, ARGUMENT, "expected out to be apart from q"),
    ({"out": ones(2, 4, 5, 32)[..., ::2]}, ARGUMENT, "last dimension of out to be contiguous"),
    ({"out": np.broadcast_to(ones(16), (2, 4, 5, 16))}, ARGUMENT, "out to be an array that can be written"),
    ({"out": (ones(2, 4, 5, 16), ones(2, 5, 4))}, ARGUMENT, r"out\[1\] \(lse\) of shape \(2, 4, 5\), got \(2, 5, 4\)"),
    ({"out": (ones(2, 4, 5, 16), ones(2, 4, 5, dtype="f8"))}, TYPE, "of f32, got f64"),
    ({"out": (ones(2, 4, 5, 16),)}, ARGUMENT, r"expected out to be o or \(o, lse\), got 1 arrays"),
    ({"out": [ones(2, 4, 5, 16)] * 3, "return_lse": True}, ARGUMENT, "got 3 arrays"),
])
def test_options(keywords, error, words):
    if error is None:
        flashc.attention(Q, K, K, **keywords)
        return
    with pytest.raises(error, match=words):
        flashc.attention(Q, K, K, **keywords)


def test_arrays_without_memory():
    spec = flashc.ArraySpec((2, 4, 7, 16), "f32")
    table = flashc.ArraySpec((7,), "f32")
    for arguments, keywords, words in (((Q, spec, K), {}, "k with elements in memory"),
                                       ((spec, K, K), {"out": ones(2, 4, 7, 16)}, "q with elements in memory"),
                                       ((Q, K, K), {"mask": table}, "mask with elements in memory"),
                                       ((Q, K, K), {"mask": lambda b, h, i, j: table[j] > 0}, "captured array with"),
                                       ((K, K, K), {"out": spec}, "out with elements in memory")):
        with pytest.raises(ARGUMENT, match=words):
            flashc.attention(*arguments, **keywords)
    with pytest.raises(ARGUMENT, match="k with elements in memory"):
        flashc.compile(K, K, K)(K, spec, K)


def test_out_that_overlaps_itself():
    base = ones(16)
    out = np.lib.stride_tricks.as_strided(base, (2, 4, 5, 16), (0, 0, 0, 4))
    with pytest.raises(ARGUMENT, match="elements of its own everywhere"):
        flashc.attention(Q, K, K, out=out)


def test_heads_that_do_not_divide():
    with pytest.raises(ARGUMENT, match="multiple of those of k and v"):
        flashc.attention(Q, ones(2, 3, 7, 16), ones(2, 3, 7, 16), enable_gqa=True)
    with pytest.raises(ARGUMENT, match="multiple of those of k and v"):
        flashc.attention(ones(2, 2, 5, 16), K, K, enable_gqa=True)


def test_shapes_are_checked_after_the_first_call_too():
    flashc.attention(Q, K, K)
    flashc.attention(Q, K, K, enable_gqa=True)
    with pytest.raises(ARGUMENT, match="one length Nk"):
        flashc.attention(Q, K, ones(2, 4, 9, 16))
    with pytest.raises(ARGUMENT, match="one batch B"):
        flashc.attention(Q, K[:1], K[:1])
    with pytest.raises(ARGUMENT, match="enable_gqa=True"):
        flashc.attention(Q, K[:, :2], K[:, :2])
    flashc.attention(Q, K, K)


def test_no_elements_are_checked_too():
    with pytest.raises(ARGUMENT, match="one batch B"):
        flashc.attention(Q[:0], K, K)
    with pytest.raises(ARGUMENT, match="one length Nk"):
        flashc.attention(Q, K[:, :, :0], K)
    with pytest.raises(ARGUMENT, match="finite scale"):
        flashc.attention(Q[:, :, :0], K, K, scale=float("nan"))


def test_the_compiler_speaks():
    """Problems that only the compiler knows are reported in its own words."""
    spec = flashc.ArraySpec((1, 1, 64, 64), "bf16")
    with pytest.raises(flashc.CompileError, match="kv-tile"):
        flashc.compile(spec, spec, spec, schedule="kv-tile=7")


def test_head_dimensions():
    for d, dv, dtype, target in ((20, 64, "bf16", None), (64, 264, "f16", None), (20, 64, "f16", "cpu")):
        q, v = flashc.ArraySpec((1, 1, 64, d), dtype), flashc.ArraySpec((1, 1, 64, dv), dtype)
        with pytest.raises(ARGUMENT, match=f"multiples of 8 from 8 to 256, got {d} and {dv}"):
            flashc.compile(q, q, v, target=target)
    with pytest.raises(ARGUMENT, match="at most 256, got 257 and 257"):
        flashc.attention(*[ones(1, 1, 2, 257)] * 3)
    assert flashc.attention(*[ones(1, 1, 2, 5)] * 2, ones(1, 1, 2, 3)).shape == (1, 1, 2, 3)


def test_exceptions_are_pythons_too():
    assert issubclass(ARGUMENT, ValueError) and issubclass(TYPE, TypeError)
    for kind in (ARGUMENT, TYPE, flashc.CompileError, flashc.GPUError, flashc.TraceError):
        assert issubclass(kind, flashc.Error)
    assert issubclass(flashc.Error, RuntimeError)
