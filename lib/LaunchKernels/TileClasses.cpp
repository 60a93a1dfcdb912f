//===- TileClasses.cpp - what a kernel does to find the class of each tile ----------------------------------------===//

#include "TableWriter.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;
using namespace flashc;

/// Returns how many positions one lane evaluates, if a tile has `tile` positions.
static int64_t countOfLane(int64_t tile) { return llvm::divideCeil(tile, kLanes); }

/// Limits of a step in which a warp evaluates several queries, with one copy of the mask's code for each query and each
/// key of a lane: the number of operations in all copies, and the number of queries.
static constexpr int64_t kMostInlined = 500, kMostQueries = 8;

LogicalResult TableWriter::emitClasses(flash::TileClassesOp op, Value first, ArrayRef<Value> extents, Value count) {
  // The numbers of keys and queries are emitted here, before the nested code that reads them.
  if (!cloner->get(b, op.getKeys()) || !cloner->get(b, op.getQueries()))
    return failure();
  Value ofTable = sub(warp, first), begin = mul(ofTable, tilesOfWarp);
  Value isOfTable = isBelow(ofTable, ceilDiv(count, tilesOfWarp));
  bool isOfLanes = !matchPattern(tilesOfWarp, m_One());
  Value isFirst = isZero(lane);
  Value isOwn = isOfLanes ? isBelow(lane, tilesOfWarp) : isFirst;
  tile = isOfLanes ? add(begin, lane) : begin;
  Value exists = arith::AndIOp::create(b, isOfTable, isBelow(tile, count));
  if (isOfLanes)
    exists = arith::AndIOp::create(b, exists, isOwn);
  ValueRange look = emitFirstLook(op, extents, exists);
  if (look.empty())
    return failure();
  Value isOpen = emitSamples(op, begin, extents, arith::AndIOp::create(b, look[1], isOwn));
  if (!isOpen)
    return failure();
  Value result = emitIf(emitAnyOfCTA(isOpen), look[0], [&] {
    return emitFor(index(0), index(kWarps), index(1), look[0],
                   [&](Value other, Value visit) { return emitOpenTiles(op, first, extents, other, isOpen, visit); });
  });
  if (!result)
    return failure();
  emitIf(arith::AndIOp::create(b, exists, isOwn), [&] {
    memref::StoreOp::create(b, result, signature.getTable(*signature.getTables().getNumber(op.getResult())), tile);
  });
  return success();
}

ValueRange TableWriter::emitFirstLook(flash::TileClassesOp op, ArrayRef<Value> extents, Value exists) {
  Type i32Type = b.getI32Type(), flag = b.getI1Type();
  Value masked = i32(static_cast<int64_t>(flash::TileVisit::Masked)), no = boolean(false);
  auto look = scf::IfOp::create(b, TypeRange{i32Type, flag}, exists, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(look.elseBlock());
  scf::YieldOp::create(b, ValueRange{masked, no});
  b.setInsertionPointToStart(look.thenBlock());
  Value known = emitKnown(op, emitTilePlace(tile, extents));
  if (!known)
    return {};
  Value isMasked = isEqual(known, masked);
  scf::YieldOp::create(b, ValueRange{known, isMasked});
  return look.getResults();
}

Value TableWriter::emitSamples(flash::TileClassesOp op, Value begin, ArrayRef<Value> extents, Value isOpen) {
  Value open = emitBallot(isOpen);
  return emitFor(index(0), tilesOfWarp, index(1), isOpen, [&](Value number, Value still) {
    Value shift = arith::IndexCastUIOp::create(b, b.getI32Type(), number);
    Value bit = arith::AndIOp::create(b, arith::ShRUIOp::create(b, open, shift), i32(1));
    return emitIf(compare(arith::CmpIPredicate::ne, bit, i32(0)), still, [&]() -> Value {
      Value isLeftOpen = emitSample(op, emitTilePlace(add(begin, number), extents));
      return isLeftOpen ? select(isEqual(lane, number), isLeftOpen, still) : Value();
    });
  });
}

Value TableWriter::emitOpenTiles(flash::TileClassesOp op, Value first, ArrayRef<Value> extents, Value other,
                                 Value isOpen, Value visit) {
  Value isOwnOpen = arith::AndIOp::create(b, isEqual(ownWarp, other), isOpen);
  Value begin = mul(sub(emitWarp(other), first), tilesOfWarp);
  auto emitTile = [&](Value number, Value isTile, Value before) -> Value {
    Value byPairs = emitClassByPairs(op, emitTilePlace(add(begin, number), extents));
    return byPairs ? select(isTile, byPairs, before) : Value();
  };
  return emitIf(emitAnyOfCTA(isOwnOpen), visit, [&]() -> Value {
    if (matchPattern(tilesOfWarp, m_One()))
      return emitTile(index(0), isOwnOpen, visit);
    return emitFor(index(0), tilesOfWarp, index(1), visit, [&](Value number, Value before) {
      Value isTile = arith::AndIOp::create(b, isOwnOpen, isEqual(lane, number));
      return emitIf(emitAnyOfCTA(isTile), before, [&] { return emitTile(number, isTile, before); });
    });
  });
}

Value TableWriter::emitKnown(flash::TileClassesOp op, ValueRange place) {
  ScalarCloner inside = *cloner; // a copy, so that the mappings below stay local
  Value position[] = {place[0], place[1], mul(place[2], op.getQTile()), mul(place[3], op.getKvTile())};
  for (auto [argument, value] : llvm::zip_equal(op.getKnown().getArguments(), position))
    inside.map(argument, value);
  for (auto range : op.getKnown().getOps<flash::TileRangeOp>())
    if (failed(emitRange(range, inside)))
      return {};
  return inside.cloneRegion(b, op.getKnown(), position);
}

LogicalResult TableWriter::emitRange(flash::TileRangeOp op, ScalarCloner &known) {
  FailureOr<SmallVector<Value>> operands = known.getAll(b, op->getOperands());
  if (failed(operands))
    return failure();
  Value first = (*operands)[2], end = arith::MinUIOp::create(b, add(first, index(op.getTile())), (*operands)[3]);
  Value last = sub(end, index(1)), least, greatest;
  for (int64_t number = 0; number < countOfLane(op.getTile()); ++number) {
    // A lane beyond the last position evaluates the last position instead.
    Value own = arith::MinUIOp::create(b, add(add(first, lane), index(kLanes * number)), last);
    ScalarCloner inside = known;
    Value value = inside.cloneRegion(b, op.getBody(), {(*operands)[0], (*operands)[1], own});
    if (!value)
      return failure();
    if (value.getType().isInteger(1))
      value = arith::ExtUIOp::create(b, b.getI32Type(), value);
    least = least ? arith::MinSIOp::create(b, least, value).getResult() : value;
    greatest = greatest ? arith::MaxSIOp::create(b, greatest, value).getResult() : value;
  }
  known.map(op.getLeast(), flash::emitRangedElement(b, emitReduce(least, /*isMin=*/true)));
  known.map(op.getGreatest(), flash::emitRangedElement(b, emitReduce(greatest, /*isMin=*/false)));
  return success();
}

/// Returns the number of operations of the mask for one query and all keys of a lane together.
static int64_t countOps(flash::TileClassesOp op) {
  int64_t count = 0;
  op.getMask().walk([&](Operation *) { ++count; });
  return count * countOfLane(op.getKvTile());
}

/// Returns the number of queries that a warp evaluates in one step.
static int64_t getStep(flash::TileClassesOp op) {
  return std::clamp<int64_t>(llvm::bit_floor(uint64_t(kMostInlined / countOps(op))), 1, kMostQueries);
}

std::optional<TableWriter::TileEnds> TableWriter::getEnds(flash::TileClassesOp op, ValueRange place) {
  Value keys = cloner->get(b, op.getKeys()), queries = cloner->get(b, op.getQueries());
  if (!keys || !queries)
    return std::nullopt;
  Value query = mul(place[2], op.getQTile()), key = mul(place[3], op.getKvTile());
  Value end = arith::MinUIOp::create(b, add(query, index(op.getQTile())), queries);
  Value exceedsKeys = compare(arith::CmpIPredicate::ugt, add(key, index(op.getKvTile())), keys);
  return TileEnds{query, end, key, keys, exceedsKeys};
}

Value TableWriter::emitSample(flash::TileClassesOp op, ValueRange place) {
  std::optional<TileEnds> ends = getEnds(op, place);
  if (!ends)
    return {};
  int64_t step = getStep(op), apart = llvm::divideCeil(int64_t(op.getQTile()), step);
  Value last = sub(ends->end, index(1));
  SmallVector<Value> some; // a query beyond the last one is replaced by the last one
  for (int64_t number = 0; number < step; ++number)
    some.push_back(arith::MinUIOp::create(b, add(ends->query, index(apart * number + apart / 2)), last));
  auto [kept, cut] = emitPairs(op, place, some, ends->key, ends->keys);
  if (!kept)
    return {};
  Value isCut = arith::OrIOp::create(b, emitAnyOfWarp(cut), ends->exceedsKeys);
  return emitNot(arith::AndIOp::create(b, emitAnyOfWarp(kept), isCut));
}

/// In each step of the emitted loop every warp evaluates `getStep` queries of the tile. The loop ends early if a pair
/// is kept and another one is cut.
Value TableWriter::emitClassByPairs(flash::TileClassesOp op, ValueRange place) {
  std::optional<TileEnds> ends = getEnds(op, place);
  if (!ends)
    return {};
  int64_t step = getStep(op);
  Value no = boolean(false), last = sub(ends->end, index(1));
  bool isEmitted = true;
  Type flag = b.getI1Type();
  auto loop = scf::WhileOp::create(
      b, TypeRange{b.getIndexType(), flag, flag}, ValueRange{ends->query, no, ends->exceedsKeys},
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(inner.saveInsertionPoint());
        Value isOpen = emitNot(arith::AndIOp::create(b, state[1], state[2]));
        scf::ConditionOp::create(b, arith::AndIOp::create(b, isBelow(state[0], ends->end), isOpen), state);
      },
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(inner.saveInsertionPoint());
        Value first = add(state[0], mul(ownWarp, step));
        SmallVector<Value> some;
        for (int64_t number = 0; number < step; ++number) // queries after the last one are replaced by the last
          some.push_back(arith::MinUIOp::create(b, add(first, index(number)), last));
        auto [kept, cut] = emitPairs(op, place, some, ends->key, ends->keys);
        isEmitted &= kept != nullptr;
        if (!kept)
          kept = cut = no;
        Value isKept = arith::OrIOp::create(b, state[1], emitAnyOfCTA(kept));
        Value isCut = arith::OrIOp::create(b, state[2], emitAnyOfCTA(cut));
        scf::YieldOp::create(b, ValueRange{add(state[0], index(kWarps * step)), isKept, isCut});
      });
  if (!isEmitted)
    return {};
  moveLoopInvariantCode(cast<LoopLikeOpInterface>(loop.getOperation()));
  return flash::emitTileClass(b, loop.getResult(1), loop.getResult(2));
}

/// Evaluates the mask for one pair. Returns `kept` or-ed with whether the mask keeps the pair, and `cut` or-ed with
/// whether the mask hides it. Null after an error.
std::pair<Value, Value> TableWriter::emitPair(flash::TileClassesOp op, ValueRange pair, Value kept, Value cut) {
  ScalarCloner inside = *cloner; // a copy, so that the mappings below stay local
  Value keep = inside.cloneRegion(b, op.getMask(), pair);
  if (!keep)
    return {};
  return {arith::OrIOp::create(b, kept, keep), arith::OrIOp::create(b, cut, emitNot(keep))};
}

/// Evaluates the mask for all pairs of one of `queries` and one of this lane's keys. Returns whether the mask keeps any
/// of these pairs, and whether it hides any. Null after an error. A short mask is inlined for each key, so that code
/// that depends only on the key moves out of the loop over queries.
std::pair<Value, Value> TableWriter::emitPairs(flash::TileClassesOp op, ValueRange place, ArrayRef<Value> queries,
                                               Value key, Value keys) {
  Value no = boolean(false);
  Value end = arith::MinUIOp::create(b, add(key, index(op.getKvTile())), keys);
  if (countOps(op) <= kMostInlined) {
    Value last = sub(end, index(1)), kept = no, cut = no;
    for (Value query : queries)
      for (int64_t number = 0; kept && number < countOfLane(op.getKvTile());
           ++number) { // keys after the last one are replaced by the last
        Value own = arith::MinUIOp::create(b, add(add(key, lane), index(kLanes * number)), last);
        std::tie(kept, cut) = emitPair(op, {place[0], place[1], query, own}, kept, cut);
      }
    return {kept, cut};
  }
  auto loop = scf::ForOp::create(b, add(key, lane), end, index(kLanes), ValueRange{no, no});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  auto [kept, cut] = emitPair(op, {place[0], place[1], queries.front(), loop.getInductionVar()},
                              loop.getRegionIterArg(0), loop.getRegionIterArg(1));
  if (!kept)
    return {};
  scf::YieldOp::create(b, ValueRange{kept, cut});
  return {loop.getResult(0), loop.getResult(1)};
}
