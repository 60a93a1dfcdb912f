//===- GroupKernel.cpp - the kernel that adds up what the heads of a group gave -----------------------------------===//

#include "flashc/Conversion/HostToKernel/GroupKernel.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kGroupThreads = 256;

static GridFormula getSize(OpFoldResult extent) { return *getFormula(extent); }

FailureOr<TileTables::Table> GroupSums::getTable() const {
  if (!llvm::all_of(extents, [](OpFoldResult extent) { return getFormula(extent).has_value(); }))
    return op->emitOpError() << "expected extents that are constants or those of arguments";
  return TileTables::Table{op->getOperand(0), getSize(extents[0]) * getSize(extents[1]) * getSize(extents[2]),
                           /*bytes=*/4};
}

Value GroupSums::getInput(OpBuilder &b, KernelSignature &signature, ScalarCloner &scalars) const {
  Location loc = op->getLoc();
  SmallVector<OpFoldResult> sizes;
  for (OpFoldResult extent : extents) {
    Value size = scalars.get(b, loc, extent);
    if (!size)
      return {};
    sizes.push_back(size);
  }
  Value columns = cast<Value>(sizes[2]);
  Value batch = b.createOrFold<arith::MulIOp>(loc, cast<Value>(sizes[1]), columns);
  SmallVector<OpFoldResult> strides{batch, columns, b.getIndexAttr(1)};
  auto layout = StridedLayoutAttr::get(b.getContext(), /*offset=*/0, {ShapedType::kDynamic, ShapedType::kDynamic, 1});
  auto type = MemRefType::get(SmallVector<int64_t>(3, ShapedType::kDynamic), b.getF32Type(), layout);
  Value table = signature.getTable(*signature.getTables().getNumber(op->getOperand(0)));
  return memref::ReinterpretCastOp::create(b, loc, type, table, b.getIndexAttr(0), sizes, strides);
}

/// The kernel's body: CTA (n, hk, b), numbered with n the fastest, has columns 256 n to 256 n + 255.
static LogicalResult emitBody(ImplicitLocOpBuilder &b, KernelSignature &signature, const GroupSums &sums,
                              ArrayRef<unsigned> outputs) {
  ScalarCloner scalars(signature);
  Value input = sums.getInput(b, signature, scalars), queryHeads = scalars.get(b, b.getLoc(), sums.extents[1]);
  Value columns = scalars.get(b, b.getLoc(), sums.extents[2]);
  if (!input || !queryHeads || !columns)
    return failure();
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  Value group = index(sums.groupSize), threads = index(kGroupThreads);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x), heads = arith::DivUIOp::create(b, queryHeads, group);
  Value tiles = arith::CeilDivUIOp::create(b, columns, threads), rest = arith::DivUIOp::create(b, block, tiles);
  Value head = arith::RemUIOp::create(b, rest, heads), batch = arith::DivUIOp::create(b, rest, heads);
  Value first = arith::MulIOp::create(b, arith::RemUIOp::create(b, block, tiles), threads);
  Value column = arith::AddIOp::create(b, first, gpu::ThreadIdOp::create(b, gpu::Dimension::x));
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column, columns));
  b.setInsertionPointToStart(branch.thenBlock());
  Value sum = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  auto loop = scf::ForOp::create(b, index(0), group, index(1), sum);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value member = arith::AddIOp::create(b, arith::MulIOp::create(b, head, group), loop.getInductionVar());
    Value element = memref::LoadOp::create(b, input, ValueRange{batch, member, column});
    scf::YieldOp::create(b, arith::AddFOp::create(b, loop.getRegionIterArg(0), element).getResult());
  }
  for (unsigned output : outputs)
    memref::StoreOp::create(b, loop.getResult(0), signature.getMemRef(output), ValueRange{batch, head, column});
  b.setInsertionPointAfter(branch);
  gpu::ReturnOp::create(b);
  return success();
}

FailureOr<ManifestKernel> flashc::emitGroupKernel(func::FuncOp host, gpu::GPUFuncOp main, const TileTables &tables,
                                                  const GroupSums &sums, ArrayRef<unsigned> outputs) {
  ImplicitLocOpBuilder b(main.getLoc(), host.getContext());
  b.setInsertionPointToEnd(main->getBlock());
  ManifestKernel info;
  info.kernel = (main.getName() + "_groups").str();
  gpu::GPUFuncOp kernel = createPlainKernel(b, b.getLoc(), info.kernel, kGroupThreads);
  KernelSignature signature(host, kernel, tables);
  b.setInsertionPointToStart(&kernel.getBody().front());
  if (failed(emitBody(b, signature, sums, outputs)))
    return failure();
  signature.finish();
  info.parameters = signature.getParameters();
  GridFormula heads = ceilDiv(getSize(sums.extents[1]), sums.groupSize);
  info.grid = {ceilDiv(getSize(sums.extents[2]), kGroupThreads) * heads * getSize(sums.extents[0]), 1, 1};
  info.block[0] = kGroupThreads;
  return info;
}
