//===- LaunchInterface.cpp - what a launch passes, and what must hold of it ---------------------------------------===//

#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

static Type getType(func::FuncOp function, unsigned argument) {
  unsigned numArguments = function.getNumArguments();
  return argument < numArguments ? function.getArgumentTypes()[argument]
                                 : function.getResultTypes()[argument - numArguments];
}

//===--------------------------------------------------------------------------------------------------------------===//
// Arguments
//===--------------------------------------------------------------------------------------------------------------===//

static ManifestArgument describeArgument(func::FuncOp function, unsigned number) {
  Type type = getType(function, number);
  ManifestArgument info;
  info.name = "arg" + std::to_string(number);
  info.isOutput = number >= function.getNumArguments();
  if (auto name =
          info.isOutput ? StringAttr() : function.getArgAttrOfType<StringAttr>(number, flash::kArgumentNameAttr))
    info.name = name.str();
  if (auto shaped = dyn_cast<ShapedType>(type))
    for (int64_t extent : shaped.getShape())
      info.shape.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  llvm::raw_string_ostream(info.dtype) << getElementTypeOrSelf(type);
  return info;
}

/// The first role counts: in self-attention one argument may be both k and v.
static void nameArguments(LaunchInterface &interface, ArrayRef<AttentionArguments> attentions) {
  llvm::SmallDenseSet<unsigned> named;
  auto name = [&](ArrayRef<unsigned> numbers, StringRef role, bool isOutput) {
    for (unsigned number : numbers) {
      interface.arguments[number].isOutput |= isOutput;
      if (named.insert(number).second)
        interface.arguments[number].name = role.str();
    }
  };
  auto nameInput = [&](std::optional<unsigned> number, StringRef role) {
    if (number)
      name(*number, role, /*isOutput=*/false);
  };
  for (const AttentionArguments &attention : attentions) {
    nameInput(attention.q, "q");
    nameInput(attention.k, "k");
    nameInput(attention.v, "v");
    nameInput(attention.lseInput, "lse");
    name(attention.o, "o", /*isOutput=*/true);
    name(attention.lse, "lse", /*isOutput=*/true);
    name(attention.c, "c", /*isOutput=*/true);
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Requirements
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Collects what must hold of the extents of a function's attentions.
class RequirementCollector {
public:
  RequirementCollector(func::FuncOp function, LaunchInterface &interface) : function(function), interface(interface) {}

  void collect(const AttentionArguments &attention) {
    std::optional<unsigned> q = attention.q, k = attention.k, v = attention.v;
    // (C4)
    requireExtent(q, 3, attention.headDim);
    requireExtent(k, 3, attention.headDim);
    requireExtent(v, 3, attention.valueDim);
    // (C5), (C6): an argument that is missing is skipped.
    requireSame(q, k, 0);
    if (q && k && attention.groupSize)
      require({*q, 1}, {*k, 1}, *attention.groupSize);
    for (unsigned dim : {0, 1, 2})
      requireSame(k, v, dim);
    for (unsigned o : attention.o) {
      for (unsigned dim : {0, 1, 2})
        requireSame(q, o, dim);
      requireExtent(o, 3, attention.valueDim);
    }
    for (unsigned dim : {0, 1, 2})
      requireSame(q, attention.lseInput, dim);
    for (unsigned lse : attention.lse)
      for (unsigned dim : {0, 1, 2})
        requireSame(q, lse, dim);
    for (unsigned c : attention.c) {
      requireSame(q, c, 0);
      requireSame(attention.sumsGroups ? k : q, c, 1);
      requireSame(k, c, 2);
    }
  }

private:
  struct Extent {
    unsigned argument, dim;
    bool operator==(const Extent &other) const { return argument == other.argument && dim == other.dim; }
  };

  static GridFormula getFormula(Extent extent) { return GridFormula::extent(extent.argument, extent.dim); }

  int64_t getSize(Extent extent) { return cast<ShapedType>(getType(function, extent.argument)).getDimSize(extent.dim); }

  void add(const GridFormula &first, const GridFormula &second) {
    auto isSame = [&](const auto &pair) {
      return pair.first.getText() == first.getText() && pair.second.getText() == second.getText();
    };
    if (llvm::none_of(interface.requirements, isSame))
      interface.requirements.emplace_back(first, second);
  }

  /// `first` is `factor * second`.
  void require(Extent first, Extent second, int64_t factor) {
    int64_t x = getSize(first), y = getSize(second);
    bool isStatic = !ShapedType::isDynamic(x) && !ShapedType::isDynamic(y);
    if ((factor == 1 && first == second) || (isStatic && x == factor * y))
      return;
    add(getFormula(first), factor == 1 ? getFormula(second) : getFormula(second) * factor);
  }

  void requireSame(std::optional<unsigned> first, std::optional<unsigned> second, unsigned dim) {
    if (first && second)
      require({*first, dim}, {*second, dim}, 1);
  }

  /// A cast may hide an extent that the function's type leaves open.
  void requireExtent(std::optional<unsigned> argument, unsigned dim, int64_t extent) {
    if (argument && getSize({*argument, dim}) != extent)
      add(extent, getFormula({*argument, dim}));
  }

  func::FuncOp function;
  LaunchInterface &interface;
};
} // namespace

LaunchInterface flashc::describeLaunch(func::FuncOp function, ArrayRef<AttentionArguments> attentions) {
  LaunchInterface interface;
  for (unsigned number = 0; number < function.getNumArguments() + function.getNumResults(); ++number)
    interface.arguments.push_back(describeArgument(function, number));
  nameArguments(interface, attentions);
  RequirementCollector collector(function, interface);
  for (const AttentionArguments &attention : attentions)
    collector.collect(attention);
  return interface;
}

//===--------------------------------------------------------------------------------------------------------------===//
// L0
//===--------------------------------------------------------------------------------------------------------------===//

static std::optional<unsigned> getNumber(func::FuncOp function, Value value) {
  BlockArgument argument = flash::getRootArgument(value);
  if (!argument || argument.getOwner() != &function.getBody().front())
    return std::nullopt;
  return argument.getArgNumber();
}

/// The numbers of the function's results that return `value`, through casts.
static void findResults(func::FuncOp function, Value value, SmallVectorImpl<unsigned> &numbers) {
  for (OpOperand &use : value.getUses()) {
    if (isa<func::ReturnOp>(use.getOwner()))
      numbers.push_back(function.getNumArguments() + use.getOperandNumber());
    else if (auto cast = dyn_cast<tensor::CastOp>(use.getOwner()))
      findResults(function, cast.getResult(), numbers);
  }
}

/// The numbers of an output: of results, or of the memref that is written.
static SmallVector<unsigned, 1> findOutput(func::FuncOp function, Operation *op, unsigned index) {
  constexpr unsigned kNumInputs = 3;
  SmallVector<unsigned, 1> numbers;
  if (op->getNumResults() != 0)
    findResults(function, op->getResult(index), numbers);
  else if (std::optional<unsigned> number = getNumber(function, op->getOperand(kNumInputs + index)))
    numbers.push_back(*number);
  llvm::sort(numbers);
  return numbers;
}

LaunchInterface flashc::describeLaunch(func::FuncOp function) {
  SmallVector<AttentionArguments> attentions;
  function.walk([&](flash::ScoresOpInterface op) {
    auto whole = dyn_cast<flash::AttentionOp>(*op);
    auto sums = dyn_cast<flash::ColumnSumsOp>(*op);
    if (!whole && !sums)
      return;
    AttentionArguments &attention = attentions.emplace_back();
    attention.q = getNumber(function, op.getQ());
    attention.k = getNumber(function, op.getK());
    attention.groupSize = op.getGroup();
    attention.headDim = cast<ShapedType>(op.getQ().getType()).getDimSize(3);
    if (whole) {
      attention.v = getNumber(function, whole.getV());
      attention.valueDim = whole.getVType().getDimSize(3);
      attention.o = findOutput(function, op, 0);
      attention.lse = findOutput(function, op, 1);
    } else {
      attention.lseInput = getNumber(function, sums.getLse());
      attention.c = findOutput(function, op, 0);
      attention.sumsGroups = sums.getSumGroups();
    }
  });
  return describeLaunch(function, attentions);
}
