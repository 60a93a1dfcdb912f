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

/// The attribute of LLVM functions that have hundreds of sums in a basic block. On such functions two LLVM passes would
/// take too long, and are skipped.
constexpr llvm::StringLiteral kLongCodeAttrName = "flashc-long-code";

/// Registers the translations to LLVM IR that the functions below need.
void registerTargetTranslations(mlir::DialectRegistry &registry);

/// Registers LLVM's NVPTX back end, once; the functions below call this. LLVM's list of back ends has no lock: if a
/// program registers another back end in the same process, it must call this function first.
void registerNVPTX();

/// Returns LLVM IR of the one gpu.module in `module`, whose kernels must be llvm.func. Fails after an error.
llvm::FailureOr<std::string> translateToLLVMIR(mlir::ModuleOp module, llvm::StringRef target);

/// Returns PTX of the one gpu.module in `module`, for a `target` such as "sm_90a". LLVM's NVPTX back end makes it, at
/// -O3.
llvm::FailureOr<std::string> translateToPTX(mlir::ModuleOp module, llvm::StringRef target);

/// Assembles `ptx` to machine code (a cubin). Uses the user's ptxas: from PATH, $CUDA_HOME/bin, or the toolkit's usual
/// folder. Emits errors, also those of ptxas, on `module`.
llvm::FailureOr<std::string> assemblePTX(mlir::ModuleOp module, llvm::StringRef ptx, llvm::StringRef target);

/// Returns the manifest (JSON) of the one kernel in `module`, at L2 or below, with its variants.
llvm::FailureOr<std::string> exportManifest(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_TARGET_PTX_H
