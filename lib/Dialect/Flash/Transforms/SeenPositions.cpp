//===- SeenPositions.cpp - the keys that any query sees -----------------------------------------------------------===//
//
// The range of keys that queries see is computed like the bounds of a loop over tiles of keys. Here each tile of keys
// has one key, and a single tile of queries has all queries.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/SeenPositions.h"
#include "BoundsEmitter.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/SearchedMask.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// Says what a value is computed from.
struct Sources {
  bool readsMemory = false, readsScalars = false;
  /// Whether one of the ops is a division. The value then depends on the number of a block, and what the value reads
  /// from memory is the size of the block. Such a value does not count as a bound by data.
  bool divides = false;
};
} // namespace

static void collectSources(Value value, Sources &sources, DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  Operation *def = value.getDefiningOp();
  if (!def) {
    Operation *owner = cast<BlockArgument>(value).getOwner()->getParentOp();
    sources.readsScalars |= isa<FunctionOpInterface>(owner) && value.getType().isIntOrIndex();
    return;
  }
  sources.divides |= isa<arith::FloorDivSIOp, arith::DivSIOp, arith::CeilDivSIOp>(def);
  sources.readsMemory |= getElementRead(def).has_value() || isa<SegmentTileOp>(def);
  for (Value operand : def->getOperands())
    if (!isa<ShapedType>(operand.getType()))
      collectSources(operand, sources, seen);
}

namespace {
class SeenEmitter : BoundsEmitter {
public:
  SeenEmitter(StepOpInterface op, const KeyRange &range, const LoopBounds &bounds)
      : BoundsEmitter(op, range, bounds), b(range.place), loc(op.getLoc()),
        isCached(op.getScores().getK().getDefiningOp<CacheTileOp>() != nullptr) {}

  std::optional<SeenPositions> emit() {
    auto getBegin = [](const TileInterval &kept) { return ArrayRef(kept.begin); };
    auto getEnd = [](const TileInterval &kept) { return ArrayRef(kept.end); };
    if (!isOfData(getBegin) && !isOfData(getEnd))
      return std::nullopt;
    return SeenPositions{emitHull(getBegin, /*isBegin=*/true), emitHull(getEnd, /*isBegin=*/false)};
  }

private:
  using GetExprs = llvm::function_ref<ArrayRef<AffineExpr>(const TileInterval &)>;

  /// Whether each kept interval has a bound by data on one side. `get` returns an interval's bounds on this side.
  bool isOfData(GetExprs get) const {
    return llvm::all_of(bounds.kept, [&](const TileInterval &kept) {
      return llvm::any_of(get(kept), [&](AffineExpr expr) { return isBoundOfData(expr); });
    });
  }

  /// Whether `expr` is a bound by data, so that positions beyond it may not exist. A scalar that is added to the
  /// query's position does not count, since it is a window or a shift. But if keys are in a cache, a number from memory
  /// counts even if it is added to the query's position, because the pages before a window may be free.
  bool isBoundOfData(AffineExpr expr) const {
    bool isOfPosition = expr.isFunctionOfSymbol(LoopBounds::First) || expr.isFunctionOfSymbol(LoopBounds::Count);
    for (auto [number, captured] : llvm::enumerate(bounds.captured)) {
      if (!expr.isFunctionOfSymbol(LoopBounds::FirstCaptured + number))
        continue;
      Sources sources;
      DenseSet<Value> seen;
      collectSources(captured.value, sources, seen);
      if (sources.divides)
        continue;
      if (isOfPosition ? isCached && sources.readsMemory : sources.readsMemory || sources.readsScalars)
        return true;
    }
    return false;
  }

  /// Returns the least begin of the kept intervals if `isBegin`, else their greatest end. Null if an interval has no
  /// such bound.
  Value emitHull(GetExprs get, bool isBegin) {
    OpFoldResult hull;
    for (const TileInterval &kept : bounds.kept) {
      if (get(kept).empty())
        return {};
      OpFoldResult own = reduce(get(kept), /*isMin=*/!isBegin);
      hull = hull ? clamp(hull, own, /*isMin=*/isBegin) : own;
    }
    return getValueOrCreateConstantIndexOp(b, loc, hull);
  }

  OpBuilder b;
  Location loc;
  bool isCached;
};
} // namespace

/// Returns the KeyRange of the dual view: tiles of queries, for the keys that any query sees.
static KeyRange getDualRange(OpBuilder &b, StepOpInterface op, const PairExtents &extents) {
  std::optional<SeenPositions> keys = emitSeenPositions(op, MaskView::Primal, extents);
  Location loc = op.getLoc();
  Value first = keys && keys->begin ? keys->begin : arith::ConstantIndexOp::create(b, loc, 0).getResult();
  KeyRange range{b, b.getIndexAttr(0), extents.queries, first, extents.keys, /*mayBeEmpty=*/keys.has_value()};
  if (keys) {
    Value end = keys->end ? keys->end : getValueOrCreateConstantIndexOp(b, loc, extents.keys);
    range.count = arith::SubIOp::create(b, loc, end, first).getResult();
  }
  return range;
}

/// Returns the KeyRange of the primal view: tiles of keys, for all queries. If tiles follow segments, the queries are
/// only those in the segment of the tile.
static KeyRange getPrimalRange(OpBuilder &b, StepOpInterface op, const PairExtents &extents) {
  Location loc = op.getLoc();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  KeyRange range{b, b.getIndexAttr(0), extents.keys, zero, extents.queries};
  auto tile = op.getPositionIn(StepDim::I).getDefiningOp<SegmentTileOp>();
  if (!tile)
    return range;
  Value one = arith::ConstantIndexOp::create(b, loc, 1),
        queries = getValueOrCreateConstantIndexOp(b, loc, extents.queries);
  auto getOffset = [&](Value number) -> Value {
    Value offset = NthOp::create(b, loc, b.getIndexType(), number, tile.getSorted(), tile.getIndices());
    offset = arith::MaxSIOp::create(b, loc, offset, zero);
    return arith::MinSIOp::create(b, loc, offset, queries);
  };
  Value before = arith::SubIOp::create(b, loc, tile.getSegment(), one);
  range.first = getOffset(before);
  range.count = arith::SubIOp::create(b, loc, getOffset(tile.getSegment()), range.first).getResult();
  range.mayBeEmpty = true;
  return range;
}

std::optional<SeenPositions> mlir::flash::emitSeenPositions(StepOpInterface op, MaskView view,
                                                            const PairExtents &extents) {
  // If the tile has several heads, the bounds of one head need not hold for the others.
  if (op.getTileExtent(StepDim::H) != 1 && !op.getMask().getArgument(1).use_empty())
    return std::nullopt;
  OpBuilder b(op);
  KeyRange range = view == MaskView::Primal ? getPrimalRange(b, op, extents) : getDualRange(b, op, extents);
  SearchedMask searched(op, view);
  MaskSet mask = readMask(op.getMask(), [](Value) { return true; }); // all values are known before a loop over tiles
  auto get = [&](OpFoldResult value) {
    return LinearExpr::get(getValueOrCreateConstantIndexOp(b, op.getLoc(), value));
  };
  MaskLoop loop;
  loop.view = view, loop.tileSize = 1, loop.otherTileSize = kFarPosition;
  loop.begin = get(range.begin), loop.end = get(range.end), loop.count = get(range.count);
  LoopBounds bounds = computeLoopBounds(mask, loop, b.getContext());
  if (bounds.kept.empty())
    return std::nullopt;
  return SeenEmitter(op, range, bounds).emit();
}
