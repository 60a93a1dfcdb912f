//===- TableKernel.cpp - the kernel that computes a table of tiles ------------------------------------------------===//

#include "flashc/Conversion/HostToKernel/TableKernel.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kTableThreads = 256, kLanes = 32, kWarps = kTableThreads / kLanes, kWarpDistance = 37;
/// How many positions of a tile a lane has.
static int64_t countOfLane(int64_t tile) { return llvm::divideCeil(tile, kLanes); }

/// Operations of a mask that stand in a kernel for all keys of a lane and several queries, of which there are up to:
static constexpr int64_t kMostInlined = 500, kMostQueries = 8;

namespace {
/// Writes the body of a kernel whose CTAs have kTableThreads threads, and whose warps compute a tile of a table each,
/// those of one table behind those of another:
///
///   flash.row_table     a tile is kTableRows rows; each lane computes one.
///   flash.tile_classes  first what is known of the tile. There, of a flash.tile_range, lane l of 32 has the positions l,
///                       l + 32, ...; then the lanes exchange what they have (redux.sync). If that leaves the tile open, lane l has the keys l, l + 32, ... of it, of some queries that lie
///                       apart; votes find whether one pair is kept and another one is not. What is open then, mostly
///                       tiles of which all pairs are alike, the CTA looks at whole, a tile after the other, each warp at
///                       queries of its own (bar.red). The first lane of the tile's warp writes.
///   flash.tile_runs     lane l looks at the streamed tile 32 n + l, in steps n; by a vote every lane learns which of the
///                       32 are visited with the mask, and which are full: first how many there are, then where each
///                       has its place.
///
/// Warps beyond the last tile have nothing to do; in those with exchanges all lanes meet every one, and all warps every
/// barrier.
class TableKernel {
public:
  TableKernel(gpu::GPUFuncOp kernel, KernelSignature &signature)
      : b(kernel.getLoc(), kernel.getContext()), kernel(kernel), signature(signature) {}

  /// Fails after an error. The ops make tables that do not read each other.
  LogicalResult emit(ArrayRef<Operation *> ops);

private:
  /// The number of a CTA's warp among all. Those of one CTA lie apart, along rows of tiles and across them: what takes
  /// long, open tiles, is neighbours.
  Value emitWarp(Value inCTA);
  /// `first` is the first of the op's warps; returns how many it has.
  FailureOr<Value> emitTable(Operation *op, Value first);
  SmallVector<Value> emitTilePlace(Value number, ArrayRef<Value> extents);
  LogicalResult emitRowValue(flash::RowTableOp op, ValueRange place);
  LogicalResult emitClasses(flash::TileClassesOp op, Value first, ArrayRef<Value> extents, ValueRange place, Value exists);
  /// What is known of a tile without its pairs; null after an error.
  Value emitKnown(flash::TileClassesOp op, ValueRange place);
  /// Whether looking at some pairs leaves it open; null after an error.
  Value emitSample(flash::TileClassesOp op, ValueRange place);
  /// Maps its results in `known`, which has its operands.
  LogicalResult emitRange(flash::TileRangeOp op, ScalarCloner &known);
  /// The first query and the end of them, the first key and how many there are in all, and whether some of the tile's do
  /// not exist.
  struct TileEnds {
    Value query, end, key, keys, sticksOut;
  };
  std::optional<TileEnds> getEnds(flash::TileClassesOp op, ValueRange place);
  /// Of the CTA: the class; null after an error.
  Value emitClassByPairs(flash::TileClassesOp op, ValueRange place);
  std::pair<Value, Value> emitPairs(flash::TileClassesOp op, ValueRange place, ArrayRef<Value> queries, Value key,
                                    Value keys);
  std::pair<Value, Value> emitPair(flash::TileClassesOp op, ValueRange pair, Value kept, Value cut);
  LogicalResult emitRuns(flash::TileRunsOp op, ValueRange place);
  /// What lanes know of their streamed tiles, of the 32 from `first` on: whether a tile is visited with the mask, or full, as
  /// flags of the lane and as bits of all lanes.
  struct Votes {
    Value key, isMasked, isFull, masked, full;
  };
  std::optional<Votes> emitVotes(flash::TileRunsOp op, ValueRange place, Value first);
  /// Passes over all streamed tiles, with state of two numbers.
  FailureOr<scf::ForOp> emitPass(flash::TileRunsOp op, ValueRange place, Value end, ValueRange state,
                                 llvm::function_ref<std::pair<Value, Value>(const Votes &, ValueRange)> emitBody);
  /// The same value in all lanes: the least or the greatest of theirs.
  Value emitReduce(Value value, bool isMin);
  Value emitBallot(Value condition);
  /// Whether it holds in one lane of the warp, or in one thread of the CTA.
  Value emitAnyOfWarp(Value condition);
  Value emitAnyOfCTA(Value condition);
  Value emitNot(Value condition) {
    return arith::XOrIOp::create(b, condition, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  }
  /// The first lane writes the elements of this warp's tile.
  void emitStore(Operation *op, ValueRange elements);

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value i32(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value mul(Value x, int64_t y) { return b.createOrFold<arith::MulIOp>(x, index(y)); }
  Value isBelow(Value x, Value y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y); }

  ImplicitLocOpBuilder b;
  gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  /// For the table that is written: what it copies is seen there only.
  std::optional<ScalarCloner> scalars;
  /// `tile` is the number of this warp's tile in the table that is written, or of this lane's row; `ownWarp` the warp's
  /// number in its CTA.
  Value warp, ownWarp, lane, tile;
};
} // namespace

LogicalResult TableKernel::emit(ArrayRef<Operation *> ops) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
  ownWarp = arith::ShRUIOp::create(b, thread, index(5));
  warp = emitWarp(ownWarp);
  Value first = index(0);
  for (Operation *op : ops) {
    FailureOr<Value> count = emitTable(op, first);
    if (failed(count))
      return failure();
    first = add(first, *count);
  }
  gpu::ReturnOp::create(b);
  return success();
}

SmallVector<Value> TableKernel::emitTilePlace(Value number, ArrayRef<Value> extents) {
  SmallVector<Value> place(extents.size());
  for (size_t dim = place.size(); dim-- > 0;) {
    place[dim] = b.createOrFold<arith::RemUIOp>(number, extents[dim]);
    number = b.createOrFold<arith::DivUIOp>(number, extents[dim]);
  }
  return place;
}

Value TableKernel::emitWarp(Value inCTA) {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x), blocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value moved = arith::RemUIOp::create(b, add(block, mul(inCTA, kWarpDistance)), blocks);
  return add(arith::MulIOp::create(b, inCTA, blocks), moved);
}

FailureOr<Value> TableKernel::emitTable(Operation *op, Value first) {
  scalars.emplace(signature);
  FailureOr<SmallVector<Value>> extents = scalars->getTableExtents(b, op->getResult(0));
  if (failed(extents))
    return failure();
  tile = b.createOrFold<arith::SubIOp>(warp, first); // of a warp in front of the first it is beyond all
  auto rows = dyn_cast<flash::RowTableOp>(op);
  if (rows)
    tile = add(mul(tile, kTableRows), lane);
  Value count = index(1);
  for (Value extent : llvm::reverse(*extents))
    count = b.createOrFold<arith::MulIOp>(count, extent);
  SmallVector<Value> place = emitTilePlace(tile, *extents);
  Value exists = isBelow(tile, count);
  if (auto classes = dyn_cast<flash::TileClassesOp>(op)) {
    if (failed(emitClasses(classes, first, *extents, place, exists)))
      return failure();
    return count;
  }
  auto branch = scf::IfOp::create(b, exists);
  b.setInsertionPointToStart(branch.thenBlock());
  if (failed(rows ? emitRowValue(rows, place) : emitRuns(cast<flash::TileRunsOp>(op), place)))
    return failure();
  b.setInsertionPointAfter(branch);
  return rows ? b.createOrFold<arith::CeilDivUIOp>(count, index(kTableRows)) : count;
}

LogicalResult TableKernel::emitRowValue(flash::RowTableOp op, ValueRange place) {
  Value value = scalars->cloneRegion(b, op.getBody(), place);
  if (!value)
    return failure();
  memref::StoreOp::create(b, value, signature.getTable(*signature.getTables().getNumber(op.getResult())), tile);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Lanes
//===--------------------------------------------------------------------------------------------------------------===//

/// Of 64 bits first the upper halves, and then the lower ones of those lanes that have the right upper half.
Value TableKernel::emitReduce(Value value, bool isMin) {
  Type i32Type = b.getI32Type(), i64Type = b.getI64Type();
  auto reduce = [&](Value half, NVVM::ReduxKind kind) -> Value {
    return NVVM::ReduxOp::create(b, i32Type, half, kind, i32(-1));
  };
  NVVM::ReduxKind ofUpper = isMin ? NVVM::ReduxKind::MIN : NVVM::ReduxKind::MAX;
  if (value.getType() == i32Type)
    return reduce(value, ofUpper);
  Value bits = arith::ConstantOp::create(b, b.getI64IntegerAttr(32));
  Value upper = arith::TruncIOp::create(b, i32Type, arith::ShRUIOp::create(b, value, bits));
  Value lower = arith::TruncIOp::create(b, i32Type, value), ofAll = reduce(upper, ofUpper);
  Value isRight = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, upper, ofAll);
  lower = arith::SelectOp::create(b, isRight, lower, i32(isMin ? -1 : 0));
  lower = reduce(lower, isMin ? NVVM::ReduxKind::UMIN : NVVM::ReduxKind::UMAX);
  Value shifted = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64Type, ofAll), bits);
  return arith::OrIOp::create(b, shifted, arith::ExtUIOp::create(b, i64Type, lower));
}

Value TableKernel::emitBallot(Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), i32(-1), condition, NVVM::VoteSyncKind::ballot);
}

Value TableKernel::emitAnyOfWarp(Value condition) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, emitBallot(condition), i32(0));
}

Value TableKernel::emitAnyOfCTA(Value condition) {
  auto isAny = NVVM::BarrierReductionAttr::get(b.getContext(), NVVM::BarrierReduction::OR);
  Value flag = arith::ExtUIOp::create(b, b.getI32Type(), condition);
  Value any = NVVM::BarrierOp::create(b, b.getI32Type(), Value(), Value(), isAny, flag).getResult(0);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, any, i32(0));
}

void TableKernel::emitStore(Operation *op, ValueRange elements) {
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
  auto branch = scf::IfOp::create(b, isFirst);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value table = signature.getTable(*signature.getTables().getNumber(op->getResult(0)));
  Value first = mul(tile, elements.size());
  for (auto [number, element] : llvm::enumerate(elements))
    memref::StoreOp::create(b, element, table, add(first, index(number)));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Classes
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult TableKernel::emitClasses(flash::TileClassesOp op, Value first, ArrayRef<Value> extents, ValueRange place,
                                       Value exists) {
  Type i32Type = b.getI32Type(), flag = b.getI1Type();
  Value masked = i32(static_cast<int64_t>(flash::TileVisit::Masked)), no = arith::ConstantOp::create(b, b.getBoolAttr(false));
  auto own = scf::IfOp::create(b, TypeRange{i32Type, flag}, exists, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(own.elseBlock());
    scf::YieldOp::create(b, ValueRange{masked, no});
    b.setInsertionPointToStart(own.thenBlock());
    Value known = emitKnown(op, place);
    if (!known)
      return failure();
    Value isMasked = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, known, masked);
    auto sample = scf::IfOp::create(b, flag, isMasked, /*withElseRegion=*/true);
    scf::YieldOp::create(b, ValueRange{known, sample.getResult(0)});
    b.setInsertionPointToStart(sample.elseBlock());
    scf::YieldOp::create(b, no);
    b.setInsertionPointToStart(sample.thenBlock());
    Value isOpen = emitSample(op, place);
    if (!isOpen)
      return failure();
    scf::YieldOp::create(b, isOpen);
  }
  Value visit = own.getResult(0), isOpen = own.getResult(1);
  auto rest = scf::IfOp::create(b, i32Type, emitAnyOfCTA(isOpen), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rest.elseBlock());
    scf::YieldOp::create(b, visit);
    b.setInsertionPointToStart(rest.thenBlock());
    auto warps = scf::ForOp::create(b, index(0), index(kWarps), index(1), visit);
    scf::YieldOp::create(b, warps.getResults());
    b.setInsertionPointToStart(warps.getBody());
    Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, ownWarp, warps.getInductionVar());
    Value isOfWarp = emitAnyOfCTA(arith::AndIOp::create(b, isOwn, isOpen));
    auto branch = scf::IfOp::create(b, i32Type, isOfWarp, /*withElseRegion=*/true);
    scf::YieldOp::create(b, branch.getResults());
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, warps.getRegionIterArg(0));
    b.setInsertionPointToStart(branch.thenBlock());
    Value ofOther = arith::SubIOp::create(b, emitWarp(warps.getInductionVar()), first);
    Value byPairs = emitClassByPairs(op, emitTilePlace(ofOther, extents));
    if (!byPairs)
      return failure();
    Value ofWarp = arith::SelectOp::create(b, isOwn, byPairs, warps.getRegionIterArg(0));
    scf::YieldOp::create(b, ofWarp);
  }
  auto branch = scf::IfOp::create(b, exists);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitStore(op, rest.getResult(0));
  return success();
}

Value TableKernel::emitKnown(flash::TileClassesOp op, ValueRange place) {
  ScalarCloner inside = *scalars; // what it maps holds here only
  Value position[] = {place[0], place[1], mul(place[2], op.getQTile()), mul(place[3], op.getKvTile())};
  for (auto [argument, value] : llvm::zip_equal(op.getKnown().getArguments(), position))
    inside.map(argument, value);
  for (auto range : op.getKnown().getOps<flash::TileRangeOp>())
    if (failed(emitRange(range, inside)))
      return {};
  return inside.cloneRegion(b, op.getKnown(), position);
}

LogicalResult TableKernel::emitRange(flash::TileRangeOp op, ScalarCloner &known) {
  FailureOr<SmallVector<Value>> operands = known.getAll(b, op->getOperands());
  if (failed(operands))
    return failure();
  Value first = (*operands)[2], end = arith::MinUIOp::create(b, add(first, index(op.getTile())), (*operands)[3]);
  Value last = b.createOrFold<arith::SubIOp>(end, index(1)), least, greatest;
  for (int64_t number = 0; number < countOfLane(op.getTile()); ++number) {
    // One that does not exist stands for the last.
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

/// Operations of the mask for a query and all keys of a lane.
static int64_t countOps(flash::TileClassesOp op) {
  int64_t count = 0;
  op.getMask().walk([&](Operation *) { ++count; });
  return count * countOfLane(op.getKvTile());
}

/// How many queries a warp looks at in one step.
static int64_t getStep(flash::TileClassesOp op) {
  return std::clamp<int64_t>(llvm::bit_floor(uint64_t(kMostInlined / countOps(op))), 1, kMostQueries);
}

std::optional<TableKernel::TileEnds> TableKernel::getEnds(flash::TileClassesOp op, ValueRange place) {
  Value keys = scalars->get(b, op.getKeys()), queries = scalars->get(b, op.getQueries());
  if (!keys || !queries)
    return std::nullopt;
  Value query = mul(place[2], op.getQTile()), key = mul(place[3], op.getKvTile());
  Value end = arith::MinUIOp::create(b, add(query, index(op.getQTile())), queries);
  Value sticksOut = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, add(key, index(op.getKvTile())), keys);
  return TileEnds{query, end, key, keys, sticksOut};
}

Value TableKernel::emitSample(flash::TileClassesOp op, ValueRange place) {
  std::optional<TileEnds> ends = getEnds(op, place);
  if (!ends)
    return {};
  int64_t step = getStep(op), apart = llvm::divideCeil(int64_t(op.getQTile()), step);
  Value last = b.createOrFold<arith::SubIOp>(ends->end, index(1));
  SmallVector<Value> some; // one that does not exist stands for the last
  for (int64_t number = 0; number < step; ++number)
    some.push_back(arith::MinUIOp::create(b, add(ends->query, index(apart * number + apart / 2)), last));
  auto [kept, cut] = emitPairs(op, place, some, ends->key, ends->keys);
  if (!kept)
    return {};
  Value isCut = arith::OrIOp::create(b, emitAnyOfWarp(cut), ends->sticksOut);
  return emitNot(arith::AndIOp::create(b, emitAnyOfWarp(kept), isCut));
}

/// Passes over the queries of the tile, some of each warp in a step.
Value TableKernel::emitClassByPairs(flash::TileClassesOp op, ValueRange place) {
  std::optional<TileEnds> ends = getEnds(op, place);
  if (!ends)
    return {};
  int64_t step = getStep(op);
  Value no = arith::ConstantOp::create(b, b.getBoolAttr(false)), last = b.createOrFold<arith::SubIOp>(ends->end, index(1));
  bool isEmitted = true;
  Type flag = b.getI1Type();
  auto loop = scf::WhileOp::create(
      b, TypeRange{b.getIndexType(), flag, flag}, ValueRange{ends->query, no, ends->sticksOut},
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
        for (int64_t number = 0; number < step; ++number) // one that does not exist stands for the last
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

/// Adds a pair to whether one is kept, and whether one is not. Null after an error.
std::pair<Value, Value> TableKernel::emitPair(flash::TileClassesOp op, ValueRange pair, Value kept, Value cut) {
  ScalarCloner inside = *scalars; // what it maps holds here only
  Value keep = inside.cloneRegion(b, op.getMask(), pair);
  if (!keep)
    return {};
  return {arith::OrIOp::create(b, kept, keep), arith::OrIOp::create(b, cut, emitNot(keep))};
}

/// Whether one of this lane's keys is kept for a query, and whether one is not. Null after an error. Of a short mask each
/// key has code of its own: what hangs on the key alone is then computed in front of the loop over queries.
std::pair<Value, Value> TableKernel::emitPairs(flash::TileClassesOp op, ValueRange place, ArrayRef<Value> queries,
                                               Value key, Value keys) {
  Value no = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value end = arith::MinUIOp::create(b, add(key, index(op.getKvTile())), keys);
  if (countOps(op) <= kMostInlined) {
    Value last = b.createOrFold<arith::SubIOp>(end, index(1)), kept = no, cut = no;
    for (Value query : queries)
      for (int64_t number = 0; kept && number < countOfLane(op.getKvTile()); ++number) { // one that does not exist stands for the last
        Value own = arith::MinUIOp::create(b, add(add(key, lane), index(kLanes * number)), last);
        std::tie(kept, cut) = emitPair(op, {place[0], place[1], query, own}, kept, cut);
      }
    return {kept, cut};
  }
  auto loop = scf::ForOp::create(b, add(key, lane), end, index(kLanes), ValueRange{no, no});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  auto [kept, cut] = emitPair(op, {place[0], place[1], queries.front(), loop.getInductionVar()}, loop.getRegionIterArg(0),
                              loop.getRegionIterArg(1));
  if (!kept)
    return {};
  scf::YieldOp::create(b, ValueRange{kept, cut});
  return {loop.getResult(0), loop.getResult(1)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Visits
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<TableKernel::Votes> TableKernel::emitVotes(flash::TileRunsOp op, ValueRange place, Value first) {
  Value end = scalars->get(b, op.getStreamed()), resident = mul(place[2], op.getResidentTile());
  Value key = add(first, mul(lane, op.getStreamedTile()));
  Value exists = isBelow(key, end);
  ScalarCloner inside = *scalars; // what it maps holds here only
  Value existing = arith::SelectOp::create(b, exists, key, first);
  Value visit = inside.cloneRegion(b, op.getBody(), op.getPosition(place[0], place[1], resident, existing));
  if (!visit)
    return std::nullopt;
  auto isOf = [&](flash::TileVisit other) -> Value {
    Value isClass = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, visit, i32(static_cast<int64_t>(other)));
    return arith::AndIOp::create(b, exists, isClass);
  };
  Value isMasked = isOf(flash::TileVisit::Masked), isFull = isOf(flash::TileVisit::Full);
  return Votes{key, isMasked, isFull, emitBallot(isMasked), emitBallot(isFull)};
}

FailureOr<scf::ForOp>
TableKernel::emitPass(flash::TileRunsOp op, ValueRange place, Value end, ValueRange state,
                      llvm::function_ref<std::pair<Value, Value>(const Votes &, ValueRange)> emitBody) {
  auto loop = scf::ForOp::create(b, index(0), end, index(kLanes * op.getStreamedTile()), state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  std::optional<Votes> votes = emitVotes(op, place, loop.getInductionVar());
  if (!votes)
    return failure();
  auto [first, second] = emitBody(*votes, loop.getRegionIterArgs());
  scf::YieldOp::create(b, ValueRange{first, second});
  return loop;
}

LogicalResult TableKernel::emitRuns(flash::TileRunsOp op, ValueRange place) {
  Value end = scalars->get(b, op.getStreamed());
  if (!end)
    return failure();
  Value table = signature.getTable(*signature.getTables().getNumber(op.getResult()));
  Value tiles = b.createOrFold<arith::CeilDivUIOp>(end, index(op.getStreamedTile()));
  Value row = b.createOrFold<arith::MulIOp>(tile, add(tiles, index(VisitsRow::kMoreElements)));
  auto store = [&](Value element, Value at) {
    memref::StoreOp::create(b, arith::IndexCastOp::create(b, b.getI32Type(), element), table, add(row, at));
  };
  auto count = [&](Value bits) -> Value {
    return arith::IndexCastUIOp::create(b, b.getIndexType(), LLVM::CtPopOp::create(b, bits));
  };
  auto addCounts = [&](const Votes &votes, ValueRange state) {
    return std::pair(add(state[0], count(votes.masked)), add(state[1], count(votes.full)));
  };
  FailureOr<scf::ForOp> counts = emitPass(op, place, end, ValueRange{index(0), index(0)}, addCounts);
  if (failed(counts))
    return failure();
  Value masked = counts->getResult(0), all = add(masked, counts->getResult(1));
  Value bit = arith::ShLIOp::create(b, i32(1), arith::IndexCastOp::create(b, b.getI32Type(), lane));
  Value before = arith::SubIOp::create(b, bit, i32(1)); // the lanes in front of this one
  auto storeKeys = [&](const Votes &votes, ValueRange state) {
    for (auto [isOfLane, bits, first] : {std::tuple(votes.isMasked, votes.masked, state[0]),
                                         std::tuple(votes.isFull, votes.full, state[1])}) {
      auto branch = scf::IfOp::create(b, isOfLane);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      Value number = add(first, count(arith::AndIOp::create(b, bits, before)));
      store(votes.key, add(number, index(VisitsRow::kKeys)));
    }
    return addCounts(votes, state);
  };
  if (failed(emitPass(op, place, end, ValueRange{index(0), masked}, storeKeys)))
    return failure();
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
  auto branch = scf::IfOp::create(b, isFirst);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  store(masked, index(VisitsRow::kMaskedVisits));
  store(all, index(VisitsRow::kVisits));
  // Without tiles the first is visited all the same (Visits).
  Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, all, index(0));
  auto none = scf::IfOp::create(b, isEmpty);
  b.setInsertionPointToStart(none.thenBlock());
  store(index(0), index(VisitsRow::kKeys));
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Kernels
//===--------------------------------------------------------------------------------------------------------------===//

static FailureOr<ManifestKernel> emitKernel(func::FuncOp host, gpu::GPUFuncOp main, const TileTables &tables,
                                            StringRef suffix, ArrayRef<TileTables::Table> some) {
  SmallVector<Operation *> ops;
  std::optional<GridFormula> warps;
  for (const TileTables::Table &table : some) {
    ops.push_back(table.value.getDefiningOp());
    GridFormula ofTable = table.warps.value_or(table.tiles);
    warps = warps ? *warps + ofTable : ofTable;
  }
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return TableKernel(kernel, signature).emit(ops);
  };
  FailureOr<ManifestKernel> info =
      emitPlainKernel(host, main, (main.getName() + suffix).str(), kTableThreads, tables, emit);
  if (succeeded(info)) {
    info->grid = {ceilDiv(*warps, kWarps), 1, 1};
    info->writesMaskMap = tables.isInMaskMap(*tables.getNumber(some.front().value));
  }
  return info;
}

FailureOr<std::vector<ManifestKernel>> flashc::emitTableKernels(func::FuncOp host, gpu::GPUFuncOp main,
                                                                const TileTables &tables) {
  auto getSuffix = [](const TileTables::Table &table) -> StringRef {
    Operation *op = table.value.getDefiningOp();
    return llvm::TypeSwitch<Operation *, StringRef>(op)
        .Case([](flash::RowTableOp) { return "_rows"; })
        .Case([](flash::TileClassesOp) { return "_classes"; })
        .Case([](flash::TileRunsOp) { return "_runs"; })
        .Default([](Operation *) { return ""; });
  };
  std::vector<ManifestKernel> kernels;
  for (StringRef suffix : {"_rows", "_classes", "_runs"}) { // each of which may read those before it
    SmallVector<TileTables::Table> some;
    llvm::copy_if(tables.getTables(), std::back_inserter(some),
                  [&](const TileTables::Table &table) { return getSuffix(table) == suffix; });
    if (some.empty())
      continue;
    FailureOr<ManifestKernel> kernel = emitKernel(host, main, tables, suffix, some);
    if (failed(kernel))
      return failure();
    kernels.push_back(std::move(*kernel));
  }
  return kernels;
}
