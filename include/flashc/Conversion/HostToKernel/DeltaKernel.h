//===- DeltaKernel.h - the kernel that computes the delta of a backward pass --------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H

#include "flashc/Conversion/HostToKernel/RoundKernel.h"

namespace flashc {

/// The table of what a backward pass asks of each query, the shift of its exponents, -log2(e) lse, and `delta`
/// (flash::emitRowDots): [2, B, Hq, N] in f32, with Nq rounded up to tiles of `tile` queries as N. Queries that do not
/// exist have a delta of 0 and a shift of -inf, so that their probabilities are 0; so has one that sees no key. Emits an
/// error and fails if an extent is no formula.
mlir::FailureOr<TileTables::Table> getDeltaTable(mlir::Value delta, int64_t tile);

/// Makes the kernel that runs before `main`, which it is named for, and fills the table of `delta`: a warp for each row
/// adds up o * do, and takes dlse off. It also sets `sums` to zero, to which the main kernel adds: of its own queries
/// those of dq, and of the heads that queries share those of dk and dv. Returns how it is launched, or fails after an
/// error.
mlir::FailureOr<ManifestKernel> emitDeltaKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                                const TileTables &tables, mlir::Value delta, mlir::Value lse,
                                                mlir::ArrayRef<AddedSums> sums);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_DELTAKERNEL_H
