//===- DiagonalKernel.cpp - the kernel that adds tiles of pairs up along their diagonals --------------------------===//

#include "flashc/Conversion/HostToKernel/DiagonalKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256, kUnrolled = 8; // loads that are in flight together

static GridFormula getSize(OpFoldResult extent) { return *getFormula(extent); }

FailureOr<TileTables::Table> DiagonalSums::getTilesTable() const {
  FailureOr<TileTables::Table> table = getArrayTable(tiles, ArrayRef(extents).take_front(2));
  std::optional<GridFormula> numQueries = getFormula(queries), numKeys = getFormula(keys);
  if (failed(table) || !numQueries || !numKeys)
    return failure();
  table->tiles = mul64(table->tiles, ceilDiv(*numQueries, rows) * (rows / cols) + ceilDiv(*numKeys, cols));
  table->bytes *= rows * cols;
  return table;
}

FailureOr<TileTables::Table> DiagonalSums::getSumsTable() const {
  FailureOr<TileTables::Table> table = getArrayTable(sums, ArrayRef(extents).take_front(2));
  std::optional<GridFormula> numQueries = getFormula(queries), numKeys = getFormula(keys);
  if (failed(table) || !numQueries || !numKeys)
    return failure();
  table->tiles = mul64(table->tiles, *numQueries + *numKeys); // one more than there are: that is a formula
  return table;
}

/// CTA (n, h, b) has sums 256 n and following.
static LogicalResult emitBody(ImplicitLocOpBuilder &b, KernelSignature &signature, const DiagonalSums &sums) {
  ScalarCloner scalars(signature);
  Value tiles = scalars.getTableArray(b, sums.tiles, sums.tileExtents);
  Value result = scalars.getTableArray(b, sums.sums, sums.extents);
  Value queries = scalars.get(b, b.getLoc(), sums.queries), end = scalars.get(b, b.getLoc(), sums.tileExtents[2]);
  Value count = scalars.get(b, b.getLoc(), sums.extents[2]);
  if (!tiles || !result || !queries || !end || !count)
    return failure();
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  auto add = [&](Value x, Value y) -> Value { return b.createOrFold<arith::AddIOp>(x, y); };
  auto sub = [&](Value x, Value y) -> Value { return b.createOrFold<arith::SubIOp>(x, y); };
  auto mul = [&](Value x, Value y) -> Value { return b.createOrFold<arith::MulIOp>(x, y); };
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x), block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value head = gpu::BlockIdOp::create(b, gpu::Dimension::y), batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value number = add(mul(block, index(kThreads)), thread), rows = index(sums.rows), cols = index(sums.cols);
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number, count));
  b.setInsertionPointToStart(branch.thenBlock());
  // j - i, plus the extent of what lies in front of the tiles of distance 0: a column for row 0.
  Value inFront = mul(b.createOrFold<arith::CeilDivUIOp>(queries, rows), rows);
  Value first = add(sub(number, sub(queries, index(1))), inFront);
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  auto loop = scf::ForOp::create(b, index(0), rows, index(kUnrolled), zero);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value sum = loop.getRegionIterArg(0);
    SmallVector<Value> elements;
    for (int64_t n = 0; n < kUnrolled; ++n) {
      Value row = add(loop.getInductionVar(), index(n)), column = add(first, row);
      Value place = add(mul(arith::DivUIOp::create(b, column, cols), rows), row);
      Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place, end);
      Value inside = arith::SelectOp::create(b, exists, place, row);
      Value element = memref::LoadOp::create(b, tiles,
                                             ValueRange{batch, head, inside, arith::RemUIOp::create(b, column, cols)});
      elements.push_back(arith::SelectOp::create(b, exists, element, zero));
    }
    for (Value element : elements)
      sum = arith::AddFOp::create(b, sum, element);
    scf::YieldOp::create(b, sum);
  }
  memref::StoreOp::create(b, loop.getResult(0), result, ValueRange{batch, head, number});
  b.setInsertionPointAfter(branch);
  gpu::ReturnOp::create(b);
  return success();
}

FailureOr<ManifestKernel> flashc::emitDiagonalKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef name,
                                                     const TileTables &tables, const DiagonalSums &sums) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
    return emitBody(b, signature, sums);
  };
  FailureOr<ManifestKernel> info = emitPlainKernel(host, main, name, kThreads, tables, emit);
  if (succeeded(info))
    info->grid = {ceilDiv(getSize(sums.queries) + getSize(sums.keys), kThreads), getSize(sums.extents[1]),
                  getSize(sums.extents[0])};
  return info;
}
