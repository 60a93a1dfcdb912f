//===- IndexPasses.td - passes for indices into the arrays that masks and scores read -----------------------------===//
#ifndef FLASHC_FLASH_INDEX_PASSES_TD
#define FLASHC_FLASH_INDEX_PASSES_TD

include "mlir/Pass/PassBase.td"

def WrapIndices : Pass<"flash-wrap-indices"> {
  let summary = "expand indices that count from the end where they are negative";
  let description = [{
    Replaces each `flash.wrap_index` in a score or a mask. If the index is never negative, the replacement is the index
    itself. Only pairs of a query and a key that exist count here, and for an index in a score only pairs that the mask
    keeps. If the index may be negative, the replacement is a comparison, a sum and a select. An index is never negative
    if the op has `natural`, or if the mask analysis (`readMask`) proves that this condition never holds:

        mask(b, h, i, j) and i < Nq and j < Nk and index < 0

    Why here: the pass is the first one on tensors, so that no other pass has to know the op.

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
      %distance = arith.subi %i, %j : index                            // takes the place of %place
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
  let summary = "assert that indices are inside their arrays and that promises about arrays hold";
  let description = [{
    Adds checks to a program that runs on the CPU, as loops whose bodies end in a `cf.assert`:
    - Indices: for each op with scores and each pair of a query and a key, loops before the op compute the indices that
      the score or the mask wraps (`flash.wrap_index`). An index outside of its dimension (below -n, or n and more)
      fails if the score or the mask depends on it. A score or a mask does not depend on the value that a select does
      not take, on one side of an `arith.andi` where the other side is false, and on one side of an `arith.ori` where
      the other side is true. The score of a pair that the mask drops does not count, either.
    - Promises: the pass checks that each array that is declared sorted (`flash.assume_sorted`) ascends.

    The message of a failed assertion has the location of the op and its name (`loc("table"("mask.py":3:0))`).

    Why here: the ops of L0 have exactly the pairs that exist, while tiles of L1 also have pairs that do not exist, and
    tables of L1 are computed in advance. So this pass is the first one, before `flash-wrap-indices`. A function is
    checked once (`flash.checked`).

    The pass checks neither indices that depend on the score's argument nor indices inside of control flow.
  }];
  let dependentDialects = ["arith::ArithDialect", "cf::ControlFlowDialect", "memref::MemRefDialect", "scf::SCFDialect",
                           "tensor::TensorDialect"];
  let statistics = [Statistic<"numIndices", "num-indices", "indices that are checked">,
                    Statistic<"numPromises", "num-promises", "promises that are checked">];
}

#endif // FLASHC_FLASH_INDEX_PASSES_TD
