//===- ScatterKernel.h - the kernel that adds sums up where code says ---------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"

namespace flashc {

/// A flash.scatter_sum whose sums a kernel of the launch computes, in the workspace.
struct ScatterSums {
  mlir::flash::ScatterSumOp op;
  /// Of the sums, in L1.
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// Whether it adds to zeros; otherwise to what the one before it has written.
  bool isFirst = true;
  /// Arguments of the launch that it writes.
  mlir::SmallVector<unsigned, 1> outputs = {};

  /// The table that holds the sums. Emits an error and fails if an extent is no formula.
  mlir::FailureOr<TileTables::Table> getTable() const;
};

/// Makes the kernel `name` that runs after `main`. The threads that have an element of the result look for its summands,
/// and add them up in an order that hangs on the extents alone: where an index moves with one position in one direction,
/// the summands' positions are an interval, whose ends are found by bisection; other indices are compared. Returns how it
/// is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitScatterKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                  llvm::StringRef name, const TileTables &tables,
                                                  const ScatterSums &sums);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H
