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

using namespace mlir;
using namespace flashc;

static constexpr int64_t kTableThreads = 256, kLanes = 32;

namespace {
/// Writes the body of a kernel whose CTAs have kTableThreads threads, and whose warps compute a tile of a table each,
/// those of one table behind those of another:
///
///   flash.row_table     a tile is kTableRows rows; each lane computes one.
///   flash.tile_minmax   lane l of 32 looks at the elements l, l + 32, ... of the tile; then the lanes exchange what
///                       they have (shfl.sync), and the first one writes the least and the greatest.
///   flash.tile_runs     lane l looks at the key tile 32 n + l, in steps n; by a vote every lane learns which of the 32
///                       are visited, and which are full, and goes through those; the first one writes the runs.
///
/// Warps beyond the last tile leave; in those with exchanges all lanes meet every one.
class TableKernel {
public:
  TableKernel(gpu::GPUFuncOp kernel, KernelSignature &signature)
      : b(kernel.getLoc(), kernel.getContext()), kernel(kernel), signature(signature) {}

  /// Fails after an error. The ops make tables that do not read each other.
  LogicalResult emit(ArrayRef<Operation *> ops);

private:
  /// `first` is the first of the op's warps; returns how many it has.
  FailureOr<Value> emitTable(Operation *op, Value first);
  LogicalResult emitRowValue(flash::RowTableOp op, ValueRange place);
  LogicalResult emitMinMax(flash::TileMinMaxOp op, ValueRange place);
  LogicalResult emitRuns(flash::TileRunsOp op, ValueRange place);
  /// The state of the runs behind the 32 key tiles from `first` on.
  FailureOr<SmallVector<Value>> emitStep(flash::TileRunsOp op, ValueRange place, Value first, ValueRange state);
  SmallVector<Value> emitVisits(flash::TileRunsOp op, Value first, Value visited, Value full, ValueRange state);
  /// A row of the table (RunsRow) from the four keys of each run.
  SmallVector<Value> emitRow(flash::TileRunsOp op, ValueRange keys);
  /// The same value in all lanes: the least or the greatest of theirs.
  Value emitReduce(Value value, bool isMin);
  Value emitBallot(Value condition);
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
  /// `tile` is the number of this warp's tile in the table that is written, or of this lane's row.
  Value warp, lane, tile;
};
} // namespace

LogicalResult TableKernel::emit(ArrayRef<Operation *> ops) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
  Value block = mul(gpu::BlockIdOp::create(b, gpu::Dimension::x), kTableThreads / kLanes);
  warp = add(block, arith::ShRUIOp::create(b, thread, index(5)));
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

FailureOr<Value> TableKernel::emitTable(Operation *op, Value first) {
  scalars.emplace(signature);
  FailureOr<SmallVector<Value>> extents = scalars->getTableExtents(b, op->getResult(0));
  if (failed(extents))
    return failure();
  tile = b.createOrFold<arith::SubIOp>(warp, first); // of a warp in front of the first it is beyond all
  auto rows = dyn_cast<flash::RowTableOp>(op);
  if (rows)
    tile = add(mul(tile, kTableRows), lane);
  Value count = index(1), rest = tile;
  SmallVector<Value> place(extents->size());
  for (size_t dim = place.size(); dim-- > 0;) {
    Value extent = (*extents)[dim];
    count = b.createOrFold<arith::MulIOp>(count, extent);
    place[dim] = b.createOrFold<arith::RemUIOp>(rest, extent);
    rest = b.createOrFold<arith::DivUIOp>(rest, extent);
  }
  auto branch = scf::IfOp::create(b, isBelow(tile, count));
  b.setInsertionPointToStart(branch.thenBlock());
  auto runs = dyn_cast<flash::TileRunsOp>(op);
  if (failed(rows   ? emitRowValue(rows, place)
             : runs ? emitRuns(runs, place)
                    : emitMinMax(cast<flash::TileMinMaxOp>(op), place)))
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

Value TableKernel::emitReduce(Value value, bool isMin) {
  Type i32Type = b.getI32Type(), i64Type = b.getI64Type();
  Value high = arith::ConstantOp::create(b, b.getI64IntegerAttr(32));
  for (int64_t distance = kLanes / 2; distance > 0; distance /= 2) {
    auto exchange = [&](Value half) -> Value {
      return NVVM::ShflOp::create(b, i32Type, i32(-1), half, i32(distance), /*mask_and_clamp=*/i32(kLanes - 1),
                                  NVVM::ShflKind::bfly, /*return_value_and_is_valid=*/UnitAttr());
    };
    Value low = exchange(arith::TruncIOp::create(b, i32Type, value));
    Value top = exchange(arith::TruncIOp::create(b, i32Type, arith::ShRUIOp::create(b, value, high)));
    top = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64Type, top), high);
    Value other = arith::OrIOp::create(b, top, arith::ExtUIOp::create(b, i64Type, low));
    value = isMin ? arith::MinSIOp::create(b, value, other).getResult()
                  : arith::MaxSIOp::create(b, value, other).getResult();
  }
  return value;
}

Value TableKernel::emitBallot(Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), i32(-1), condition, NVVM::VoteSyncKind::ballot);
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
// The least and the greatest
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult TableKernel::emitMinMax(flash::TileMinMaxOp op, ValueRange place) {
  int64_t dim = op.getDim();
  Value begin = mul(place[dim], op.getTile());
  Value extent = scalars->getExtent(b, op, op.getSource(), dim);
  if (!extent)
    return failure();
  Value end = arith::MinUIOp::create(b, add(begin, index(op.getTile())), extent);
  Value most = arith::ConstantOp::create(b, b.getI64IntegerAttr(std::numeric_limits<int64_t>::max()));
  Value least = arith::ConstantOp::create(b, b.getI64IntegerAttr(std::numeric_limits<int64_t>::min()));
  auto loop = scf::ForOp::create(b, add(begin, lane), end, index(kLanes), ValueRange{most, least});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> position(place);
    position[dim] = loop.getInductionVar();
    Value element = scalars->loadElement(b, op, op.getSource(), position);
    if (!element)
      return failure();
    element = flash::emitRangedElement(b, element);
    Value min = arith::MinSIOp::create(b, loop.getRegionIterArg(0), element);
    Value max = arith::MaxSIOp::create(b, loop.getRegionIterArg(1), element);
    scf::YieldOp::create(b, ValueRange{min, max});
  }
  Value min = emitReduce(loop.getResult(0), /*isMin=*/true), max = emitReduce(loop.getResult(1), /*isMin=*/false);
  emitStore(op, {min, max});
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Runs
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult TableKernel::emitRuns(flash::TileRunsOp op, ValueRange place) {
  flash::RunsBuilder runs(b, op.getNumRuns(), op.getKvTile());
  Value keys = scalars->get(b, op.getKeys());
  if (!keys)
    return failure();
  auto loop = scf::ForOp::create(b, index(0), keys, index(kLanes * op.getKvTile()), runs.emitNone());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    FailureOr<SmallVector<Value>> state = emitStep(op, place, loop.getInductionVar(), loop.getRegionIterArgs());
    if (failed(state))
      return failure();
    scf::YieldOp::create(b, *state);
  }
  emitStore(op, llvm::map_to_vector(emitRow(op, runs.getRuns(loop.getResults())), [&](Value element) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), element);
  }));
  return success();
}

SmallVector<Value> TableKernel::emitRow(flash::TileRunsOp op, ValueRange keys) {
  RunsRow row{op.getNumRuns()};
  SmallVector<std::pair<Value, Value>> pieces; // from one key to another
  for (int64_t first = 4 * (row.numRuns - 1); first >= 0; first -= 4)
    llvm::append_values(pieces, std::pair(keys[first + 2], keys[first + 3]), std::pair(keys[first], keys[first + 1]));
  for (int64_t first = 4 * (row.numRuns - 1); first >= 0; first -= 4)
    pieces.emplace_back(keys[first + 1], keys[first + 2]);
  SmallVector<Value> elements(row.size());
  Value count = index(0), tile = index(op.getKvTile());
  for (auto [piece, range] : llvm::enumerate(pieces)) {
    if (static_cast<int64_t>(piece) == row.getNumMasked())
      elements[RunsRow::kMaskedVisits] = count;
    elements[row.getBegin(piece)] = count;
    Value tiles = arith::DivUIOp::create(b, arith::SubIOp::create(b, range.second, range.first), tile);
    count = add(count, tiles);
    Value last = mul(arith::SubIOp::create(b, count, index(1)), op.getKvTile());
    elements[row.getKey(piece)] = add(range.first, last);
  }
  elements[RunsRow::kVisits] = count;
  // Without tiles the first is visited all the same (Visits): all pieces begin at 0, and the last one holds.
  Value &key = elements[row.getKey(row.getNumPieces() - 1)];
  Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, count, index(0));
  key = arith::SelectOp::create(b, isEmpty, index(0), key);
  return elements;
}

FailureOr<SmallVector<Value>> TableKernel::emitStep(flash::TileRunsOp op, ValueRange place, Value first,
                                                    ValueRange state) {
  Value keys = scalars->get(b, op.getKeys()), query = mul(place[2], op.getQTile());
  Value key = add(first, mul(lane, op.getKvTile()));
  Value exists = isBelow(key, keys);
  ScalarCloner inside = *scalars; // what it maps holds here only
  Value visit = inside.cloneRegion(b, op.getBody(),
                                   {place[0], place[1], query, arith::SelectOp::create(b, exists, key, first)});
  if (!visit)
    return failure();
  auto vote = [&](arith::CmpIPredicate predicate, flash::TileVisit other) {
    Value isClass = arith::CmpIOp::create(b, predicate, visit, i32(static_cast<int64_t>(other)));
    return emitBallot(arith::AndIOp::create(b, exists, isClass));
  };
  Value visited = vote(arith::CmpIPredicate::ne, flash::TileVisit::Skipped);
  Value full = vote(arith::CmpIPredicate::eq, flash::TileVisit::Full);
  return emitVisits(op, first, visited, full, state);
}

/// Goes through the bits of `visited`, the lowest first. All lanes do the same.
SmallVector<Value> TableKernel::emitVisits(flash::TileRunsOp op, Value first, Value visited, Value full,
                                           ValueRange state) {
  auto toIndex = [&](Value value) -> Value { return arith::IndexCastUIOp::create(b, b.getIndexType(), value); };
  Value count = toIndex(LLVM::CtPopOp::create(b, visited));
  SmallVector<Value> init{visited};
  llvm::append_range(init, state);
  auto loop = scf::ForOp::create(b, index(0), count, index(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value bits = loop.getRegionIterArg(0);
  Value lowest = math::CountTrailingZerosOp::create(b, bits);
  Value isFull = arith::TruncIOp::create(b, b.getI1Type(), arith::ShRUIOp::create(b, full, lowest));
  SmallVector<Value> next{arith::AndIOp::create(b, bits, arith::SubIOp::create(b, bits, i32(1)))};
  flash::RunsBuilder runs(b, op.getNumRuns(), op.getKvTile());
  Value key = add(first, mul(toIndex(lowest), op.getKvTile()));
  llvm::append_range(next, runs.emitVisit(loop.getRegionIterArgs().drop_front(), key, isFull));
  scf::YieldOp::create(b, next);
  return llvm::to_vector_of<Value>(loop.getResults().drop_front());
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
    warps = warps ? *warps + table.tiles : table.tiles;
  }
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return TableKernel(kernel, signature).emit(ops);
  };
  FailureOr<ManifestKernel> info =
      emitPlainKernel(host, main, (main.getName() + suffix).str(), kTableThreads, tables, emit);
  if (succeeded(info))
    info->grid = {ceilDiv(*warps, kTableThreads / kLanes), 1, 1};
  return info;
}

FailureOr<std::vector<ManifestKernel>> flashc::emitTableKernels(func::FuncOp host, gpu::GPUFuncOp main,
                                                                const TileTables &tables) {
  auto getSuffix = [](const TileTables::Table &table) -> StringRef {
    Operation *op = table.value.getDefiningOp();
    return llvm::TypeSwitch<Operation *, StringRef>(op)
        .Case([](flash::RowTableOp) { return "_rows"; })
        .Case([](flash::TileMinMaxOp) { return "_minmax"; })
        .Case([](flash::TileRunsOp) { return "_runs"; })
        .Default([](Operation *) { return ""; });
  };
  std::vector<ManifestKernel> kernels;
  for (StringRef suffix : {"_rows", "_minmax", "_runs"}) { // the last of which read the others
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
