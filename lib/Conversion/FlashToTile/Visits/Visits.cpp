//===- Visits.cpp - numbers the key tiles -------------------------------------------------------------------------===//

#include "Visits/VisitsEmitter.h"
#include "WorkOrder.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace flashc;

/// Whether the segments are consecutive, with at most one run of full tiles among them.
static bool isOneRun(MutableArrayRef<Segment> segments) {
  int64_t fullRuns = 0;
  for (auto [index, segment] : llvm::enumerate(segments)) {
    if (index > 0 && !isEqualConstantIntOrValue(segment.begin, segments[index - 1].end))
      return false;
    fullRuns += !segment.isMasked() && (index == 0 || segments[index - 1].isMasked());
  }
  return fullRuns <= 1;
}

/// Whether a value of the kernel depends on memory.
static bool isRead(Value value) {
  SmallVector<Value> worklist{value};
  llvm::SmallDenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (op->walk([](memref::LoadOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return true;
    llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

/// Makes a bound uniform. ptxas assumes that a value from memory differs between threads, and then it assumes the same
/// of the loop's state.
Value Visits::Emitter::bound(OpFoldResult value) {
  Value copy = scalars.get(b, b.getLoc(), value);
  return copy && isRead(copy) ? tile::UniformOp::create(b, copy) : copy;
}

LogicalResult Visits::Emitter::emitAny() {
  if (nest.runs.table)
    return emitTable();
  if (ownRow && nest.mask) {
    OpBuilder inL1(nest.end);
    OpFoldResult fixedEnd =
        flash::emitFixedEnd(inL1, getMaskedOp(), nest.segments.front().begin, inL1.getIndexAttr(flash::kFarPosition));
    if (fixedEnd)
      return emitMovingRun(fixedEnd);
  }
  return isOneRun(nest.segments) ? emitRun() : emitPieces();
}

void Visits::Emitter::setTotal(Value count, bool &mayBeEmpty) {
  visits.count = count;
  visits.total = b.createOrFold<arith::MaxSIOp>(count, one);
  std::optional<int64_t> constant = getConstantIntValue(count);
  mayBeEmpty = nest.mayHaveEmptyRows() && (!constant || *constant < 1);
  visits.isMasked = nest.mask || mayBeEmpty;
}

LogicalResult Visits::Emitter::emitRun() {
  Value begin = bound(nest.segments.front().begin), end = bound(nest.segments.back().end);
  if (!begin || !end)
    return failure();
  emitConstants();
  // A segment does not begin before the one before it ends, so distances are not negative.
  Value count = countTiles(sub(end, begin));
  bool mayBeEmpty;
  setTotal(count, mayBeEmpty);
  visits.isBackwards = nest.mask && !nest.isAnyAddedUp();
  Value firstKey = begin;
  if (visits.isBackwards)
    firstKey = add(begin, mul(sub(visits.total, one), step));
  // If the mask keeps no existing key, `begin` may lie after the last key. Then the tile of key 0 is visited.
  if (mayBeEmpty && getConstantIntValue(begin) != 0)
    firstKey = arith::SelectOp::create(b, isEmpty(count), zero, firstKey);
  visits.masked.push_back({zero, firstKey});
  if (ownRow && visits.isBackwards) {
    FailureOr<bool> hasOwn = emitOwn(begin, end);
    if (failed(hasOwn) || *hasOwn)
      return failure(failed(hasOwn));
  }
  if (!visits.isFull)
    return success();
  if (!visits.isMasked) {
    visits.fullBegin = zero, visits.fullEnd = visits.total;
    return emitRotation();
  }
  auto isMasked = [](Segment &segment) { return segment.isMasked(); };
  auto *full = llvm::find_if_not(nest.segments, isMasked), *behind = std::find_if(full, nest.segments.end(), isMasked);
  Value fullBegin = bound(full->begin), fullEnd = bound(std::prev(behind)->end);
  if (!fullBegin || !fullEnd)
    return failure();
  Value before = countTiles(sub(fullBegin, begin)), upTo = countTiles(sub(fullEnd, begin));
  visits.fullBegin = visits.isBackwards ? sub(count, upTo) : before;
  visits.fullEnd = visits.isBackwards ? sub(count, before) : upTo;
  return emitRotation();
}

/// Rotates the full visits of each CTA: they begin with another tile, and wrap around. If a resident tile is as long as
/// n streamed tiles, the CTAs of neighbouring resident tiles begin n streamed tiles apart.
LogicalResult Visits::Emitter::emitRotation() {
  if (!nest.isAnyAddedUp() || !hasFixedEnds(nest))
    return success();
  Value position = scalars.get(b, nest.resident.position);
  if (!position)
    return failure();
  Value numFull = max(sub(visits.fullEnd, visits.fullBegin), one);
  visits.rotation = b.createOrFold<arith::RemUIOp>(b.createOrFold<arith::DivUIOp>(position, step), numFull);
  return success();
}

/// Appends a piece to `pieces` for each masked segment or, without `isMasked`, for each segment that is not masked.
/// `count` is the number of visits before the first of these pieces, and becomes the number after the last.
LogicalResult Visits::Emitter::emitPiecesOf(MutableArrayRef<Segment> segments, bool isMasked,
                                            SmallVectorImpl<Piece> &pieces, Value &count) {
  for (Segment &segment : llvm::reverse(segments)) {
    if (segment.isMasked() != isMasked)
      continue;
    Value begin = bound(segment.begin), end = bound(segment.end);
    if (!begin || !end)
      return failure();
    Value next = add(count, countTiles(b.createOrFold<arith::MaxSIOp>(sub(end, begin), zero)));
    pieces.push_back({count, add(begin, mul(sub(next, one), step))});
    count = next;
  }
  return success();
}

LogicalResult Visits::Emitter::emitPieces() {
  emitConstants();
  Value count = zero;
  visits.isBackwards = true;
  if (failed(emitPiecesOf(nest.segments, /*isMasked=*/true, visits.masked, count)))
    return failure();
  visits.fullBegin = count;
  if (failed(emitPiecesOf(nest.segments, /*isMasked=*/false, visits.full, count)))
    return failure();
  visits.fullEnd = count;
  bool mayBeEmpty;
  setTotal(count, mayBeEmpty);
  // If there are no tiles, every piece begins at visit 0, so emitPosition takes the last piece. Its tile must then be
  // that of key 0 (see emitRun).
  Piece &last = visits.masked.empty() ? visits.full.back() : visits.masked.back();
  if (mayBeEmpty)
    last.key = arith::SelectOp::create(b, isEmpty(count), zero, last.key);
  return success();
}

LogicalResult Visits::Emitter::emitTable() {
  emitConstants();
  flash::TileRunsOp op = nest.runs.table;
  Value number = scalars.getTableRow(b, op.getResult(), nest.runs.place), streamed = scalars.get(b, op.getStreamed());
  if (!number || !streamed)
    return failure();
  visits.table = signature.getTable(*signature.getTables().getNumber(op.getResult()));
  Value tiles = b.createOrFold<arith::CeilDivUIOp>(streamed, index(op.getStreamedTile()));
  Value size = add(tiles, index(VisitsRow::kMoreElements));
  visits.row = b.createOrFold<arith::MulIOp>(number, size);
  auto read = [&](int64_t place) -> Value {
    Value element = memref::LoadOp::create(b, visits.table, add(visits.row, index(place)));
    return tile::UniformOp::create(b, arith::IndexCastOp::create(b, b.getIndexType(), element));
  };
  visits.isBackwards = false;
  visits.fullBegin = read(VisitsRow::kMaskedVisits);
  visits.fullEnd = read(VisitsRow::kVisits);
  bool mayBeEmpty; // the table handles empty rows
  setTotal(visits.fullEnd, mayBeEmpty);
  return success();
}

FailureOr<Visits> Visits::emit(KernelFrame &frame) { return Emitter(frame).emit(); }

Value Visits::emitIsMasked(ImplicitLocOpBuilder &b, Value visit) const {
  return tile::OutsideOp::create(b, visit, fullBegin, fullEnd);
}

/// Emits the key of a visit, which is read from the table.
Value Visits::emitKeyOfTable(ImplicitLocOpBuilder &b, Value visit) const {
  Value first = arith::AddIOp::create(b, row, arith::ConstantIndexOp::create(b, VisitsRow::kKeys));
  Value element = memref::LoadOp::create(b, table, b.createOrFold<arith::AddIOp>(first, visit));
  return arith::IndexCastOp::create(b, b.getIndexType(), element);
}

Value Visits::emitPosition(ImplicitLocOpBuilder &b, Value visit) const {
  if (arePositions)
    return visit;
  if (table)
    return emitKeyOfTable(b, visit);
  Value distance = arith::MulIOp::create(b, visit, arith::ConstantIndexOp::create(b, tile));
  auto choose = [&](ArrayRef<Piece> pieces) {
    Value key = pieces.front().key;
    for (const Piece &piece : pieces.drop_front()) {
      Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, visit, piece.begin);
      key = arith::SelectOp::create(b, isBehind, piece.key, key);
    }
    return key;
  };
  if (rotation) {
    Value behind = arith::AddIOp::create(b, visit, rotation), numFull = arith::SubIOp::create(b, fullEnd, fullBegin);
    Value wraps = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, behind, fullEnd);
    Value number = arith::SelectOp::create(b, wraps, arith::SubIOp::create(b, behind, numFull), behind);
    if (isMasked)
      number = arith::SelectOp::create(b, emitIsMasked(b, visit), visit, number);
    distance = arith::MulIOp::create(b, number, arith::ConstantIndexOp::create(b, tile));
  }
  Value key = choose(masked.empty() ? full : masked);
  if (!masked.empty() && !full.empty())
    key = arith::SelectOp::create(b, emitIsMasked(b, visit), key, choose(full));
  if (!isBackwards)
    return arith::AddIOp::create(b, key, distance);
  return arith::SubIOp::create(b, key, distance);
}
