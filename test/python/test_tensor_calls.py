"""The functions that masks and scores written for FlexAttention call. `torch` is a stand-in for PyTorch, which passes
calls with traced operands to their `__torch_function__`."""
import types

import numpy as np
import pytest

import flashc
from flashc._trace.trace import trace
from test_lists import check

ROWS = np.random.default_rng(5).standard_normal((2, 3, 37, 6)).astype(np.float32)
LISTED = np.array([[3, 5, 7], [1, 2, 36], [0, 0, 9], [4, 5, 6]], np.int32)
LONG = np.zeros((37, 65), np.float32)


class Torch:
    """Has a function of any name. The function calls `__torch_function__` of the first operand that has this method."""
    int32, float32, bool = (types.SimpleNamespace(name=name) for name in ("int32", "float32", "bool"))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*inputs, **keywords):
            operand = next(x for x in inputs if hasattr(x, "__torch_function__"))
            return operand.__torch_function__(function, (type(operand),), inputs, keywords)
        function.__name__ = name
        return function


torch = Torch()


@pytest.mark.parametrize("mask, keep", [
    (lambda b, h, i, j: torch.logical_and(i >= j, torch.logical_not(j == 3)), lambda b, h, i, j: (i >= j) & (j != 3)),
    (lambda b, h, i, j: (i >= j).logical_or(j.eq(3)).logical_and(h < 3),
     lambda b, h, i, j: ((i >= j) | (j == 3)) & (h < 3)),
    (lambda b, h, i, j: torch.clamp(i - j, min=0, max=3) < 3, lambda b, h, i, j: np.clip(i - j, 0, 3) < 3),
    (lambda b, h, i, j: torch.clamp_min(i - j, 2).clamp_max(4) < 4, lambda b, h, i, j: np.clip(i - j, 2, 4) < 4),
    (lambda b, h, i, j: torch.isin(j, [3, 5, 7]), lambda b, h, i, j: np.isin(j, [3, 5, 7]) & (i >= 0)),
    (lambda b, h, i, j: torch.isin(j, LISTED[h]), lambda b, h, i, j: (j[..., None] == LISTED[h]).any(-1) & (i >= 0)),
    (lambda b, h, i, j: np.isin(j, LISTED[h], invert=True),
     lambda b, h, i, j: ~(j[..., None] == LISTED[h]).any(-1) & (i >= 0)),
    (lambda b, h, i, j: torch.bitwise_left_shift(i, 2) >= torch.bitwise_right_shift(j, 1) * 9,
     lambda b, h, i, j: i << 2 >= (j >> 1) * 9),
    (lambda b, h, i, j: np.left_shift(i, 1) >= np.right_shift(j, 1), lambda b, h, i, j: i << 1 >= j >> 1),
    (lambda b, h, i, j: torch.div(i - j, 3, rounding_mode="trunc") == -2,
     lambda b, h, i, j: np.trunc((i - j) / 3) == -2),
    (lambda b, h, i, j: torch.div(i - j, -3, rounding_mode="floor") == 2, lambda b, h, i, j: (i - j) // -3 == 2),
    (lambda b, h, i, j: (i - j).div(4) > 1, lambda b, h, i, j: (i - j) / 4 > 1),
    (lambda b, h, i, j: torch.fmod(i - j, 5) == -3, lambda b, h, i, j: np.fmod(i - j, 5) == -3),
    (lambda b, h, i, j: torch.where(h.gt(1), i, j).long() > torch.floor(i / 2).to(torch.int32),
     lambda b, h, i, j: np.where(h > 1, i, j) > i // 2),
    (lambda b, h, i, j: i.where(i > j, j) < 9, lambda b, h, i, j: np.where(i > j, i, j) < 9),
    (lambda b, h, i, j: torch.ones_like(j, dtype=torch.bool) & (i >= j) | torch.zeros_like(i > j),
     lambda b, h, i, j: i >= j),
    (lambda b, h, i, j: ((i >= j) == True) & ~((j > 4) != True), lambda b, h, i, j: (i >= j) & (j > 4)),  # noqa: E712
    (lambda b, h, i, j: (i - j).abs().to(i) <= (j * 0 + 4).type_as(i), lambda b, h, i, j: abs(i - j) <= 4),
])
def test_mask(rng, mask, keep):
    check(rng, mask=mask, keep=keep)


@pytest.mark.parametrize("score, rescore", [
    (lambda s, b, h, i, j: s + torch.dot(ROWS[b, h // 2, i], ROWS[b, 2, j]) * 0.5,
     lambda s, b, h, i, j: s + (ROWS[b, h // 2, i] * ROWS[b, 2, j]).sum(-1) * 0.5),
    (lambda s, b, h, i, j: s + np.dot(ROWS[0, 0, i], ROWS[0, 1, j]),
     lambda s, b, h, i, j: s + (ROWS[0, 0, i] * ROWS[0, 1, j]).sum(-1)),
    (lambda s, b, h, i, j: s.masked_fill(j > i, -1.0), lambda s, b, h, i, j: np.where(j > i, -1, s)),
    (lambda s, b, h, i, j: s.double().mul(2).sub(i.float()).half(), lambda s, b, h, i, j: s * 2 - i),
    (lambda s, b, h, i, j: torch.div(s * 9, 2, rounding_mode="trunc"), lambda s, b, h, i, j: np.trunc(s * 9 / 2)),
])
def test_score(rng, score, rescore):
    check(rng, score=score, rescore=rescore)


@pytest.mark.parametrize("score, words", [
    (lambda s, b, h, i, j: s + torch.dot(LONG[i], LONG[j]),
     "at most 64 elements, got 65: concatenate the rows to those of q and k"),
    (lambda s, b, h, i, j: s + torch.dot(ROWS[0, 0, i], LISTED[h]), "expected rows of one length, got 6 and 3"),
    (lambda s, b, h, i, j: s + torch.dot(ROWS[0, 0], LISTED[h]), "expected a row, got an array with 2 dimensions"),
    (lambda s, b, h, i, j: torch.where(torch.isin(j, LONG[i]), s, 0), "make an array of conditions before the call"),
    (lambda s, b, h, i, j: torch.where(torch.isin(j, 3), s, 0), "expected a row, got builtins.int"),
    (lambda s, b, h, i, j: torch.div(s, 2, rounding_mode="up"), "None, 'floor' or 'trunc', got 'up'"),
    (lambda s, b, h, i, j: s * (LISTED[h] == j.unsqueeze(-1)).any(dim=-1),
     r"leave out unsqueeze; .* torch.isin\(x, row"),
    (lambda s, b, h, i, j: torch.unsqueeze(s, 0), "leave out unsqueeze"),
    (lambda s, b, h, i, j: s.sum(), "leave out sum"),
    (lambda s, b, h, i, j: s.item(), r"leave out item\(\)"),
    (lambda s, b, h, i, j: s + torch.sum(LISTED[h]), "nothing else; got torch.sum: write it with elements"),
    (lambda s, b, h, i, j: s + np.sum(LISTED[h]), "nothing else"),
])
def test_refused(score, words):
    with pytest.raises(flashc.TraceError, match=f"test_tensor_calls.py:[0-9]+: in (<lambda>|function): .*{words}"):
        trace(None, score)
