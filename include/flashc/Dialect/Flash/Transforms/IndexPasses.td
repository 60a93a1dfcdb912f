//===- IndexPasses.td - passes for indices into the arrays that masks and scores read -----------------------------===//
#ifndef FLASHC_FLASH_INDEX_PASSES_TD
#define FLASHC_FLASH_INDEX_PASSES_TD

include "mlir/Pass/PassBase.td"

def WrapIndices : Pass<"flash-wrap-indices"> {
  let summary = "indices that may be negative count from the end by a select";
  let description = [{
    Replaces each `flash.wrap_index` in a score or a mask: by its index, if that is never negative for a query and a key
    that exist and, in a score, that the mask keeps; or else by a comparison, a sum and a select. An index is never
    negative where the op says so (`natural`), or where the mask analysis (`readMask`) finds nothing of

        mask(b, h, i, j) and i < Nq and j < Nk and index < 0

    Why here: it is the first thing that happens to an op on tensors, so that no other pass knows the op.

    Before:
    ```mlir
    mask (%b: index, %h: index, %i: index, %j: index) { ... %j <= %i ... }
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %distance = arith.subi %i, %j : index
      %place = flash.wrap_index %distance of %n
      %next = arith.subi %j, %c1 : index
      %other = flash.wrap_index %next of %n
      ...
    }
    ```
    After:
    ```mlir
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %distance = arith.subi %i, %j : index                            // is %place
      %next = arith.subi %j, %c1 : index
      %negative = arith.cmpi slt, %next, %c0 : index
      %end = arith.addi %next, %n : index
      %other = arith.select %negative, %end, %next : index
      ...
    }
    ```
  }];
  let dependentDialects = ["arith::ArithDialect", "tensor::TensorDialect", "memref::MemRefDialect"];
  let statistics = [Statistic<"numNatural", "num-natural", "indices that are never negative">,
                    Statistic<"numSelects", "num-selects", "indices that a select wraps">];
}

def CheckData : Pass<"flash-check-data", "func::FuncOp"> {
  let summary = "indices are inside their arrays and promises about arrays hold, or a cf.assert fails";
  let description = [{
    For programs that run on the CPU: computes at first, in loops of their own,
    - of each op with scores the indices that a score or a mask wraps (`flash.wrap_index`), for all pairs of a query and
      a key. An index outside of its dimension (below -n, or n and more) fails, if the score or the mask hangs on it:
      they do not hang on what a select does not take, on one side of an `arith.andi` where the other side is false, on
      one side of an `arith.ori` where the other one is true, and on the score of a pair that the mask drops;
    - of each array that is declared to be sorted (`flash.assume_sorted`) whether it ascends.

    The message has the place of the op, with the name that its location has (`loc("table"("mask.py":3:0))`).

    Why here: the tiles of L1 have pairs that do not exist, and compute tables in advance; the ops of L0 say which
    values are asked for. It is the first pass, before flash-wrap-indices; a function is checked once (`flash.checked`).

    Indices that the score itself computes, and indices inside of control flow, are not looked at.
  }];
  let dependentDialects = ["arith::ArithDialect", "cf::ControlFlowDialect", "memref::MemRefDialect", "scf::SCFDialect",
                           "tensor::TensorDialect"];
  let statistics = [Statistic<"numIndices", "num-indices", "indices that are checked">,
                    Statistic<"numPromises", "num-promises", "promises that are checked">];
}

#endif // FLASHC_FLASH_INDEX_PASSES_TD
