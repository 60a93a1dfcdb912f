//===- QueryTiles.cpp - the loop over tiles of queries, and its tiles in packed sequences -------------------------===//

#include "QueryTiles.h"
#include "flashc/Analysis/TilePartition.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flash;

/// Whether the slices that `loop` inserts fit `sizes`: each slice whose offset in a dimension is the induction variable
/// has one of `sizes` as its size in this dimension.
static bool writesTile(scf::ForOp loop, ArrayRef<affine::AffineMinOp> sizes) {
  return llvm::all_of(loop.getBody()->getOps<tensor::InsertSliceOp>(), [&](tensor::InsertSliceOp write) {
    return llvm::all_of(llvm::zip(write.getMixedOffsets(), write.getMixedSizes()), [&](auto dim) {
      auto isSize = [&](affine::AffineMinOp min) { return std::get<1>(dim) == OpFoldResult(min.getResult()); };
      return std::get<0>(dim) != OpFoldResult(loop.getInductionVar()) || llvm::any_of(sizes, isSize);
    });
  });
}

bool QueryTiles::mayBeShort() const { return !sizes.empty() && writesTile(loop, sizes); }

std::optional<QueryTiles> mlir::flash::matchQueryTiles(OnlineAttentionOp op) {
  QueryTiles tiles{op, scf::getForInductionVarOwner(op.getI0()), op.getQType().getDimSize(2), {}};
  if (!tiles.loop || getConstantIntValue(tiles.loop.getLowerBound()) != 0 ||
      getConstantIntValue(tiles.loop.getStep()) != tiles.tile || !tiles.loop.isDefinedOutsideOfLoop(op.getB0()))
    return std::nullopt;
  LinearExpr rest = LinearExpr::get(tiles.loop.getUpperBound()) - LinearExpr::symbol(op.getI0());
  tiles.loop.walk([&](affine::AffineMinOp min) {
    if (isClamped(min, tiles.tile, rest))
      tiles.sizes.push_back(min);
  });
  return tiles;
}

SegmentTileOp mlir::flash::cutIntoSegments(QueryTiles &tiles, Operation *anchor, Value sorted, ValueRange indices) {
  scf::ForOp loop = tiles.loop;
  Location loc = loop.getLoc();
  OpBuilder b(anchor);
  Value length = loop.getUpperBound();
  Value count = getValueOrCreateConstantIndexOp(b, loc, countSegmentTiles(b, loc, sorted, length, tiles.tile));
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  b.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar();
  Type index = b.getIndexType();
  auto tile = SegmentTileOp::create(b, loc, index, index, index, number, sorted, indices, length,
                                    b.getI64IntegerAttr(tiles.tile));
  for (affine::AffineMinOp size : tiles.sizes) {
    size.replaceAllUsesWith(tile.getSize());
    size.erase();
  }
  number.replaceAllUsesExcept(tile.getBegin(), tile);
  loop.setUpperBound(count);
  loop.setStep(one);
  return tile;
}
