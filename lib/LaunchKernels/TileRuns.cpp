//===- TileRuns.cpp - what a kernel does to list the tiles that each row visits -----------------------------------===//

#include "TableWriter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace flashc;

std::optional<TableWriter::Votes> TableWriter::emitVotes(flash::TileRunsOp op, ValueRange place, Value first) {
  Value end = cloner->get(b, op.getStreamed()), resident = mul(place[2], op.getResidentTile());
  Value key = add(first, mul(lane, op.getStreamedTile()));
  Value exists = isBelow(key, end);
  ScalarCloner inside = *cloner; // a copy, so that the mappings below stay local
  Value existing = select(exists, key, first);
  Value visit = inside.cloneRegion(b, op.getBody(), op.getPosition(place[0], place[1], resident, existing));
  if (!visit)
    return std::nullopt;
  auto isOf = [&](flash::TileVisit other) -> Value {
    return arith::AndIOp::create(b, exists, isEqual(visit, i32(static_cast<int64_t>(other))));
  };
  Value isMasked = isOf(flash::TileVisit::Masked), isFull = isOf(flash::TileVisit::Full);
  return Votes{key, isMasked, isFull, emitBallot(isMasked), emitBallot(isFull)};
}

FailureOr<scf::ForOp>
TableWriter::emitPass(flash::TileRunsOp op, ValueRange place, Value end, ValueRange state,
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

LogicalResult TableWriter::emitRuns(flash::TileRunsOp op, ValueRange place) {
  Value end = cloner->get(b, op.getStreamed());
  if (!end)
    return failure();
  Value table = signature.getTable(*signature.getTables().getNumber(op.getResult()));
  Value tiles = ceilDiv(end, index(op.getStreamedTile()));
  Value row = mul(tile, add(tiles, index(VisitsRow::kMoreElements)));
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
  Value before = arith::SubIOp::create(b, bit, i32(1)); // the bits of all lanes before this one
  auto storeKeys = [&](const Votes &votes, ValueRange state) {
    for (auto [isOfLane, bits, first] :
         {std::tuple(votes.isMasked, votes.masked, state[0]), std::tuple(votes.isFull, votes.full, state[1])}) {
      emitIf(isOfLane, [&, bits = bits, first = first] {
        Value number = add(first, count(arith::AndIOp::create(b, bits, before)));
        store(votes.key, add(number, index(VisitsRow::kKeys)));
      });
    }
    return addCounts(votes, state);
  };
  if (failed(emitPass(op, place, end, ValueRange{index(0), masked}, storeKeys)))
    return failure();
  emitIf(isZero(lane), [&] {
    store(masked, index(VisitsRow::kMaskedVisits));
    store(all, index(VisitsRow::kVisits));
    // A kernel visits at least one tile (Visits). So a row without tiles to visit names the tile at key 0.
    emitIf(isZero(all), [&] { store(index(0), index(VisitsRow::kKeys)); });
  });
  return success();
}
