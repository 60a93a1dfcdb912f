//===- CPUProgram.h - runs L0 and L1 on this machine's CPU --------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_CPUPROGRAM_H
#define FLASHC_EXECUTION_CPUPROGRAM_H

#include "flashc/Execution/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <memory>

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace flashc {

/// A module compiled by LLVM's JIT.
///
/// Memory that the program allocates is poisoned with NaN, so that an element that no one writes shows in the result.
class CPUProgram {
public:
  /// Compiles a copy of `module` (any mix of L0 and L1, see buildCPULoweringPipeline). Diagnoses what it cannot lower.
  static mlir::FailureOr<CPUProgram> compile(mlir::ModuleOp module);

  CPUProgram(CPUProgram &&);
  CPUProgram &operator=(CPUProgram &&);
  ~CPUProgram();

  /// Calls `function` (of the module that was compiled) and returns its results. `arguments` hold a HostTensor for
  /// every argument, of its type (scalars: rank 0); memref arguments are read and written in place, tensor arguments
  /// are read only. Diagnoses elements outside their arrays and integers divided by zero; the program ends there, and
  /// the memory that it has is lost.
  mlir::FailureOr<llvm::SmallVector<HostTensor>> run(mlir::func::FuncOp function,
                                                     llvm::MutableArrayRef<HostTensor> arguments);

private:
  struct Impl;
  explicit CPUProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_CPUPROGRAM_H
