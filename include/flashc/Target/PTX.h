//===- PTX.h - L3 to text: LLVM IR, PTX, and the manifest ---------------------------------------------------------===//
#ifndef FLASHC_TARGET_PTX_H
#define FLASHC_TARGET_PTX_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <string>

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace flashc {

/// An attribute of LLVM functions whose blocks have hundreds of sums; passes that would take too long skip them.
constexpr llvm::StringLiteral kLongCodeAttrName = "flashc-long-code";

/// Registers the translations to LLVM IR that the functions below need.
void registerTargetTranslations(mlir::DialectRegistry &registry);

/// Registers LLVM's NVPTX back end, once. The functions below call it. LLVM's list of back ends has no lock: a program
/// that registers another back end in the same process must call this first.
void registerNVPTX();

/// Returns LLVM IR of the one gpu.module in `module`, whose kernels are llvm.func. Emits an error and fails otherwise.
llvm::FailureOr<std::string> translateToLLVMIR(mlir::ModuleOp module, llvm::StringRef target);

/// Returns PTX of the one gpu.module in `module`, for `target` ("sm_90a"), by LLVM's NVPTX back end at -O3.
llvm::FailureOr<std::string> translateToPTX(mlir::ModuleOp module, llvm::StringRef target);

/// Returns machine code (a cubin) of `ptx`, by the user's ptxas (from PATH, $CUDA_HOME/bin or the toolkit's usual
/// folder). Errors, also of ptxas, are emitted on `module`.
llvm::FailureOr<std::string> assemblePTX(mlir::ModuleOp module, llvm::StringRef ptx, llvm::StringRef target);

/// Returns the manifest (JSON) of the one kernel in `module`, at L2 or below, with its variants.
llvm::FailureOr<std::string> exportManifest(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_TARGET_PTX_H
