"""Calls with wrong arguments: keywords of other libraries, typos, nonsense of any type. Each raises a flashc.Error that
says what to write."""
import functools
import inspect
import re

import numpy as np
import pytest

import flashc
from flashc import masks

Q = np.random.default_rng().standard_normal((1, 2, 4, 16)).astype(np.float32)
LSE, PACKED, CACHE = np.zeros((1, 2, 4), np.float32), Q[0].swapaxes(0, 1).copy(), np.zeros((1, 8, 2, 16), np.float32)
OFFSETS, LENGTHS = np.array([0, 4], np.int32), np.array([8], np.int32)
TOKEN = CACHE[:, :1].copy()


def sees(b, h, i, j):
    return j <= i


#: The public functions, each with the arguments that it needs.
CALLS = {
    "attention": dict(q=Q, k=Q, v=Q), "compile": dict(q=Q, k=Q, v=Q), "explain": dict(q=Q, k=Q, v=Q),
    "varlen_attention": dict(q=PACKED, k=PACKED, v=PACKED, cu_seqlens_q=OFFSETS, cu_seqlens_k=OFFSETS.copy()),
    "decode": dict(q=TOKEN, k_cache=CACHE, v_cache=CACHE.copy(), lengths=LENGTHS),
    "attention_backward": dict(q=Q, k=Q, v=Q, o=Q, lse=LSE, do=Q), "column_sums": dict(q=Q, k=Q, lse=LSE),
    "merge_states": dict(o=Q[None], lse=LSE[None]),
    "append_kv": dict(k_cache=CACHE.copy(), v_cache=CACHE.copy(), k=TOKEN, v=TOKEN, positions=LENGTHS - 1),
    "plan_mask": dict(mask=sees), "dropout_mask": dict(shape=(1, 1, 2, 2), dropout_p=0.5, philox=(1, 2)),
    "assume_sorted": dict(array=OFFSETS), "configure": {},
    "masks.causal": {}, "masks.sliding_window": dict(left=3), "masks.prefix_lm": dict(prefix=3),
    "masks.chunked": dict(size=3), "masks.block_causal": dict(size=3), "masks.sink_window": dict(sinks=1, left=3),
    "masks.dilated_window": dict(left=4, dilation=2), "masks.key_padding": dict(lengths=3),
    "masks.block_diffusion": dict(length=4, size=2), "masks.documents": dict(ids=OFFSETS),
    "masks.shared_prefix": dict(prefix=1, ids=2), "masks.packed": dict(offsets=OFFSETS),
    "masks.neighborhood": dict(shape=9, kernel_size=3), "scores.alibi": dict(slopes=2),
    "scores.soft_cap": dict(cap=3), "scores.relative_bias": dict(table=np.zeros((32, 2), np.float32)),
}


def find(name):
    return functools.reduce(getattr, name.split("."), flashc)


# --- Keywords ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, keyword, words", [
    ("attention", "is_causal", "write causal=True; it aligns the last query with the last key"),
    ("attention", "attn_mask", "write mask=..., an array or a function"),
    ("attention", "attn_bias", "write mask=..., an array of numbers that are added"),
    ("attention", "key_padding_mask", r"write mask=flashc.masks.key_padding\(lengths\)"),
    ("attention", "block_mask", "write mask="), ("attention", "score_mod", "write score="),
    ("attention", "softmax_scale", "write scale="), ("attention", "sm_scale", "write scale="),
    ("attention", "window_size", r"write window=\(left, right\)"), ("attention", "dropout", "write dropout_p="),
    ("attention", "softcap", r"write score=flashc\.scores\.soft_cap\(cap\)"),
    ("attention", "alibi_slopes", r"write score=flashc\.scores\.alibi\(slopes, symmetric=True\)"),
    ("attention", "query", "write q="), ("attention", "s_aux", "write sinks="),
    ("attention", "return_softmax_lse", "write return_lse=True"),
    ("varlen_attention", "cu_seqlens", "write cu_seqlens_q="), ("varlen_attention", "softcap", "soft_cap"),
    ("decode", "cache_seqlens", "write lengths="), ("decode", "page_table", "write block_table="),
    ("decode", "k", "flashc.append_kv writes"), ("decode", "num_splits", "write splits="),
    ("append_kv", "cache_seqlens", "write positions="), ("append_kv", "rotary_cos", "write rotary="),
    ("attention_backward", "dout", "write do="), ("column_sums", "is_causal", "write causal="),
    ("compile", "score_mod", "write score="), ("explain", "is_causal", "write causal="),
    ("masks.sliding_window", "window_size", "write left="),
    # Misspelled keywords, for which the most similar one is suggested.
    ("attention", "cusal", "write causal="), ("attention", "Causal", "write causal="),
    ("attention", "maks", "write mask="),
    ("decode", "block_tabel", "write block_table="), ("masks.causal", "alignment", "write align="),
    ("plan_mask", "qlen", "write q_len="), ("merge_states", "sink", "write sinks="),
    # No similar word: all keywords are listed. The names of other functions here, and of other libraries, are no typos.
    ("masks.chunked", "zzz", "it has size, align"), ("attention", "k_scale", "it has q, k, v"),
    ("attention", "k_descale", "it has q, k, v"), ("varlen_attention", "layout", "it has q, k, v"),
    ("decode", "dropout", "it has q, k_cache"), ("attention_backward", "op", "it has q, k, v"),
    ("scores.alibi", "slope", "write slopes="), ("masks.neighborhood", "kernel", "write kernel_size="),
])
def test_keywords_are_answered_with_the_name_here(name, keyword, words):
    place = "" if words[:2] in ("wr", "it") else ".*"
    with pytest.raises(flashc.ArgumentError,
                       match=rf"expected an argument of flashc\.{re.escape(name)}, got {keyword}=: "
                       rf"{place}{words}"):
        find(name)(**CALLS[name], **{keyword: None})


@pytest.mark.parametrize("call, words",
                         [(lambda: flashc.attention(Q, Q), r"expected v in a call of flashc\.attention"),
                          (lambda: flashc.merge_states(), r"expected o and lse in a call of flashc\.merge_states"),
                          (lambda: flashc.attention(Q, Q, Q, None, True),
                           r"expected flashc\.attention\(q, k, v\) and all others by name, such "
                           "as causal=..., got 5 arguments without a name"),
                          (lambda: flashc.attention(Q, Q, Q, v=Q), r"expected v of flashc\.attention once"),
                          (lambda: flashc.compile(Q, Q, Q)(Q, Q), r"expected v in a call of flashc\.Kernel"),
                          (lambda: flashc.compile(Q, Q, Q)
                           (Q, Q, Q, lse=True), r"argument of flashc\.Kernel, got lse=: write return_lse=")])
def test_calls_of_another_form(call, words):
    with pytest.raises(flashc.ArgumentError, match=words):
        call()


MASK, PICTURE = masks.causal(), flashc.explain(Q, Q, Q)


@pytest.mark.parametrize("call, words", [
    (masks.Mask, r"keep in a call of flashc\.masks\.Mask"), (lambda: masks.Mask(sees, 1, 2, 3), "without a name"),
    (lambda: masks.Mask(sees, align="left"), "align to be 'bottom-right', 'top-left' or an integer, got 'left'"),
    (MASK.aligned, r"align in a call of flashc\.masks\.Mask\.aligned"), ((MASK & sees).aligned, "align in a call of"),
    (lambda: MASK.aligned(algin=1), "got algin=: write align="), (flashc.scores.Score, "rescore in a call of"),
    (flashc.ArraySpec, "shape and dtype in a call of"), (lambda: flashc.ArraySpec((1,), dtyp="f32"), "write dtype="),
    (lambda: flashc.compile(Q, Q, Q).ir(), r"level in a call of flashc\.Kernel\.ir"),
    (lambda: flashc.statistics(1), "got 1 arguments without a name"),
    (lambda: PICTURE.png("x"), "batch to be the number of one, got 'x'"),
    (lambda: PICTURE.png(heads=1), "write head=")])
def test_calls_of_methods_and_classes(call, words):
    with pytest.raises(flashc.ArgumentError, match=words):
        call()


def test_signatures_are_those_of_the_functions():
    for name in CALLS:
        function = find(name)
        assert "keywords" not in inspect.signature(function).parameters and function.__doc__
        assert function.__name__ == name.rpartition(".")[2]
    assert list(inspect.signature(flashc.attention).parameters)[:5] == ["q", "k", "v", "causal", "window"]


def test_type_errors_of_a_mask_stay_the_users():
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        flashc.attention(Q, Q, Q, mask=lambda b, h, i, j: 3 + "x")
    assert not isinstance(caught.value, flashc.Error)


# --- Nonsense ---------------------------------------------------------------------------------------------------------

class Undecided:
    def __bool__(self):
        raise RuntimeError("no truth")


NONSENSE = [
    None, "yes", 3, -1, 1.5,
    float("nan"),
    object(),
    Undecided(), [], [1], (1, 2, 3), {}, {1: 2}, b"x", 1j, 10**30,
    np.array([1, 2]),
    np.zeros((2,) * 6),
    np.array("x"),
    np.array([None]),
    np.float32(2), np.ndarray, int, lambda: 0, lambda *_: None, Ellipsis,
    range(3)
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("error")
def test_every_argument_of_every_type_ends_in_an_error_of_flashc(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # explain writes its picture there
    function = find(name)
    function(**CALLS[name])
    for argument in inspect.signature(function).parameters:
        for value in NONSENSE:
            try:
                function(**{**CALLS[name], argument: value})
            except flashc.Error:
                pass
    flashc.configure()


FLAGS = [(name, argument) for name in CALLS for argument, x in inspect.signature(find(name)).parameters.items()
         if isinstance(x.default, bool)]


@pytest.mark.parametrize("name, argument", FLAGS)
def test_flags_are_true_or_false(name, argument):
    for value in ("yes", "False", None, 2, 1.0, [], np.array([True, False])):
        with pytest.raises(flashc.UnsupportedTypeError, match=f"expected {argument} to be True or False, got"):
            find(name)(**CALLS[name], **{argument: value})


def test_flags_of_numpy():
    want = flashc.attention(Q, Q, Q, causal=True)
    assert all(np.array_equal(flashc.attention(Q, Q, Q, causal=flag), want) for flag in (np.True_, 1))


@pytest.mark.parametrize("score", [lambda s, b, h, i, j: j <= i, lambda s, b, h, i, j: True,
                                   lambda s, b, h, i, j: np.isnan(s)])
def test_a_condition_is_no_score(score):
    with pytest.raises(
            flashc.TraceError, match=r"test_calls\.py:\d+: .*expected the score to return a real number, got "
            r"a condition: mask= is for those(.|\n)*lambda s, b, h"):
        flashc.attention(Q, Q, Q, score=score)


WRONG = {
    "mask": [(lambda b, h, i, j: i + j, "mask to return a condition, got an integer"),
             (lambda b, h, i, j: None, "mask to return a condition, got None"),
             (lambda i, j: i < j, r"mask to be a function of \(b, h, i, j\), got one of \(i, j\)")],
    "score": [(lambda s, b, h, i, j: i < j, "score to return a real number, got a condition"),
              (lambda s, b, h, i, j: "x", "score to return a real number, got 'x'"),
              (lambda s: s, r"score to be a function of \(s, b, h, i, j\), got one of \(s\)")]}
WRAPPED = {
    "joined": lambda mask=None, score=None: flashc.attention(
        Q, Q, Q, mask=None if mask is None else masks.causal() & mask,
        score=None if score is None else flashc.scores.alibi(2) >> score),
    "packed": lambda **how: flashc.varlen_attention(PACKED, PACKED, PACKED, OFFSETS, **how),
    "left padding": lambda **how: flashc.decode(TOKEN, CACHE, CACHE, LENGTHS, leftpad=[1] * len(LENGTHS), **how)}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_function_inside_of_another_one_is_named_by_its_own_line(kind, name):
    for function, words in WRONG[kind]:
        line = rf"test_calls\.py:{function.__code__.co_firstlineno}: in <lambda>: "
        with pytest.raises(flashc.TraceError, match=f"{line}expected the {words}"):
            WRAPPED[name](**{kind: function})


def test_a_wrong_function_without_a_line_is_named_by_the_line_of_the_call():
    with pytest.raises(flashc.TraceError, match=r"test_calls\.py:\d+: .*expected the mask to return a condition"):
        flashc.attention(Q, Q, Q, mask=functools.partial(lambda w, b, h, i, j: i + w, 3))


@pytest.mark.parametrize("call", [
    lambda how: flashc.attention(Q, Q, Q, schedule=how), lambda how: flashc.attention(Q[:, :, :0], Q, Q, schedule=how),
    lambda how: flashc.varlen_attention(PACKED, PACKED, PACKED, OFFSETS, schedule=how),
    lambda how: flashc.decode(TOKEN, CACHE, CACHE, LENGTHS, schedule=how),
    lambda how: flashc.decode(TOKEN[:0], CACHE[:0], CACHE[:0], LENGTHS[:0], schedule=how),
    lambda how: flashc.attention_backward(Q, Q, Q, Q, LSE, Q, schedule=how),
    lambda how: flashc.column_sums(Q, Q, LSE, schedule=how),
    lambda how: flashc.column_sums(Q[:, :, :0], Q, LSE[:, :, :0], schedule=how),
    lambda how: flashc.compile(Q, Q, Q, schedule=how), lambda how: flashc.explain(Q, Q, Q, schedule=how),
    lambda how: flashc.explain(*[Q.astype(np.float16)] * 3, target="sm_90a", schedule=how)])
def test_unknown_words_of_a_schedule(call):
    call("kv-tile=64,stages=2")
    for how, words in (("kvtile=64", "kv-tile, .*got 'kvtile'"),
                       ("kv-tile=many", "an integer for 'kv-tile', got 'many'"),
                       ("warps=4,kv-tile=64", "fields of one kind of kernel, got warps, kv-tile")):
        with pytest.raises(flashc.CompileError, match=f"schedule: expected .*{words}"):
            call(how)


@pytest.mark.parametrize("splits", ["2", 0, True, 1.5])
def test_splits_on_the_cpu(splits):
    with pytest.raises(flashc.ArgumentError, match="expected splits to be a positive number or None, got"):
        flashc.decode(TOKEN, CACHE, CACHE, LENGTHS, splits=splits)


def test_integers_have_the_names_of_frameworks():
    for call, words in ((lambda: flashc.attention(*[Q.astype(np.int64)] * 3), "got int64"),
                        (lambda: flashc.decode(TOKEN, CACHE, CACHE, LENGTHS.astype(np.float32)),
                         "lengths of int32, got f32"), (lambda: masks.documents(OFFSETS.astype(np.int16)), "got int16"),
                        (lambda: flashc.attention(Q, Q, Q, mask=np.ones((4, 4), np.uint8)), "got uint8")):
        with pytest.raises(flashc.UnsupportedTypeError, match=words):
            call()


# --- The drop-ins of flashc.torch -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, keywords, error, words", [
    ("scaled_dot_product_attention", dict(causal=True), flashc.ArgumentError, "got causal=: write is_causal=True"),
    ("scaled_dot_product_attention", dict(mask=None), flashc.ArgumentError, "got mask=: write attn_mask="),
    ("scaled_dot_product_attention", dict(is_causal="yes"), flashc.UnsupportedTypeError,
     "is_causal to be True or False"),
    ("scaled_dot_product_attention", dict(attn_mask=3), flashc.UnsupportedTypeError, "attn_mask to be a tensor, got 3"),
    ("scaled_dot_product_attention", dict(key=None), flashc.UnsupportedTypeError, "key to be a tensor, got None"),
    ("flex_attention", dict(is_causal=True), flashc.ArgumentError, "got is_causal=: write block_mask=lambda"),
    ("flex_attention", dict(attn_mask=None), flashc.ArgumentError, "got attn_mask=: write block_mask="),
    ("flex_attention", dict(mask=None), flashc.ArgumentError, "got mask=: write block_mask="),
    ("flex_attention", dict(score=None), flashc.ArgumentError, "got score=: write score_mod="),
    ("flex_attention", dict(return_aux=3), flashc.UnsupportedTypeError,
     "return_aux to be an AuxRequest or None, got 3"),
    ("flex_attention", dict(value=[]), flashc.UnsupportedTypeError, "value to be a tensor, got"),
])
def test_drop_ins(name, keywords, error, words):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.library, "custom_op"):
        pytest.skip("flashc.torch needs PyTorch 2.4")
    import flashc.torch
    x = torch.from_numpy(Q)
    with pytest.raises(error, match=words):
        getattr(flashc.torch, name)(**{"query": x, "key": x, "value": x, **keywords})
