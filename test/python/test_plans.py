"""flashc.plan_mask: the results equal those of the mask, the lengths are checked, and refusals. gpu/test_mask_maps.py
tests what a GPU keeps for a plan."""
import gc
import weakref

import numpy as np
import pytest

import flashc
from flashc._runtime import plans

IDS = np.arange(100, dtype=np.int32) // 7 % 3


def same(b, h, i, j):
    return IDS[i] == IDS[j]


def qkv(rng, nq, nk):
    return (rng.standard_normal((1, 2, n, 8)).astype(np.float32) for n in (nq, nk, nk))


def test_results_are_those_of_the_mask(rng):
    for nq, nk in ((1, 63), (65, 97)):
        q, k, v = qkv(rng, nq, nk)
        plan = flashc.plan_mask(same, nq, nk)
        o, lse = flashc.attention(q, k, v, mask=plan, return_lse=True)
        assert np.array_equal(o, flashc.attention(q, k, v, mask=same))
        do = np.ones_like(o)
        for one, other in zip(flashc.attention_backward(q, k, v, o, lse, do, mask=plan),
                              flashc.attention_backward(q, k, v, o, lse, do, mask=same)):
            assert np.array_equal(one, other)
        assert flashc.explain(q, k, v, mask=plan).mask_class == "mapped"


def test_the_kernel_is_that_of_the_mask(rng):
    q, k, v = qkv(rng, 40, 40)
    flashc.attention(q, k, v, mask=same)
    before = flashc.statistics().compilations
    flashc.attention(q, k, v, mask=flashc.plan_mask(same))
    flashc.attention(q, k, v, mask=flashc.plan_mask(same, 40))
    assert flashc.statistics().compilations == before


def test_lengths_are_held(rng):
    q, k, v = qkv(rng, 10, 20)
    with pytest.raises(flashc.ArgumentError, match="expected 11 queries, for which the mask was planned, got 10"):
        flashc.attention(q, k, v, mask=flashc.plan_mask(same, 11, 20))
    with pytest.raises(flashc.ArgumentError, match="expected 21 keys, for which the mask was planned, got 20"):
        flashc.attention(q, k, v, mask=flashc.plan_mask(same, None, 21))


def test_what_is_no_mask_or_no_length():
    for mask in (IDS, None, flashc.plan_mask(same)):
        with pytest.raises(flashc.UnsupportedTypeError, match="expected mask to be a function"):
            flashc.plan_mask(mask)
    for lengths in ((-1, 2), (2.0, None), (None, True)):
        with pytest.raises(flashc.ArgumentError, match="_len to be a length or None"):
            flashc.plan_mask(same, *lengths)


def test_a_plan_ends_with_its_last_user(rng):
    q, k, v = qkv(rng, 10, 10)
    plan = flashc.plan_mask(same)
    assert repr(plan).startswith("<flashc.MaskPlan of <function same")
    flashc.attention(q, k, v, mask=plan)
    ended, kernels = weakref.ref(plan), plan._kernels
    assert len(kernels) == 1
    number, plan = plan.number, None
    gc.collect()
    assert ended() is None and number < flashc.plan_mask(same).number
    plans._forget(number, kernels)  # CPU kernels have nothing to free
