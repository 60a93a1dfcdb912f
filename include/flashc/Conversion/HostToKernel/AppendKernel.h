//===- AppendKernel.h - the kernel that writes new tokens to a cache ----------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_APPENDKERNEL_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_APPENDKERNEL_H

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace flashc {

/// Makes the kernel `name` of a flash.append_kv whose operands are arguments of the host function, in `module`: a
/// thread copies 16 bytes of a key and as many of its value, or fewer where the depths ask for it. Nothing of the
/// launch hangs on what arrays hold. Returns how it is launched, or fails after an error.
mlir::FailureOr<ManifestKernel> emitAppendKernel(mlir::func::FuncOp host, mlir::gpu::GPUModuleOp module,
                                                 llvm::StringRef name, mlir::flash::AppendKVOp op);

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_APPENDKERNEL_H
