//===- RowBounds.cpp - the keys of some rows of a tile ------------------------------------------------------------===//

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

/// Whether it takes an element of an array to know a value of the bounds.
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

/// Whether an expression hangs on where the rows are.
static bool isOfRows(AffineExpr expr) {
  return expr.isFunctionOfSymbol(LoopBounds::First) || expr.isFunctionOfSymbol(LoopBounds::Count);
}

/// Whether a bound of the interval moves with the rows, and not by steps: all rows of a chunk see the same keys.
static bool movesWithRows(const LoopBounds &bounds) {
  // One quotient may be in tiles.
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
/// Bounds of one interval that moves with the rows. Other keys of theirs lie in `fixed`, whatever the rows.
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

/// Separates the interval that begins where the rows say from others that end at keys which do not move. What else
/// these end at is dropped, and so is what bounds a cut beside the rows: more is then said to be kept, or cut, than is.
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

/// The bounds, if they are of use.
static std::optional<MovingBounds> computeRowBounds(MaskSet &mask, const MaskLoop &loop, MLIRContext *context) {
  if (!mask.opaque.empty())
    return std::nullopt;
  std::optional<MovingBounds> bounds = separate(computeLoopBounds(mask, loop, context));
  if (!bounds || !movesWithRows(bounds->moving) || llvm::any_of(bounds->moving.captured, isRead))
    return std::nullopt;
  return bounds;
}

/// A loop and a tile about which nothing is known.
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

/// The loop over tiles at `begin`, `begin` + tile, ... below `end`, for at most `rows` rows.
static MaskLoop describe(OnlineAttentionOp op, const KeyRange &range, int64_t rows) {
  MaskLoop loop;
  loop.tileSize = op.getKType().getDimSize(2);
  loop.count = LinearExpr::get(range.count);
  loop.otherTileSize = rows;
  loop.begin = LinearExpr::get(range.begin);
  loop.end = LinearExpr::get(range.end);
  return loop;
}

/// The bounds of tiles at `begin`, `begin` + tile, ... below `end` in front of `op`, by its mask.
static std::optional<MovingBounds> computeRowBounds(OnlineAttentionOp op, MaskSet &mask, const KeyRange &range) {
  return computeRowBounds(mask, describe(op, range, *getConstantIntValue(range.count)), op.getContext());
}

/// What a loop computes is not known outside of it.
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
    fixed.cut = {TileInterval()}; // where it is full does not matter
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

/// Bounds of one interval that read arrays, if they differ between rows, or rows may be missing (`mayBeEmpty`): rows
/// that do not exist see nothing.
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

/// Whether tiles of queries follow segments, so that some have fewer rows than others.
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

/// The range for those of the rows that exist, if any do: the first one is at a position that arrays may be read at.
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

/// Drops what the tiles say that rows are among: their begin, if it is the same for all rows; and what is cut in front,
/// if nothing is.
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
