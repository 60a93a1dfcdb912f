"""Runs the blocks of docs/recipes.md, and compares their results with the formulas of each model in f64."""
import functools

import numpy as np
import pytest

import flashc
import reference
from documents import ROOT, blocks_of, run_block
from test_masks import in_neighborhood
from test_named_scores import slopes_of, t5_bucket

PAGE = ROOT / "docs" / "recipes.md"


@functools.lru_cache(maxsize=None)
def blocks_by_heading():
    blocks = {}
    for line, code, _, heading in blocks_of(PAGE):
        blocks.setdefault(heading, []).append((line, code))
    return blocks


def check(o, q, k, v, keep=None, score=None, **keywords):
    want, _ = reference.attention(q, k, v, keep, score, **keywords)
    assert np.allclose(o, want, atol=2e-4), abs(o - want).max()


def near(left):
    return lambda b, h, i, j: (j <= i) & (i - j <= left)


def causal(b, h, i, j):
    return j <= i


def check_gemma_2(x):
    qkv, cap = (x["q"], x["k"], x["v"]), lambda s, b, h, i, j: 50 * np.tanh(s / 50)
    check(x["o_global"], *qkv, causal, cap, scale=1 / 16)
    check(x["o_local"], *qkv, near(63), cap, scale=1 / 16)


def check_gemma_3(x):
    qkv, image = (x["q"], x["k"], x["v"]), x["image"]

    def or_same_image(keep):
        return lambda b, h, i, j: keep(b, h, i, j) | (image[b, i] == image[b, j]) & (image[b, i] != 0)
    check(x["o_global"], *qkv, or_same_image(causal), scale=1 / 16)
    check(x["o_local"], *qkv, or_same_image(near(63)), scale=1 / 16)


def check_t5(x):
    qkv, table = (x["q"], x["k"], x["v"]), x["table"]

    def biased(bidirectional):
        return lambda s, b, h, i, j: s + table[t5_bucket(j - i, bidirectional, 32, 128), h]
    check(x["o_encoder"], *qkv, None, biased(True), scale=1)
    check(x["o_decoder"], *qkv, causal, biased(False), scale=1)


def check_alibi(x):
    qkv, slopes = (x["q"], x["k"], x["v"]), slopes_of(12)
    check(x["o"], *qkv, causal, lambda s, b, h, i, j: s - slopes[h] * (i - j))
    check(x["o_both"], *qkv, None, lambda s, b, h, i, j: s - slopes[h] * abs(i - j))


def check_swin(x):
    qkv, regions = (x["q"], x["k"], x["v"]), np.tile(x["regions"], (2, 1))
    rows, columns = np.divmod(np.arange(49), 7)
    bias = x["table"][rows[:, None] - rows + 6, columns[:, None] - columns + 6].transpose(2, 0, 1)
    check(x["o"], *qkv, None, lambda s, b, h, i, j: s + bias)
    check(x["o_shifted"], *qkv, lambda b, h, i, j: (regions[:, :, None] == regions[:, None])[:, None],
          lambda s, b, h, i, j: s + bias)


def check_vit(x):
    check(x["o"], x["q"], x["k"], x["v"])


def check_natten(x):
    qkv, positions = (x["q"], x["k"], x["v"]), range(12 * 14)
    for o, sizes, dilations in ((x["o"], (7, 7), (1, 1)), (x["o_dilated"], (4, 7), (3, 2))):
        rule = in_neighborhood((12, 14), sizes, dilations)
        keep = np.array([[rule(0, 0, i, j) for j in positions] for i in positions])
        assert np.all(keep.sum(-1) == np.prod(sizes))
        check(o, *qkv, lambda b, h, i, j, keep=keep: keep)


def check_documents(x):
    keep = lambda b, h, i, j: (j <= i) & (x["ids"][i] == x["ids"][j])  # noqa: E731
    check(x["o_rows"], *x["rows"], keep)
    check(x["o"].transpose(1, 0, 2)[None], *x["rows"], keep)


def check_prefix(x):
    check(x["o"], x["q"], x["k"], x["v"], lambda b, h, i, j: (j <= i) | (j < x["prefix"][b]))


def check_padding(x):
    qkv, lengths = (x["q"], x["k"], x["v"]), x["lengths"]
    for name in ("o", "o_anywhere"):
        check(x[name], *qkv, lambda b, h, i, j: j < lengths[b])
    check(x["o_left"], *qkv, lambda b, h, i, j: (j <= i) & (j >= 100 - lengths[b]))


def check_gpt_oss(x):
    check(x["o_global"], x["q"], x["k"], x["v"], causal, sinks=x["sinks"])
    check(x["o_local"], x["q"], x["k"], x["v"], near(127), sinks=x["sinks"])


def check_tree(x):
    for b, length in enumerate(x["lengths"]):
        sees = np.concatenate([np.ones((5, length - 5), bool), [
            [True, False, False, False, False], [True, True, False, False, False], [True, False, True, False, False],
            [True, True, False, True, False], [True, False, True, False, True]]], 1)
        q, k, v = (y.transpose(1, 0, 2)[None] for y in (x["q"][b], x["k_cache"][b, :length], x["v_cache"][b, :length]))
        check(x["o"][b].transpose(1, 0, 2)[None], q, k, v, lambda b, h, i, j, sees=sees: sees)


def check_cascade(x):
    k, v = (np.concatenate([np.repeat(x[f"prefix_{name}"], 3, 0), x[name]], 2) for name in ("k", "v"))
    want = reference.attention(x["q"], k, v, lambda b, h, i, j: j <= i + 90)
    reference.assert_close((x["o"], x["lse"]), want)


CHECKS = {"Gemma 2": check_gemma_2, "Gemma 3": check_gemma_3, "T5": check_t5, "ALiBi: MPT, BLOOM": check_alibi,
          "Swin": check_swin, "ViT with registers": check_vit, "NATTEN": check_natten,
          "Packed documents": check_documents, "Prefix LM": check_prefix, "Padding": check_padding,
          "GPT-OSS": check_gpt_oss, "A tree of speculative tokens": check_tree,
          "A cascade: one prefix for all sequences": check_cascade}


@pytest.mark.parametrize("heading", CHECKS)
def test_recipe(heading, no_disk):
    namespace = {}
    for line, code in blocks_by_heading()["Recipes"] + blocks_by_heading()[heading]:
        run_block(PAGE, line, code, namespace)
    CHECKS[heading](namespace)


def test_every_recipe_is_checked():
    assert set(blocks_by_heading()) == {"Recipes", *CHECKS}


def test_keywords_of_other_libraries_are_ours(rng):
    """The keywords of this package that the last table of the page names exist."""
    import inspect
    for function, names in ((flashc.attention, "causal window scale mask score sinks dropout_p philox enable_gqa "
                             "return_lse layout schedule"), (flashc.decode, "k_scale v_scale splits block_table"),
                            (flashc.append_kv, "rotary"), (flashc.attention_backward, "deterministic")):
        for name in names.split():
            assert name in inspect.signature(function).parameters
            assert name in PAGE.read_text()
