//===- MergeKernel.h - the kernel that merges partial results of attention ----------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_MERGEKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_MERGEKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// A flash.merge_states, and where its parts and its results are.
struct MergedStates {
  mlir::flash::MergeStatesOp op;
  /// Of parts that are tables of the launch (getTables): S, B, H, N and D, in L1. Of parts that are arguments: none.
  mlir::SmallVector<mlir::OpFoldResult, 5> extents;
  /// The arguments of the launch that o and lse are written to.
  mlir::SmallVector<unsigned, 1> outputs, lses;

  /// The tables of parts that other kernels of the launch compute, in f32: o_parts and lse_parts, each row by row in
  /// the order of `extents`. Emits an error and fails if an extent is no formula.
  mlir::FailureOr<mlir::SmallVector<TileTables::Table, 2>> getTables() const;
};

/// Makes the kernel `name` in `module`: neighbouring threads share a row, each with 16 bytes of its columns (with fewer
/// where those do not divide it), and read its parts in ascending order. Returns how it is launched, or fails after an
/// error. Of a launch with other kernels it comes after `main`, in main->getParentOfType<gpu::GPUModuleOp>().
mlir::FailureOr<ManifestKernel> emitMergeKernel(mlir::func::FuncOp host, mlir::gpu::GPUModuleOp module,
                                                llvm::StringRef name, const TileTables &tables,
                                                const MergedStates &states);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_MERGEKERNEL_H
