//===- ScatterKernel.h - the kernel that adds sums up where code says ---------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"

namespace flashc {

/// A flash.scatter_sum whose sums a kernel of the launch computes, in the workspace.
struct ScatterSums {
  mlir::flash::ScatterSumOp op;
  /// The value whose table holds the sums, and their extents in L1.
  mlir::Value table;
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// Whether it adds to zeros; otherwise to what the one before it has written.
  bool isFirst = true;
  /// Arguments of the launch that it writes.
  mlir::SmallVector<unsigned, 1> outputs = {};

  /// Whether the sums are pairs, each of which is the element of the result at its own position, in the order of the
  /// dimensions: then the main kernel writes the result, as far as there are pairs, and needs no table.
  bool isDirect() const;
};

/// Makes the kernel `name` that runs after `main`, which has written the result (isDirect), and sets those of its elements
/// to zero that no pair has. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitRestKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main, llvm::StringRef name,
                                               const TileTables &tables, const ScatterSums &sums);

/// Makes the kernel `name` that runs after `main`. The threads that have an element of the result look for its summands,
/// and add them up in an order that hangs on the extents alone: where an index moves with one position in one direction,
/// the summands' positions are an interval, whose ends are found by bisection; other indices are compared. Returns how it
/// is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitScatterKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                  llvm::StringRef name, const TileTables &tables,
                                                  const ScatterSums &sums);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SCATTERKERNEL_H
