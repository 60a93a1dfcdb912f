//===- Check.h - are these the right numbers? ---------------------------------------------------------------------===//
//
// The check compares three values of an output. `out` is the output itself. `naive` is the output of Algorithm 0 in the
// function's own types, and `ref` that of Algorithm 0 in f64, on the same inputs. `out` is right if
//
//     max|out - ref| <= 2 max|naive - ref| + 2 max|(ref + 0.3 - 0.3) - ref|
//
// The last term measures the rounding of the output's type: each operation of `ref + 0.3 - 0.3` is rounded to this
// type. For f32 and f64 the bound is larger by 1e-5 times the largest magnitude in `ref` (or times 1, if that is
// larger), since sums in f32 depend on the order of their terms. Integers must be equal to `ref`. An infinity must be
// where `ref` has the same infinity, and a NaN is never right.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_EXECUTION_CHECK_H
#define FLASHC_EXECUTION_CHECK_H

#include "flashc/Execution/CPUProgram.h"
#include "flashc/Execution/Inputs.h"

namespace flashc {

/// The comparison of one output with the reference.
struct OutputCheck {
  std::string name;
  double maxError = 0;  ///< infinity if an infinity is in a wrong place, or if there is a NaN
  double bound = 0;     ///< the largest allowed maxError
  double frobenius = 0; ///< ||out - ref|| / ||ref|| over the elements where `ref` is finite
  bool passed() const { return maxError <= bound; }
};

/// Compares row-major arrays of an output of type `dtype`.
OutputCheck compareOutput(llvm::StringRef name, DType dtype, llvm::ArrayRef<double> out, llvm::ArrayRef<double> naive,
                          llvm::ArrayRef<double> ref);

/// An output of a function: a result, or a memref argument that the function writes.
struct NamedOutput {
  std::string name;
  HostTensor tensor;
};

/// The data of one run of a function.
struct FunctionRun {
  std::string name;
  llvm::SmallVector<NamedOutput, 2> outputs;
  llvm::SmallVector<OutputCheck, 2> checks; ///< one for each output; empty without a reference
};

/// Runs functions on seeded inputs, and compares their outputs with those of the module before any pass.
class ModuleChecker {
public:
  /// Chooses the inputs of `functions`. These functions have not been through any pass, so they define the right
  /// results. If `withReference`, computes these results in f64 and in the functions' own types. Emits a diagnostic for
  /// a function without an element to compare.
  static mlir::FailureOr<ModuleChecker> create(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> functions,
                                               const InputOptions &options, bool withReference);

  /// Compiles `module`, a later form of the module that `create` got, and runs the functions of the same names on the
  /// same inputs.
  mlir::FailureOr<std::vector<FunctionRun>> run(mlir::ModuleOp module);

  /// Computes a function's results, and writes its output arguments in place.
  using Runner = llvm::function_ref<mlir::FailureOr<llvm::SmallVector<HostTensor>>(
      llvm::StringRef function, const FunctionInputs &inputs, llvm::MutableArrayRef<HostTensor> arguments)>;
  /// Runs every function on its inputs by calling `runner`.
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
