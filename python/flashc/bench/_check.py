"""Checks of outputs and gradients against float32 attention on the same inputs, by the rule of docs/checking.md.

    max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|,   ||out - ref|| / ||ref|| < 3e-3 (f16: 1e-3)

`naive` is plain attention with every intermediate in the type of the inputs. The log-sum-exp must be within 1e-3. A
query that sees no key must have o = 0 and a log-sum-exp of -inf; no other query may have that log-sum-exp. For dq, dk
and dv, the second limit is 5e-3 (f16: 1e-3)."""

import contextlib
import dataclasses
import math
from typing import Dict

import torch

from ._report import GRADIENTS

FROBENIUS_LIMITS = {torch.bfloat16: 3e-3, torch.float16: 1e-3}
GRADIENT_LIMITS = {torch.bfloat16: 5e-3, torch.float16: 1e-3}
LSE_LIMIT = 1e-3
CHUNK_BYTES = 2 << 30  # The largest size of float32 scores. A few such arrays exist at once.


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The errors of an output. `problem` says why the output is wrong, or is empty. `gradients` has the relative
    Frobenius errors of dq, dk and dv by name."""
    error: float
    bound: float
    frobenius: float
    lse_error: float
    problem: str
    gradients: Dict[str, float] = dataclasses.field(default_factory=dict)


def causal(nq, nk, device):
    """Returns the causal mask [nq, nk], with the last query aligned with the last key."""
    return torch.ones(nq, nk, dtype=torch.bool, device=device).tril_(nk - nq)


def plain(q, k, v, dtype, keep=None, score=None, scale=None):
    """Computes attention of [batch, heads, n, d] arrays with every intermediate in `dtype`. Returns o and the
    log-sum-exp. `keep` is True where a key takes part, and `score` is a function of the scaled scores."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.to(dtype) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    scores = torch.matmul(q, k.transpose(2, 3)).mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if score is not None:
        scores = score(scores).to(dtype)
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    lse = torch.logsumexp(scores, dim=3)
    p = torch.softmax(scores, dim=3)
    if keep is not None or score is not None:  # A row without keys has NaN.
        p = p.nan_to_num(0.0)
    return torch.matmul(p, v), lse


def plain_gradients(q, k, v, do, dtype, *how):
    """Returns dq, dk and dv of plain attention with every intermediate in `dtype`."""
    with torch.enable_grad():
        inputs = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        o, _ = plain(*inputs, dtype, *how)
        return torch.autograd.grad(o, inputs, do.to(dtype))


@contextlib.contextmanager
def no_tf32():
    """Returns a context in which PyTorch multiplies float32 without TF32."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _chunks(batch, heads, group, scores, may_split):
    """Yields slices of the batch, the heads and the key heads. A slice has whole groups of heads. Unless `may_split`,
    yields one slice of everything."""
    if not may_split:
        yield (slice(None),) * 3
        return
    together = max(1, min(heads // group, CHUNK_BYTES // (4 * scores * group)))
    for b in range(batch):
        for first in range(0, heads // group, together):
            last = min(first + together, heads // group)
            yield slice(b, b + 1), slice(first * group, last * group), slice(first, last)


def _compare(name, out, ref, bound, limit, whose=""):
    """Compares two arrays. Returns the largest error, the relative Frobenius error, and a list of problems."""
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
    """Results of attention in float32, and bounds for their errors. The bounds come from plain attention in the type of
    the inputs."""

    @torch.no_grad()
    def _compute(self, plainly, inputs, results, keep, score, scale):
        """Writes the results of `plainly` in float32 to `results`, and returns the bounds of their errors. `keep`
        broadcasts to [batch, heads, nq, nk], and `score` is a function of scores with that shape."""
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
    """The reference of o and the log-sum-exp."""

    def __init__(self, q, k, v, keep=None, score=None, scale=None):
        self.o = torch.empty(*q.shape[:3], v.shape[3], device=q.device)
        self.lse = torch.empty(q.shape[:3], device=q.device)
        self.bound, _ = self._compute(plain, (q, k, v), (self.o, self.lse), keep, score, scale)

    @torch.no_grad()
    def compare(self, out, lse=None):
        """Returns the Comparison of an output, and of the log-sum-exp if it is given."""
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
    """The reference of dq, dk and dv."""

    def __init__(self, q, k, v, do, keep=None, score=None, scale=None):
        """`do` is the gradient of o."""
        self.gradients = [torch.empty_like(x, dtype=torch.float32) for x in (q, k, v)]
        self.bounds = self._compute(plain_gradients, (q, k, v, do), self.gradients, keep, score, scale)

    @torch.no_grad()
    def compare(self, gradients):
        """Returns the Comparison of (dq, dk, dv). It has the error and the bound of the gradient whose error is nearest
        to its bound, and the largest `frobenius`."""
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
