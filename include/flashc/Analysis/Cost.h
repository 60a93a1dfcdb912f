//===- Cost.h - what a program computes and moves, counted from its loops -----------------------------------------===//
// The cost model is the one of the FlashAttention papers: a large device memory, and on-chip memory for the values that
// one step of the loops works on.
//
// - In device memory: the function's arguments and results, and every tensor that an op outside all loops computes,
//   also where loops carry it on (S and P of standard attention, the state of FlashAttention).
// - On chip: everything else, that is, the values that loop bodies compute from slices.
//
// If a loop takes a slice of a tensor in device memory, this is a read. The slice stays on chip for as long as it does
// not change: if the loop over query tiles is the inner one, a key tile is read once for all query tiles. If a loop
// inserts a slice into a tensor in device memory, this is a write. An op outside the loops reads its operands and
// writes its results as a whole. Initialising an accumulator is free.
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

/// Counts the cost of a call of `function`, at any level from L0 down to L1's loops. `shapes` are the shapes of the
/// arguments (empty for scalars). A flash op counts as traffic of its operands and results, but as no FLOPs: to count
/// FLOPs, pass a copy in which flash ops are decomposed. Loop bounds may depend on shapes and on outer loops; a bound
/// that depends on data is an error. All steps of a loop are assumed to cost the same, except for the last one, whose
/// tile may be cut. If the bounds of a loop depend on an outer loop, the iterations of the outer loop are counted one
/// by one, 2^17 at most.
mlir::FailureOr<Cost> countCost(mlir::func::FuncOp function, mlir::ArrayRef<mlir::SmallVector<int64_t, 4>> shapes);

} // namespace flashc

#endif // FLASHC_ANALYSIS_COST_H
