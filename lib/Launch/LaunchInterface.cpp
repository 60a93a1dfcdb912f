//===- LaunchInterface.cpp - what a launch passes, and what must hold of it ---------------------------------------===//

#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;
using flash::StepDim;

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

/// An argument with several roles takes the name of the first: in self-attention one argument may be both k and v.
static void nameArguments(LaunchInterface &interface, ArrayRef<LaunchRoles> ops) {
  llvm::SmallDenseSet<unsigned> named;
  for (const LaunchRoles &op : ops)
    for (const LaunchRole &role : op.roles)
      for (unsigned number : role.arguments) {
        interface.arguments[number].isOutput |= role.isOutput;
        bool isCapture = role.info.dims.empty() && !role.isOutput; // a captured array has a name of its own
        if (!isCapture && named.insert(number).second)
          interface.arguments[number].name = role.info.name.str();
      }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Requirements
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Collects the requirements on the extents of the arrays of a function's ops.
class RequirementCollector {
public:
  RequirementCollector(func::FuncOp function, LaunchInterface &interface) : function(function), interface(interface) {}

  void collect(const LaunchRoles &op) {
    for (auto [index, role] : llvm::enumerate(op.roles))
      for (unsigned argument : role.arguments)
        for (auto [dim, moves] : llvm::enumerate(role.info.dims))
          collect(op, ArrayRef(op.roles).take_front(index), role, {argument, unsigned(dim)}, moves);
    collectShapes(op);
  }

private:
  struct Extent {
    unsigned argument, dim;
    bool operator==(const Extent &other) const { return argument == other.argument && dim == other.dim; }
  };

  /// Requires that a captured tensor and its gradient have the same shape. `collect` cannot require this, since
  /// dimensions of captured tensors belong to no dimension of the op.
  void collectShapes(const LaunchRoles &op) {
    std::optional<unsigned> first;
    for (const LaunchRole &role : op.roles)
      for (unsigned argument : role.info.dims.empty() ? ArrayRef(role.arguments) : ArrayRef<unsigned>()) {
        unsigned rank = cast<ShapedType>(getType(function, argument)).getRank();
        for (unsigned dim = 0; first && dim < rank; ++dim)
          require({*first, dim}, {argument, dim}, 1);
        first = first.value_or(argument);
      }
  }

  /// Requires that `extent` of `role` agrees with the extents of the roles before it.
  void collect(const LaunchRoles &op, ArrayRef<LaunchRole> earlier, const LaunchRole &role, Extent extent,
               StepDim moves) {
    if (moves == StepDim::Whole)
      return requireExtent(extent, role.depth);
    if (std::optional<Extent> batches = find(earlier, role, StepDim::B); batches && moves == StepDim::Offset)
      add(getFormula(extent), getFormula(*batches) + 1);
    else if (std::optional<Extent> same = find(earlier, role, moves))
      require(*same, extent, 1);
    else if (std::optional<Extent> heads = find(earlier, role, StepDim::H); heads && moves == StepDim::KeyHead)
      require(*heads, extent, op.groupSize);
  }

  /// Among the roles in `earlier` that have the op's dimension `moves`, finds the one that has the most dimensions in
  /// common with `role`. Returns the extent of `moves` in the role that is found. None if there is no such role.
  static std::optional<Extent> find(ArrayRef<LaunchRole> earlier, const LaunchRole &role, StepDim moves) {
    std::optional<Extent> best;
    int64_t most = -1;
    for (const LaunchRole &other : earlier) {
      std::optional<unsigned> dim = other.info.find(moves);
      int64_t common = llvm::count_if(role.info.dims, [&](StepDim one) { return other.info.movesWith(one); });
      if (other.arguments.empty() || !dim || common <= most)
        continue;
      best = Extent{other.arguments.front(), *dim};
      most = common;
    }
    return best;
  }

  static GridFormula getFormula(Extent extent) { return GridFormula::extent(extent.argument, extent.dim); }

  int64_t getSize(Extent extent) { return cast<ShapedType>(getType(function, extent.argument)).getDimSize(extent.dim); }

  void add(const GridFormula &first, const GridFormula &second) {
    auto isSame = [&](const auto &pair) {
      return pair.first.getText() == first.getText() && pair.second.getText() == second.getText();
    };
    if (llvm::none_of(interface.requirements, isSame))
      interface.requirements.emplace_back(first, second);
  }

  /// Requires that `first` is `factor * second`.
  void require(Extent first, Extent second, int64_t factor) {
    int64_t x = getSize(first), y = getSize(second);
    bool isStatic = !ShapedType::isDynamic(x) && !ShapedType::isDynamic(y);
    if ((factor == 1 && first == second) || (isStatic && x == factor * y))
      return;
    add(getFormula(first), factor == 1 ? getFormula(second) : getFormula(second) * factor);
  }

  /// Requires that `extent` is `size`, unless the function's type says so. (If the type has a dynamic extent, a cast in
  /// the function may have made it static.)
  void requireExtent(Extent extent, int64_t size) {
    if (getSize(extent) != size)
      add(size, getFormula(extent));
  }

  func::FuncOp function;
  LaunchInterface &interface;
};
} // namespace

void flashc::addCacheRoles(StringRef name, Value cache, Value lengths, Value table, Value scales, LaunchRoles &roles) {
  auto add = [&](StringRef ofArray, Value array, SmallVector<StepDim, 4> dims, int64_t depth = 0) {
    if (BlockArgument argument = array ? flash::getRootArgument(array) : BlockArgument())
      roles.roles.push_back({{ofArray, 0, std::move(dims)}, {argument.getArgNumber()}, /*isOutput=*/false, depth});
  };
  bool isPaged = static_cast<bool>(table);
  add(name, cache,
      {isPaged ? StepDim::Page : StepDim::B, StepDim::KeyHead, isPaged ? StepDim::PageRow : StepDim::J, StepDim::Whole},
      cast<ShapedType>(cache.getType()).getShape().back());
  add("lengths", lengths, {StepDim::B});
  add("block_table", table, {StepDim::B, StepDim::PageSlot});
  if (!scales)
    return;
  auto getDim = [&](int64_t dim, StepDim moves) {
    return cast<ShapedType>(scales.getType()).getDimSize(dim) == 1 ? StepDim::Whole : moves;
  };
  auto ofScales = StringAttr::get(scales.getContext(), name + "_scale"); // keeps the text of the name alive
  add(ofScales, scales, {getDim(0, StepDim::Page), getDim(1, StepDim::KeyHead)}, /*depth=*/1);
}

void flashc::addPackedRole(Value offsets, LaunchRoles &roles) {
  if (BlockArgument argument = flash::getRootArgument(offsets))
    roles.roles.push_back({{"cu_seqlens_q", 0, {StepDim::Offset}}, {argument.getArgNumber()}, /*isOutput=*/false});
}

flash::StepOperand flashc::getPacked(flash::StepOperand info) {
  llvm::replace(info.dims, StepDim::B, StepDim::Packed);
  return info;
}

LaunchInterface flashc::describeLaunch(func::FuncOp function, ArrayRef<LaunchRoles> ops) {
  LaunchInterface interface;
  for (unsigned number = 0; number < function.getNumArguments() + function.getNumResults(); ++number)
    interface.arguments.push_back(describeArgument(function, number));
  nameArguments(interface, ops);
  RequirementCollector collector(function, interface);
  for (const LaunchRoles &op : ops)
    collector.collect(op);
  return interface;
}

//===--------------------------------------------------------------------------------------------------------------===//
// L0
//===--------------------------------------------------------------------------------------------------------------===//

static void addArgument(func::FuncOp function, Value value, SmallVectorImpl<unsigned> &numbers) {
  BlockArgument argument = flash::getRootArgument(value);
  if (argument && argument.getOwner() == &function.getBody().front())
    numbers.push_back(argument.getArgNumber());
}

/// Adds to `numbers` the numbers of the function's results that return `value`, directly or through casts and
/// flash.pack_rows.
static void findResults(func::FuncOp function, Value value, SmallVectorImpl<unsigned> &numbers) {
  for (OpOperand &use : value.getUses()) {
    if (isa<func::ReturnOp>(use.getOwner()))
      numbers.push_back(function.getNumArguments() + use.getOperandNumber());
    else if (isa<tensor::CastOp, flash::PackRowsOp>(use.getOwner()))
      findResults(function, use.getOwner()->getResult(0), numbers);
  }
}

/// Returns the roles of an op with these inputs and outputs.
static LaunchRoles getRoles(func::FuncOp function, Operation *op, ArrayRef<flash::StepOperand> inputs,
                            ArrayRef<flash::StepOperand> outputs) {
  LaunchRoles result;
  Value offsets; // those of packed queries, which are the first input
  auto add = [&](const flash::StepOperand &info, Value value, bool isOutput) {
    LaunchRole &role = result.roles.emplace_back(LaunchRole{info, {}, isOutput});
    if (auto unpack = value.getDefiningOp<flash::UnpackRowsOp>()) {
      value = unpack.getSource(), offsets = unpack.getOffsets();
      role.info = getPacked(info);
    } else if (offsets && isOutput) {
      role.info = getPacked(info);
    }
    if (info.movesWith(StepDim::Whole))
      role.depth = cast<ShapedType>(value.getType()).getShape().back();
    if (isa<OpResult>(value) && value.getDefiningOp() == op)
      findResults(function, value, role.arguments);
    else
      addArgument(function, value, role.arguments);
    llvm::sort(role.arguments);
  };
  for (const flash::StepOperand &info : inputs) {
    Value value = op->getOperand(info.number);
    if (auto view = value.getDefiningOp<flash::CacheViewOp>())
      addCacheRoles(info.name, view.getCache(), view.getLengths(), view.getTable(), view.getScales(), result);
    else
      add(info, value, /*isOutput=*/false);
  }
  for (auto [index, info] : llvm::enumerate(outputs))
    add(info, op->getNumResults() != 0 ? Value(op->getResult(index)) : op->getOperand(info.number), /*isOutput=*/true);
  if (offsets)
    addPackedRole(offsets, result);
  return result;
}

LaunchRoles flashc::getLaunchRoles(func::FuncOp function, flash::PlainOpInterface op) {
  return getRoles(function, op, op.getInputs(), op.getOutputs());
}

LaunchInterface flashc::describeLaunch(func::FuncOp function) {
  std::vector<LaunchRoles> ops;
  function.walk([&](flash::WholeOpInterface op) {
    ops.push_back(getRoles(function, op, op.getInputs(), op.getOutputs()));
    ops.back().groupSize = op.getGroup();
  });
  function.walk([&](flash::PlainOpInterface op) { ops.push_back(getLaunchRoles(function, op)); });
  return describeLaunch(function, ops);
}
