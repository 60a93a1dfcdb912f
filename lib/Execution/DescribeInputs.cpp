//===- DescribeInputs.cpp - names, extents and strides of random arguments ----------------------------------------===//

#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Execution/Inputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
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
  /// A dimension name for each of an argument's dimensions; empty if nothing is known.
  using DimNames = SmallVector<StringRef, 4>;

  LogicalResult addArgument(unsigned number);
  void nameOperands(Operation *op);
  bool isArgument(Value value);
  void markSorted(flash::AssumeSortedOp op);
  void nameArgument(Value value, StringRef name, ArgumentRole role, ArrayRef<StringRef> dims);
  LogicalResult applyShapeOption(unsigned number);
  LogicalResult bindDims(unsigned number);
  LogicalResult bind(StringRef dim, int64_t extent, unsigned number);
  LogicalResult bindHeads();
  int64_t getDefault(StringRef dim) const;
  LogicalResult checkResults();
  LogicalResult checkSize(unsigned number);
  LogicalResult setStrides(unsigned number);
  void nameResults();

  func::FuncOp function;
  const InputOptions &options;
  FunctionInputs result;
  SmallVector<DimNames> dimNames;
  /// Of the first attention op on the function's arguments.
  std::optional<int64_t> group;
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

bool InputDescriber::isArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &function.getBody().front();
}

void InputDescriber::nameArgument(Value value, StringRef name, ArgumentRole role, ArrayRef<StringRef> dims) {
  if (!isArgument(value))
    return;
  auto argument = cast<BlockArgument>(value);
  ArgumentInfo &info = result.arguments[argument.getArgNumber()];
  // The first use counts: in self-attention one argument may be both k and v.
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
  static constexpr StringLiteral names[] = {"B",  "Hq", "Nq",    "Nk",   "Hk",   // in the order of StepDim
                                            "D", "S",  "pages", "page", "slots", "positions"};
  return names[static_cast<unsigned>(dim)];
}

/// As the option --dims calls them.
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
  auto name = [&](ArrayRef<flash::StepOperand> operands, ArgumentRole role) {
    for (const flash::StepOperand &operand : operands)
      if (!operand.dims.empty()) // others are described by how they are read
        nameArgument(op->getOperand(operand.number), operand.name, role, getDimNames(operand));
  };
  if (auto step = dyn_cast<flash::StepOpInterface>(op)) {
    name(step.getStepInputs(), ArgumentRole::Input);
    name(step.getStepState(), ArgumentRole::Input);
  } else if (auto whole = dyn_cast<flash::WholeOpInterface>(op)) {
    name(whole.getInputs(), ArgumentRole::Input);
    if (op->getNumResults() == 0)
      name(whole.getOutputs(), ArgumentRole::Output);
  } else if (plain) {
    name(plain.getInputs(), ArgumentRole::Input);
    if (op->getNumResults() == 0)
      name(plain.getOutputs(), plain.updatesOutputs() ? ArgumentRole::Update : ArgumentRole::Output);
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

/// Decides Hq and Hk, which are group_size apart: both from one that is known, or 2 key heads.
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

int64_t InputDescriber::getDefault(StringRef dim) const {
  if (auto found = result.dims.find(dim.str()); found != result.dims.end())
    return found->second;
  if (auto found = options.dims.find(dim.str()); found != options.dims.end())
    return found->second;
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
  // The elements that the known strides span; each unknown stride, innermost first, steps over all of them and a gap.
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
  // Several blocks may return; names come from the last, which is the only one in what flashc compiles.
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
