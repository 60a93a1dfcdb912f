//===- RowBounds.cpp - the key bounds of some rows of a tile ------------------------------------------------------===//

#include "KeySegments.h"
#include "flashc/Dialect/Flash/Transforms/SearchedMask.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <functional>

using namespace mlir;
using namespace mlir::flash;

/// Whether a captured value of the bounds reads an array.
static bool isRead(const CapturedValue &captured) {
  auto reads = [](Operation *op) { return llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>); };
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.filter = [](Operation *op) { return !isa<tensor::DimOp, memref::DimOp>(op); };
  if (Operation *op = captured.value.getDefiningOp())
    (void)getBackwardSlice(op, &slice, options);
  return llvm::any_of(slice, reads);
}

/// Whether `expr` depends on the position of the rows or on their number.
static bool isOfRows(AffineExpr expr) {
  return expr.isFunctionOfSymbol(LoopBounds::First) || expr.isFunctionOfSymbol(LoopBounds::Count);
}

/// Whether a bound of the kept interval moves with every row. A bound that moves in steps does not count: it is the
/// same for all rows of a step.
static bool movesWithRows(const LoopBounds &bounds) {
  // A bound may have one division, by the tile size, which rounds it to tiles.
  auto moves = [&](AffineExpr bound) {
    int64_t inTiles = 0, others = 0;
    bound.walk([&](AffineExpr expr) {
      auto quotient = dyn_cast<AffineBinaryOpExpr>(expr);
      bool isQuotient =
          llvm::is_contained({AffineExprKind::FloorDiv, AffineExprKind::CeilDiv, AffineExprKind::Mod}, expr.getKind());
      if (isQuotient && isOfRows(expr))
        ++(quotient.getRHS() == getAffineConstantExpr(bounds.tileSize, expr.getContext()) ? inTiles : others);
    });
    return isOfRows(bound) && inTiles <= 1 && others == 0;
  };
  const TileInterval &kept = bounds.kept.front();
  return llvm::any_of(kept.begin, moves) || llvm::any_of(kept.end, moves);
}

namespace {
/// The bounds of the one interval that moves with the rows (`moving`), and the intervals that do not move (`fixed`).
/// Each kept key is in the moving interval or in a fixed one.
struct MovingBounds {
  LoopBounds moving;
  SmallVector<TileInterval, 1> fixed;
};
} // namespace

static TileInterval dropBounds(const TileInterval &interval, llvm::function_ref<bool(AffineExpr)> isDropped) {
  TileInterval result;
  llvm::copy_if(interval.begin, std::back_inserter(result.begin), std::not_fn(isDropped));
  llvm::copy_if(interval.end, std::back_inserter(result.end), std::not_fn(isDropped));
  return result;
}

/// Separates the one interval whose begin depends on the rows from the other intervals, which must end at fixed keys.
/// In the other intervals, drops the bounds that depend on the rows, so that more tiles are visited. If a cut has
/// several bounds, drops those that do not depend on the rows, so that more tiles are masked. The result of the
/// attention stays the same, since the mask still decides about each pair.
static std::optional<MovingBounds> separate(LoopBounds bounds) {
  if (isOneInterval(bounds))
    return MovingBounds{std::move(bounds), {}};
  MovingBounds result;
  auto isMoving = [](const TileInterval &interval) { return llvm::any_of(interval.begin, isOfRows); };
  for (const TileInterval &interval : llvm::make_filter_range(bounds.kept, std::not_fn(isMoving))) {
    result.fixed.push_back(dropBounds(interval, isOfRows));
    if (result.fixed.back().isSuffix())
      return std::nullopt;
  }
  llvm::erase_if(bounds.kept, std::not_fn(isMoving));
  for (TileInterval &cut : bounds.cut)
    if (cut.begin.size() + cut.end.size() + cut.conditions.size() > 1)
      cut = dropBounds(cut, [](AffineExpr expr) { return !isOfRows(expr); });
  if (result.fixed.empty() || !isOneInterval(bounds))
    return std::nullopt;
  result.moving = std::move(bounds);
  return result;
}

/// Computes the bounds of rows. None if the bounds read arrays, if they do not move with the rows, or if the analysis
/// does not understand the mask.
static std::optional<MovingBounds> computeRowBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context) {
  if (!mask.opaque.empty())
    return std::nullopt;
  std::optional<MovingBounds> bounds = separate(computeLoopBounds(mask, loop, context));
  if (!bounds || !movesWithRows(bounds->moving) || llvm::any_of(bounds->moving.captured, isRead))
    return std::nullopt;
  return bounds;
}

/// Describes a loop of which nothing is known except the sizes of the tiles, which are assumed to be 64.
static MaskLoop getAnyLoop() {
  MaskLoop loop;
  loop.tileSize = loop.otherTileSize = 64;
  return loop;
}

bool mlir::flash::hasRowBounds(Region &region) {
  if (region.empty())
    return false;
  MaskSet mask = readMask(region);
  return computeRowBounds(mask, getAnyLoop(), region.getContext()).has_value();
}

/// Describes the loop over the tiles of `range`, for at most `rows` rows.
static MaskLoop describe(OnlineAttentionOp op, const KeyRange &range, int64_t rows) {
  MaskLoop loop;
  loop.tileSize = op.getKType().getDimSize(2);
  loop.count = LinearExpr::get(range.count);
  loop.otherTileSize = rows;
  loop.begin = LinearExpr::get(range.begin);
  loop.end = LinearExpr::get(range.end);
  return loop;
}

/// Computes the bounds that the mask of `op` gives to the tiles of `range`.
static std::optional<MovingBounds> computeRowBounds(OnlineAttentionOp op, MaskSet &mask, const KeyRange &range) {
  return computeRowBounds(mask, describe(op, range, *getConstantIntValue(range.count)), op.getContext());
}

/// Reads the mask of `op` for bounds that are computed before the loop around `op`, where values of this loop are
/// unknown.
static MaskSet readMaskInFrontOf(OnlineAttentionOp op) {
  auto around = dyn_cast<scf::ForOp>(op->getParentOp());
  return readMask(op.getMask(), [&](Value value) {
    return !around || around.isDefinedOutsideOfLoop(value) || op.getMask().isAncestor(value.getParentRegion());
  });
}

static RowBounds toRowBounds(ArrayRef<KeySegment> segments) {
  const KeySegment &front = segments.front(), &back = segments.back();
  if (segments.size() == 1) // no tile is known to be full
    return {front.begin, front.begin, front.begin, front.end};
  return {front.begin, front.end, back.begin, back.end};
}

std::optional<RowBounds> mlir::flash::emitRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin,
                                                    OpFoldResult end, Value first, int64_t rows) {
  MaskSet mask = readMaskInFrontOf(op);
  KeyRange range{b, begin, end, first, b.getIndexAttr(rows)};
  std::optional<MovingBounds> bounds = computeRowBounds(op, mask, range);
  if (!bounds)
    return std::nullopt;
  return toRowBounds(emitKeySegments(op, range, bounds->moving, mask.space));
}

OpFoldResult mlir::flash::emitFixedEnd(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin, OpFoldResult end) {
  MaskSet mask = readMaskInFrontOf(op);
  KeyRange range{b, begin, end, op.getI0(), b.getIndexAttr(1)};
  std::optional<MovingBounds> bounds = computeRowBounds(op, mask, range);
  OpFoldResult last;
  for (const TileInterval &interval : bounds ? ArrayRef(bounds->fixed) : ArrayRef<TileInterval>()) {
    LoopBounds fixed = bounds->moving;
    fixed.kept = {interval};
    fixed.cut = {TileInterval()}; // every tile is cut, so that there are only masked segments
    OpFoldResult behind = emitKeySegments(op, range, fixed, mask.space).back().end;
    AffineMap greatest = AffineMap::getMultiDimIdentityMap(2, op.getContext());
    last = last ? affine::makeComposedFoldedAffineMax(b, op.getLoc(), greatest, {last, behind}) : behind;
  }
  return last;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Bounds that read arrays
//===--------------------------------------------------------------------------------------------------------------===//

static bool isAtRow(const CapturedValue &captured) {
  return captured.at == MaskSpace::At::FirstRow || captured.at == MaskSpace::At::LastRow;
}

/// Computes the bounds of a mask that has one interval and whose bounds read arrays. None for other masks. None, too,
/// if the bounds are the same for all rows. With `mayBeEmpty` the bounds may be the same, since a row that does not
/// exist sees no key.
static std::optional<LoopBounds> computeReadRowBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context,
                                                      bool mayBeEmpty) {
  if (!mask.opaque.empty())
    return std::nullopt;
  LoopBounds bounds = computeLoopBounds(mask, loop, context);
  if (!isOneInterval(bounds) || llvm::none_of(bounds.captured, isRead))
    return std::nullopt;
  if (!mayBeEmpty && llvm::none_of(bounds.captured, isAtRow) && !movesWithRows(bounds))
    return std::nullopt;
  return bounds;
}

/// Whether the tiles of queries of `op` begin where segments begin (flash.segment_tile). Some of these tiles have fewer
/// rows than others.
static bool followsSegments(OnlineAttentionOp op) { return op.getI0().getDefiningOp<SegmentTileOp>() != nullptr; }

bool mlir::flash::hasReadRowBounds(Region &region) {
  if (region.empty())
    return false;
  SearchedMask searched(region);
  MaskSet mask = readMask(region);
  return computeReadRowBounds(mask, getAnyLoop(), region.getContext(), /*mayBeEmpty=*/false).has_value();
}

bool mlir::flash::hasReadRowBounds(OnlineAttentionOp op) {
  if (!op.hasMask())
    return false;
  SearchedMask searched(op);
  MaskSet mask = readMaskInFrontOf(op);
  return computeReadRowBounds(mask, getAnyLoop(), op.getContext(), followsSegments(op)).has_value();
}

/// Restricts `range` to those of the `rows` that exist. If none of them exists, `first` of the result is still a
/// position at which arrays can be read.
static KeyRange keepRowsInside(OpBuilder &b, OnlineAttentionOp op, KeyRange range, const RowRange &rows) {
  Location loc = op.getLoc();
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value end = getValueOrCreateConstantIndexOp(b, loc, rows.end), zero = constant(0);
  Value last = arith::MaxSIOp::create(b, loc, arith::SubIOp::create(b, loc, end, constant(1)), zero);
  Value left = arith::SubIOp::create(b, loc, end, rows.first);
  Value most = arith::MinSIOp::create(b, loc, left, constant(rows.count));
  range.count = arith::MaxSIOp::create(b, loc, most, zero).getResult();
  range.first = arith::MinSIOp::create(b, loc, rows.first, last);
  range.mayBeEmpty = true;
  return range;
}

/// The whole tile of queries visits only some of the key tiles. Drops bounds that hold in all of these: the begin of
/// the kept interval, if it is the same for all rows, and, if `isFullInFront`, the cuts of the first tiles.
static void dropKnown(LoopBounds &bounds, bool isFullInFront) {
  auto isOfAnyRow = [&](AffineExpr expr) {
    if (isOfRows(expr))
      return true;
    for (auto [number, captured] : llvm::enumerate(bounds.captured))
      if (isAtRow(captured) && expr.isFunctionOfSymbol(LoopBounds::FirstCaptured + number))
        return true;
    return false;
  };
  TileInterval &kept = bounds.kept.front();
  if (llvm::none_of(kept.begin, isOfAnyRow))
    kept.begin.clear();
  if (isFullInFront)
    llvm::erase_if(bounds.cut, [](const TileInterval &cut) { return cut.isPrefix() && !cut.isSuffix(); });
}

std::optional<RowBounds> mlir::flash::emitReadRowBounds(OpBuilder &b, OnlineAttentionOp op, OpFoldResult begin,
                                                        OpFoldResult end, const RowRange &rows) {
  SearchedMask searched(op);
  MaskSet mask = readMaskInFrontOf(op);
  KeyRange range = keepRowsInside(b, op, {b, begin, end, rows.first, {}}, rows);
  std::optional<LoopBounds> bounds =
      computeReadRowBounds(mask, describe(op, range, rows.count), op.getContext(), followsSegments(op));
  if (!bounds)
    return std::nullopt;
  dropKnown(*bounds, rows.isFullInFront);
  return toRowBounds(emitKeySegments(op, range, *bounds, mask.space));
}
