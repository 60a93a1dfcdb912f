//===- TableKernel.h - the kernels that compute tables of tiles ---------------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H

#include "flashc/Launch/TileTables.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace flashc {

/// Makes a kernel for tables of rows, another for those of arrays and a third one for those of runs, where there are
/// such, behind `main`, which they are named for: eight warps in a CTA, a warp for each tile. Returns how they are
/// launched, or fails after an error.
mlir::FailureOr<std::vector<ManifestKernel>> emitTableKernels(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                              const TileTables &tables);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_TABLEKERNEL_H
