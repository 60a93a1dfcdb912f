"""Outputs against float32 attention on the same inputs: the rule of docs/checking.md, in chunks of heads.

    max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|,   ||out - ref|| / ||ref|| < 3e-3 (f16: 1e-3)

`naive` is plain attention with every intermediate in the inputs' type. The log-sum-exp is within 1e-3."""

import dataclasses
import math

import torch

FROBENIUS_LIMITS = {torch.bfloat16: 3e-3, torch.float16: 1e-3}
LSE_LIMIT = 1e-3
CHUNK_BYTES = 2 << 30  # Of float32 scores; a handful of arrays of that size live at once.


@dataclasses.dataclass
class Comparison:
    error: float = 0.0
    naive_error: float = 0.0
    rounding: float = 0.0
    square: float = 0.0
    nans: int = 0
    lse_error: float = 0.0
    reference_square: float = 0.0

    @property
    def bound(self):
        return 2 * self.naive_error + 2 * self.rounding

    @property
    def frobenius(self):
        scale = math.sqrt(self.reference_square)
        return math.sqrt(self.square) / scale if scale else math.sqrt(self.square)

    def problem(self, dtype):
        """Why the output is wrong, or an empty text."""
        found = []
        if self.nans:
            found.append(f"{self.nans} NaN in o")
        elif not self.error <= self.bound:
            found.append(f"o off by {self.error:.3g}, expected at most {self.bound:.3g}")
        if not self.frobenius < FROBENIUS_LIMITS[dtype]:
            found.append(f"relative Frobenius error {self.frobenius:.3g}, expected less than {FROBENIUS_LIMITS[dtype]}")
        if not self.lse_error <= LSE_LIMIT:
            found.append(f"log-sum-exp off by {self.lse_error:.3g}, expected at most {LSE_LIMIT}")
        return "; ".join(found)


def _attention(q, k, v, hidden, dtype):
    """Plain attention with every intermediate in `dtype`, of [items, n, d]. `hidden`: True where a key is not seen."""
    scores = torch.matmul(q.to(dtype), k.to(dtype).transpose(1, 2)).mul_(q.shape[2] ** -0.5)
    if hidden is not None:
        scores.masked_fill_(hidden, float("-inf"))
    lse = torch.logsumexp(scores, dim=2) if dtype == torch.float32 else None
    return torch.matmul(torch.softmax(scores, dim=2), v.to(dtype)), lse


def _add(comparison, out, ref, naive_error, rounding):
    difference = out.float() - ref
    comparison.nans += int(torch.isnan(difference).sum())
    comparison.error = max(comparison.error, float(torch.nan_to_num(difference.abs(), nan=math.inf).max()))
    comparison.square += float(torch.linalg.vector_norm(difference, dtype=torch.float64)) ** 2
    comparison.naive_error = max(comparison.naive_error, naive_error)
    comparison.rounding = max(comparison.rounding, rounding)
    comparison.reference_square += float(torch.linalg.vector_norm(ref, dtype=torch.float64)) ** 2


@torch.no_grad()
def compare(inputs, causal, outputs, lses):
    """{name: Comparison} of `outputs`, {name: [batch, heads, n, dv]}, all against one reference, and of those
    log-sum-exps that there are, {name: [batch, heads, n]}."""
    q, k, v = inputs
    batch, heads, n, _ = q.shape
    group = heads // k.shape[1]
    # No TF32: the reference is float32 throughout.
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu_(1) if causal else None
        found = {name: Comparison() for name in outputs}
        together = max(1, min(heads, CHUNK_BYTES // (4 * n * n)))
        for b in range(batch):
            for first in range(0, heads, together):
                chosen = torch.arange(first, min(first + together, heads), device=q.device)
                operands = q[b, chosen], k[b, chosen // group], v[b, chosen // group]
                ref, ref_lse = _attention(*operands, hidden, torch.float32)
                naive, _ = _attention(*operands, hidden, q.dtype)
                naive_error = float((naive.float() - ref).abs().max())
                rounding = float(((ref + 0.3 - 0.3) - ref).abs().max())
                for name, out in outputs.items():
                    _add(found[name], out[b, chosen], ref, naive_error, rounding)
                    if name in lses:
                        off = torch.nan_to_num((lses[name][b, chosen] - ref_lse).abs(), nan=math.inf).max()
                        found[name].lse_error = max(found[name].lse_error, float(off))
        return found
    finally:
        torch.set_float32_matmul_precision(precision)
