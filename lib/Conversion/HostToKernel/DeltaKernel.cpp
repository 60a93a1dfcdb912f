//===- DeltaKernel.cpp - the kernel that computes the delta of a backward pass ------------------------------------===//

#include "flashc/Conversion/HostToKernel/DeltaKernel.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256, kLanes = 32, kRows = 64, kBytes = 16;

FailureOr<TileTables::Table> flashc::getDeltaTable(Value delta, int64_t tile) {
  Value o = flash::matchRowDots(delta)->o;
  std::optional<GridFormula> batches = getFormula(o, 0), heads = getFormula(o, 1), rows = getFormula(o, 2);
  if (!batches || !heads || !rows)
    return delta.getDefiningOp()->emitOpError() << "expected extents that are constants or those of arguments";
  return TileTables::Table{delta, *batches * *heads * ceilDiv(*rows, tile), /*bytes=*/2 * 4 * tile};
}

namespace {
/// Writes the kernel's body. CTA (n, h, b) has queries kRows n to kRows n + kRows - 1. Neighbouring lanes share a row, a
/// vector of 16 bytes (of the wider type) each, and the rest of a warp has the rows behind it.
class DeltaKernel {
public:
  DeltaKernel(gpu::GPUFuncOp kernel, KernelSignature &signature, Value delta, Value lse, ArrayRef<AddedSums> sums)
      : b(kernel.getLoc(), kernel.getContext()), op(delta.getDefiningOp()), signature(signature), scalars(signature),
        delta(delta), lse(lse), dots(*flash::matchRowDots(delta)), sums(sums) {
    b.setInsertionPointToStart(&kernel.getBody().front());
    auto ofO = cast<ShapedType>(dots.o.getType()), ofDo = cast<ShapedType>(dots.dout.getType());
    depth = ofO.getDimSize(3);
    perVector = kBytes * 8 / std::max(ofO.getElementTypeBitWidth(), ofDo.getElementTypeBitWidth());
    lanes = std::min<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(depth, perVector)), kLanes);
  }

  LogicalResult emit() {
    Value statistics = scalars.getStatistics(b, op, delta), numQueries = scalars.getExtent(b, op, dots.o, 2);
    if (!statistics || !numQueries)
      return failure();
    Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x), first = gpu::BlockIdOp::create(b, gpu::Dimension::x);
    head = gpu::BlockIdOp::create(b, gpu::Dimension::y), batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
    for (const AddedSums &added : sums)
      if (failed(added.groupSize > 1 ? clearOfGroup(added, first, thread) : clearOfQueries(added, first, thread)))
        return failure();
    lane = arith::RemUIOp::create(b, thread, index(lanes));
    Value begin = arith::MulIOp::create(b, first, index(kRows)), row = arith::DivUIOp::create(b, thread, index(lanes));
    int64_t tile = getTile();
    Value padded = arith::MulIOp::create(b, b.createOrFold<arith::CeilDivUIOp>(numQueries, index(tile)), index(tile));
    auto loop = scf::ForOp::create(b, index(0), index(kRows), index(kThreads / lanes));
    b.setInsertionPointToStart(loop.getBody());
    query = arith::AddIOp::create(b, arith::AddIOp::create(b, begin, loop.getInductionVar()), row);
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, query, numQueries);
    FailureOr<Value> sum = emitSum(exists);
    Value isWritten = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, query, padded);
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
    auto write = scf::IfOp::create(b, arith::AndIOp::create(b, isWritten, isFirst));
    b.setInsertionPointToStart(write.thenBlock());
    auto branch = scf::IfOp::create(b, TypeRange{b.getF32Type(), b.getF32Type()}, exists, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, ValueRange{constant(-std::numeric_limits<float>::infinity()), constant(0)});
    b.setInsertionPointToStart(branch.thenBlock());
    if (failed(sum) || failed(emitStatistics(*sum)))
      return failure();
    b.setInsertionPointAfter(branch);
    for (auto [number, value] : llvm::enumerate(branch.getResults()))
      memref::StoreOp::create(b, value, statistics, ValueRange{index(number), batch, head, query});
    b.setInsertionPointAfter(loop);
    gpu::ReturnOp::create(b);
    return success();
  }

private:
  /// The queries that statistics are rounded up to.
  int64_t getTile() {
    const TileTables &tables = signature.getTables();
    return tables.getTables()[*tables.getNumber(delta)].bytes / (2 * 4);
  }

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value constant(float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }

  /// The sums of this CTA's rows, which are a panel's.
  LogicalResult clearOfQueries(const AddedSums &added, Value rows, Value thread) {
    Value array = added.getArray(b, signature, scalars);
    if (!array)
      return failure();
    clear(array, head, rows, thread);
    return success();
  }

  /// This CTA's share of the sums of a head that a group of heads adds to: every n-th row of panels, of the n CTAs that
  /// the group has.
  LogicalResult clearOfGroup(const AddedSums &added, Value first, Value thread) {
    Value array = added.getArray(b, signature, scalars), end = added.countPanelRows(b, scalars);
    if (!array || !end)
      return failure();
    Value size = index(added.groupSize), ctas = gpu::GridDimOp::create(b, gpu::Dimension::x);
    Value member = arith::RemUIOp::create(b, head, size), shared = arith::DivUIOp::create(b, head, size);
    Value begin = arith::AddIOp::create(b, first, arith::MulIOp::create(b, member, ctas));
    auto rows = scf::ForOp::create(b, begin, end, arith::MulIOp::create(b, ctas, size));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    clear(array, shared, rows.getInductionVar(), thread);
    return success();
  }

  void clear(Value array, Value ofHead, Value rows, Value thread) {
    int64_t count = kBytes / 4;
    ArrayRef<int64_t> shape = cast<ShapedType>(array.getType()).getShape();
    auto panels = scf::ForOp::create(b, index(0), index(shape[3]), index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(panels.getBody());
    Value begin = arith::MulIOp::create(b, thread, index(count));
    auto elements = scf::ForOp::create(b, begin, index(shape[4]), index(kThreads * count));
    b.setInsertionPointToStart(elements.getBody());
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(VectorType::get({count}, b.getF32Type())));
    SmallVector<Value> place{batch, ofHead, rows, panels.getInductionVar(), elements.getInductionVar()};
    vector::StoreOp::create(b, zeros, array, place);
  }

  /// Yields the shift and delta of a query that exists.
  LogicalResult emitStatistics(Value sum) {
    SmallVector<Value> place{batch, head, query};
    Value ofScores = scalars.loadElement(b, op, lse, place);
    Value ofLse = dots.dlse ? scalars.loadElement(b, op, dots.dlse, place) : Value();
    if (!ofScores || (dots.dlse && !ofLse))
      return failure();
    Value lowest = constant(-std::numeric_limits<float>::infinity());
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, ofScores, lowest);
    Value shift = arith::MulFOp::create(b, ofScores, constant(-llvm::numbers::log2ef));
    shift = arith::SelectOp::create(b, isEmpty, lowest, shift);
    scf::YieldOp::create(b, ValueRange{shift, ofLse ? arith::SubFOp::create(b, sum, ofLse).getResult() : sum});
    return success();
  }

  /// What this lane's vectors of o and do give.
  Value emitProducts(ArrayRef<Value> arrays) {
    Value begin = arith::MulIOp::create(b, lane, index(perVector));
    auto loop = scf::ForOp::create(b, begin, index(depth), index(lanes * perVector), constant(0));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value, 2> vectors;
    for (Value array : arrays) {
      auto type = VectorType::get({perVector}, getElementTypeOrSelf(array.getType()));
      vectors.push_back(vector::LoadOp::create(b, type, array, ValueRange{batch, head, query, loop.getInductionVar()}));
    }
    Value total = loop.getRegionIterArg(0);
    for (int64_t number = 0; number < perVector; ++number) {
      SmallVector<Value, 2> factors;
      for (Value vector : vectors) {
        Value read = vector::ExtractOp::create(b, vector, number);
        factors.push_back(read.getType().isF32() ? read : arith::ExtFOp::create(b, b.getF32Type(), read));
      }
      total = math::FmaOp::create(b, factors[0], factors[1], total);
    }
    scf::YieldOp::create(b, total);
    return loop.getResult(0);
  }

  /// The sum of the row's products, in all lanes that share it.
  FailureOr<Value> emitSum(Value exists) {
    SmallVector<Value> arrays;
    for (Value source : {dots.o, dots.dout}) {
      BlockArgument argument = flash::getRootArgument(source);
      if (!argument)
        return op->emitError() << "expected o and do to be arguments of the function";
      arrays.push_back(signature.getMemRef(argument.getArgNumber(), kBytes));
    }
    auto branch = scf::IfOp::create(b, TypeRange{b.getF32Type()}, exists, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, emitProducts(arrays));
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, constant(0));
    }
    return emitLaneSum(b, branch.getResult(0), lanes);
  }

  ImplicitLocOpBuilder b;
  Operation *op;
  KernelSignature &signature;
  ScalarCloner scalars;
  Value delta, lse;
  flash::RowDots dots;
  ArrayRef<AddedSums> sums;
  /// Of a row: its elements, those of a vector, and the lanes that share it.
  int64_t depth, perVector, lanes;
  Value batch, head, query, lane;
};
} // namespace

FailureOr<ManifestKernel> flashc::emitDeltaKernel(func::FuncOp host, gpu::GPUFuncOp main, const TileTables &tables,
                                                  Value delta, Value lse, ArrayRef<AddedSums> sums) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return DeltaKernel(kernel, signature, delta, lse, sums).emit();
  };
  FailureOr<ManifestKernel> info =
      emitPlainKernel(host, main, (main.getName() + "_delta").str(), kThreads, tables, emit);
  if (failed(info))
    return failure();
  Value o = flash::matchRowDots(delta)->o;
  // Rows of padding behind the last one, too: those of a tile of queries at most.
  int64_t tile = tables.getTables()[*tables.getNumber(delta)].bytes / 8;
  info->grid = {ceilDiv(ceilDiv(*getFormula(o, 2), tile) * tile, kRows), *getFormula(o, 1), *getFormula(o, 0)};
  return info;
}
