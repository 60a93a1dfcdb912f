//===- SinkKernel.h - the kernel that computes the gradients of sinks ---------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SINKKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SINKKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// A flash::emitSinkGradients, and the arguments of the launch that it is written to.
struct SinkSums {
  mlir::Operation *op;
  mlir::flash::SinkGradients of;
  mlir::SmallVector<unsigned, 1> outputs;
};

/// Makes the kernel `<main>_dsinks` that runs when the table of delta is there: a CTA for each head adds up its queries
/// in one order, so that equal arguments give equal bits. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitSinkKernel(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp main,
                                               const TileTables &tables, const SinkSums &sums);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SINKKERNEL_H
