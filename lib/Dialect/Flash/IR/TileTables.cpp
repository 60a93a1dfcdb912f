//===- TileTables.cpp - flash.row_table, flash.tile_range, flash.tile_classes and flash.tile_runs -----------------===//

#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flash;

using Predicate = arith::CmpIPredicate;

//===--------------------------------------------------------------------------------------------------------------===//
// The ops
//===--------------------------------------------------------------------------------------------------------------===//

/// Verifies that `region` takes `numIndices` indices and yields an integer of `bits` bits.
static LogicalResult verifyBody(Operation *op, Region &region, unsigned numIndices, unsigned bits = 32) {
  Block &body = region.front();
  SmallVector<Type> expected(numIndices, IndexType::get(op->getContext()));
  if (body.getArgumentTypes() != TypeRange(expected))
    return op->emitOpError() << "expected the region to take (" << expected << "), got (" << body.getArgumentTypes()
                             << ")";
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield || !yield.getValue().getType().isInteger(bits))
    return op->emitOpError() << "expected the region to yield an i" << bits;
  return success();
}

LogicalResult RowTableOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  bool fits = type.getRank() == 3;
  for (unsigned dim = 0; fits && dim < 3; ++dim) {
    std::optional<int64_t> extent = getConstantIntValue(getOperand(dim));
    fits = type.isDynamicDim(dim) || !extent || *extent == type.getDimSize(dim);
  }
  if (!fits)
    return emitOpError() << "expected a result with the extents of the operands, got " << type;
  return verifyBody(*this, getBody(), 3);
}

Value RowTableOp::getValue() { return cast<YieldOp>(getBody().front().back()).getValue(); }

namespace {
/// Replaces a tensor.dim of the table by the operand that gives this extent.
struct ForwardDims : OpRewritePattern<RowTableOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RowTableOp op, PatternRewriter &rewriter) const override {
    bool isChanged = false;
    for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
      auto dim = dyn_cast<tensor::DimOp>(user);
      std::optional<int64_t> number = dim ? dim.getConstantIndex() : std::nullopt;
      if (!number || *number < 0 || *number > 2)
        continue;
      rewriter.replaceOp(dim, op.getOperand(*number));
      isChanged = true;
    }
    return success(isChanged);
  }
};
} // namespace

void RowTableOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ForwardDims>(context);
}

LogicalResult TileRangeOp::verify() {
  if (int64_t tile = getTile(); tile <= 0)
    return emitOpError() << "expected a positive tile, got " << tile;
  Type index = IndexType::get(getContext());
  if (getBody().getArgumentTypes() != TypeRange{index, index, index})
    return emitOpError() << "expected the region to take ('index', 'index', 'index'), got ("
                         << getBody().getArgumentTypes() << ")";
  auto yield = dyn_cast<YieldOp>(getBody().front().back());
  if (!yield || !yield.getValue().getType().isInteger())
    return emitOpError() << "expected the region to yield an i1, an i32 or an i64";
  return success();
}

Value TileRangeOp::getValue() { return cast<YieldOp>(getBody().front().back()).getValue(); }

void TileRangeOp::getAsmResultNames(function_ref<void(Value, StringRef)> setNameFn) {
  setNameFn(getLeast(), "least");
  setNameFn(getGreatest(), "greatest");
}

LogicalResult TileClassesOp::verify() {
  int64_t qTile = getQTile(), kvTile = getKvTile();
  if (qTile <= 0 || kvTile <= 0)
    return emitOpError() << "expected positive tiles, got " << qTile << " and " << kvTile;
  auto type = cast<RankedTensorType>(getResult().getType());
  if (type.getRank() != 4 || type.getNumDynamicDims() != 4)
    return emitOpError() << "expected a result of type tensor<?x?x?x?xi32>, got " << type;
  if (failed(verifyBody(*this, getKnown(), 4)))
    return failure();
  return verifyBody(*this, getMask(), 4, /*bits=*/1);
}

LogicalResult TileRunsOp::verify() {
  int64_t qTile = getQTile(), kvTile = getKvTile();
  if (qTile <= 0 || kvTile <= 0)
    return emitOpError() << "expected positive tiles, got " << qTile << " and " << kvTile;
  auto type = cast<RankedTensorType>(getResult().getType());
  bool isTable = type.getRank() == 5 && type.isDynamicDim(0) && type.isDynamicDim(1) && type.isDynamicDim(2) &&
                 type.getDimSize(3) > 0 && type.getDimSize(4) == 4;
  if (!isTable)
    return emitOpError() << "expected a result of type tensor<?x?x?xRx4xi32>, got " << type;
  return verifyBody(*this, getBody(), 4);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Runs
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The fields of a run. A run is a range of key tiles. It contains a range of full tiles.
enum RunField { Begin, FullBegin, FullEnd, End, NumFields };
} // namespace

SmallVector<Value> RunsBuilder::emitNone() { return SmallVector<Value>(NumFields * numRuns + 2, index(0)); }

/// Returns the number n for which the runs n and n + 1 are merged: the two neighbouring runs with the smallest gap
/// between them. If several pairs of runs have this gap, the last pair is taken.
Value RunsBuilder::emitMergePosition(ArrayRef<Value> runs) {
  Value position, least;
  for (int64_t run = numRuns; run-- > 0;) {
    Value gap = sub(runs[NumFields * (run + 1) + Begin], runs[NumFields * run + End]);
    if (!position) {
      position = index(run), least = gap;
      continue;
    }
    Value isLess = compare(Predicate::slt, gap, least);
    position = select(isLess, index(run), position);
    least = select(isLess, gap, least);
  }
  return position;
}

/// If the visited tile is full, extends the current sequence of consecutive full tiles by this tile, or begins a new
/// sequence. If the sequence is then longer than the range of full tiles in the last run, the sequence replaces that
/// range.
void RunsBuilder::emitFull(MutableArrayRef<Value> state, Value key, Value next, Value isFull) {
  Value &rowBegin = state[NumFields * numRuns], &rowEnd = state[NumFields * numRuns + 1];
  Value isNext = compare(Predicate::eq, rowEnd, key);
  rowBegin = select(isFull, select(isNext, rowBegin, key), rowBegin);
  rowEnd = select(isFull, next, rowEnd);
  Value &begin = state[NumFields * (numRuns - 1) + FullBegin], &end = state[NumFields * (numRuns - 1) + FullEnd];
  Value isLonger = compare(Predicate::sgt, sub(rowEnd, rowBegin), sub(end, begin));
  isLonger = arith::AndIOp::create(b, isLonger, isFull);
  begin = select(isLonger, rowBegin, begin);
  end = select(isLonger, rowEnd, end);
}

SmallVector<Value> RunsBuilder::emitVisit(ValueRange state, Value key, Value isFull) {
  Value next = arith::AddIOp::create(b, key, index(kvTile));
  SmallVector<Value> runs(getRuns(state)), result(state);
  runs.append(NumFields, key); // the new run, which has no tiles yet
  Value position = emitMergePosition(runs);
  for (int64_t run = 0; run < numRuns; ++run) {
    ArrayRef<Value> own = ArrayRef(runs).slice(NumFields * run, NumFields);
    ArrayRef<Value> other = ArrayRef(runs).slice(NumFields * (run + 1), NumFields);
    MutableArrayRef<Value> merged = MutableArrayRef(result).slice(NumFields * run, NumFields);
    Value isBefore = compare(Predicate::slt, index(run), position); // the run stays as it is
    Value isFirst = compare(Predicate::eq, index(run), position);   // the run is merged with the next one
    Value keepsBegin = arith::OrIOp::create(b, isBefore, isFirst);
    Value isLonger = compare(Predicate::sge, sub(own[FullEnd], own[FullBegin]), sub(other[FullEnd], other[FullBegin]));
    Value keepsFull = arith::OrIOp::create(b, isBefore, arith::AndIOp::create(b, isFirst, isLonger));
    merged[Begin] = select(keepsBegin, own[Begin], other[Begin]);
    merged[FullBegin] = select(keepsFull, own[FullBegin], other[FullBegin]);
    merged[FullEnd] = select(keepsFull, own[FullEnd], other[FullEnd]);
    merged[End] = select(isBefore, own[End], other[End]);
  }
  result[NumFields * (numRuns - 1) + End] = next;
  emitFull(result, key, next, isFull);
  return result;
}

tensor::ExtractOp mlir::flash::matchRunsElement(OpFoldResult bound) {
  auto value = dyn_cast<Value>(bound);
  auto cast = value ? value.getDefiningOp<arith::IndexCastOp>() : arith::IndexCastOp();
  auto element = cast ? cast.getIn().getDefiningOp<tensor::ExtractOp>() : tensor::ExtractOp();
  return element && element.getTensor().getDefiningOp<TileRunsOp>() ? element : tensor::ExtractOp();
}

//===--------------------------------------------------------------------------------------------------------------===//
// On the CPU
//===--------------------------------------------------------------------------------------------------------------===//

Value mlir::flash::emitRangedElement(ImplicitLocOpBuilder &b, Value element) {
  Type type = element.getType(), wide = b.getI64Type();
  if (type == wide)
    return element;
  if (type.isIndex())
    return arith::IndexCastOp::create(b, wide, element);
  if (type.isInteger(1))
    return arith::ExtUIOp::create(b, wide, element);
  return arith::ExtSIOp::create(b, wide, element);
}

static Value countTiles(ImplicitLocOpBuilder &b, Value extent, int64_t tile) {
  return b.createOrFold<arith::CeilDivSIOp>(extent, arith::ConstantIndexOp::create(b, tile));
}

/// Emits loops that fill a tensor of `type`. The loops run over the tensor's leading dimensions, which have `extents`.
/// `emitElements` returns all elements for one position of the loops, in row-major order of the other dimensions.
static Value emitTable(ImplicitLocOpBuilder &b, RankedTensorType type, ArrayRef<Value> extents,
                       function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)> emitElements) {
  SmallVector<Value> dynamic;
  for (auto [dim, extent] : llvm::enumerate(extents))
    if (type.isDynamicDim(dim))
      dynamic.push_back(extent);
  Value table = tensor::EmptyOp::create(b, type, dynamic);
  SmallVector<Value> zeros(extents.size(), arith::ConstantIndexOp::create(b, 0));
  SmallVector<Value> ones(extents.size(), arith::ConstantIndexOp::create(b, 1));
  scf::LoopNest nest = scf::buildLoopNest(
      b, b.getLoc(), zeros, extents, ones, table,
      [&](OpBuilder &builder, Location loc, ValueRange position, ValueRange carried) -> scf::ValueVector {
        ImplicitLocOpBuilder nested(loc, builder);
        Value filled = carried.front();
        SmallVector<int64_t> inner(type.getShape().drop_front(extents.size()));
        for (auto [number, element] : llvm::enumerate(emitElements(nested, position))) {
          SmallVector<Value> place(position);
          for (int64_t index : delinearize(number, computeStrides(inner)))
            place.push_back(arith::ConstantIndexOp::create(nested, index));
          filled = tensor::InsertOp::create(nested, element, filled, place);
        }
        return {filled};
      });
  return nest.results.front();
}

Value mlir::flash::expandInPlace(OpBuilder &builder, RowTableOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  SmallVector<Value> extents(op->getOperands());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  return emitTable(b, type, extents, [&](ImplicitLocOpBuilder &nested, ValueRange row) {
    return SmallVector<Value>{inlineRegion(nested, op.getBody(), row)};
  });
}

SmallVector<Value> mlir::flash::expandInPlace(OpBuilder &builder, TileRangeOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  Value behind = arith::AddIOp::create(b, op.getFirst(), arith::ConstantIndexOp::create(b, op.getTile()));
  Value end = arith::MinSIOp::create(b, behind, op.getExtent()), one = arith::ConstantIndexOp::create(b, 1);
  Value most = arith::ConstantOp::create(b, b.getI64IntegerAttr(std::numeric_limits<int64_t>::max()));
  Value least = arith::ConstantOp::create(b, b.getI64IntegerAttr(std::numeric_limits<int64_t>::min()));
  auto loop = scf::ForOp::create(b, op.getFirst(), end, one, ValueRange{most, least});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value value = inlineRegion(b, op.getBody(), {op.getBatch(), op.getHead(), loop.getInductionVar()});
  value = emitRangedElement(b, value);
  Value min = arith::MinSIOp::create(b, loop.getRegionIterArg(0), value);
  Value max = arith::MaxSIOp::create(b, loop.getRegionIterArg(1), value);
  scf::YieldOp::create(b, ValueRange{min, max});
  return {loop.getResult(0), loop.getResult(1)};
}

Value mlir::flash::emitTileClass(ImplicitLocOpBuilder &b, Value isKept, Value isCut) {
  auto get = [&](TileVisit visit) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(visit)));
  };
  Value ofKept = arith::SelectOp::create(b, isCut, get(TileVisit::Masked), get(TileVisit::Full));
  return arith::SelectOp::create(b, isKept, ofKept, get(TileVisit::Skipped));
}

/// Emits the class of one tile by a loop that evaluates the mask for each of the tile's pairs.
static Value emitClassByPairs(ImplicitLocOpBuilder &b, TileClassesOp op, ValueRange place, Value query, Value key) {
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto getEnd = [&](Value first, int64_t tile) -> Value {
    return arith::AddIOp::create(b, first, arith::ConstantIndexOp::create(b, tile));
  };
  Value keyEnd = getEnd(key, op.getKvTile()), none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value sticksOut = arith::CmpIOp::create(b, Predicate::sgt, keyEnd, op.getKeys());
  Value ends[] = {arith::MinSIOp::create(b, getEnd(query, op.getQTile()), op.getQueries()),
                  arith::MinSIOp::create(b, keyEnd, op.getKeys())};
  scf::LoopNest nest = scf::buildLoopNest(
      b, b.getLoc(), {query, key}, ends, {one, one}, {none, sticksOut},
      [&](OpBuilder &builder, Location loc, ValueRange pair, ValueRange carried) -> scf::ValueVector {
        ImplicitLocOpBuilder nested(loc, builder);
        Value keep = inlineRegion(nested, op.getMask(), {place[0], place[1], pair[0], pair[1]});
        Value cut = arith::XOrIOp::create(nested, keep, arith::ConstantOp::create(nested, nested.getBoolAttr(true)));
        return {arith::OrIOp::create(nested, carried[0], keep), arith::OrIOp::create(nested, carried[1], cut)};
      });
  return emitTileClass(b, nest.results[0], nest.results[1]);
}

Value mlir::flash::expandInPlace(OpBuilder &builder, TileClassesOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  SmallVector<Value> extents{op.getBatches(), op.getHeads(), countTiles(b, op.getQueries(), op.getQTile()),
                             countTiles(b, op.getKeys(), op.getKvTile())};
  auto type = cast<RankedTensorType>(op.getResult().getType());
  return emitTable(b, type, extents, [&](ImplicitLocOpBuilder &nested, ValueRange place) {
    Value query = arith::MulIOp::create(nested, place[2], arith::ConstantIndexOp::create(nested, op.getQTile()));
    Value key = arith::MulIOp::create(nested, place[3], arith::ConstantIndexOp::create(nested, op.getKvTile()));
    Value known = inlineRegion(nested, op.getKnown(), {place[0], place[1], query, key});
    Value open = arith::ConstantOp::create(nested, nested.getI32IntegerAttr(static_cast<int32_t>(TileVisit::Masked)));
    Value isOpen = arith::CmpIOp::create(nested, Predicate::eq, known, open);
    auto branch = scf::IfOp::create(nested, nested.getI32Type(), isOpen, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(nested);
    nested.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(nested, emitClassByPairs(nested, op, place, query, key));
    nested.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(nested, known);
    return SmallVector<Value>{branch.getResult(0)};
  });
}

/// Emits the runs of one resident tile.
static SmallVector<Value> emitRuns(ImplicitLocOpBuilder &b, TileRunsOp op, ValueRange position) {
  RunsBuilder runs(b, op.getNumRuns(), op.getStreamedTile());
  Value zero = arith::ConstantIndexOp::create(b, 0), step = arith::ConstantIndexOp::create(b, op.getStreamedTile());
  Value resident = arith::MulIOp::create(b, position[2], arith::ConstantIndexOp::create(b, op.getResidentTile()));
  auto loop = scf::ForOp::create(b, zero, op.getStreamed(), step, runs.emitNone());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value visit =
        inlineRegion(b, op.getBody(), op.getPosition(position[0], position[1], resident, loop.getInductionVar()));
    auto isClass = [&](Predicate predicate, TileVisit other) -> Value {
      Value constant = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(other)));
      return arith::CmpIOp::create(b, predicate, visit, constant);
    };
    Value isFull = isClass(Predicate::eq, TileVisit::Full);
    auto branch = scf::IfOp::create(b, loop.getResultTypes(), isClass(Predicate::ne, TileVisit::Skipped), true);
    scf::YieldOp::create(b, branch.getResults());
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, runs.emitVisit(loop.getRegionIterArgs(), loop.getInductionVar(), isFull));
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loop.getRegionIterArgs());
  }
  return llvm::map_to_vector(runs.getRuns(loop.getResults()),
                             [&](Value key) -> Value { return arith::IndexCastOp::create(b, b.getI32Type(), key); });
}

Value mlir::flash::expandInPlace(OpBuilder &builder, TileRunsOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  SmallVector<Value> extents{op.getBatches(), op.getHeads(), countTiles(b, op.getResident(), op.getResidentTile())};
  auto type = cast<RankedTensorType>(op.getResult().getType());
  return emitTable(b, type, extents,
                   [&](ImplicitLocOpBuilder &nested, ValueRange position) { return emitRuns(nested, op, position); });
}
