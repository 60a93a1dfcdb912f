"""Launches each kernel of gradients many times on a GPU, and checks that there is no hang, that numbers are right, and
that bits are equal where this is promised.

    gpu_measure gradients                                            2000 launches of each kernel
    compute-sanitizer --tool memcheck python3 utils/gpu_measure gradients --times 1
                                                                     and racecheck, synccheck: sizes for a sanitizer

The numbers of the first launch are compared with float32 attention (by the rule of gpu_check.py), or, with sinks or
dropout, with the formula in float64. Outputs are NaN before the launch, and so is the memory that a workspace is likely
to get. dsinks has the same bits in every launch. dk and dv do if at most two query heads share a key head, and with
deterministic=True all gradients do. Between launches another stream computes products, so that CTAs do not always run
in the same order.
"""

import argparse
import dataclasses
import time
from typing import Optional

import torch

import flashc
from flashc import masks
from flashc.bench import _check


@dataclasses.dataclass(frozen=True)
class Case:
    d: int
    causal: bool = False
    window: Optional[int] = None
    group: int = 1
    deterministic: bool = False
    schedule: Optional[str] = None
    sinks: bool = False
    dropout: float = 0.0

    def __str__(self):
        parts = [f"d={self.d}", "causal" * self.causal, f"window={self.window}" * bool(self.window),
                 f"group={self.group}" * (self.group > 1), "deterministic" * self.deterministic, self.schedule,
                 "sinks" * self.sinks, f"dropout={self.dropout}" * bool(self.dropout)]
        return " ".join(part for part in parts if part)

    def keep(self, nq, nk, device):
        i, j = torch.arange(nq, device=device)[:, None], torch.arange(nk, device=device)
        if self.window:
            return (j <= i) & (j > i - self.window)
        return _check.causal(nq, nk, device) if self.causal else None


CASES = [*(Case(d, causal) for d in (64, 128, 192, 256) for causal in (False, True)),
         *(Case(d, window=50) for d in (64, 128)),
         *(Case(d, causal=True, group=4) for d in (40, 64, 128, 256)),
         *(Case(d, causal, deterministic=True) for d in (64, 128) for causal in (False, True)),
         Case(64, schedule="persistent=true"), Case(128, window=50, schedule="persistent=true"),
         *(Case(d, causal, sinks=True, dropout=p) for d in (64, 128, 256) for causal, p in ((False, 0.1), (True, 0.0))),
         *(Case(d, True, group=2, deterministic=True, sinks=True, dropout=0.5) for d in (64, 128)),
         Case(64, schedule="consumers=1"), Case(64, causal=True, schedule="kv-tile=64")]


def poison(sizes):
    """Fills the memory from which PyTorch will allocate the next arrays of these sizes with NaN."""
    blocks = [torch.full((size // 4,), float("nan"), device="cuda") for size in sizes for _ in range(4)]
    del blocks


def count_different(first, second):
    return torch.stack([(x.view(torch.int16) != y.view(torch.int16)).any() for x, y in zip(first, second)]).any()


def compare_with_formula(q, k, v, do, keep, how, found):
    """Returns the problem of gradients with sinks or dropout, by relative Frobenius errors in float64, or ""."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    group, sinks = q.shape[1] // k.shape[1], how.get("sinks")
    keys, values = (x.repeat_interleave(group, 1) for x in leaves[1:])
    scores = leaves[0] @ keys.mT * q.shape[3] ** -0.5
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    if sinks is not None:
        leaves.append(sinks.double().requires_grad_())
        scores = torch.cat([scores, leaves[3][None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., :k.shape[2]]
    if how.get("dropout_p"):
        mask = flashc.dropout_mask(weights.shape, how["dropout_p"], how["philox"].cpu())
        weights = weights * torch.from_numpy(mask).cuda() / (1 - round(how["dropout_p"] * 256) / 256)
    wanted = torch.autograd.grad((weights @ values * do.double()).sum(), leaves)
    errors = {name: ((x.double() - y).norm() / y.norm()).item()
              for name, x, y in zip(("dq", "dk", "dv", "dsinks"), found, wanted)}
    return "; ".join(f"{name}: error {error:.1e}" for name, error in errors.items() if not error < 1e-2)


def check(case, batch, nq, nk, times, busy):
    """Returns the problem of a case, or ""."""
    torch.manual_seed(nq * 8191 + nk)
    heads = 4
    shapes = [(batch, heads, nq, case.d), *[(batch, heads // case.group, nk, case.d)] * 2, (batch, heads, nq, case.d)]
    q, k, v, do = (torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes)
    how = {"causal": case.causal, "enable_gqa": case.group > 1}
    if case.window:
        how["mask"] = masks.sliding_window(case.window - 1, 0, "top-left")
    if case.sinks:
        how["sinks"] = torch.randn(heads, device="cuda")
    if case.dropout:
        how |= {"dropout_p": case.dropout, "philox": torch.tensor([nq, nk], device="cuda")}
    o, lse = flashc.attention(q, k, v, return_lse=True, **how)
    outputs = [torch.full_like(x, float("nan")) for x in (q, k, v, *([how["sinks"]] if case.sinks else []))]
    poison([1 << 20, 1 << 22])

    def launch():
        flashc.attention_backward(q, k, v, o, lse, do, out=outputs, deterministic=case.deterministic,
                                  schedule=case.schedule, **how)

    launch()
    keep = case.keep(nq, nk, q.device)
    if case.sinks or case.dropout:
        problem = compare_with_formula(q, k, v, do, keep, how, outputs)
    else:
        problem = _check.GradientReference(q, k, v, do, keep).compare(outputs).problem
    is_ordered = case.group <= 2  # sums of two numbers do not depend on the order
    promised = outputs if case.deterministic else outputs[1:] if is_ordered else outputs[3:]
    first, different = [x.clone() for x in promised], torch.zeros((), dtype=torch.int64, device="cuda")
    for number in range(times - 1):
        for x in outputs:
            x.fill_(float("nan"))
        if number % 8 == 0:
            busy()
        launch()
        if promised:
            different += count_different(promised, first)
    if different.item():
        problem += f"; {different.item()} of {times - 1} more launches gave other bits"
    return problem.removeprefix("; ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000, help="launches of each case (2000)")
    parser.add_argument("--filter", default="", help="only cases whose text holds this")
    options = parser.parse_args()
    side, square = torch.cuda.Stream(), torch.randn(2048, 2048, device="cuda").to(torch.bfloat16)

    def busy():
        with torch.cuda.stream(side):
            torch.mm(square, square)

    # Some CTAs have one work tile, others several. No tile is full.
    sizes = [(1, 130, 190)] if options.times == 1 else [(9, 300, 300), (3, 700, 500)]
    failed, begin = 0, time.time()
    for case in CASES:
        if options.filter not in str(case):
            continue
        for batch, nq, nk in sizes:
            problem = check(case, batch, nq, nk, options.times, busy if options.times > 1 else None)
            failed += bool(problem)
            print(f"{'FAILED' if problem else 'passed'} {case} B={batch} Nq={nq} Nk={nk} {problem}".rstrip(),
                  flush=True)
    print(f"{failed} failed, {time.time() - begin:.0f} s")
    return int(failed > 0)
