//===- HeadRows.cpp - consecutive rows of one head ----------------------------------------------------------------===//

#include "Rows/HeadRows.h"
#include "KernelFrame.h"
#include "WorkOrder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// The grid
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<GridFormula> HeadRows::countTiles() {
  std::optional<GridFormula> rows = getFormula(nest.resident.extent);
  return rows ? std::optional(ceilDiv(*rows, nest.residentTile)) : std::nullopt;
}

FailureOr<std::array<GridFormula, 3>> HeadRows::getExtents() {
  std::optional<GridFormula> tiles = countTiles(), heads = getFormula(nest.head.extent);
  std::optional<GridFormula> batches = getFormula(nest.batch.extent);
  if (!tiles || !heads || !batches)
    return nest.end->emitError() << "expected the extents of the parallel loop to be constants or extents of "
                                    "arguments";
  std::optional<GridFormula> parts = getFormula(nest.parts.dim.extent);
  return std::array<GridFormula, 3>{nest.parts.dim.position ? *tiles * *parts : *tiles,
                                    countHeads() == 1 ? *heads : ceilDiv(*heads, countHeads()), *batches};
}

//===--------------------------------------------------------------------------------------------------------------===//
// In the kernel
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether tiles with higher numbers have more work, as the last queries of a causal mask have. Such tiles start first.
static bool isHeavyLast(const LoopNest &nest) { return nest.mask && dependsOnResident(nest) && isLastFirst(nest); }

Value HeadRows::emitNumHeads(KernelFrame &frame, Value extent) const {
  return frame.b.createOrFold<arith::CeilDivUIOp>(extent, frame.index(countHeads()));
}

Value HeadRows::emitFirstRow(KernelFrame &frame, Value tile, Value extent) {
  Value firstRow = arith::MulIOp::create(frame.b, tile, frame.index(nest.residentTile));
  if (isa<BlockArgument>(nest.resident.position))
    frame.scalars.map(nest.resident.position, firstRow);
  frame.endOfRows = extent;
  return firstRow;
}

/// Emits the unit's position, and maps the induction variables of level L1's parallel loop to it.
LogicalResult HeadRows::emitPlace(KernelFrame &frame) {
  ImplicitLocOpBuilder &b = frame.b;
  ScalarCloner &scalars = frame.scalars;
  Value blockX = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  frame.head = b.createOrFold<arith::MulIOp>(gpu::BlockIdOp::create(b, gpu::Dimension::y), frame.index(countHeads()));
  frame.batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value extent = scalars.get(b, b.getLoc(), nest.resident.extent);
  if (!extent)
    return failure();
  Value residentTile = blockX;
  if (nest.parts.dim.position) { // parts of a tile are neighbours in the grid
    Value parts = scalars.get(b, b.getLoc(), nest.parts.dim.extent);
    frame.part = arith::RemUIOp::create(b, blockX, parts);
    residentTile = arith::DivUIOp::create(b, blockX, parts);
    scalars.map(nest.parts.dim.position, frame.part);
  }
  if (isHeavyLast(nest)) {
    // CTAs start in the order of their numbers. The last tiles, which have the most work, get the first numbers, so
    // that the shortest tiles start last and fill the gaps at the end.
    Value numTiles = emitNumTiles(frame, extent);
    residentTile = arith::SubIOp::create(b, b.createOrFold<arith::SubIOp>(numTiles, frame.index(1)), residentTile);
  }
  if (isa<BlockArgument>(nest.batch.position))
    scalars.map(nest.batch.position, frame.batch);
  if (isa<BlockArgument>(nest.head.position))
    scalars.map(nest.head.position, frame.head);
  Value firstRow = emitFirstRow(frame, residentTile, extent);
  if (!firstRow)
    return failure();
  frame.row = frame.emitUnitRow(firstRow);
  return nest.parts.size ? emitPartSize(frame, firstRow) : success();
}

/// Emits the size of the tile's parts, which the launch decides.
LogicalResult HeadRows::emitPartSize(KernelFrame &frame, Value firstRow) {
  ImplicitLocOpBuilder &b = frame.b;
  Value tiles = frame.scalars.get(b, nest.parts.size.getTiles());
  if (!tiles)
    return failure();
  Value rows = b.createOrFold<arith::SubIOp>(frame.endOfRows, firstRow);
  Value size = tile::PartSizeOp::create(b, tiles, rows);
  frame.scalars.map(nest.parts.size, tile::UniformOp::create(b, size));
  return success();
}

void HeadRows::store(KernelFrame &frame, Value tile, Value array, Value batch, bool isMatrix) {
  tile::StoreOp::create(frame.b, tile, array, batch, frame.head, frame.row, frame.endOfRows, /*columns=*/ValueRange());
}

std::unique_ptr<Rows> flashc::matchHeadRows(LoopNest &nest) { return std::make_unique<HeadRows>(nest); }
