//===- Check.h - are these the right numbers? ---------------------------------------------------------------------===//
//
// An output is right when its largest error is within twice that of Algorithm 0 in the same type, plus rounding:
//
//     max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|
//
// `ref` is Algorithm 0 in f64 on the same inputs (for 16-bit types as good as f32, whose rounding is far below
// theirs), `naive` is Algorithm 0 in the function's own types, and the last term is rounded in the output's
// type. An output in f32 may further differ by 1e-5 of the largest magnitude, because sums of f32 in another order do
// differ: for the log-sum-exp, which is f32 at every rung, naive and ref would otherwise be the same number. Infinities
// must match exactly, and a NaN is never right.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_CHECK_H
#define FLASHC_EXECUTION_CHECK_H

#include "flashc/Execution/CPUProgram.h"
#include "flashc/Execution/Inputs.h"

namespace flashc {

/// One output, compared with the reference.
struct OutputCheck {
  std::string name;
  double maxError = 0;  ///< infinity if a NaN or an infinity is in the wrong place
  double bound = 0;     ///< what maxError may be
  double frobenius = 0; ///< ||out - ref|| / ||ref|| over the finite elements
  bool passed() const { return maxError <= bound; }
};

/// Compares row-major arrays of one output, which has type `dtype`.
OutputCheck compareOutput(llvm::StringRef name, DType dtype, llvm::ArrayRef<double> out, llvm::ArrayRef<double> naive,
                          llvm::ArrayRef<double> ref);

/// An output of a function: a result, or a memref argument that it writes.
struct NamedOutput {
  std::string name;
  HostTensor tensor;
};

/// One function after one run.
struct FunctionRun {
  std::string name;
  llvm::SmallVector<NamedOutput, 2> outputs;
  llvm::SmallVector<OutputCheck, 2> checks; ///< one per output, or none if there is no reference
};

/// Runs a set of functions on seeded inputs, and compares them with what they meant at first.
class ModuleChecker {
public:
  /// Decides the inputs of `functions`, which are in the form that defines their meaning: before any pass. With
  /// `withReference` their results are computed and kept, in f64 and in their own types; diagnoses a function without
  /// an element to compare.
  static mlir::FailureOr<ModuleChecker> create(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> functions,
                                               const InputOptions &options, bool withReference);

  /// Compiles `module`, a later form of the first, and runs its functions of the same names on the same inputs.
  mlir::FailureOr<std::vector<FunctionRun>> run(mlir::ModuleOp module);

  /// Computes a function's results; writes its output arguments in place.
  using Runner = llvm::function_ref<mlir::FailureOr<llvm::SmallVector<HostTensor>>(
      llvm::StringRef function, const FunctionInputs &inputs, llvm::MutableArrayRef<HostTensor> arguments)>;
  /// Runs every function on the same inputs by other means.
  mlir::FailureOr<std::vector<FunctionRun>> run(Runner runner);

private:
  struct Plan {
    std::string name;
    FunctionInputs inputs;
    llvm::SmallVector<NamedOutput, 2> naive, reference;
  };
  mlir::LogicalResult computeReference(mlir::ModuleOp module);
  std::vector<Plan> plans;
  uint64_t seed = 0;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_CHECK_H
