//===- Inputs.h - random arguments for a function that computes attention -----------------------------------------===//
#ifndef FLASHC_EXECUTION_INPUTS_H
#define FLASHC_EXECUTION_INPUTS_H

#include "flashc/Dialect/Flash/IR/Step.h"
#include "flashc/Execution/HostTensor.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace flashc {

/// The largest extent of a dimension.
constexpr int64_t kMaxExtent = int64_t(1) << 31;

/// What the user says about a function's arguments.
struct InputOptions {
  uint64_t seed = 0;
  /// Extents by dimension name (B, Hq, Hk, Nq, Nk).
  std::map<std::string, int64_t> dims;
  /// The most elements of an argument. Callers that ask for extents alone need no memory, and allow more.
  int64_t maxElements = int64_t(1) << 32;
  /// Whole shapes by argument name.
  std::map<std::string, llvm::SmallVector<int64_t>> shapes;
};

/// Parses `B=2,Nq=100` and `q=1x8x63x128,arg3=63x65` into `options`; on a mistake returns what is wrong with it.
std::optional<std::string> parseDims(llvm::StringRef text, InputOptions &options);
std::optional<std::string> parseShapes(llvm::StringRef text, InputOptions &options);

/// What an argument is to its function.
enum class ArgumentRole {
  Input,  ///< read only: q, k, v, or anything that a region captures
  Output, ///< written by one op, all of it: an `outs` operand, or what a result is materialized in
  Update, ///< written in another way: elements may be read first, or keep their value
};

/// One argument of a function, all extents known.
struct ArgumentInfo {
  /// q, k, v, o, lse, c if an op uses it so, otherwise what its attribute `flash.name` says, or arg<number>.
  std::string name;
  ArgumentRole role = ArgumentRole::Input;
  DType dtype = DType::F32;
  bool isScalar = false;
  /// Declared to ascend along its last dimension (flash.assume_sorted).
  bool isSorted = false;
  llvm::SmallVector<int64_t, 4> shape, strides;
  int64_t offset = 0;
};

/// The arguments of `function`, and the extents that its attention ops give to the dimensions B, Hq, Hk, Nq, Nk.
struct FunctionInputs {
  llvm::SmallVector<ArgumentInfo> arguments;
  /// o, lse or c for what an op computed, otherwise result<number>.
  llvm::SmallVector<std::string> resultNames;
  std::map<std::string, int64_t> dims;

  /// Whether there are results, or arguments that are written.
  bool hasOutputs() const {
    return !resultNames.empty() ||
           llvm::any_of(arguments, [](const ArgumentInfo &info) { return info.role != ArgumentRole::Input; });
  }
};

/// What the option --dims calls a dimension of an op with scores: B, Hq, Nq, Nk or Hk.
llvm::StringRef getDimName(mlir::flash::StepDim dim);

/// Decides every extent and stride. A dynamic extent is, in this order: what `options.shapes` says of its argument,
/// what another argument or `options.dims` says of the same dimension, B = 1, Hk = 2, Hq = Hk times the group size,
/// Nq = 63, Nk = 65; of a merge S = 3, and of a cache 80 pages of 16 rows, 5 pages a sequence, 64 positions. In an
/// argument that is no operand of an attention op it is the largest of B, Hq, Nq, Nk, so that any position indexes it.
/// A dynamic stride leaves a gap of 8 elements. Diagnoses types that the host cannot provide and contradictions.
mlir::FailureOr<FunctionInputs> describeInputs(mlir::func::FuncOp function, const InputOptions &options);

/// Values for the arguments: floats are normal(0, 1), integers uniform in [0, Nk], booleans fair, all a function of the
/// seed and the argument's number only; outputs are poisoned. A line of an array that is declared sorted begins with 0
/// and ends with the larger of Nq and Nk, like offsets that cut all positions into segments; what lies between is
/// uniform and sorted. So the segment of a position exists, and some segments are empty. An lse that is read is about
/// that of Nk random scores, and -inf in every eighth row.
llvm::SmallVector<HostTensor> makeInputs(const FunctionInputs &inputs, uint64_t seed);
/// The same for one argument.
HostTensor makeInput(const FunctionInputs &inputs, size_t number, uint64_t seed);

} // namespace flashc

#endif // FLASHC_EXECUTION_INPUTS_H
