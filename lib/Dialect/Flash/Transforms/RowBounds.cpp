//===- RowBounds.cpp - the keys of some rows of a tile ------------------------------------------------------------===//

#include "KeySegments.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::flash;

/// Whether it takes an element of an array to know the value.
static bool isRead(Value value) {
  auto reads = [](Operation *op) { return llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>); };
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.filter = [](Operation *op) { return !isa<tensor::DimOp, memref::DimOp>(op); };
  if (Operation *op = value.getDefiningOp())
    (void)getBackwardSlice(op, &slice, options);
  return llvm::any_of(slice, reads);
}

/// Whether a bound of the interval moves with the rows, and not by steps: all rows of a chunk see the same keys.
static bool movesWithRows(const LoopBounds &bounds) {
  auto isOfRows = [&](AffineExpr expr) {
    return expr.isFunctionOfSymbol(LoopBounds::First) || expr.isFunctionOfSymbol(LoopBounds::Count);
  };
  // Of its quotients one may be in tiles.
  auto moves = [&](AffineExpr bound) {
    int64_t inTiles = 0, others = 0;
    bound.walk([&](AffineExpr expr) {
      auto quotient = dyn_cast<AffineBinaryOpExpr>(expr);
      bool isQuotient = llvm::is_contained(
          {AffineExprKind::FloorDiv, AffineExprKind::CeilDiv, AffineExprKind::Mod}, expr.getKind());
      if (isQuotient && isOfRows(expr))
        ++(quotient.getRHS() == getAffineConstantExpr(bounds.tileSize, expr.getContext()) ? inTiles : others);
    });
    return isOfRows(bound) && inTiles <= 1 && others == 0;
  };
  const TileInterval &kept = bounds.kept.front();
  return llvm::any_of(kept.begin, moves) || llvm::any_of(kept.end, moves);
}

/// The bounds, if they are of use.
static std::optional<LoopBounds> computeRowBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context) {
  if (!mask.opaque.empty())
    return std::nullopt;
  LoopBounds bounds = computeLoopBounds(mask, loop, context);
  auto isCapturedRead = [](const CapturedValue &captured) { return isRead(captured.value); };
  if (!isOneInterval(bounds) || !movesWithRows(bounds) || llvm::any_of(bounds.captured, isCapturedRead))
    return std::nullopt;
  return bounds;
}

bool mlir::flash::hasRowBounds(Region &region) {
  if (region.empty())
    return false;
  MaskSet mask = readMask(region);
  MaskLoop loop;
  loop.tileSize = loop.otherTileSize = 64; // any
  return computeRowBounds(mask, loop, region.getContext()).has_value();
}

std::optional<RowBounds> mlir::flash::emitRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin,
                                                    OpFoldResult end, Value first, int64_t rows) {
  auto around = dyn_cast<scf::ForOp>(op->getParentOp());
  auto isKnown = [&](Value value) { // what a loop computes is not known outside of it
    return !around || around.isDefinedOutsideOfLoop(value) || op.getMask().isAncestor(value.getParentRegion());
  };
  MaskSet mask = readMask(op.getMask(), isKnown);
  MaskLoop loop;
  loop.tileSize = op.getKType().getDimSize(2);
  loop.otherTileSize = rows;
  loop.begin = LinearExpr::get(begin);
  loop.end = LinearExpr::get(end);
  loop.count = LinearExpr(rows);
  std::optional<LoopBounds> bounds = computeRowBounds(mask, loop, op.getContext());
  if (!bounds)
    return std::nullopt;
  KeyRange range{b, begin, end, first, b.getIndexAttr(rows)};
  SmallVector<KeySegment> segments = emitKeySegments(op, range, *bounds, mask.space);
  const KeySegment &front = segments.front(), &back = segments.back();
  if (segments.size() == 1) // no tile is known to be full
    return RowBounds{front.begin, front.begin, front.begin, front.end};
  return RowBounds{front.begin, front.end, back.begin, back.end};
}
