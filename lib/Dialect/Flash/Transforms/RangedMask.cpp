//===- RangedMask.cpp - evaluates a mask for each tile and lists the tiles that it keeps --------------------------===//

#include "flashc/Dialect/Flash/Transforms/RangedMask.h"
#include "RangeReader.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Loops
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the op of the function's entry block that is `op` or contains it. Null if there is none.
static Operation *findAnchor(StepOpInterface op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  if (!function || function.isExternal() || !llvm::hasSingleElement(function.getFunctionBody()))
    return nullptr;
  return function.getFunctionBody().front().findAncestorOpInBlock(*op);
}

/// If `position` is the induction variable of a loop from 0 in steps of `step`, returns the loop's end. If `position`
/// is the constant 0, returns `step`. Null for other positions, and if the loop's end is not known before `anchor`.
static OpFoldResult getExtent(Value position, int64_t step, Operation *anchor) {
  if (std::optional<int64_t> constant = getConstantIntValue(position))
    return *constant == 0 ? OpBuilder(anchor).getIndexAttr(step) : OpFoldResult();
  scf::ForOp loop = scf::getForInductionVarOwner(position);
  bool isTiled = loop && getConstantIntValue(loop.getLowerBound()) == 0 && getConstantIntValue(loop.getStep()) == step;
  if (!isTiled || anchor->isAncestor(loop.getUpperBound().getParentRegion()->getParentOp()))
    return {};
  return getAsOpFoldResult(loop.getUpperBound());
}

//===--------------------------------------------------------------------------------------------------------------===//
// The table
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits the class of a tile. `keep` is the range of the mask's condition in the tile.
static Value emitClass(ImplicitLocOpBuilder &b, const ConditionRange &keep) {
  auto get = [&](TileVisit visit) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(visit)));
  };
  Value visit = get(TileVisit::Masked);
  if (keep.mayFail)
    visit = arith::SelectOp::create(b, keep.mayFail, visit, get(TileVisit::Full));
  if (keep.mayHold)
    visit = arith::SelectOp::create(b, keep.mayHold, visit, get(TileVisit::Skipped));
  return visit;
}

/// Changes `keep`, the range of the mask's condition, so that a tile that exceeds the keys is not full. No pair after
/// the last key is kept, whatever the mask says there.
static ConditionRange cutLastTile(ImplicitLocOpBuilder &b, ConditionRange keep, Value key, Value keys, int64_t tile) {
  if (!keep.mayFail)
    return keep;
  Value end = arith::AddIOp::create(b, key, arith::ConstantIndexOp::create(b, tile));
  Value exceeds = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, end, keys);
  keep.mayFail = arith::OrIOp::create(b, keep.mayFail, exceeds);
  return keep;
}

/// Returns `visit`, the class of a tile, unless the tile is full and exceeds `length`. Such a tile becomes masked.
static Value maskLastTile(ImplicitLocOpBuilder &b, Value visit, Value position, Value length, int64_t tile) {
  Value end = arith::AddIOp::create(b, position, arith::ConstantIndexOp::create(b, tile));
  Value exceeds = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, end, length);
  Value masked = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(TileVisit::Masked)));
  Value atMost = arith::MinSIOp::create(b, visit, masked);
  return arith::SelectOp::create(b, exceeds, atMost, visit);
}

/// Copies the mask into the flash.tile_classes. In the copy, values of the loops are computed from the tile's position.
/// Returns false if a value cannot be copied.
bool RangedMask::copyMask(Region &mask) {
  Type index = mask.getArgument(0).getType();
  OpBuilder b(op.getContext());
  Block *body =
      b.createBlock(&classes.getMask(), {}, SmallVector<Type>(4, index), SmallVector<Location>(4, op.getLoc()));
  IRMapping mapping;
  mapping.map(mask.getArguments(), body->getArguments());
  for (auto [position, argument] : llvm::zip(op.getPosition().take_front(2), body->getArguments()))
    if (!getConstantIntValue(position))
      mapping.map(position, argument);
  // A SearchedMask may hold `mask`, so `mask` need not belong to an op.
  bool isCopied = true;
  mask.walk([&](Operation *inner) {
    for (Value value : inner->getOperands())
      if (!mask.isAncestor(value.getParentRegion()))
        isCopied = isCopied && copyIntoTable(b, value, mapping);
  });
  if (!isCopied)
    return false;
  for (Operation &inner : mask.front())
    b.clone(inner, mapping);
  return true;
}

bool RangedMask::emitClasses(Region &mask) {
  int64_t qTile = op.getTileExtent(StepDim::I), kvTile = op.getTileExtent(StepDim::J);
  SmallVector<OpFoldResult, 4> extents;
  for (auto [position, step] : llvm::zip_equal(op.getPosition(), SmallVector<int64_t>{1, 1, qTile, kvTile}))
    extents.push_back(getExtent(position, step, anchor));
  if (!llvm::all_of(extents, [](OpFoldResult extent) { return !extent.isNull(); }))
    return false;
  ImplicitLocOpBuilder b(op.getLoc(), anchor);
  SmallVector<Value> operands;
  for (OpFoldResult extent : extents)
    operands.push_back(getValueOrCreateConstantIndexOp(b, op.getLoc(), extent));
  auto type = RankedTensorType::get(SmallVector<int64_t>(4, ShapedType::kDynamic), b.getI32Type());
  classes = TileClassesOp::create(b, type, operands[0], operands[1], operands[2], operands[3], qTile, kvTile);
  if (!copyMask(mask))
    return false;
  Block *body = b.createBlock(&classes.getKnown(), {}, SmallVector<Type>(4, b.getIndexType()),
                              SmallVector<Location>(4, op.getLoc()));
  RangeReader reader(mask, b, anchor, body->getArgument(0), body->getArgument(1),
                     {qTile, body->getArgument(2), operands[2]}, {kvTile, body->getArgument(3), operands[3]});
  ConditionRange keep = reader.getCondition(cast<YieldOp>(mask.front().getTerminator()).getValue());
  if (keep.isKnown())
    llvm::copy_if(keep.arrays, std::back_inserter(arrays),
                  [](Value value) { return isa<ShapedType>(value.getType()); });
  keep = cutLastTile(b, keep, body->getArgument(3), operands[3], kvTile);
  YieldOp::create(b, emitClass(b, keep));
  return true;
}

std::unique_ptr<RangedMask> RangedMask::create(StepOpInterface op, Region &mask) {
  Operation *anchor = findAnchor(op);
  if (!anchor || anchor == op)
    return nullptr;
  std::unique_ptr<RangedMask> ranged(new RangedMask(op, anchor));
  return ranged->emitClasses(mask) ? std::move(ranged) : nullptr;
}

/// Erases an unused flash.tile_classes or constant, and then the operands that become unused.
static void eraseUnused(Operation *op) {
  if (!op || !op->use_empty() || !isa<TileClassesOp, arith::ConstantOp>(op))
    return;
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  op->erase();
  for (Value input : inputs)
    eraseUnused(input.getDefiningOp());
}

RangedMask::~RangedMask() { eraseUnused(classes); }

/// Copies the code of `value` into a region of the flash.tile_classes. Ops between the flash.tile_classes and `anchor`
/// are copied, too. (`anchor` may be the loop over keys itself.) Null if `value` depends on a value inside of `anchor`
/// other than the tile's position.
Value RangedMask::copyIntoTable(OpBuilder &b, Value value, IRMapping &mapping) {
  return flashc::cloneSlice(b, value, mapping, [&](Value outside) {
    Operation *definition = outside.getDefiningOp();
    bool isBehind = definition && definition->getBlock() == classes->getBlock() && classes->isBeforeInBlock(definition);
    return isBehind || anchor->isAncestor(outside.getParentRegion()->getParentOp()) ? Value() : outside;
  });
}

void RangedMask::restrictTo(ArrayRef<std::pair<OpFoldResult, OpFoldResult>> stretches) {
  Block &body = classes.getKnown().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  ImplicitLocOpBuilder b(op.getLoc(), yield);
  IRMapping mapping;
  Value streamed = body.getArgument(static_cast<unsigned>(op.getStreamedDim()));
  for (auto [position, argument] : llvm::zip(op.getPosition(), body.getArguments()))
    if (argument != streamed && !getConstantIntValue(position)) // other values may be the same constant
      mapping.map(position, argument);
  Value isInside;
  for (auto [begin, end] : stretches) {
    Value from = copyIntoTable(b, getValueOrCreateConstantIndexOp(b, b.getLoc(), begin), mapping);
    Value to = copyIntoTable(b, getValueOrCreateConstantIndexOp(b, b.getLoc(), end), mapping);
    if (!from || !to)
      return;
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, streamed, from);
    Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, streamed, to);
    Value isBetween = arith::AndIOp::create(b, isBehind, isBefore);
    isInside = isInside ? arith::OrIOp::create(b, isInside, isBetween).getResult() : isBetween;
  }
  if (!isInside)
    return;
  Value skipped = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(TileVisit::Skipped)));
  yield.getValueMutable().assign(arith::SelectOp::create(b, isInside, yield.getValue(), skipped));
}

/// Emits the flash.tile_runs, which computes the runs of tiles from their classes. The tables have just one batch if
/// the mask does not depend on the batch, and just one head if it does not depend on the head.
void RangedMask::emitTable() {
  ImplicitLocOpBuilder b(op.getLoc(), classes);
  for (OpOperand *extent : {&classes.getBatchesMutable(), &classes.getHeadsMutable()}) {
    unsigned number = extent->getOperandNumber();
    if (classes.getKnown().getArgument(number).use_empty() && classes.getMask().getArgument(number).use_empty())
      extent->set(arith::ConstantIndexOp::create(b, 1));
  }
  b.setInsertionPointAfter(classes);
  int64_t dynamic = ShapedType::kDynamic;
  auto type = RankedTensorType::get({dynamic, dynamic, dynamic, kTileRuns, 4}, b.getI32Type());
  table = TileRunsOp::create(b, type, classes.getBatches(), classes.getHeads(), classes.getQueries(), classes.getKeys(),
                             classes.getQTile(), classes.getKvTile(), isDual());
  Block *body = b.createBlock(&table.getBody(), {}, SmallVector<Type>(4, b.getIndexType()),
                              SmallVector<Location>(4, op.getLoc()));
  SmallVector<Value> place(body->getArguments().begin(), body->getArguments().end());
  place[2] = arith::DivUIOp::create(b, place[2], arith::ConstantIndexOp::create(b, table.getQTile()));
  place[3] = arith::DivUIOp::create(b, place[3], arith::ConstantIndexOp::create(b, table.getKvTile()));
  Value visit = tensor::ExtractOp::create(b, classes.getResult(), place);
  if (isDual()) // a tile that exceeds the queries is masked, not full
    visit = maskLastTile(b, visit, table.getStreamedArgument(), table.getStreamed(), table.getStreamedTile());
  YieldOp::create(b, visit);
}

SmallVector<OpFoldResult> RangedMask::emitRuns() {
  emitTable();
  ImplicitLocOpBuilder b(op.getLoc(), op->getParentOp());
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  auto getNumber = [&](Value extent, Value position) {
    return getConstantIntValue(extent) == 1 ? constant(0) : position;
  };
  Value resident = arith::DivUIOp::create(b, op.getPositionIn(op.getResidentDim()), constant(table.getResidentTile()));
  SmallVector<Value> place{getNumber(table.getBatches(), op.getPositionIn(StepDim::B)),
                           getNumber(table.getHeads(), op.getPositionIn(StepDim::H)), resident};
  SmallVector<OpFoldResult> ends;
  for (int64_t run = 0; run < table.getNumRuns(); ++run)
    for (int64_t field = 0; field < 4; ++field) {
      SmallVector<Value> element(place);
      element.append({constant(run), constant(field)});
      Value end = tensor::ExtractOp::create(b, table.getResult(), element);
      ends.push_back(arith::IndexCastOp::create(b, b.getIndexType(), end).getResult());
    }
  return ends;
}
