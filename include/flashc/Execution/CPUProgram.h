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

/// A module that is compiled by LLVM's JIT.
///
/// Memory that the program allocates is filled with NaN, so that an element that is never written shows in the result.
class CPUProgram {
public:
  /// Compiles a copy of `module`, which may mix L0 and L1 (buildCPULoweringPipeline). Emits a diagnostic for ops that
  /// it cannot lower.
  static mlir::FailureOr<CPUProgram> compile(mlir::ModuleOp module);

  CPUProgram(CPUProgram &&);
  CPUProgram &operator=(CPUProgram &&);
  ~CPUProgram();

  /// Calls `function` of the compiled module and returns its results. `arguments` has a HostTensor of the right type
  /// for every argument; a scalar is a HostTensor of rank 0. Memref arguments are read and written in place, and tensor
  /// arguments are only read. An access outside an array and an integer division by zero end the program with a
  /// diagnostic. The memory that the program has allocated leaks then.
  mlir::FailureOr<llvm::SmallVector<HostTensor>> run(mlir::func::FuncOp function,
                                                     llvm::MutableArrayRef<HostTensor> arguments);

private:
  struct Impl;
  explicit CPUProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_CPUPROGRAM_H
