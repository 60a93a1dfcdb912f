//===- Cost.h - what a program computes and moves, counted from its loops -----------------------------------------===//
// The cost model is the one of the FlashAttention papers: a large device memory, and on-chip memory for the values that
// one step of the loops works on.
//
// - In device memory: the function's arguments and results, and every tensor that an op outside all loops computes and
//   the loops carry (S and P of standard attention, the state of FlashAttention).
// - On chip: everything else, that is, the values that loop bodies compute from slices.
//
// A slice of a device tensor taken in a loop is a read, and stays on chip for as long as it does not change (a key tile
// is read once for all query tiles if the query loop is inside); a slice inserted into a device tensor is a write. An
// op outside the loops reads its operands and writes its results whole. Initialising an accumulator is free.
//
// Floating-point operations in the bodies of linalg ops count 1 each, padded elements included, because the machine
// computes them too; conversions, comparisons and selections are free.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_COST_H
#define FLASHC_ANALYSIS_COST_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DynamicAPInt.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace flashc {

/// Totals over one call. The integers have arbitrary precision: 2^31 queries and keys are 2^70 FLOPs a head.
struct Cost {
  llvm::DynamicAPInt matmulFlops, otherFlops;
  llvm::DynamicAPInt bytesRead, bytesWritten;

  Cost &operator+=(const Cost &other);
  Cost operator*(int64_t times) const;
  void print(llvm::raw_ostream &os) const;
};

/// Returns the double that is nearest to `number`.
double toDouble(const llvm::DynamicAPInt &number);

/// Counts `function`, at any level down to L1's loops, called with arguments of `shapes` (empty for scalars). Flash ops
/// move their operands and results and compute nothing: count FLOPs on a decomposed copy. Loop bounds may depend on
/// shapes and outer loops; a bound that depends on data is an error. All steps of a loop cost the same except for the
/// last one, whose tile may be cut. A loop whose bounds depend on an outer loop is counted for each iteration of the
/// outer one, 2^17 at most.
mlir::FailureOr<Cost> countCost(mlir::func::FuncOp function, mlir::ArrayRef<mlir::SmallVector<int64_t, 4>> shapes);

} // namespace flashc

#endif // FLASHC_ANALYSIS_COST_H
