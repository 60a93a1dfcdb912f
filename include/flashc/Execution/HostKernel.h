//===- HostKernel.h - a program on the memory of this process -----------------------------------------------------===//
#ifndef FLASHC_EXECUTION_HOSTKERNEL_H
#define FLASHC_EXECUTION_HOSTKERNEL_H

#include "flashc/Compiler/KernelCache.h"
#include "flashc/Compiler/Session.h"
#include "flashc/Execution/CPUProgram.h"
#include "flashc/Runtime/KernelParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// A kernel for the CPU: the L1 loops of its algorithm, compiled by LLVM's JIT. It is for trying and checking programs
/// where there is no GPU: the loops are right, one thread runs them, and arrays are copied in and out. Threads may
/// share it.
class HostKernel {
public:
  /// Compiles a kernel whose target is the CPU. `registry` (that of registerAllDialects) outlives it.
  static llvm::Expected<std::unique_ptr<const HostKernel>> load(const mlir::DialectRegistry &registry,
                                                                const CachedKernel &kernel);

  const Manifest &getManifest() const { return manifest; }
  /// Runs on arrays (the manifest's arguments, in order) with addresses in this process and any strides. Returns when
  /// the outputs are written. What is wrong with the arguments is an isArgumentMismatch.
  llvm::Error run(llvm::ArrayRef<LaunchArgument> arguments) const;

private:
  HostKernel(const mlir::DialectRegistry &registry, Author author, Manifest manifest)
      : session(registry, author), manifest(std::move(manifest)) {}

  mutable std::mutex mutex; ///< of a run
  mutable Session session;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  Manifest manifest;
  mutable std::optional<CPUProgram> program;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_HOSTKERNEL_H
