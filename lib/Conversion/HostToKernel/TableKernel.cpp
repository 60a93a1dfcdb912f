//===- TableKernel.cpp - the kernel that computes a table of tiles ------------------------------------------------===//

#include "flashc/Conversion/HostToKernel/TableKernel.h"
#include "TableWriter.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace flashc;

/// How far the warps of a CTA lie apart along a row of tiles; odd, as rows are mostly powers of two.
static constexpr int64_t kWarpDistance = 37;

LogicalResult TableWriter::emit(ArrayRef<Operation *> ops) {
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
  ownWarp = arith::ShRUIOp::create(b, thread, index(5));
  warp = emitWarp(ownWarp);
  FailureOr<Value> perWarp = emitTilesOfWarp(ops);
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
  gpu::ReturnOp::create(b);
  return success();
}

SmallVector<Value> TableWriter::emitTilePlace(Value number, ArrayRef<Value> extents) {
  SmallVector<Value> place(extents.size());
  for (size_t dim = place.size(); dim-- > 0;) {
    place[dim] = b.createOrFold<arith::RemUIOp>(number, extents[dim]);
    number = b.createOrFold<arith::DivUIOp>(number, extents[dim]);
  }
  return place;
}

Value TableWriter::emitWarp(Value inCTA) {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x), blocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value moved = arith::RemUIOp::create(b, add(block, mul(inCTA, kWarpDistance)), blocks);
  return add(arith::MulIOp::create(b, inCTA, blocks), moved);
}

/// Of the classes of tiles, where lanes may look at one each: as many as the grid leaves each warp.
static bool areOfLanes(ArrayRef<Operation *> ops) {
  return llvm::all_of(ops, [](Operation *op) {
    auto classes = dyn_cast<flash::TileClassesOp>(op);
    return classes && classes.getKnown().getOps<flash::TileRangeOp>().empty();
  });
}

/// A warp that no table fills may be left beside each but the last: see emitKernel.
FailureOr<Value> TableWriter::emitTilesOfWarp(ArrayRef<Operation *> ops) {
  if (!areOfLanes(ops))
    return index(1);
  Value total = index(0);
  for (Operation *op : ops) {
    scalars.emplace(signature);
    FailureOr<SmallVector<Value>> extents = scalars->getTableExtents(b, op->getResult(0));
    if (failed(extents))
      return failure();
    total = add(total, emitCount(*extents));
  }
  Value warps = mul(gpu::GridDimOp::create(b, gpu::Dimension::x), kWarps);
  warps = b.createOrFold<arith::SubIOp>(warps, index(ops.size() - 1));
  return Value(arith::CeilDivUIOp::create(b, total, warps));
}

Value TableWriter::emitCount(ArrayRef<Value> extents) {
  Value count = index(1);
  for (Value extent : llvm::reverse(extents))
    count = b.createOrFold<arith::MulIOp>(count, extent);
  return count;
}

FailureOr<Value> TableWriter::emitTable(Operation *op, Value first) {
  scalars.emplace(signature);
  FailureOr<SmallVector<Value>> extents = scalars->getTableExtents(b, op->getResult(0));
  if (failed(extents))
    return failure();
  tile = b.createOrFold<arith::SubIOp>(warp, first); // of a warp in front of the first it is beyond all
  auto rows = dyn_cast<flash::RowTableOp>(op);
  if (rows)
    tile = add(mul(tile, kTableRows), lane);
  Value count = emitCount(*extents);
  if (auto classes = dyn_cast<flash::TileClassesOp>(op)) {
    if (failed(emitClasses(classes, first, *extents, count)))
      return failure();
    return b.createOrFold<arith::CeilDivUIOp>(count, tilesOfWarp);
  }
  SmallVector<Value> place = emitTilePlace(tile, *extents);
  Value exists = isBelow(tile, count);
  auto branch = scf::IfOp::create(b, exists);
  b.setInsertionPointToStart(branch.thenBlock());
  if (failed(rows ? emitRowValue(rows, place) : emitRuns(cast<flash::TileRunsOp>(op), place)))
    return failure();
  b.setInsertionPointAfter(branch);
  return rows ? b.createOrFold<arith::CeilDivUIOp>(count, index(kTableRows)) : count;
}

LogicalResult TableWriter::emitRowValue(flash::RowTableOp op, ValueRange place) {
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
  Value isRight = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, upper, ofAll);
  lower = arith::SelectOp::create(b, isRight, lower, i32(isMin ? -1 : 0));
  lower = reduce(lower, isMin ? NVVM::ReduxKind::UMIN : NVVM::ReduxKind::UMAX);
  Value shifted = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64Type, ofAll), bits);
  return arith::OrIOp::create(b, shifted, arith::ExtUIOp::create(b, i64Type, lower));
}

Value TableWriter::emitBallot(Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), i32(-1), condition, NVVM::VoteSyncKind::ballot);
}

Value TableWriter::emitAnyOfWarp(Value condition) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, emitBallot(condition), i32(0));
}

Value TableWriter::emitAnyOfCTA(Value condition) {
  auto isAny = NVVM::BarrierReductionAttr::get(b.getContext(), NVVM::BarrierReduction::OR);
  Value flag = arith::ExtUIOp::create(b, b.getI32Type(), condition);
  Value any = NVVM::BarrierOp::create(b, b.getI32Type(), Value(), Value(), isAny, flag).getResult(0);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, any, i32(0));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Kernels
//===--------------------------------------------------------------------------------------------------------------===//

/// The warps of a kernel for `tiles` of several tables: of many each has more, up to one for each lane, while there are
/// enough warps for all multiprocessors. A table leaves the rest of its last warp.
static GridFormula countWarpsOfLanes(const GridFormula &tiles, int64_t tables) {
  constexpr int64_t kWarpsPerMultiprocessor = 64;
  GridFormula perWarp = min(ceilDiv(tiles + 1, GridFormula::smCount() * kWarpsPerMultiprocessor), kLanes); // not 0
  GridFormula warps = ceilDiv(tiles, perWarp);
  return tables > 1 ? warps + (tables - 1) : warps;
}

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
    return TableWriter(kernel, signature).emit(ops);
  };
  FailureOr<ManifestKernel> info =
      emitPlainKernel(host, main, (main.getName() + suffix).str(), kTableThreads, tables, emit);
  if (succeeded(info)) {
    if (areOfLanes(ops))
      warps = countWarpsOfLanes(*warps, ops.size());
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
