"""The derivatives of scores, as the CPU computes them, against differences in f64."""
import re
import shutil
import subprocess

import numpy as np
import pytest

import flashc
from flashc import ops
from flashc._runtime import specialization
from scores import FUNCTIONS, NAMES, NUMPY, by_head, in_groups, make_scores

FLASHC_OPT = shutil.which("flashc-opt")
pytestmark = pytest.mark.skipif(FLASHC_OPT is None, reason="no flashc-opt on PATH")

B, H, NQ, NK = 2, 8, 48, 37
STEP = 1e-6

#: A program with a score's code. flashc-opt adds the code of the score's derivative to it.
PROGRAM = """
func.func @f(%q: tensor<1x1x1x8xf32>, %lse: tensor<1x1x1xf32>{arguments}) {{
  %r:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>,
      tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>, tensor<1x1x1xf32>, tensor<1x1x1x8xf32>) {{scale = 1.0 : f32}}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {{
      {code}
    }} -> tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>, tensor<1x1x1x8xf32>
  return
}}
"""


def get_type(capture):
    return f"tensor<{'?x' * len(capture.shape)}{capture.dtype}>" if capture.shape else capture.dtype


def differentiate(code):
    """Returns the code of the score's derivative. It uses the names of the score's code."""
    arguments = "".join(f", %{capture.name}: {get_type(capture)}" for capture in code.captures)
    done = subprocess.run([FLASHC_OPT, "--flash-differentiate-scores"], check=True, stdout=subprocess.PIPE,
                          input=PROGRAM.format(arguments=arguments, code=code.score), universal_newlines=True)
    header, region = re.search(r"derivative \((.*?)\) \{\n(.*?)\n    \} ->", done.stdout, re.DOTALL).groups()
    names = dict(zip(re.findall(r"%\w+", header), ("%s", "%b", "%h", "%i", "%j")))
    names.update((f"%arg{2 + number}", "%" + capture.name) for number, capture in enumerate(code.captures))
    return re.sub(r"%arg\d+", lambda name: names[name.group()], region)


def key_of(b, h, i):
    return (5 * i + 3 * b + h) % NK


def evaluate(monkeypatch, score, s):
    """Returns the derivative at scores s [B, heads, any number]. The kernel has the derivative as its score, and each
    query sees one key, so the log-sum-exp of a query is its derivative."""
    code_of = specialization.code_of

    def trace_derivative(*arguments, **keywords):
        code = code_of(*arguments, **keywords)
        return code._replace(score=differentiate(code))
    monkeypatch.setattr(specialization, "code_of", trace_derivative)
    q, k = np.zeros((*s.shape, 8), np.float32), np.zeros((*s.shape[:2], NK, 8), np.float32)
    q[..., 0], k[..., 0] = s, 1
    return flashc.attention(q, k, k, scale=1.0, mask=lambda b, h, i, j: j == key_of(b, h, i), score=score,
                            return_lse=True)[1].astype(np.float64)


def assert_is_slope(got, above, below):
    """Compares `got` with difference quotients. Where scores are -inf, the derivative may be any number, because the
    probability is 0."""
    assert np.all(np.isfinite(got))
    is_finite = np.isfinite(above)
    got, want = got[is_finite], (above[is_finite] - below[is_finite]) / (2 * STEP)
    assert np.all(np.abs(got - want) <= 5e-6 * np.maximum(1, np.abs(want))), np.max(np.abs(got - want))


@pytest.mark.parametrize("names", in_groups(NAMES), ids=", ".join)
def test_scores(rng, monkeypatch, names):
    """Differentiates each score in two heads."""
    made = make_scores(NUMPY, lambda x: x, rng, B, H, NQ, NK)
    score = by_head([made[name] for name in names])
    s = np.round(rng.normal(0, 3, (B, H, NQ)) * 64) / 64 + 1 / 128  # avoids numbers where scores have kinks
    b, h, i = np.indices(s.shape)
    with np.errstate(all="ignore"):
        above, below = (score(s + step, b, h, i, key_of(b, h, i)) + 0 * s for step in (STEP, -STEP))
    assert_is_slope(evaluate(monkeypatch, score, s), above, below)


def numbers_of(name):
    """Returns the numbers at which the derivative of a function is tested."""
    (low, high), number = FUNCTIONS[name][1], B * H * NQ
    x = (low + (np.arange(number) + 0.5) * (high - low) / number).astype(np.float32).astype(np.float64)
    x = x[np.abs(2 * x - np.round(2 * x)) > 1e-3] if name in ("floor", "ceil", "trunc", "round", "sign") else x
    return np.resize(x, (B, H * NQ))


@pytest.mark.parametrize("names", in_groups(FUNCTIONS), ids=", ".join)
def test_functions(monkeypatch, names):
    """Differentiates each function in a head of its own."""
    s = np.stack([numbers_of(name) for name in names], axis=1)
    got = evaluate(monkeypatch, by_head([lambda s, b, h, i, j, name=name: getattr(ops, name)(s) for name in names]), s)
    for head, name in enumerate(names):
        print(name)
        of_numbers = np.vectorize(FUNCTIONS[name][0], otypes=[np.float64])
        assert_is_slope(got[:, head], *(of_numbers(s[:, head] + step) for step in (STEP, -STEP)))


def check_slopes(monkeypatch, functions, slopes, s):
    """Checks that the functions have these slopes at s [B, 1, any number]. Each function has a head of its own."""
    s = np.repeat(s, len(functions), 1)
    got = evaluate(monkeypatch, by_head([lambda s, b, h, i, j, f=function: f(s) for function in functions]), s)
    for head, slope in enumerate(slopes):
        assert np.array_equal(got[:, head], np.broadcast_to(slope, got[:, head].shape).astype(np.float64)), head


def test_at_zero(monkeypatch):
    functions = {ops.abs: 0, ops.sign: 0, ops.relu: 0.5, ops.softplus: 0.5, ops.log_sigmoid: 0.5, ops.floor: 0,
                 (lambda s: ops.clip(s, 0, 1)): 0.5, (lambda s: ops.maximum(s, 3 * s)): 2, (lambda s: abs(s) ** 1.5): 0}
    check_slopes(monkeypatch, list(functions), functions.values(), np.zeros((B, 1, NQ)))


def test_large_scores_have_finite_derivatives(monkeypatch):
    """Tests numbers whose exponentials are 0 or infinite in f32."""
    s = np.resize(np.array([-1000.0, -100, 100, 1000]), (B, 1, NQ))
    functions = {ops.sigmoid: 0 * s, ops.silu: s > 0, ops.softplus: s > 0, ops.log_sigmoid: s < 0, ops.gelu: s > 0,
                 (lambda s: ops.log1p(ops.exp(s))): s > 0}
    check_slopes(monkeypatch, list(functions), [slope[:, 0] for slope in functions.values()], s)
