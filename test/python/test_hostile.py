"""Senseless arguments. Each is refused with a flashc.Error that says why; no other exception may be raised."""
import numpy as np
import pytest

import flashc

S = flashc.ArraySpec((2, 8, 64, 64), "bf16")
Q = np.ones((1, 1, 9, 8), np.float32)
TABLE = np.arange(9, dtype=np.float32)
PAIR = np.array([True, False])


def endless(*positions):
    return endless(*positions)


@pytest.mark.parametrize("call, error, words", [
    (lambda: flashc.compile(S, S, S, schedule=7), flashc.UnsupportedTypeError, "schedule to be text, got 7"),
    (lambda: flashc.attention(Q, Q, Q, schedule=[7]), flashc.UnsupportedTypeError, "schedule to be text"),
    (lambda: flashc.compile(S, S, S, schedule="kv-tile=64\0x"), flashc.ArgumentError, "without the character NUL"),
    (lambda: flashc.compile(S, S, S, target="cpu\0"), flashc.ArgumentError, "target without the character NUL"),
    (lambda: flashc.compile(S, S, S, target=b"cpu"), flashc.UnsupportedTypeError, "target to be text"),
    (lambda: flashc.compile(Q, Q, Q).ir(None), flashc.UnsupportedTypeError, "level to be text, got None"),
    (lambda: flashc.attention(np.ndarray, Q, Q), flashc.UnsupportedTypeError, "got the class numpy.ndarray"),
    (lambda: flashc.attention(Q, flashc.ArraySpec, Q), flashc.UnsupportedTypeError, "got the class flashc"),
    (lambda: flashc.ArraySpec("abcd", "bf16"), flashc.UnsupportedTypeError, "sequence of integers, got 'abcd'"),
    (lambda: flashc.ArraySpec((2, 8, 1.5, 64), "bf16"), flashc.UnsupportedTypeError, "sequence of integers"),
    (lambda: flashc.ArraySpec(3, "bf16"), flashc.UnsupportedTypeError, "sequence of integers, got 3"),
    (lambda: flashc.ArraySpec((2**70,), "bf16"), flashc.ArgumentError, "integers of 64 bits"),
    (lambda: flashc.ArraySpec((2,), "bf16", (0.5,)), flashc.UnsupportedTypeError, "strides to be a sequence"),
    (lambda: flashc.attention(Q, Q, Q, causal=PAIR), flashc.UnsupportedTypeError, "causal to be True or False"),
    (lambda: flashc.attention(Q, Q, Q, enable_gqa=PAIR), flashc.UnsupportedTypeError, "enable_gqa to be True"),
    (lambda: flashc.attention(Q, Q, Q, return_lse=PAIR), flashc.UnsupportedTypeError, "return_lse to be True"),
    (lambda: flashc.compile(Q, Q, Q, static_shapes=PAIR), flashc.UnsupportedTypeError, "static_shapes to be True"),
    (lambda: flashc.attention(Q, Q, Q, window=np.arange(2)), flashc.UnsupportedTypeError, "left side of window"),
    (lambda: flashc.varlen_attention(np.ndarray, Q[0], Q[0], PAIR), flashc.UnsupportedTypeError, "q to be an array"),
    (lambda: flashc.configure(cache_directory=3), flashc.UnsupportedTypeError, "cache_directory to be a path, got 3"),
    (lambda: flashc.configure(cache_directory="a\0b"), flashc.ArgumentError, "cache_directory without the character"),
    (lambda: flashc.explain(Q, Q, Q, png=3), flashc.UnsupportedTypeError, "png to be a path, got 3"),
    (lambda: flashc.explain(Q, Q, Q, png="/nowhere/a.png"), flashc.Error, "cannot write the picture /nowhere/a.png"),
    (lambda: flashc.attention(Q, Q, Q, mask=endless), flashc.TraceError, "test_hostile.py:.*expected the mask to end"),
    (lambda: flashc.attention(Q, Q, Q, score=lambda s, b, h, i, j: s + TABLE[-10]), flashc.TraceError,
     "index 0 from -9 to 8, got -10"),
    (lambda: flashc.attention(Q, Q, Q, mask=lambda b, h, i, j: i.unsqueeze(0) >= j), flashc.TraceError,
     "test_hostile.py:.*leave out unsqueeze"),
])
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_negative_indices_count_from_the_end():
    got = flashc.attention(Q, Q, Q, score=lambda s, b, h, i, j: s * 0 + TABLE[-1] * j, return_lse=True)
    want = flashc.attention(Q, Q, Q, score=lambda s, b, h, i, j: s * 0 + TABLE[8] * j, return_lse=True)
    assert all(np.array_equal(x, y) for x, y in zip(got, want))
