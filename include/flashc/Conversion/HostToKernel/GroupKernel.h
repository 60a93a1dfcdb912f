//===- GroupKernel.h - the kernel that adds up what the heads of a group gave -------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_GROUPKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_GROUPKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace flashc {

/// A flash::emitGroupSums whose input the main kernel computes: [B, Hq, N], or [B, Hq, N, D], in the workspace, with these
/// extents in L1.
struct GroupSums {
  mlir::linalg::GenericOp op;
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  int64_t groupSize;

  /// The table that holds the input. Emits an error and fails if an extent is no formula.
  mlir::FailureOr<TileTables::Table> getTable() const;
  /// The input in a kernel, as an array; null after an error.
  mlir::Value getInput(mlir::OpBuilder &b, KernelSignature &signature, ScalarCloner &scalars) const;
};

/// Makes the kernel `name` that runs after `main` and writes `outputs`, arguments of the launch [B, Hk, N] or
/// [B, Hk, N, D], rounded to their type: a thread for each element, or for eight where D is there, adds up the heads of
/// its group, the first one first. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitGroupKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                llvm::StringRef name, const TileTables &tables, const GroupSums &sums,
                                                mlir::ArrayRef<unsigned> outputs);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_GROUPKERNEL_H
