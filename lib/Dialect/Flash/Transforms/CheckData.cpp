//===- CheckData.cpp - checks of the data of a program on the CPU -------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/FlashIndex.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Support/CloneSlice.h"
#include "flashc/Support/Place.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::flash {
#define GEN_PASS_DEF_CHECKDATA
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;
using Predicate = arith::CmpIPredicate;

static constexpr StringLiteral kCheckedAttr = "flash.checked";

/// Returns the name that `location` has for `array`. Without one, returns the name of the function's argument that
/// `array` comes from, or "an array".
static std::string getName(Location location, Value array) {
  if (auto name = location->findInstanceOf<NameLoc>())
    return name.getName().str();
  BlockArgument argument = array ? getRootArgument(array) : BlockArgument();
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!function)
    return "an array";
  if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kArgumentNameAttr))
    return name.str();
  return ("arg" + Twine(argument.getArgNumber())).str();
}

static scf::ForOp emitLoop(ImplicitLocOpBuilder &b, int64_t first, Value end) {
  Value begin = arith::ConstantIndexOp::create(b, first), one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::ForOp::create(b, begin, end, one);
  b.setInsertionPointToStart(loop.getBody());
  return loop;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Indices
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Emits the value of a score or a mask for one pair, and the error of this value. The error is 0, or the number (from
/// 1 on) of an index that is outside of its array and on which the value depends. The value is null if it depends on
/// the argument %s of a score region. The error is null if there can be none.
class ErrorFlow {
public:
  ErrorFlow(ImplicitLocOpBuilder &b, Region &region, ValueRange position, SmallVectorImpl<WrapIndexOp> &indices)
      : b(b), region(region), indices(indices) {
    mapping.map(region.getArguments().take_back(4), position);
  }

  Value getValue() { return get(getYielded()); }
  Value getError() { return getError(getYielded()); }

  /// Returns `x` if it is not 0, else `y`. A null error counts as 0.
  static Value join(ImplicitLocOpBuilder &b, Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::SelectOp::create(b, isError(b, x), x, y);
  }
  static Value number(ImplicitLocOpBuilder &b, int64_t value) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }

private:
  Value getYielded() { return cast<YieldOp>(region.front().getTerminator()).getValue(); }

  Value get(Value value) {
    return flashc::cloneSlice(b, value, mapping,
                              [&](Value leaf) { return region.isAncestor(leaf.getParentRegion()) ? Value() : leaf; });
  }

  Value getError(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getParentRegion() != &region)
      return {};
    if (auto found = errors.find(value); found != errors.end())
      return found->second;
    Value error = llvm::TypeSwitch<Operation *, Value>(op)
                      .Case([&](WrapIndexOp wrap) { return getErrorOfIndex(wrap); })
                      .Case([&](arith::SelectOp select) { return getErrorOfSelect(select); })
                      .Case<arith::AndIOp, arith::OrIOp>(
                          [&](auto) { return value.getType().isInteger(1) ? getErrorOfBoth(op) : getErrorOfAny(op); })
                      .Default([&](Operation *) { return getErrorOfAny(op); });
    return errors[value] = error;
  }

  Value getErrorOfAny(Operation *op) {
    Value error;
    for (Value operand : op->getOperands())
      error = join(b, error, getError(operand));
    return error;
  }

  Value getErrorOfIndex(WrapIndexOp wrap) {
    Value before = getErrorOfAny(wrap), index = get(wrap.getIndex()), extent = get(wrap.getExtent());
    if (!index || !extent)
      return before;
    indices.push_back(wrap);
    Value first = arith::SubIOp::create(b, arith::ConstantIndexOp::create(b, 0), extent);
    Value isInside = arith::AndIOp::create(b, arith::CmpIOp::create(b, Predicate::sge, index, first),
                                           arith::CmpIOp::create(b, Predicate::slt, index, extent));
    Value own = arith::SelectOp::create(b, isInside, number(b, 0), number(b, indices.size()));
    return join(b, before, own);
  }

  Value getErrorOfSelect(arith::SelectOp select) {
    Value ofCondition = getError(select.getCondition());
    Value onTrue = getError(select.getTrueValue()), onFalse = getError(select.getFalseValue());
    Value condition = onTrue || onFalse ? get(select.getCondition()) : Value();
    if (!condition)
      return ofCondition;
    onTrue = onTrue ? onTrue : number(b, 0);
    onFalse = onFalse ? onFalse : number(b, 0);
    Value taken = arith::SelectOp::create(b, condition, onTrue, onFalse);
    return join(b, ofCondition, taken);
  }

  Value getErrorOfBoth(Operation *op) {
    Value x = op->getOperand(0), y = op->getOperand(1);
    Value ofX = getUnlessDecided(op, x, y), ofY = getUnlessDecided(op, y, x);
    return join(b, ofX, ofY);
  }

  /// Returns the error of `side`, an operand of `op` (arith.andi or arith.ori). Where the other operand `other` has no
  /// error and decides the result by itself, the returned error is 0. Null if `side` can have no error, or if `other`
  /// depends on the score.
  Value getUnlessDecided(Operation *op, Value side, Value other) {
    Value error = getError(side), decides = error ? get(other) : Value();
    if (!decides)
      return {};
    if (isa<arith::AndIOp>(op))
      decides = arith::XOrIOp::create(b, decides, arith::ConstantOp::create(b, b.getBoolAttr(true)));
    if (Value ofOther = getError(other)) {
      Value isSound = arith::CmpIOp::create(b, Predicate::eq, ofOther, number(b, 0));
      decides = arith::AndIOp::create(b, decides, isSound);
    }
    return arith::SelectOp::create(b, decides, number(b, 0), error);
  }

  static Value isError(ImplicitLocOpBuilder &b, Value error) {
    return arith::CmpIOp::create(b, Predicate::ne, error, number(b, 0));
  }

  ImplicitLocOpBuilder &b;
  Region &region;
  SmallVectorImpl<WrapIndexOp> &indices;
  IRMapping mapping;
  DenseMap<Value, Value> errors;
};

/// Emits, before an op, loops over all pairs of the op that check the indices in its score and its mask.
class IndexChecker {
public:
  explicit IndexChecker(ScoresOpInterface op) : op(op), b(op.getLoc(), op) {}

  /// Emits the loops. Returns the number of indices that they check.
  int64_t emit() {
    if (!hasIndices(op.getScore()) && !hasIndices(op.getMask()))
      return 0;
    SmallVector<scf::ForOp, 4> loops;
    SmallVector<Value, 4> position;
    for (unsigned dim = 0; dim < 4; ++dim) {
      loops.push_back(emitLoop(b, 0, emitExtent(dim, position)));
      position.push_back(loops.back().getInductionVar());
    }
    Value error = emitError(position);
    for (auto [number, index] : llvm::enumerate(indices)) {
      Value isOther = arith::CmpIOp::create(b, Predicate::ne, error, ErrorFlow::number(b, number + 1));
      cf::AssertOp::create(b, index.getLoc(), isOther, describe(index));
    }
    for (scf::ForOp loop : llvm::reverse(loops))
      dropUnused(loop);
    return indices.size();
  }

private:
  static bool hasIndices(Region &region) {
    return llvm::any_of(region.getOps(), [](Operation &nested) { return isa<WrapIndexOp>(nested); });
  }

  /// Returns the number of positions of dimension `dim`. For keys in a cache this is the length of the sequence.
  Value emitExtent(unsigned dim, ArrayRef<Value> position) {
    Value extent = linalg::createOrFoldDimOp(b, b.getLoc(), dim == 3 ? op.getK() : op.getQ(), dim == 3 ? 2 : dim);
    auto view = dim == 3 ? op.getK().getDefiningOp<CacheViewOp>() : CacheViewOp();
    if (!view || !view.getLengths())
      return extent;
    Value length = readElement(b, b.getLoc(), view.getLengths(), position.front());
    return arith::MinSIOp::create(b, extent, arith::IndexCastOp::create(b, b.getIndexType(), length));
  }

  Value emitError(ValueRange position) {
    Value error, keep;
    if (op.hasMask()) {
      ErrorFlow mask(b, op.getMask(), position, indices);
      error = mask.getError();
      keep = op.hasScore() && hasIndices(op.getScore()) ? mask.getValue() : Value();
    }
    if (!op.hasScore())
      return error;
    Value ofScore = ErrorFlow(b, op.getScore(), position, indices).getError();
    if (ofScore && keep)
      ofScore = arith::SelectOp::create(b, keep, ofScore, ErrorFlow::number(b, 0));
    return ErrorFlow::join(b, error, ofScore);
  }

  static std::string describe(WrapIndexOp index) {
    Operation *dim = index.getExtent().getDefiningOp();
    bool isDim = isa_and_nonnull<tensor::DimOp, memref::DimOp>(dim);
    std::string name = getName(index.getLoc(), isDim ? dim->getOperand(0) : Value());
    return flashc::describePlace(index.getLoc()) + "expected an index into " + name +
           " between minus its extent and its extent less 1, got one outside that decides a score or a mask: "
           "where no element is meant, a select (flashc.ops.where) has to take another value";
  }

  /// Limits `loop` to one iteration if its position is not used.
  static void dropUnused(scf::ForOp loop) {
    if (!loop.getInductionVar().use_empty())
      return;
    OpBuilder b(loop);
    Value one = arith::ConstantIndexOp::create(b, loop.getLoc(), 1);
    loop.setUpperBound(arith::MinSIOp::create(b, loop.getLoc(), loop.getUpperBound(), one));
  }

  ScoresOpInterface op;
  ImplicitLocOpBuilder b;
  SmallVector<WrapIndexOp> indices;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Promises
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits loops that assert that an array ascends along its last dimension.
static void emitAscends(func::FuncOp function, AssumeSortedOp promise) {
  Value array = promise.getSource();
  ImplicitLocOpBuilder b(promise.getLoc(), function.getContext());
  b.setInsertionPointAfterValue(array);
  int64_t rank = cast<ShapedType>(array.getType()).getRank();
  SmallVector<Value> before, at;
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool isLast = dim == rank - 1;
    Value position = emitLoop(b, isLast, linalg::createOrFoldDimOp(b, b.getLoc(), array, dim)).getInductionVar();
    before.push_back(isLast ? arith::SubIOp::create(b, position, arith::ConstantIndexOp::create(b, 1)) : position);
    at.push_back(position);
  }
  Value x = readElement(b, b.getLoc(), array, before), y = readElement(b, b.getLoc(), array, at);
  cf::AssertOp::create(b, arith::CmpIOp::create(b, Predicate::sle, x, y),
                       flashc::describePlace(promise.getLoc()) + "expected " + getName(promise.getLoc(), array) +
                           " to ascend along its last dimension, as it is declared to, got elements that do not: sort "
                           "them, or promise nothing");
}

/// Emits checks of the arrays that are declared sorted, except for arrays that a score or a mask computes. Returns the
/// number of checked arrays.
static int64_t checkPromises(func::FuncOp function) {
  llvm::MapVector<Value, AssumeSortedOp> promises;
  function.walk([&](AssumeSortedOp promise) {
    Operation *scores = promise->getParentOfType<ScoresOpInterface>();
    if (!scores || !scores->isAncestor(promise.getSource().getParentBlock()->getParentOp()))
      if (!scores || promise.getSource().getParentBlock()->getParentOp() != scores)
        promises.try_emplace(promise.getSource(), promise);
  });
  for (auto [array, promise] : promises)
    emitAscends(function, promise);
  return promises.size();
}

namespace {
struct CheckData : flash::impl::CheckDataBase<CheckData> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || function->hasAttr(kCheckedAttr))
      return;
    function->setAttr(kCheckedAttr, UnitAttr::get(&getContext()));
    SmallVector<ScoresOpInterface> ops;
    function.walk([&](ScoresOpInterface op) { ops.push_back(op); });
    for (ScoresOpInterface op : ops)
      numIndices += IndexChecker(op).emit();
    numPromises += checkPromises(function);
  }
};
} // namespace
