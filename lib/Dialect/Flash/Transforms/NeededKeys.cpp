//===- NeededKeys.cpp - the keys that a tile of queries needs, without loops over tiles ---------------------------===//

#include "CaptureIndex.h"
#include "KeySegments.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace mlir::flash;

/// Whether `value` depends on `position` through ops inside of `root`.
static bool dependsOn(OpFoldResult value, Value position, Operation *root, DenseSet<Value> &seen) {
  auto known = dyn_cast<Value>(value);
  if (!known || !seen.insert(known).second)
    return false;
  if (known == position)
    return true;
  Operation *def = known.getDefiningOp();
  return def && root->isAncestor(def) &&
         def->walk([&](Operation *nested) {
              for (Value operand : nested->getOperands())
                if (dependsOn(operand, position, root, seen))
                  return WalkResult::interrupt();
              return WalkResult::advance();
            })
             .wasInterrupted();
}

std::optional<NeededKeys> mlir::flash::emitNeededKeys(StepOpInterface op, TileSizes sizes) {
  if (!op.hasMask())
    return std::nullopt;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1);
  auto getExtent = [&](Value array, int64_t dim) {
    return getValueOrCreateConstantIndexOp(b, loc, tensor::getMixedSize(b, loc, array, dim));
  };
  Value q = op.getScores().getQ(), queries = getExtent(q, 2), keys = getExtent(op.getScores().getK(), 2);
  // These loops over all tiles of queries are temporary. The bounds are computed from their induction variables.
  NeededKeys needed;
  scf::ForOp outermost;
  for (auto [position, extent, step] :
       {std::tuple(&needed.batch, getExtent(q, 0), one), std::tuple(&needed.head, getExtent(q, 1), one),
        std::tuple(&needed.query, queries, arith::ConstantIndexOp::create(b, loc, sizes.q).getResult())}) {
    auto loop = scf::ForOp::create(b, loc, zero, extent, step);
    outermost = outermost ? outermost : loop;
    *position = loop.getInductionVar();
    b.setInsertionPointToStart(loop.getBody());
  }
  SmallVector<Value> operands(op->getOperands());
  unsigned begin = op.getPosition().getBeginOperandIndex();
  for (auto [number, position] : llvm::enumerate(ArrayRef<Value>{needed.batch, needed.head, needed.query}))
    operands[begin + number] = position;
  auto tile = cast<StepOpInterface>(clone(b, op, op->getResultTypes(), operands));
  b.setInsertionPoint(tile);
  AffineExpr first, number;
  bindDims(b.getContext(), first, number);
  OpFoldResult count = affine::makeComposedFoldedAffineMin(
      b, loc, AffineMap::get(2, 0, {number - first, b.getAffineConstantExpr(sizes.q)}, b.getContext()),
      {needed.query, queries});
  {
    SearchedMask searched(tile);
    MaskSet mask = readMask(tile.getMask(), [&](Value) { return true; });
    MaskLoop loop;
    loop.tileSize = sizes.kv, loop.otherTileSize = sizes.q;
    loop.begin = LinearExpr::get(zero), loop.end = LinearExpr::get(keys), loop.count = LinearExpr::get(count);
    loop.from = LinearExpr::get(zero), loop.to = LinearExpr::get(queries);
    LoopBounds bounds = computeLoopBounds(mask, loop, b.getContext());
    KeyRange range{b, b.getIndexAttr(0), getAsOpFoldResult(keys), needed.query, count};
    SmallVector<KeySegment> segments = emitKeySegments(tile, range, bounds, mask.space);
    needed.begin = segments.empty() ? b.getIndexAttr(0) : segments.front().begin;
    needed.end = segments.empty() ? b.getIndexAttr(0) : segments.back().end;
  }
  tile->erase();
  auto depends = [&](Value position) {
    DenseSet<Value> ofBegin, ofEnd;
    return dependsOn(needed.begin, position, outermost, ofBegin) || dependsOn(needed.end, position, outermost, ofEnd);
  };
  needed.dependsOnBatch = depends(needed.batch);
  needed.dependsOnHead = depends(needed.head);
  Value condition = cast<YieldOp>(op.getMask().front().getTerminator()).getValue();
  needed.isOfDistance = hangsOnDistance(op.getMask(), condition);
  return needed;
}
