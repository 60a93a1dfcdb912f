//===- SplitTiles.cpp - the tiled loops of Flash-Decoding ---------------------------------------------------------===//

#include "KeyParts.h"
#include "KeySegments.h"
#include "flashc/Dialect/Flash/Transforms/SearchedMask.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace mlir::flash;

namespace {
/// Emits the loops of one attention.
class Splitter {
public:
  Splitter(RewriterBase &b, OnlineAttentionOp op, FinalizeOp finalize, const SplitSizes &sizes)
      : b(b), loc(op.getLoc()), op(op), finalize(finalize), sizes(sizes) {
    int64_t group = op.getGroup();
    for (heads = std::min(group, sizes.rows); group % heads != 0;)
      --heads;
    tokens = sizes.rows / heads;
    if (int64_t queries = op.getQType().getDimSize(2); !ShapedType::isDynamic(queries))
      tokens = std::min(tokens, std::max<int64_t>(queries, 1));
  }

  LogicalResult run();

private:
  LogicalResult emitPart(ValueRange position, ValueRange outputs);
  std::pair<OpFoldResult, OpFoldResult> emitNeededKeys(ValueRange position, OpFoldResult count);
  std::pair<OpFoldResult, OpFoldResult> emitKeysOfPart(ValueRange position, OpFoldResult count);
  SmallVector<Value> emitIdentity();
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, loc, expr, operands);
  }
  /// Returns the minimum of `exprs`, whose dimensions stand for `operands`.
  OpFoldResult min(ArrayRef<AffineExpr> exprs, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineMin(b, loc, AffineMap::get(operands.size(), 0, exprs, b.getContext()),
                                               operands);
  }
  bool isOnePart() const { return sizes.chunk == 0 && sizes.splits == 1; }
  Value createEmpty(ArrayRef<OpFoldResult> extents, Type element) {
    return tensor::EmptyOp::create(b, loc, extents, element);
  }

  RewriterBase &b;
  Location loc;
  OnlineAttentionOp op;
  FinalizeOp finalize;
  SplitSizes sizes;
  /// The number of a tile's query heads, which all share a key head, and the number of its query tokens.
  int64_t heads, tokens;
  OpFoldResult queries, keys, numParts;
};
} // namespace

/// Returns the range of keys that the tile of queries at `position` needs, in whole tiles of keys, counted from key 0.
std::pair<OpFoldResult, OpFoldResult> Splitter::emitNeededKeys(ValueRange position, OpFoldResult count) {
  OpFoldResult zero = b.getIndexAttr(0);
  // If the tile has several heads, the bounds of one head need not hold for the others. All keys are then needed.
  if (op.getMask().empty() || (heads > 1 && !op.getMask().getArgument(1).use_empty()))
    return {zero, keys};
  SmallVector<Value> operands(op->getOperands());
  unsigned first = op.getPosition().getBeginOperandIndex();
  for (unsigned dim = 0; dim < 3; ++dim)
    operands[first + dim] = position[dim];
  auto tile = cast<StepOpInterface>(clone(b, op.getOperation(), op->getResultTypes(), operands));
  std::pair<OpFoldResult, OpFoldResult> needed;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(tile);
    SearchedMask searched(tile);

    MaskSet mask = readMask(tile.getMask(), [](Value) { return true; }); // all values are known at the part's begin
    auto get = [&](OpFoldResult value) { return LinearExpr::get(getValueOrCreateConstantIndexOp(b, loc, value)); };
    MaskLoop loop;
    loop.tileSize = sizes.kv, loop.otherTileSize = tokens;
    loop.begin = get(zero), loop.end = get(keys), loop.count = get(count), loop.from = get(zero),
    loop.to = get(queries);
    LoopBounds bounds = computeLoopBounds(mask, loop, b.getContext());
    KeyRange range{b, zero, keys, position[2], count};
    SmallVector<KeySegment> segments = emitKeySegments(tile, range, bounds, mask.space);
    needed = segments.empty() ? std::pair(zero, zero) : std::pair(segments.front().begin, segments.back().end);
  }
  b.eraseOp(tile);
  return needed;
}

/// Returns the range of keys of part number `position[3]`: whole tiles of the keys that the tile of queries needs.
std::pair<OpFoldResult, OpFoldResult> Splitter::emitKeysOfPart(ValueRange position, OpFoldResult count) {
  auto [begin, end] = emitNeededKeys(position, count);
  auto x = b.getAffineDimExpr(0), y = b.getAffineDimExpr(1);
  if (sizes.chunk != 0) {
    OpFoldResult part = position[3];
    OpFoldResult lower = apply(x * sizes.chunk, {part});
    lower = affine::makeComposedFoldedAffineMax(b, loc, AffineMap::get(2, 0, {x, y}, b.getContext()), {lower, begin});
    return {lower, min({x * sizes.chunk + sizes.chunk, y}, {part, end})};
  }
  if (isOnePart())
    return {begin, end};
  return flash::emitKeysOfPart(b, loc, begin, end, position[3], sizes.splits, sizes.kv);
}

/// Emits the state with which each part begins: the identities of acc, m and l.
SmallVector<Value> Splitter::emitIdentity() {
  SmallVector<Value> state;
  for (const StepOperand &carried : op.getStepState()) {
    SmallVector<int64_t> shape{1, heads, tokens};
    if (carried.movesWith(StepDim::Whole))
      shape.push_back(cast<RankedTensorType>(op.getAcc().getType()).getDimSize(3));
    Value identity = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(carried.padding));
    state.push_back(
        linalg::FillOp::create(b, loc, identity, tensor::EmptyOp::create(b, loc, shape, b.getF32Type()).getResult())
            .getResult(0));
  }
  return state;
}

/// Emits the body of the parallel loop: one part of the keys, for one tile of queries.
LogicalResult Splitter::emitPart(ValueRange position, ValueRange outputs) {
  auto x = b.getAffineDimExpr(0), y = b.getAffineDimExpr(1);
  OpFoldResult count = min({y - x, b.getAffineConstantExpr(tokens)}, {OpFoldResult(position[2]), queries});
  if (getConstantIntValue(queries).value_or(1) % tokens == 0 && getConstantIntValue(queries))
    count = b.getIndexAttr(tokens);
  auto [begin, end] = emitKeysOfPart(position, count);
  auto get = [&](OpFoldResult value) { return getValueOrCreateConstantIndexOp(b, loc, value); };
  SmallVector<Value> identity = emitIdentity();
  auto loop =
      scf::ForOp::create(b, loc, get(begin), get(end), arith::ConstantIndexOp::create(b, loc, sizes.kv), identity);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    OpFoldResult key = loop.getInductionVar();
    OpFoldResult numKeys = min({y - x, b.getAffineConstantExpr(sizes.kv)}, {key, keys});
    if (std::optional<int64_t> known = getConstantIntValue(keys); known && *known % sizes.kv == 0)
      numKeys = b.getIndexAttr(sizes.kv);
    FailureOr<TilingResult> tile =
        cast<TilingInterface>(op.getOperation())
            .getTiledImplementation(b, {position[0], position[1], position[2], key},
                                    {b.getIndexAttr(1), b.getIndexAttr(heads), count, numKeys});
    if (failed(tile))
      return op.emitOpError() << "expected an op whose heads, queries and keys can be tiled";
    auto step = cast<OnlineAttentionOp>(tile->tiledOps.front());
    step.getDpsInitsMutable().assign(loop.getRegionIterArgs());
    scf::YieldOp::create(b, loc, step.getResults());
  }
  bool isLast = isOnePart();
  auto accType = cast<RankedTensorType>(identity[0].getType());
  Type element = isLast ? getElementTypeOrSelf(finalize.getO().getType()) : b.getF32Type();
  Value o = tensor::EmptyOp::create(b, loc, accType.getShape(), element);
  Value lse = tensor::EmptyOp::create(b, loc, accType.getShape().drop_back(), b.getF32Type());
  Value sinks = isLast ? finalize.getSinks() : Value();
  if (sinks)
    sinks = tensor::ExtractSliceOp::create(b, loc, sinks, {OpFoldResult(position[1])}, {b.getIndexAttr(heads)},
                                           {b.getIndexAttr(1)});
  auto results =
      FinalizeOp::create(b, loc, TypeRange{o.getType(), lse.getType()}, loop.getResult(0), loop.getResult(1),
                         loop.getResult(2), o, lse, sinks, finalize.getNormalizeAttr(), /*no_empty_rows=*/UnitAttr());
  OpFoldResult offsets[] = {position[0], position[1], position[2], b.getIndexAttr(0)};
  OpFoldResult extents[] = {b.getIndexAttr(1), b.getIndexAttr(heads), count, b.getIndexAttr(accType.getDimSize(3))};
  for (auto [result, output] : llvm::zip_equal(results.getResults(), outputs))
    emitWriteOfPart(b, result, cast<BlockArgument>(output), offsets, extents, isLast ? Value() : position[3]);
  return success();
}

LogicalResult Splitter::run() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(finalize);
  OpFoldResult batches = tensor::getMixedSize(b, loc, op.getQ(), 0),
               allHeads = tensor::getMixedSize(b, loc, op.getQ(), 1);
  queries = tensor::getMixedSize(b, loc, op.getQ(), 2), keys = tensor::getMixedSize(b, loc, op.getK(), 2);
  numParts = b.getIndexAttr(std::max<int64_t>(sizes.splits, 1));
  if (sizes.chunk != 0)
    numParts = apply(b.getAffineDimExpr(0).ceilDiv(sizes.chunk), {keys});
  SmallVector<OpFoldResult> extents{batches, allHeads, queries};
  if (!isOnePart())
    extents.insert(extents.begin(), numParts);
  Value lse = createEmpty(extents, b.getF32Type());
  extents.push_back(b.getIndexAttr(cast<RankedTensorType>(op.getAcc().getType()).getDimSize(3)));
  Value o = createEmpty(extents, isOnePart() ? getElementTypeOrSelf(finalize.getO().getType()) : b.getF32Type());
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  auto forall = scf::ForallOp::create(b, loc, ArrayRef<OpFoldResult>{zero, zero, zero, zero},
                                      {batches, allHeads, queries, numParts},
                                      {one, b.getIndexAttr(heads), b.getIndexAttr(tokens), one}, ValueRange{o, lse},
                                      /*mapping=*/std::nullopt);
  {
    OpBuilder::InsertionGuard inLoop(b);
    b.setInsertionPoint(forall.getTerminator());
    if (failed(emitPart(forall.getInductionVars(), forall.getRegionIterArgs())))
      return failure();
  }
  SmallVector<Value> results(forall.getResults());
  if (!isOnePart()) {
    auto merge = MergeStatesOp::create(b, loc, finalize.getResultTypes(), results[0], results[1], finalize.getSinks(),
                                       /*outs=*/ValueRange());
    results.assign(merge->result_begin(), merge->result_end());
  }
  for (auto [result, replaced] : llvm::zip_equal(results, finalize.getResults()))
    if (result.getType() != replaced.getType())
      result = tensor::CastOp::create(b, loc, replaced.getType(), result);
  b.replaceOp(finalize, results);
  b.eraseOp(op);
  return success();
}

LogicalResult mlir::flash::splitTiles(RewriterBase &rewriter, OnlineAttentionOp op, const SplitSizes &sizes) {
  if (sizes.rows < 1 || sizes.kv < 1 || sizes.splits < 0 || sizes.chunk < 0 ||
      sizes.chunk % std::max<int64_t>(sizes.kv, 1) != 0)
    return op.emitOpError() << "expected positive tiles and parts, and chunks of whole tiles, got rows=" << sizes.rows
                            << " kv-tile=" << sizes.kv << " splits=" << sizes.splits << " chunk=" << sizes.chunk;
  auto finalize = op.getResult(0).hasOneUse() ? dyn_cast<FinalizeOp>(*op.getResult(0).user_begin()) : FinalizeOp();
  bool isItsOwn =
      finalize && ValueRange(finalize.getState()) == op.getResults() && finalize.getNormalize() == Normalize::Deferred;
  if (!isItsOwn)
    return op.emitOpError() << "expected its state to end in one flash.finalize with normalize = deferred";
  return Splitter(rewriter, op, finalize, sizes).run();
}
