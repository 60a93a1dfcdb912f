//===- DescribeInputs.cpp - names, extents and strides of random arguments ----------------------------------------===//

#include "WrittenArguments.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Execution/Inputs.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

namespace {

/// Finds the extents of one function's arguments.
class InputDescriber {
public:
  InputDescriber(func::FuncOp function, const InputOptions &options) : function(function), options(options) {}

  FailureOr<FunctionInputs> describe();

private:
  /// The name of each dimension of an argument; empty if unknown.
  using DimNames = SmallVector<StringRef, 4>;

  LogicalResult addArgument(unsigned number);
  void nameOperands(Operation *op);
  BlockArgument getArgument(Value value);
  bool isArgument(Value value) { return static_cast<bool>(getArgument(value)); }
  void nameOutput(Operation *op, unsigned index, const flash::StepOperand &output, ArgumentRole role);
  void markSorted(flash::AssumeSortedOp op);
  void markWritten();
  void nameArgument(Value value, StringRef name, ArgumentRole role, ArrayRef<StringRef> dims);
  LogicalResult applyShapeOption(unsigned number);
  LogicalResult bindDims(unsigned number);
  LogicalResult bind(StringRef dim, int64_t extent, unsigned number);
  LogicalResult bindHeads();
  std::optional<int64_t> getOption(StringRef dim) const;
  int64_t getDefault(StringRef dim) const;
  LogicalResult checkResults();
  LogicalResult checkSize(unsigned number);
  LogicalResult setStrides(unsigned number);
  void nameResults();

  func::FuncOp function;
  const InputOptions &options;
  FunctionInputs result;
  SmallVector<DimNames> dimNames;
  /// The group size of the first attention op on the function's arguments.
  std::optional<int64_t> group;
  /// Whether there is an op whose queries and keys are both arguments, so that its keys are not in a cache.
  bool hasKeyArgument = false;
};

} // namespace

LogicalResult InputDescriber::addArgument(unsigned number) {
  Type type = function.getArgument(number).getType();
  ArgumentInfo &info = result.arguments.emplace_back();
  auto name = function.getArgAttrOfType<StringAttr>(number, flash::kArgumentNameAttr);
  info.name = name ? name.str() : "arg" + std::to_string(number);
  auto shaped = dyn_cast<ShapedType>(type);
  std::optional<DType> dtype = flashc::getDType(shaped ? shaped.getElementType() : type);
  if (!dtype || (shaped && !shaped.hasRank()))
    return function.emitError("expected arguments that are numbers or ranked tensors or memrefs of numbers, got ")
           << type << " for argument " << number;
  info.dtype = *dtype;
  info.isScalar = !shaped;
  if (shaped)
    info.shape.assign(shaped.getShape().begin(), shaped.getShape().end());
  dimNames.emplace_back(info.shape.size());
  return success();
}

/// If `value` is an argument of the function, or results from one by casts only, returns the argument. Null for others.
BlockArgument InputDescriber::getArgument(Value value) {
  BlockArgument argument = flash::getRootArgument(value);
  return argument && argument.getOwner() == &function.getBody().front() ? argument : BlockArgument();
}

void InputDescriber::nameArgument(Value value, StringRef name, ArgumentRole role, ArrayRef<StringRef> dims) {
  BlockArgument argument = getArgument(value);
  if (!argument)
    return;
  ArgumentInfo &info = result.arguments[argument.getArgNumber()];
  // If an argument has several uses, its dimensions are named by the first use: in self-attention one argument may be
  // both k and v.
  DimNames &names = dimNames[argument.getArgNumber()];
  if (!names.empty() && !names.front().empty())
    return;
  bool isTaken = llvm::any_of(result.arguments, [&](const ArgumentInfo &other) { return other.name == name; });
  if (!isTaken)
    info.name = name.str();
  info.role = role;
  names.assign(dims.begin(), dims.end());
}

void InputDescriber::markSorted(flash::AssumeSortedOp op) {
  if (BlockArgument argument = flash::getRootArgument(op))
    result.arguments[argument.getArgNumber()].isSorted = true;
}

StringRef flashc::getDimName(flash::StepDim dim) {
  static constexpr StringLiteral names[] = {"B", "Hq", "Nq",    "Nk",   "Hk", // in the order of StepDim
                                            "D", "S",  "pages", "page", "slots", "positions"};
  return names[static_cast<unsigned>(dim)];
}

/// Returns the names of an operand's dimensions. A StepDim::Whole dimension is the depth D or Dv. In a vector or a
/// table that is read by position, a StepDim::Whole dimension has an empty name.
static SmallVector<StringRef, 4> getDimNames(const flash::StepOperand &operand) {
  bool isScored = llvm::is_contained({"q", "k", "dq", "dk", "k_cache"}, operand.name);
  bool isVector = operand.dims.size() == 1 || operand.movesWith(flash::StepDim::Position);
  return llvm::map_to_vector<4>(operand.dims, [&](flash::StepDim dim) -> StringRef {
    return dim != flash::StepDim::Whole ? getDimName(dim) : isVector ? "" : isScored ? "D" : "Dv";
  });
}

void InputDescriber::nameOperands(Operation *op) {
  auto scores = dyn_cast<flash::ScoresOpInterface>(op);
  auto plain = dyn_cast<flash::PlainOpInterface>(op);
  if (!scores && !plain)
    return;
  if (scores && !group && (isArgument(scores.getQ()) || isArgument(scores.getK())))
    group = scores.getGroup();
  hasKeyArgument |= scores && isArgument(scores.getQ()) && isArgument(scores.getK());
  auto name = [&](ArrayRef<flash::StepOperand> operands, ArgumentRole role) {
    for (const flash::StepOperand &operand : operands)
      if (!operand.dims.empty()) // the other operands are named by other ops that read them
        nameArgument(op->getOperand(operand.number), operand.name, role, getDimNames(operand));
  };
  if (auto step = dyn_cast<flash::StepOpInterface>(op)) {
    name(step.getStepInputs(), ArgumentRole::Input);
    name(step.getStepState(), ArgumentRole::Input);
  } else if (auto whole = dyn_cast<flash::WholeOpInterface>(op)) {
    name(whole.getInputs(), ArgumentRole::Input);
    for (auto [index, output] : llvm::enumerate(whole.getOutputs()))
      nameOutput(op, index, output, ArgumentRole::Output);
  } else if (plain) {
    name(plain.getInputs(), ArgumentRole::Input);
    for (auto [index, output] : llvm::enumerate(plain.getOutputs()))
      nameOutput(op, index, output, plain.updatesOutputs() ? ArgumentRole::Update : ArgumentRole::Output);
  }
}

/// Names the array of an output. If the op is on memrefs, the array is an operand of the op. Otherwise it is the buffer
/// to which the op's result is written.
void InputDescriber::nameOutput(Operation *op, unsigned index, const flash::StepOperand &output, ArgumentRole role) {
  SmallVector<StringRef, 4> dims = getDimNames(output);
  if (op->getNumResults() == 0)
    return nameArgument(op->getOperand(output.number), output.name, role, dims);
  for (Operation *user : op->getResult(index).getUsers())
    if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(user); write)
      nameArgument(write.getDest(), output.name, role, dims);
}

/// Gives the role Update to each argument that is written, unless one op writes the whole argument and no other op uses
/// the argument.
void InputDescriber::markWritten() {
  for (unsigned number : findWrittenArguments(function).set_bits()) {
    auto users = llvm::make_filter_range(function.getArgument(number).getUsers(),
                                         [](Operation *user) { return !isa<memref::DimOp>(user); });
    ArgumentRole &role = result.arguments[number].role;
    if (role != ArgumentRole::Output || !llvm::hasSingleElement(users))
      role = ArgumentRole::Update;
  }
}

LogicalResult InputDescriber::applyShapeOption(unsigned number) {
  ArgumentInfo &info = result.arguments[number];
  auto found = options.shapes.find(info.name);
  if (found == options.shapes.end())
    found = options.shapes.find("arg" + std::to_string(number));
  if (found == options.shapes.end())
    return success();
  ArrayRef<int64_t> shape = found->second;
  bool fits = shape.size() == info.shape.size();
  for (size_t dim = 0; fits && dim < shape.size(); ++dim)
    fits = ShapedType::isDynamic(info.shape[dim]) || info.shape[dim] == shape[dim];
  if (!fits)
    return function.emitError("expected a shape for ")
           << info.name << " that fits " << function.getArgument(number).getType() << ", got "
           << llvm::join(llvm::map_range(shape, [](int64_t extent) { return std::to_string(extent); }), "x");
  info.shape.assign(shape.begin(), shape.end());
  return success();
}

LogicalResult InputDescriber::bind(StringRef dim, int64_t extent, unsigned number) {
  auto [entry, isNew] = result.dims.try_emplace(dim.str(), extent);
  if (isNew || entry->second == extent)
    return success();
  return function.emitError("expected ") << dim << " = " << entry->second << " in " << result.arguments[number].name
                                         << " as in the other arguments, got " << extent;
}

LogicalResult InputDescriber::bindDims(unsigned number) {
  for (auto [dim, extent] : llvm::zip(dimNames[number], result.arguments[number].shape))
    if (!dim.empty() && !ShapedType::isDynamic(extent) && failed(bind(dim, extent, number)))
      return failure();
  return success();
}

/// Chooses Hq and Hk, whose ratio is group_size. If one of them is known, the other one follows. Otherwise Hk is 2.
LogicalResult InputDescriber::bindHeads() {
  if (!group)
    return success();
  auto find = [&](const std::string &dim) -> std::optional<int64_t> {
    if (auto found = result.dims.find(dim); found != result.dims.end())
      return found->second;
    if (auto found = options.dims.find(dim); found != options.dims.end())
      return found->second;
    return std::nullopt;
  };
  std::optional<int64_t> hq = find("Hq"), hk = find("Hk");
  if (hq && !hk)
    hk = *hq / *group;
  int64_t keyHeads = hk.value_or(2), queryHeads;
  bool overflows = llvm::MulOverflow(keyHeads, *group, queryHeads) || queryHeads > kMaxExtent;
  if (overflows || (hq && *hq != queryHeads))
    return function.emitError("expected Hq = ")
           << *group << " * Hk (group_size), got Hq = " << hq.value_or(queryHeads)
           << (hq && *hq % *group != 0 ? "" : " and Hk = " + std::to_string(keyHeads));
  result.dims["Hk"] = keyHeads;
  result.dims["Hq"] = queryHeads;
  return success();
}

/// Returns the extent that the options give. If they give only the number of queries or only the number of keys, and
/// the keys are not in a cache, the other number is the same.
std::optional<int64_t> InputDescriber::getOption(StringRef dim) const {
  auto find = [&](StringRef name) {
    auto found = options.dims.find(name.str());
    return found == options.dims.end() ? std::nullopt : std::optional(found->second);
  };
  if (std::optional<int64_t> extent = find(dim); extent || !hasKeyArgument)
    return extent;
  return dim == "Nk" ? find("Nq") : dim == "Nq" ? find("Nk") : std::nullopt;
}

int64_t InputDescriber::getDefault(StringRef dim) const {
  if (auto found = result.dims.find(dim.str()); found != result.dims.end())
    return found->second;
  if (std::optional<int64_t> extent = getOption(dim))
    return *extent;
  static constexpr std::pair<StringLiteral, int64_t> defaults[] = {
      {"Nq", 63}, {"Nk", 65}, {"S", 3}, {"pages", 80}, {"page", 16}, {"slots", 5}, {"positions", 64}};
  for (auto [name, extent] : defaults)
    if (dim == name)
      return extent;
  if (!dim.empty())
    return 1;
  int64_t largest = 1;
  for (StringRef each : {"B", "Hq", "Nq", "Nk"})
    largest = std::max(largest, getDefault(each));
  return largest;
}

LogicalResult InputDescriber::checkResults() {
  for (Type type : function.getResultTypes()) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!flashc::getDType(shaped ? shaped.getElementType() : type) || (shaped && !shaped.hasRank()))
      return function.emitError("expected results that are numbers or ranked tensors or memrefs of numbers, got ")
             << type;
  }
  return success();
}

LogicalResult InputDescriber::checkSize(unsigned number) {
  int64_t elements = 1;
  for (int64_t extent : result.arguments[number].shape)
    if (llvm::MulOverflow(elements, extent, elements) || elements > options.maxElements)
      return function.emitError("expected arguments of at most 2^")
             << llvm::Log2_64(options.maxElements) << " elements, got more for " << result.arguments[number].name;
  return success();
}

LogicalResult InputDescriber::setStrides(unsigned number) {
  ArgumentInfo &info = result.arguments[number];
  auto memref = dyn_cast<MemRefType>(function.getArgument(number).getType());
  if (!memref)
    return success();
  SmallVector<int64_t> strides;
  if (failed(memref.getStridesAndOffset(strides, info.offset)))
    return function.emitError("expected a strided layout, got ") << memref << " for " << info.name;
  if (llvm::any_of(strides, [](int64_t stride) { return !ShapedType::isDynamic(stride) && stride < 0; }))
    return function.emitError("expected strides that are not negative, got ") << memref << " for " << info.name;
  if (ShapedType::isDynamic(info.offset))
    info.offset = 8;
  bool isIdentity = memref.getLayout().isIdentity();
  // `span` is the number of elements that the dimensions with known strides span. A dimension with an unknown stride,
  // the innermost first, gets `span` plus a gap as its stride, and `span` then includes this dimension.
  int64_t span = 1;
  for (auto [extent, stride] : llvm::zip(info.shape, strides))
    if (!ShapedType::isDynamic(stride))
      span += (extent - 1) * stride;
  int64_t contiguous = 1;
  for (int dim = int(strides.size()) - 1; dim >= 0; --dim) {
    if (isIdentity) {
      strides[dim] = contiguous;
      contiguous *= info.shape[dim];
    } else if (ShapedType::isDynamic(strides[dim])) {
      strides[dim] = span + 8;
      span += (info.shape[dim] - 1) * strides[dim];
    }
  }
  info.strides.assign(strides.begin(), strides.end());
  return success();
}

void InputDescriber::nameResults() {
  // Several blocks may return. The names come from the last block; functions that flashc compiles have only one.
  Operation *terminator = function.getBody().back().getTerminator();
  for (unsigned number = 0; number < function.getNumResults(); ++number) {
    std::string name = "result" + std::to_string(number);
    Value value = isa<func::ReturnOp>(terminator) ? terminator->getOperand(number) : Value();
    Operation *op = value ? value.getDefiningOp() : nullptr;
    if (auto whole = dyn_cast_or_null<flash::WholeOpInterface>(op))
      name = whole.getOutputs()[cast<OpResult>(value).getResultNumber()].name;
    else if (auto plain = dyn_cast_or_null<flash::PlainOpInterface>(op))
      name = plain.getOutputs()[cast<OpResult>(value).getResultNumber()].name;
    else if (auto epilogue = dyn_cast_or_null<flash::EpilogueOpInterface>(op))
      name = epilogue.getEpilogueResults()[cast<OpResult>(value).getResultNumber()].name;
    result.resultNames.push_back(name);
  }
}

FailureOr<FunctionInputs> InputDescriber::describe() {
  unsigned count = function.getNumArguments();
  for (unsigned number = 0; number < count; ++number)
    if (failed(addArgument(number)))
      return failure();
  if (failed(checkResults()))
    return failure();
  function.walk([&](Operation *op) { nameOperands(op); });
  function.walk([&](flash::AssumeSortedOp op) { markSorted(op); });
  markWritten();
  for (const auto &entry : options.shapes) {
    auto isNamed = [&](auto indexed) {
      return indexed.value().name == entry.first || "arg" + std::to_string(indexed.index()) == entry.first;
    };
    if (llvm::none_of(llvm::enumerate(result.arguments), isNamed))
      return function.emitError("expected a shape for an argument of this function, got '") << entry.first << "'";
  }
  for (unsigned number = 0; number < count; ++number)
    if (failed(applyShapeOption(number)) || failed(bindDims(number)))
      return failure();
  if (failed(bindHeads()))
    return failure();
  for (unsigned number = 0; number < count; ++number) {
    ArgumentInfo &info = result.arguments[number];
    for (auto [dim, extent] : llvm::zip(dimNames[number], info.shape))
      if (ShapedType::isDynamic(extent))
        extent = getDefault(dim);
    if (failed(bindDims(number)) || failed(checkSize(number)) || failed(setStrides(number)))
      return failure();
  }
  for (StringRef dim : {"B", "Hq", "Nq", "Nk"})
    result.dims.try_emplace(dim.str(), getDefault(dim));
  nameResults();
  return std::move(result);
}

FailureOr<FunctionInputs> flashc::describeInputs(func::FuncOp function, const InputOptions &options) {
  return InputDescriber(function, options).describe();
}
