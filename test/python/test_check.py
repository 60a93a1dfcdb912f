"""Tests, on the CPU, the rule that judges the outputs of GPU kernels."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import reference  # noqa: E402
from flashc.bench import _check  # noqa: E402


def inputs(b, hq, hk, nq, nk, d, dv):
    return [torch.randn(shape).bfloat16() for shape in ((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv))]


def in_float64(q, k, v, *how):
    return reference.attention(*(x.float().numpy() for x in (q, k, v)), *how)


@pytest.mark.parametrize("nq, nk", [(9, 9), (5, 12), (12, 5)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 4 * 2 * 60, 2 << 30])
def test_reference_is_attention_in_chunks_of_whole_groups(nq, nk, is_causal, chunk_bytes, monkeypatch):
    monkeypatch.setattr(_check, "CHUNK_BYTES", chunk_bytes)
    q, k, v = inputs(2, 6, 3, nq, nk, 16, 8)
    ref = _check.Reference(q, k, v, keep=_check.causal(nq, nk, "cpu") if is_causal else None)
    want = in_float64(q, k, v, reference.aligned(nq, nk, right=0) if is_causal else None)
    reference.assert_close((ref.o, ref.lse), want)
    assert 0 < ref.bound < 0.1
    assert ref.compare(ref.o.bfloat16()).problem == ""
    assert "o off by" in ref.compare((ref.o + 50 * ref.bound).bfloat16()).problem


def test_masks_that_broadcast_scores_and_a_scale():
    q, k, v = inputs(2, 2, 2, 7, 9, 16, 16)
    keep = torch.rand(2, 1, 7, 9) < 0.7
    keep[..., 0] = True
    ref = _check.Reference(q, k, v, keep, lambda s: s * 2 + 1, scale=0.5)
    want = in_float64(q, k, v, lambda b, h, i, j: keep.numpy()[b, 0, i, j], lambda s, b, h, i, j: s * 2 + 1, 0.5)
    reference.assert_close((ref.o, ref.lse), want)


@pytest.mark.parametrize("nq, nk", [(9, 9), (12, 5)])
@pytest.mark.parametrize("chunk_bytes", [1, 2 << 30])
def test_gradients_in_chunks_of_whole_groups(nq, nk, chunk_bytes, monkeypatch):
    monkeypatch.setattr(_check, "CHUNK_BYTES", chunk_bytes)
    q, k, v = inputs(2, 6, 3, nq, nk, 16, 8)
    do = torch.randn(2, 6, nq, 8).bfloat16()
    ref = _check.GradientReference(q, k, v, do, keep=_check.causal(nq, nk, "cpu"))
    keep = reference.aligned(nq, nk, right=0)
    o, lse = in_float64(q, k, v, keep)
    want = reference.attention_backward(*(x.float().numpy() for x in (q, k, v)), o, lse, do.float().numpy(), keep=keep)
    for got, expected in zip(ref.gradients, want):
        assert np.abs(got.numpy() - expected).max() < 1e-5
    got = [x.bfloat16() for x in ref.gradients]
    comparison = ref.compare(got)
    assert comparison.problem == "" and 0 < comparison.error <= comparison.bound < 0.1 and comparison.frobenius < 5e-3
    for name, x, exact in zip(("dq", "dk", "dv"), got, ref.gradients):
        error = np.linalg.norm((x.double() - exact.double()).numpy()) / np.linalg.norm(exact.double().numpy())
        assert comparison.gradients[name] == pytest.approx(error, rel=1e-5)
    assert comparison.frobenius == max(comparison.gradients.values())
    got[1] = got[1] + 50 * ref.bounds[1]
    got[2][0, 1, 3, 5] = float("nan")
    problem = ref.compare(got).problem
    assert "dk off by" in problem and "relative Frobenius error of dk" in problem and "dq" not in problem
    assert "dv not finite at (b, h, i, d) = (0, 1, 3, 5)" in problem


def test_gradients_of_scores_and_a_scale():
    q, k, v = inputs(1, 2, 2, 7, 9, 16, 16)
    do = torch.randn(1, 2, 7, 16).bfloat16()
    ref = _check.GradientReference(q, k, v, do, None, lambda s: torch.tanh(s) * 2, scale=0.5)
    o, lse = in_float64(q, k, v, None, lambda s, b, h, i, j: np.tanh(s) * 2, 0.5)
    want = reference.attention_backward(*(x.float().numpy() for x in (q, k, v)), o, lse, do.float().numpy(),
                                        score=lambda s, b, h, i, j: np.tanh(s) * 2, scale=0.5)
    for got, expected in zip(ref.gradients, want):
        assert np.abs(got.numpy() - expected).max() < 1e-5


def right():
    """Returns a reference whose first query sees nothing, and a right output."""
    q, k, v = inputs(1, 2, 2, 9, 8, 16, 16)
    ref = _check.Reference(q, k, v, keep=_check.causal(9, 8, "cpu"))
    return ref, ref.o.bfloat16(), ref.lse.clone()


def test_right_numbers_pass():
    ref, o, lse = right()
    assert torch.all(ref.o[:, :, 0] == 0) and torch.all(ref.lse[:, :, 0] == -torch.inf)
    comparison = ref.compare(o, lse)
    assert comparison.problem == "" and 0 < comparison.error <= comparison.bound and comparison.lse_error == 0
    assert set(dataclasses.asdict(comparison)) == {"error", "bound", "frobenius", "lse_error", "problem", "gradients"}
    assert comparison.gradients == {}


@pytest.mark.parametrize("place, value, message", [
    ((0, 1, 5, 3), float("nan"), "o not finite at (b, h, i, d) = (0, 1, 5, 3)"),
    ((0, 1, 5, 3), float("inf"), "o not finite at (b, h, i, d) = (0, 1, 5, 3)"),
    ((0, 1, 5, 3), 9.0, "at (b, h, i, d) = (0, 1, 5, 3); relative Frobenius error"),
    ((0, 0, 0, 0), 1e-6, "o is not 0 where a query sees no key"),
])
def test_wrong_outputs_are_found(place, value, message):
    ref, o, lse = right()
    o[place] = value
    assert message in ref.compare(o, lse).problem


@pytest.mark.parametrize("row, value, message", [
    (3, -np.inf, "log-sum-exps of -inf in the wrong rows"),
    (0, 0.0, "log-sum-exps of -inf in the wrong rows"),
    (3, np.nan, "log-sum-exp off by inf"),
    (3, 99.0, "log-sum-exp off by 9"),
])
def test_wrong_log_sum_exps_are_found(row, value, message):
    ref, o, lse = right()
    lse[0, 1, row] = value
    assert message in ref.compare(o, lse).problem
    assert ref.compare(o).problem == ""


def test_many_small_errors_are_found():
    ref, o, _ = right()
    noise = (torch.randint(0, 2, o.shape) * 2 - 1) * (o != 0) * ref.bound / 4
    assert ref.compare((o + noise).bfloat16()).problem.startswith("relative Frobenius error")
