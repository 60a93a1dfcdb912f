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

/// An attribute of LLVM functions whose blocks have hundreds of sums: passes that would take too long leave them alone.
constexpr llvm::StringLiteral kLongCodeAttrName = "flashc-long-code";

/// Registers the translations to LLVM IR that the functions below need.
void registerTargetTranslations(mlir::DialectRegistry &registry);

/// Registers LLVM's NVPTX back end, once. The functions below do so. LLVM's list of back ends has no lock: whoever
/// registers another in the same process calls this before, so that no two threads add to the list at once.
void registerNVPTX();

/// LLVM IR of the one gpu.module in `module`, whose kernels are llvm.func. Emits an error and fails otherwise.
llvm::FailureOr<std::string> translateToLLVMIR(mlir::ModuleOp module, llvm::StringRef target);

/// PTX of the same, for `target` ("sm_90a"), through LLVM's NVPTX back end at -O3.
llvm::FailureOr<std::string> translateToPTX(mlir::ModuleOp module, llvm::StringRef target);

/// Machine code (a cubin) of `ptx`, by the user's ptxas (PATH, $CUDA_HOME/bin or the toolkit's usual folder). Errors,
/// ptxas's own among them, go to `module`.
llvm::FailureOr<std::string> assemblePTX(mlir::ModuleOp module, llvm::StringRef ptx, llvm::StringRef target);

/// The manifest (JSON) of the one kernel in `module`, at L2 or below, with its variants.
llvm::FailureOr<std::string> exportManifest(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_TARGET_PTX_H
