//===- GradientPasses.td - the passes of the backward pass --------------------------------------------------------===//
#ifndef FLASHC_FLASH_GRADIENT_PASSES_TD
#define FLASHC_FLASH_GRADIENT_PASSES_TD

include "mlir/Pass/PassBase.td"

def DifferentiateScores : Pass<"flash-differentiate-scores"> {
  let summary = "differentiate scores, as a region of their op";
  let description = [{
    Fills the empty `derivative` region of a `flash.attention_backward` that has a score with d score(s) / ds at the
    same score and position, by forward mode over `arith`, `math` and `scf`. Values that do not depend on `s` are not
    computed again, and common subexpressions of the op's regions are merged. docs/backward.md has the rules, also for
    kinks.

    Why here: after `flash-fuse`, which moves the code of captured tensors into the score, and before
    `flash-online-softmax`, whose step needs the derivative. (`flash-decompose` differentiates by itself.)

    Before:
    ```mlir
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %y = arith.mulf %t, %cap : f32
      flash.yield %y : f32
    }
    ```
    After:
    ```mlir
    score (...) { ... }
    derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %square = arith.mulf %t, %t : f32
      %d = arith.subf %one, %square : f32
      flash.yield %d : f32
    }
    ```

    If the score has no derivative, the pass fails: it emits "expected a score that has a derivative" on the op, with
    the note "'<op>' has none" at the op inside of the score. A derivative region that is not empty is left alone.
  }];
  let statistics = [Statistic<"numDifferentiated", "num-differentiated", "scores differentiated">];
}

def DifferentiateCaptures : Pass<"flash-differentiate-captures"> {
  let summary = "compute gradients of tensors that a score reads from sums of score gradients";
  let description = [{
    Replaces each `flash.captured_gradient` by two ops for each read of the captured tensor in its score. The first is a
    `flash.accumulate_gradients`, whose derivative is that of the score with respect to the value read. The second is a
    `flash.scatter_sum`, which adds the sums of the first to the elements that were read. The indices of the read decide
    whether there is a sum for each row, each column, each diagonal or each pair.

    Why here: after `flash-fuse`, when the score has all of its code, and before `flash-tile`, which tiles the steps of
    rows and columns like those of dq and dk.

    Before (a table of relative positions):
    ```mlir
    %d = flash.captured_gradient ins(...) of(%table : tensor<8x1023xf32>) ...
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %place = ...                                        // j - i + 511
          %t = tensor.extract %table[%h, %place]
          %y = arith.addf %s, %t : f32
          flash.yield %y : f32
        }
    ```
    After:
    ```mlir
    %sums = flash.accumulate_gradients ins(..., %delta) outs(%zeros) {gradients = #flash.gradients<diagonals>, ...}
        score (...) { ... } derivative (...) { flash.yield %one : f32 }       // dy/dt
    %d = flash.scatter_sum ins(%sums) outs(%zeros) queries(%nq) {gradients = #flash.gradients<diagonals>}
        index (%b: index, %h: index, %i: index, %j: index) { flash.yield_index %h, %place }
    ```
    The gradient of a tensor that is not read is zero.

    The pass refuses an op whose captured tensor is not an argument of the function, one whose score has no derivative
    with respect to the value read (with a note on the op in the score), and one with a read inside of control flow
    (with a note on the read).
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
  let statistics = [Statistic<"numSums", "num-sums", "reads whose gradients are summed">];
}

def SplitGradients : Pass<"flash-split-gradients"> {
  let summary = "compute the gradients of queries and those of keys in separate loops";
  let description = [{
    Replaces each `flash.accumulate_gradients` of dq, dk and dv by one of dk and dv and one of dq. S and dP are then
    computed twice (seven products in place of five), but each op has loops whose iterations own the tiles of its
    gradients. No two iterations add to one tile, so there are no sums in device memory, and every run gives the same
    bits.

    Why here: after `flash-online-softmax`, before `flash-tile`, which then tiles two ops. `flash-swap-loops` moves the
    key loop of the second op inside, as for attention. Without this pass there is one nest, whose outer loop is over
    keys, and whose iterations add to dq in memory (FlashAttention-2).

    Before:
    ```mlir
    %dq, %dk, %dv = flash.accumulate_gradients ins(...) outs(%zq, %zk, %zv) ...
        {gradients = #flash.gradients<dq, dk, dv>}
    ```
    After:
    ```mlir
    %dk, %dv = flash.accumulate_gradients ins(...) outs(%zk, %zv) ... {gradients = #flash.gradients<dk, dv>}
    %dq      = flash.accumulate_gradients ins(...) outs(%zq) ... {gradients = #flash.gradients<dq>}
    ```
    With `each` the first op is split into two, so that each loop carries only one accumulator (eight products: S is
    computed three times):
    ```mlir
    %dk = flash.accumulate_gradients ins(...) outs(%zk) ... {gradients = #flash.gradients<dk>}
    %dv = flash.accumulate_gradients ins(...) outs(%zv) ... {gradients = #flash.gradients<dv>}
    ```

    An op in a loop, or one that does not accumulate all three gradients, is left alone. The pass never refuses.
  }];
  let options = [Option<"each", "each", "bool", /*default=*/"false", "dk and dv have loops of their own, too">];
  let statistics = [Statistic<"numSplit", "num-split", "steps split">];
}

def RecomputeDelta : Pass<"flash-recompute-delta"> {
  let summary = "compute the row sums of o * do in each step: FlashAttention, Algorithm 4";
  let description = [{
    A tiled `flash.accumulate_gradients` reads a tile of delta = rowsum(o * do). The pass computes this tile from tiles
    of o and do, right before the step (FlashAttention, Algorithm 4, line 19). Without this pass delta is computed once,
    before the loops (FlashAttention-2, Algorithm 2, line 4), and o is read once.

    Before (after `flash-tile`):
    ```mlir
    %delta = linalg.generic ... ins(%o, %do) outs(%zeros)
    scf.for ... {
      %delta_tile = tensor.extract_slice %delta[%b, %h, %i] [1, 1, 64]
      flash.accumulate_gradients ins(..., %delta_tile) ...
    ```
    After:
    ```mlir
    scf.for ... {
      %o_tile = tensor.extract_slice %o[%b, %h, %i, 0] [1, 1, 64, D]         // and do
      %delta_tile = linalg.generic ... ins(%o_tile, %do_tile)
      flash.accumulate_gradients ins(..., %delta_tile) ...
    ```

    A step outside of loops, or one whose delta is an argument, is left alone. The pass never refuses.
  }];
  let statistics = [Statistic<"numRecomputed", "num-recomputed", "steps that compute delta">];
}

#endif // FLASHC_FLASH_GRADIENT_PASSES_TD
