//===- HostKernel.h - a program on the memory of this process -----------------------------------------------------===//
#ifndef FLASHC_EXECUTION_HOSTKERNEL_H
#define FLASHC_EXECUTION_HOSTKERNEL_H

#include "flashc/Compiler/KernelCache.h"
#include "flashc/Compiler/Session.h"
#include "flashc/Execution/CPUProgram.h"
#include "flashc/Runtime/KernelParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace flashc {

/// A kernel for the CPU: the L1 loops of its algorithm, compiled by LLVM's JIT. It is made for trying and checking
/// programs without a GPU. One thread runs the loops. The kernel copies an argument whose strides do not fit the
/// function's type, and it copies results to the caller's arrays. Several threads may call `run` of one kernel.
class HostKernel {
public:
  /// Compiles a kernel whose target is the CPU. `registry` (from registerAllDialects) must outlive it.
  static llvm::Expected<std::unique_ptr<const HostKernel>> load(const mlir::DialectRegistry &registry,
                                                                const CachedKernel &kernel);

  const Manifest &getManifest() const { return manifest; }
  /// Runs the kernel on `arguments`, which are in the order of the manifest's arguments. Arrays are in the memory of
  /// this process and have any strides. Returns when the outputs are written. Arguments that do not suit the kernel
  /// give an error that isArgumentMismatch recognises.
  llvm::Error run(llvm::ArrayRef<LaunchArgument> arguments) const;

private:
  HostKernel(const mlir::DialectRegistry &registry, Author author, Manifest manifest)
      : session(registry, author), manifest(std::move(manifest)) {}

  mutable std::mutex mutex; ///< held during a run
  mutable Session session;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  Manifest manifest;
  mutable std::optional<CPUProgram> program;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_HOSTKERNEL_H
