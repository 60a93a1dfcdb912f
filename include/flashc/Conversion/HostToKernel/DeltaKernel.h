//===- DeltaKernel.h - the kernel that computes the delta of a backward pass --------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H

#include "flashc/Conversion/HostToKernel/KernelSignature.h"

namespace flashc {

/// The table for `delta` (flash::emitRowDots), [B, Hq, Nq] in f32. Emits an error and fails if an extent is no formula.
mlir::FailureOr<TileTables::Table> getDeltaTable(mlir::Value delta);

/// Makes the kernel that runs before `main`, which it is named for, and fills the table of `delta`: a warp for each row
/// adds up o * do, and takes dlse off. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitDeltaKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                const TileTables &tables, mlir::Value delta);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H
