//===- GroupKernel.cpp - the kernel that adds up what the heads of a group gave -----------------------------------===//

#include "flashc/Conversion/HostToKernel/GroupKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kGroupThreads = 256;

/// Elements that a thread has: as many as 16 bytes of the rounded ones, where there is a fourth dimension.
static int64_t getWidth(const GroupSums &sums) { return sums.extents.size() == 4 ? 8 : 1; }

static GridFormula getSize(OpFoldResult extent) { return *getFormula(extent); }

FailureOr<TileTables::Table> GroupSums::getTable() const { return getArrayTable(op->getOperand(0), extents); }

Value GroupSums::getInput(OpBuilder &b, KernelSignature &signature, ScalarCloner &scalars) const {
  return scalars.getTableArray(b, op->getOperand(0), extents);
}

/// The kernel's body: CTA (n, hk, b), numbered with n the fastest, has columns 256 n to 256 n + 255. Where there is a
/// fourth dimension, a column is eight of its elements.
static LogicalResult emitBody(ImplicitLocOpBuilder &b, KernelSignature &signature, const GroupSums &sums,
                              ArrayRef<unsigned> outputs) {
  ScalarCloner scalars(signature);
  Value input = sums.getInput(b, signature, scalars), queryHeads = scalars.get(b, b.getLoc(), sums.extents[1]);
  Value columns = scalars.get(b, b.getLoc(), sums.extents[2]);
  if (!input || !queryHeads || !columns)
    return failure();
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  int64_t width = getWidth(sums);
  Value depth = width > 1 ? index(*getConstantIntValue(sums.extents[3]) / width) : Value();
  if (depth)
    columns = arith::MulIOp::create(b, columns, depth);
  Value group = index(sums.groupSize), threads = index(kGroupThreads);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x), heads = arith::DivUIOp::create(b, queryHeads, group);
  Value tiles = arith::CeilDivUIOp::create(b, columns, threads), rest = arith::DivUIOp::create(b, block, tiles);
  Value head = arith::RemUIOp::create(b, rest, heads), batch = arith::DivUIOp::create(b, rest, heads);
  Value first = arith::MulIOp::create(b, arith::RemUIOp::create(b, block, tiles), threads);
  Value column = arith::AddIOp::create(b, first, gpu::ThreadIdOp::create(b, gpu::Dimension::x));
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column, columns));
  b.setInsertionPointToStart(branch.thenBlock());
  auto getPlace = [&](Value ofHead) -> SmallVector<Value> {
    if (!depth)
      return {batch, ofHead, column};
    Value first = b.createOrFold<arith::MulIOp>(b.createOrFold<arith::RemUIOp>(column, depth), index(width));
    return {batch, ofHead, b.createOrFold<arith::DivUIOp>(column, depth), first};
  };
  auto getType = [&](Type element) { return depth ? VectorType::get({width}, element) : element; };
  Value sum = arith::ConstantOp::create(b, b.getZeroAttr(getType(b.getF32Type())));
  auto loop = scf::ForOp::create(b, index(0), group, index(1), sum);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value member = arith::AddIOp::create(b, arith::MulIOp::create(b, head, group), loop.getInductionVar());
    Value element = depth ? vector::LoadOp::create(b, cast<VectorType>(sum.getType()), input, getPlace(member)).getResult()
                          : memref::LoadOp::create(b, input, getPlace(member)).getResult();
    scf::YieldOp::create(b, arith::AddFOp::create(b, loop.getRegionIterArg(0), element).getResult());
  }
  for (unsigned output : outputs) {
    Value array = signature.getMemRef(output, /*alignment=*/depth ? 16 : 0), rounded = loop.getResult(0);
    if (Type type = getType(getElementTypeOrSelf(array.getType())); type != rounded.getType())
      rounded = arith::TruncFOp::create(b, type, rounded);
    if (depth)
      vector::StoreOp::create(b, rounded, array, getPlace(head));
    else
      memref::StoreOp::create(b, rounded, array, getPlace(head));
  }
  b.setInsertionPointAfter(branch);
  gpu::ReturnOp::create(b);
  return success();
}

FailureOr<ManifestKernel> flashc::emitGroupKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef name,
                                                  const TileTables &tables, const GroupSums &sums,
                                                  ArrayRef<unsigned> outputs) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
    return emitBody(b, signature, sums, outputs);
  };
  FailureOr<ManifestKernel> info = emitPlainKernel(host, main, name, kGroupThreads, tables, emit);
  if (failed(info))
    return failure();
  GridFormula heads = ceilDiv(getSize(sums.extents[1]), sums.groupSize);
  GridFormula columns = getSize(sums.extents[2]);
  if (sums.extents.size() == 4)
    columns = columns * (*getConstantIntValue(sums.extents[3]) / getWidth(sums));
  info->grid = {ceilDiv(columns, kGroupThreads) * heads * getSize(sums.extents[0]), 1, 1};
  return info;
}
