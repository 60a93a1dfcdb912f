//===- TableKernel.cpp - the kernel that computes a table of tiles ------------------------------------------------===//

#include "TableWriter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace flashc;

/// The distance, in a row of tiles, between the tiles of a CTA's consecutive warps. It is odd, so that its multiples
/// spread over the row: the number of tiles in a row is mostly a power of two.
static constexpr int64_t kWarpDistance = 37;

LogicalResult TableWriter::emit() {
  Value ofThread = thread();
  lane = arith::AndIOp::create(b, ofThread, index(kLanes - 1));
  ownWarp = arith::ShRUIOp::create(b, ofThread, index(5));
  warp = emitWarp(ownWarp);
  FailureOr<Value> perWarp = emitTilesOfWarp();
  if (failed(perWarp))
    return failure();
  tilesOfWarp = *perWarp;
  Value first = index(0);
  for (Operation *op : ops) {
    FailureOr<Value> count = emitTable(op, first);
    if (failed(count))
      return failure();
    first = add(first, *count);
  }
  return success();
}

SmallVector<Value> TableWriter::emitTilePlace(Value number, ArrayRef<Value> extents) {
  SmallVector<Value> place(extents.size());
  for (size_t dim = place.size(); dim-- > 0;) {
    place[dim] = rem(number, extents[dim]);
    number = div(number, extents[dim]);
  }
  return place;
}

Value TableWriter::emitWarp(Value inCTA) {
  Value cta = block(), ctas = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value moved = rem(add(cta, mul(inCTA, kWarpDistance)), ctas);
  return add(mul(inCTA, ctas), moved);
}

/// Whether each lane of a warp may evaluate a tile of its own. If so, the size of the grid determines how many tiles a
/// warp has.
static bool areOfLanes(ArrayRef<Operation *> ops) {
  return llvm::all_of(ops, [](Operation *op) {
    auto classes = dyn_cast<flash::TileClassesOp>(op);
    return classes && classes.getKnown().getOps<flash::TileRangeOp>().empty();
  });
}

/// Returns the number of tiles of each warp. The last warp of a table may have fewer (countWarpsOfLanes).
FailureOr<Value> TableWriter::emitTilesOfWarp() {
  if (!areOfLanes(ops))
    return index(1);
  Value total = index(0);
  for (Operation *op : ops) {
    cloner.emplace(signature);
    FailureOr<SmallVector<Value>> extents = cloner->getTableExtents(b, op->getResult(0));
    if (failed(extents))
      return failure();
    total = add(total, emitCount(*extents));
  }
  Value warps = mul(gpu::GridDimOp::create(b, gpu::Dimension::x), kWarps);
  warps = sub(warps, index(ops.size() - 1));
  return Value(arith::CeilDivUIOp::create(b, total, warps));
}

Value TableWriter::emitCount(ArrayRef<Value> extents) {
  Value count = index(1);
  for (Value extent : llvm::reverse(extents))
    count = mul(count, extent);
  return count;
}

FailureOr<Value> TableWriter::emitTable(Operation *op, Value first) {
  cloner.emplace(signature);
  FailureOr<SmallVector<Value>> extents = cloner->getTableExtents(b, op->getResult(0));
  if (failed(extents))
    return failure();
  tile = sub(warp, first); // wraps around for warps before the first
  auto rows = dyn_cast<flash::RowTableOp>(op);
  if (rows)
    tile = add(mul(tile, kTableRows), lane);
  Value count = emitCount(*extents);
  if (auto classes = dyn_cast<flash::TileClassesOp>(op)) {
    if (failed(emitClasses(classes, first, *extents, count)))
      return failure();
    return ceilDiv(count, tilesOfWarp);
  }
  SmallVector<Value> place = emitTilePlace(tile, *extents);
  Value exists = isBelow(tile, count);
  auto branch = scf::IfOp::create(b, exists);
  b.setInsertionPointToStart(branch.thenBlock());
  if (failed(rows ? emitRowValue(rows, place) : emitRuns(cast<flash::TileRunsOp>(op), place)))
    return failure();
  b.setInsertionPointAfter(branch);
  return rows ? ceilDiv(count, index(kTableRows)) : count;
}

LogicalResult TableWriter::emitRowValue(flash::RowTableOp op, ValueRange place) {
  Value value = cloner->cloneRegion(b, op.getBody(), place);
  if (!value)
    return failure();
  memref::StoreOp::create(b, value, signature.getTable(*signature.getTables().getNumber(op.getResult())), tile);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Lanes
//===--------------------------------------------------------------------------------------------------------------===//

/// A 64-bit `value` is reduced in two steps: first its upper half; then the lower half, over the lanes whose upper half
/// is the first result.
Value TableWriter::emitReduce(Value value, bool isMin) {
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
  Value isRight = isEqual(upper, ofAll);
  lower = select(isRight, lower, i32(isMin ? -1 : 0));
  lower = reduce(lower, isMin ? NVVM::ReduxKind::UMIN : NVVM::ReduxKind::UMAX);
  Value shifted = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64Type, ofAll), bits);
  return arith::OrIOp::create(b, shifted, arith::ExtUIOp::create(b, i64Type, lower));
}

Value TableWriter::emitBallot(Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), i32(-1), condition, NVVM::VoteSyncKind::ballot);
}

Value TableWriter::emitAnyOfWarp(Value condition) {
  return compare(arith::CmpIPredicate::ne, emitBallot(condition), i32(0));
}

Value TableWriter::emitAnyOfCTA(Value condition) {
  auto isAny = NVVM::BarrierReductionAttr::get(b.getContext(), NVVM::BarrierReduction::OR);
  Value flag = arith::ExtUIOp::create(b, b.getI32Type(), condition);
  Value any = NVVM::BarrierOp::create(b, b.getI32Type(), Value(), Value(), isAny, flag).getResult(0);
  return compare(arith::CmpIPredicate::ne, any, i32(0));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Kernels
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns the number of warps that a kernel needs for `tiles` tiles of `tables` tables. Each lane of a warp may have a
/// tile. A warp has fewer tiles if otherwise there would be too few warps for all multiprocessors. The last warp of
/// each table may also have fewer tiles.
static GridFormula countWarpsOfLanes(const GridFormula &tiles, int64_t tables) {
  constexpr int64_t kWarpsPerMultiprocessor = 64;
  GridFormula perWarp = min(ceilDiv(tiles + 1, GridFormula::smCount() * kWarpsPerMultiprocessor), kLanes); // at least 1
  GridFormula warps = ceilDiv(tiles, perWarp);
  return tables > 1 ? warps + (tables - 1) : warps;
}

namespace {
/// The kernel of all tables of one kind. A CTA has eight warps.
class TableKernel : public LaunchKernel {
public:
  TableKernel(SmallVector<Operation *> ops, StringRef suffix)
      : LaunchKernel(ops.front()), ops(std::move(ops)), suffix(suffix) {}

  Time getTime() const override { return Time::Before; }

  FailureOr<ManifestKernel> emit(const LaunchNest &, const LaunchContext &context) const override {
    std::optional<GridFormula> warps;
    for (Operation *op : ops) {
      const TileTables::Table &table = context.tables.getTables()[*context.tables.getNumber(op->getResult(0))];
      GridFormula ofTable = table.warps.value_or(table.tiles);
      warps = warps ? *warps + ofTable : ofTable;
    }
    if (areOfLanes(ops))
      warps = countWarpsOfLanes(*warps, ops.size());
    FailureOr<ManifestKernel> info =
        emitKernel<TableWriter>(context, suffix, kTableThreads, {ceilDiv(*warps, kWarps), 1, 1}, ops);
    if (succeeded(info))
      info->writesMaskMap = true;
    return info;
  }

private:
  SmallVector<Operation *> ops;
  StringRef suffix;
};
} // namespace

template <typename Op> static void matchTablesOf(LaunchNest &nest, StringRef suffix) {
  SmallVector<Operation *> ops;
  nest.func.walk([&](Op op) { ops.push_back(op); });
  if (!ops.empty())
    nest.kernels.push_back(std::make_unique<TableKernel>(std::move(ops), suffix));
}

/// Kernels run in this order: a table may read tables of the kinds before its own.
void flashc::matchTable(LaunchNest &nest) {
  matchTablesOf<flash::RowTableOp>(nest, "_rows");
  matchTablesOf<flash::TileClassesOp>(nest, "_classes");
  matchTablesOf<flash::TileRunsOp>(nest, "_runs");
}
