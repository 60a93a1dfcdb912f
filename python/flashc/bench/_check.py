"""Outputs and gradients against those of float32 attention on the same inputs: the rule of docs/checking.md.

    max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|,   ||out - ref|| / ||ref|| < 3e-3 (f16: 1e-3)

`naive` is plain attention with every intermediate in the inputs' type. The log-sum-exp is within 1e-3. A query that
sees no key has o = 0 and a log-sum-exp of -inf, and no other has that. dq, dk and dv have the same rule with 5e-3."""

import contextlib
import dataclasses
import math
from typing import Dict

import torch

from ._report import GRADIENTS

FROBENIUS_LIMITS = {torch.bfloat16: 3e-3, torch.float16: 1e-3}
GRADIENT_LIMITS = {torch.bfloat16: 5e-3, torch.float16: 1e-3}
LSE_LIMIT = 1e-3
CHUNK_BYTES = 2 << 30  # Of float32 scores; a handful of arrays of that size live at once.


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How far an output is from the reference. `problem`: why it is wrong, or an empty text. `gradients`: the relative
    Frobenius errors of dq, dk and dv, by name."""
    error: float
    bound: float
    frobenius: float
    lse_error: float
    problem: str
    gradients: Dict[str, float] = dataclasses.field(default_factory=dict)


def causal(nq, nk, device):
    """Whether a query, aligned with the last key, sees a key: [nq, nk]."""
    return torch.ones(nq, nk, dtype=torch.bool, device=device).tril_(nk - nq)


def plain(q, k, v, dtype, keep=None, score=None, scale=None):
    """Attention of [batch, heads, n, d] arrays with every intermediate in `dtype`: o, and the scores' log-sum-exp.
    `keep`: True where a key takes part; `score`: a function of the scaled scores."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.to(dtype) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    scores = torch.matmul(q, k.transpose(2, 3)).mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if score is not None:
        scores = score(scores).to(dtype)
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    lse = torch.logsumexp(scores, dim=3)
    p = torch.softmax(scores, dim=3)
    if keep is not None or score is not None:  # Rows without keys.
        p = p.nan_to_num(0.0)
    return torch.matmul(p, v), lse


def plain_gradients(q, k, v, do, dtype, *how):
    """dq, dk and dv of plain attention with every intermediate in `dtype`."""
    with torch.enable_grad():
        inputs = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        o, _ = plain(*inputs, dtype, *how)
        return torch.autograd.grad(o, inputs, do.to(dtype))


@contextlib.contextmanager
def no_tf32():
    """float32 throughout."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _chunks(batch, heads, group, scores, may_split):
    """Slices of the batch, of the heads and of their key heads, whole groups. A score function sees all at once."""
    if not may_split:
        yield (slice(None),) * 3
        return
    together = max(1, min(heads // group, CHUNK_BYTES // (4 * scores * group)))
    for b in range(batch):
        for first in range(0, heads // group, together):
            last = min(first + together, heads // group)
            yield slice(b, b + 1), slice(first * group, last * group), slice(first, last)


def _compare(name, out, ref, bound, limit, whose=""):
    """The largest error, the relative Frobenius error, and what is wrong with them, as a list of texts."""
    difference = (out.float() - ref).contiguous()
    norm = float(torch.linalg.vector_norm(ref, dtype=torch.float64))
    frobenius = float(torch.linalg.vector_norm(difference, dtype=torch.float64)) / (norm or 1.0)
    worst = int(difference.abs_().nan_to_num_(nan=math.inf, posinf=math.inf).argmax())
    error = float(difference.flatten()[worst])
    place = f"(b, h, i, d) = {tuple(int(x) for x in _unravel(worst, out.shape))}"
    found = []
    if math.isinf(error):
        found.append(f"{name} not finite at {place}")
    elif not error <= bound:
        found.append(f"{name} off by {error:.3g}, expected at most {bound:.3g}, at {place}")
    if not frobenius < limit:
        found.append(f"relative Frobenius error{whose} {frobenius:.3g}, expected less than {limit}")
    return error, frobenius, found


class _Reference:
    """float32 results of attention, and how far those of plain attention in the inputs' type are from them."""

    @torch.no_grad()
    def _compute(self, plainly, inputs, results, keep, score, scale):
        """Fills in `results`, what `plainly` gives in float32; returns the bounds of their errors. `keep`: broadcasts
        to [batch, heads, nq, nk]; `score`: a function of scores of that shape."""
        q, k = inputs[:2]
        batch, heads, nq, nk = *q.shape[:3], k.shape[2]
        self.dtype = q.dtype
        errors = [0.0] * len(results)
        keep = None if keep is None else keep.expand(batch, heads, nq, nk)
        with no_tf32():
            for of_batch, of_heads, of_key_heads in _chunks(batch, heads, heads // k.shape[1], nq * nk, score is None):
                def part(x):
                    return x[of_batch, of_heads if x.shape[1] == heads else of_key_heads]
                how = None if keep is None else part(keep), score, scale
                exact, naive = (plainly(*map(part, inputs), dtype, *how) for dtype in (torch.float32, q.dtype))
                for number, result in enumerate(results):
                    part(result).copy_(exact[number])
                    errors[number] = max(errors[number], float((naive[number].float() - exact[number]).abs().max()))
        return [2 * error + 2 * float(((ref + 0.3 - 0.3) - ref).abs().max()) for error, ref in zip(errors, results)]


class Reference(_Reference):
    """o and the log-sum-exp."""

    def __init__(self, q, k, v, keep=None, score=None, scale=None):
        self.o = torch.empty(*q.shape[:3], v.shape[3], device=q.device)
        self.lse = torch.empty(q.shape[:3], device=q.device)
        self.bound, _ = self._compute(plain, (q, k, v), (self.o, self.lse), keep, score, scale)

    @torch.no_grad()
    def compare(self, out, lse=None):
        """The Comparison of an output, and of the log-sum-exp if there is one."""
        assert out.shape == self.o.shape and out.dtype == self.dtype, f"o is {out.dtype} {tuple(out.shape)}"
        error, frobenius, found = _compare("o", out, self.o, self.bound, FROBENIUS_LIMITS[self.dtype])
        dead = self.lse == float("-inf")
        if bool(dead.any()) and bool(out[dead].any()):
            found.append("o is not 0 where a query sees no key")
        lse_error = 0.0
        if lse is not None:
            assert lse.shape == self.lse.shape and lse.dtype == torch.float32
            if not torch.equal(lse == float("-inf"), dead):
                found.append("log-sum-exps of -inf in the wrong rows")
            off = torch.where(dead, torch.zeros_like(lse), lse - self.lse).abs()
            lse_error = float(torch.nan_to_num(off, nan=math.inf, posinf=math.inf).max())
            if not lse_error <= LSE_LIMIT:
                found.append(f"log-sum-exp off by {lse_error:.3g}, expected at most {LSE_LIMIT}")
        return Comparison(error, self.bound, frobenius, lse_error, "; ".join(found))


class GradientReference(_Reference):
    """dq, dk and dv."""

    def __init__(self, q, k, v, do, keep=None, score=None, scale=None):
        """`do`: the gradient of o."""
        self.gradients = [torch.empty_like(x, dtype=torch.float32) for x in (q, k, v)]
        self.bounds = self._compute(plain_gradients, (q, k, v, do), self.gradients, keep, score, scale)

    @torch.no_grad()
    def compare(self, gradients):
        """The Comparison of (dq, dk, dv): the error and the bound are those of the gradient that is nearest to its
        bound, `frobenius` is the largest of the three."""
        results, errors = [], {}
        for name, out, ref, bound in zip(GRADIENTS, gradients, self.gradients, self.bounds):
            assert out.shape == ref.shape and out.dtype == self.dtype, f"{name} is {out.dtype} {tuple(out.shape)}"
            error, frobenius, found = _compare(name, out, ref, bound, GRADIENT_LIMITS[self.dtype], f" of {name}")
            errors[name] = frobenius
            results.append((error / (bound or 1.0), error, bound, found))
        _, error, bound, _ = max(results)
        return Comparison(error, bound, max(errors.values()), 0.0, "; ".join(text for *_, found in results
                                                                             for text in found), errors)


def _unravel(index, shape):
    places = []
    for extent in reversed(shape):
        index, place = divmod(index, extent)
        places.append(place)
    return reversed(places)
