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

/// The user's options for a function's arguments.
struct InputOptions {
  uint64_t seed = 0;
  /// Extents by dimension name (B, Hq, Hk, Nq, Nk).
  std::map<std::string, int64_t> dims;
  /// The largest number of elements of an argument. A caller that needs only extents may allow more, since it allocates
  /// nothing.
  int64_t maxElements = int64_t(1) << 32;
  /// Whole shapes by argument name.
  std::map<std::string, llvm::SmallVector<int64_t>> shapes;
};

/// Parses `B=2,Nq=100` or `q=1x8x63x128,arg3=63x65` into `options`. Returns a message if the text is wrong.
std::optional<std::string> parseDims(llvm::StringRef text, InputOptions &options);
std::optional<std::string> parseShapes(llvm::StringRef text, InputOptions &options);

/// How a function uses an argument.
enum class ArgumentRole {
  Input,  ///< read only: q, k, v, or an array that a region captures
  Output, ///< written whole by one op: an `outs` operand, or the buffer of a result
  Update, ///< written in another way: the function may read elements first, or may leave some as they are
};

/// An argument of a function, with static extents.
struct ArgumentInfo {
  /// The name of the argument's role in an op: q, k, v, o, lse or c. Without a role, the argument's attribute
  /// `flash.name`, or arg<number>.
  std::string name;
  ArgumentRole role = ArgumentRole::Input;
  DType dtype = DType::F32;
  bool isScalar = false;
  /// Whether flash.assume_sorted declares that the argument ascends along its last dimension.
  bool isSorted = false;
  llvm::SmallVector<int64_t, 4> shape, strides;
  int64_t offset = 0;
};

/// The arguments of a function, and the extents B, Hq, Hk, Nq, Nk of its attention ops.
struct FunctionInputs {
  llvm::SmallVector<ArgumentInfo> arguments;
  /// The name of each result: o, lse or c for a result of an op, otherwise result<number>.
  llvm::SmallVector<std::string> resultNames;
  std::map<std::string, int64_t> dims;

  /// Whether there are results or written arguments.
  bool hasOutputs() const {
    return !resultNames.empty() ||
           llvm::any_of(arguments, [](const ArgumentInfo &info) { return info.role != ArgumentRole::Input; });
  }
};

/// Returns the name of a dimension, such as Nq or pages. The option --dims takes only B, Hq, Hk, Nq and Nk.
llvm::StringRef getDimName(mlir::flash::StepDim dim);

/// Chooses every dynamic extent and stride. A dynamic extent is taken from the first of these sources that has it: the
/// shape of its argument in `options.shapes`; the same dimension in another argument or in `options.dims`; the default.
/// The defaults are B = 1, Hk = 2, Hq = Hk times the group size, Nq = 63 and Nk = 65. A flash.merge_states has 3 parts.
/// Caches have 80 pages of 16 rows; tables of pages have 5 pages for each sequence; `cos` and `sin` have 64 rows. If an
/// argument is not an operand of an attention op, its dynamic extents are the largest of B, Hq, Nq and Nk, so that it
/// has an element for each batch, head, query and key. A dynamic stride leaves a gap of 8 elements. Emits a diagnostic
/// for types that the host does not have, and for contradictions.
mlir::FailureOr<FunctionInputs> describeInputs(mlir::func::FuncOp function, const InputOptions &options);

/// Makes values for the arguments. Floats are normally distributed with mean 0 and variance 1, integers are uniform in
/// [0, Nk], and a boolean is true with probability 1/2. Arguments with the role Output are poisoned
/// (HostTensor::poison). Values depend only on the seed and the argument's number.
///
/// An array that is declared sorted has such numbers along its last dimension: the first is 0, the last is the larger
/// of Nq and Nk, and the numbers between them are uniform and sorted. They are like offsets that cut all positions into
/// segments, of which some are empty. An lse that is an input has values like those of Nk random scores, and -inf in
/// every eighth row.
llvm::SmallVector<HostTensor> makeInputs(const FunctionInputs &inputs, uint64_t seed);
/// Makes the values of one argument.
HostTensor makeInput(const FunctionInputs &inputs, size_t number, uint64_t seed);

} // namespace flashc

#endif // FLASHC_EXECUTION_INPUTS_H
