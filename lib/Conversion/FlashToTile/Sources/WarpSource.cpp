//===- WarpSource.cpp - tiles that a warp loads itself ------------------------------------------------------------===//

#include "Sources/WarpSource.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

bool flashc::isLoadedByUnit(const KernelFrame &frame, const NestOperand &operand) {
  return frame.unit->loadsItself() && operand.isStreamed;
}

bool flashc::areBoxes(const KernelFrame &frame, const NestOperand &operand) {
  return frame.getTarget().hasTMA && operand.getPageRows() % frame.nest.streamedTile == 0;
}

bool WarpSource::hasPageScales() const {
  flash::CacheTileOp op = cache;
  return op && op.getScales() && cast<ShapedType>(op.getScales().getType()).getDimSize(0) != 1;
}

LogicalResult WarpSource::check() {
  flash::StepOpInterface op = frame.nest.getStep();
  Type stored = info.getStoredType();
  bool areBytes = stored != frame.nest.elementType;
  if (areBytes && info.getCols() % 16 != 0)
    return op.emitError() << "expected head dimensions of a multiple of 16 for caches of 8 bits, got "
                          << info.getCols();
  if (!stored.isInteger() && areBytes && !frame.getTarget().hasFloat8)
    return op.emitError() << "expected caches of i8 or 16 bits on " << frame.getTarget().name
                          << ", which has no float8, got " << stored;
  if (hasPageScales() && info.getPageRows() % frame.nest.streamedTile != 0)
    return op.emitError() << "expected pages of a multiple of " << frame.nest.streamedTile
                          << " rows where each has a scale, got " << info.getPageRows();
  return success();
}

LogicalResult WarpSource::emitInvariants() {
  if (failed(Source::emitInvariants()))
    return failure();
  if (cache && cache.getLengths()) {
    Value length = scalars.loadElement(b, cache, cache.getLengths(), frame.batch);
    if (!length)
      return failure();
    end = arith::IndexCastOp::create(b, b.getIndexType(), length);
  } else if (needsEnd()) {
    end = emitExtent();
    if (!end)
      return failure();
  }
  if (!cache || !cache.getScales() || hasPageScales())
    return success();
  scale = emitScale(/*page=*/frame.index(0));
  return success(scale != nullptr);
}

/// Emits the page of a tile. Loads run ahead, so the tile may not exist. The page is then any page, and the loaded tile
/// is not used.
Value WarpSource::emitPage(Value position) {
  Value pages = scalars.getExtent(b, cache, cache.getTable(), 1);
  if (!pages)
    return {};
  Value number = arith::MinUIOp::create(b, arith::DivUIOp::create(b, position, frame.index(info.getPageRows())),
                                        arith::SubIOp::create(b, pages, frame.index(1)));
  Value entry = scalars.loadElement(b, cache, cache.getTable(), {batch, number});
  return entry ? arith::IndexCastOp::create(b, b.getIndexType(), entry).getResult() : Value();
}

/// Emits the scale of a page, as a value for all rows.
Value WarpSource::emitScale(Value page) {
  bool isOfHead = cast<ShapedType>(cache.getScales().getType()).getDimSize(1) != 1;
  Value ofPage = scalars.loadElement(b, cache, cache.getScales(), {page, isOfHead ? head : frame.index(0)});
  if (!ofPage)
    return {};
  auto rows = tile::RowsOp::create(b, frame.getRowType(), frame.row);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  tile::YieldOp::create(b, ofPage);
  return rows;
}

Value WarpSource::emitScaled(Value tile, Value position) {
  if (!cache || !cache.getScales())
    return tile;
  Value factor = scale;
  if (hasPageScales()) {
    Value page = emitPage(position);
    factor = page ? emitScale(page) : Value();
  }
  return factor ? tile::ScaleRowsOp::create(b, tile.getType(), tile, factor).getResult() : Value();
}
