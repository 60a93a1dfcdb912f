//===- TileRegions.cpp - a step's score and mask regions, on tiles ------------------------------------------------===//

#include "Regions/TileRegions.h"
#include "KernelFrame.h"
#include "Regions/ScoreMap.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;

TileRegions::TileRegions(KernelFrame &frame) : frame(frame), nest(frame.nest), scalars(frame.scalars), b(frame.b) {}

bool TileRegions::hasScoreMap() const { return nest.score || !isExponentFactor(getScale()); }

LogicalResult TileRegions::emitInvariants() {
  row = frame.rows->emitFirst(frame);
  for (Region *region : {nest.score, nest.derivative, nest.mask})
    if (region &&
        (failed(scalars.cloneInvariants(b, *region, frame.rows->getBatch(frame), frame.rows->getHead(frame))) ||
         failed(emitRows(*region))))
      return failure();
  return success();
}

/// Returns the region's argument for a row's position. It is i or j, which are the last arguments of the region.
Value TileRegions::getRowArgument(Region &region) {
  return region.getArguments().end()[nest.getStep().getResidentDim() == flash::StepDim::I ? -2 : -1];
}

SmallVector<Value, 2> TileRegions::getRowArguments(Region &region) {
  SmallVector<Value, 2> arguments{getRowArgument(region)};
  if (!frame.rows->getHead(frame))
    arguments.push_back(region.getArguments().end()[-3]);
  return arguments;
}

/// Computes values of the region once for each row if they depend on the row's position, but not on the score or the
/// column. A value that takes only a few instructions is computed for each element instead.
LogicalResult TileRegions::emitRows(Region &region) {
  for (Value value : scalars.findRowValues(region, getRowArguments(region))) {
    auto type = tile::getRowType(value.getType(), frame.tileRows);
    auto rows = tile::RowsOp::create(b, type, row);
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
    ScalarCloner inside = scalars; // mapped values are valid for these rows only
    auto [head, position] = frame.rows->emitHeadAndPosition(frame, body->getArgument(0));
    inside.map(region.getArguments().end()[-3], head);
    inside.map(getRowArgument(region), position);
    Value copy = inside.get(b, value);
    if (!copy)
      return failure();
    tile::YieldOp::create(b, copy);
    rowValues.push_back({&region, value, rows.getResult()});
  }
  return success();
}

/// Makes a tile.map and sets the insertion point into it. The values of `region` that emitRows has computed for each
/// row become arguments of the tile.map.
tile::MapOp TileRegions::beginMap(Value tile, Value column, Region *region) {
  SmallVector<Value> tiles;
  SmallVector<Type> types{cast<RankedTensorType>(tile.getType()).getElementType(), b.getIndexType(), b.getIndexType()};
  for (const RowValue &value : rowValues)
    if (value.region == region) {
      tiles.push_back(value.tile);
      types.push_back(value.inL1.getType());
    }
  auto map = tile::MapOp::create(b, tile.getType(), /*offset=*/Type(), tile, tiles, row, column);
  Block *body = b.createBlock(&map.getBody(), {}, types, SmallVector<Location>(types.size(), b.getLoc()));
  unsigned argument = 3;
  for (const RowValue &value : rowValues)
    if (value.region == region)
      scalars.map(value.inL1, body->getArgument(argument++));
  return map;
}

/// Returns the values b, h, i and j of an element.
SmallVector<Value> TileRegions::getPosition(tile::MapOp map) {
  Value ofRow = map.getBody().getArgument(1), ofColumn = map.getBody().getArgument(2);
  auto [head, position] = frame.rows->emitHeadAndPosition(frame, ofRow);
  if (nest.getStep().getResidentDim() == flash::StepDim::J)
    std::swap(position, ofColumn);
  return {frame.rows->getBatch(frame), head, position, ofColumn};
}

/// Whether code of the map computes `value` from the column and from nothing else that differs between elements.
static bool isOfColumnAlone(tile::MapOp map, Value value) {
  if (!map.getBody().isAncestor(value.getParentRegion()) || value == map.getBody().getArgument(2))
    return true;
  Operation *def = value.getDefiningOp();
  return def && llvm::all_of(def->getOperands(), [&](Value operand) { return isOfColumnAlone(map, operand); });
}

/// Makes the map clamp array indices only where `isMasked` holds. In other tiles all columns exist, so that clamps
/// change nothing.
static void keepClampsWhere(Value isMasked, tile::MapOp map) {
  for (auto clamp : llvm::make_early_inc_range(map.getBody().getOps<arith::MaxSIOp>())) {
    Value position = flash::stripTileClamp(clamp);
    if (position == clamp.getResult() || !isOfColumnAlone(map, position))
      continue;
    OpBuilder after(clamp->getContext());
    after.setInsertionPointAfter(clamp);
    Value kept = arith::SelectOp::create(after, clamp.getLoc(), isMasked, clamp, position);
    clamp.getResult().replaceAllUsesExcept(kept, kept.getDefiningOp());
  }
}

tile::MapOp TileRegions::emitOfScore(Region *region, Value products, Value column, Value isMasked) {
  OpBuilder::InsertionGuard guard(b);
  tile::MapOp map = beginMap(products, column, region);
  Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(getScale()));
  Value score = arith::MulFOp::create(b, map.getBody().getArgument(0), scale);
  if (region) {
    SmallVector<Value> arguments = getPosition(map);
    arguments.insert(arguments.begin(), score);
    score = scalars.cloneRegion(b, *region, arguments);
  }
  if (!score)
    return {};
  tile::YieldOp::create(b, score);
  if (isMasked)
    keepClampsWhere(isMasked, map);
  return map;
}

/// Whether `op` divides `position` by a multiple of `tile`.
static bool isTileQuotient(Operation &op, Value position, int64_t tile) {
  APInt number;
  if (op.getNumOperands() != 2 || !matchPattern(op.getOperand(1), m_ConstantInt(&number)) ||
      number.getSignificantBits() > 31)
    return false;
  Value dividend = op.getOperand(0);
  while (isa_and_nonnull<arith::IndexCastOp, arith::ExtSIOp>(dividend.getDefiningOp()))
    dividend = dividend.getDefiningOp()->getOperand(0);
  int64_t divisor = number.getSExtValue();
  if (isa<arith::ShRSIOp, arith::ShRUIOp>(op))
    divisor = divisor >= 0 && divisor < 31 ? int64_t(1) << divisor : 0;
  else if (!isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op))
    return false;
  return dividend == position && divisor > 0 && divisor % tile == 0;
}

/// Computes, before the map of a tile, values that are the same for all elements of the tile. If tiles are read from a
/// table of runs, they begin at multiples of their size. A position divided by a multiple of this size then gives the
/// same quotient for all elements. An array element whose index is such a quotient, for example an entry of a table of
/// blocks, is then also the same.
LogicalResult TileRegions::emitOfTile(Region &region, tile::MapOp map, ScalarCloner &inside) {
  if (!nest.runs.table || !frame.rows->areConsecutive())
    return success();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(map);
  Block::BlockArgListType arguments = region.getArguments().take_back(4);
  Value ofRow = getRowArgument(region), ofColumn = arguments[2] == ofRow ? arguments[3] : arguments[2];
  llvm::DenseSet<Value> known(arguments.begin(), arguments.begin() + 2), ofTile;
  auto isKnown = [&](Value value) { return known.contains(value) || !region.isAncestor(value.getParentRegion()); };
  for (Operation &op : region.front().without_terminator()) {
    if (op.getNumRegions() > 0 || op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    bool isOfRow = isTileQuotient(op, ofRow, frame.tileRows);
    if (isOfRow || isTileQuotient(op, ofColumn, nest.streamedTile)) {
      IRMapping mapping;
      mapping.map(isOfRow ? ofRow : ofColumn, isOfRow ? map.getRow() : map.getCol());
      inside.map(result, cloneSlice(b, result, mapping, [](Value) { return Value(); }));
      ofTile.insert(result);
    } else if ((isPure(&op) || flash::getElementRead(&op)) && llvm::all_of(op.getOperands(), isKnown)) {
      if (Value copy = inside.lookup(result); copy && map.getBody().isAncestor(copy.getParentRegion()))
        continue; // the map has it as a value of the row
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return ofTile.contains(operand); })) {
        if (!inside.get(b, result))
          return failure();
        ofTile.insert(result);
      }
    } else {
      continue;
    }
    known.insert(result);
  }
  return success();
}

Value TileRegions::emitMask(Value source, Value column, double masked) {
  OpBuilder::InsertionGuard guard(b);
  tile::MapOp map = beginMap(source, column, nest.mask);
  Value result = arith::ConstantOp::create(b, b.getF32FloatAttr(masked));
  if (nest.mask) {
    ScalarCloner inside = scalars; // mapped values are valid in this map only
    if (failed(emitOfTile(*nest.mask, map, inside)))
      return {};
    Value keep = inside.cloneRegion(b, *nest.mask, getPosition(map));
    if (!keep)
      return {};
    result = arith::SelectOp::create(b, keep, map.getBody().getArgument(0), result);
  }
  tile::YieldOp::create(b, result);
  return map.getResult();
}
