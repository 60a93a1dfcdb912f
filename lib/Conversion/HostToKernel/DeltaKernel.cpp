//===- DeltaKernel.cpp - the kernel that computes the delta of a backward pass ------------------------------------===//

#include "flashc/Conversion/HostToKernel/DeltaKernel.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kDeltaThreads = 256, kLanes = 32;

FailureOr<TileTables::Table> flashc::getDeltaTable(Value delta) {
  Value o = flash::matchRowDots(delta)->o;
  std::optional<GridFormula> batches = getFormula(o, 0), heads = getFormula(o, 1), rows = getFormula(o, 2);
  if (!batches || !heads || !rows)
    return delta.getDefiningOp()->emitOpError() << "expected extents that are constants or those of arguments";
  return TileTables::Table{delta, *batches * *heads * *rows, /*bytes=*/4};
}

namespace {
/// Writes the kernel's body. Warp w of all has row w of the table, and lane l of it the elements l, l + 32, ... of o and
/// do.
class DeltaKernel {
public:
  DeltaKernel(gpu::GPUFuncOp kernel, KernelSignature &signature, Value delta)
      : b(kernel.getLoc(), kernel.getContext()), signature(signature), scalars(signature), delta(delta),
        dots(*flash::matchRowDots(delta)) {
    b.setInsertionPointToStart(&kernel.getBody().front());
  }

  LogicalResult emit() {
    Operation *op = delta.getDefiningOp();
    SmallVector<Value> extents;
    for (int64_t dim : {0, 1, 2})
      extents.push_back(scalars.getExtent(b, op, dots.o, dim));
    if (llvm::is_contained(extents, Value()))
      return failure();
    Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x), block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
    Value lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
    Value row = arith::AddIOp::create(b, arith::MulIOp::create(b, block, index(kDeltaThreads / kLanes)),
                                      arith::ShRUIOp::create(b, thread, index(5)));
    Value heads = arith::MulIOp::create(b, extents[0], extents[1]);
    Value count = arith::MulIOp::create(b, heads, extents[2]);
    auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, count));
    b.setInsertionPointToStart(branch.thenBlock());
    Value query = arith::RemUIOp::create(b, row, extents[2]), rest = arith::DivUIOp::create(b, row, extents[2]);
    Value head = arith::RemUIOp::create(b, rest, extents[1]), batch = arith::DivUIOp::create(b, rest, extents[1]);
    FailureOr<Value> sum = emitSum(op, {batch, head, query}, lane);
    if (failed(sum))
      return failure();
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
    auto first = scf::IfOp::create(b, isFirst);
    b.setInsertionPointToStart(first.thenBlock());
    Value result = *sum;
    if (dots.dlse) {
      Value less = scalars.loadElement(b, op, dots.dlse, {batch, head, query});
      if (!less)
        return failure();
      result = arith::SubFOp::create(b, result, less);
    }
    memref::StoreOp::create(b, result, signature.getTable(*signature.getTables().getNumber(delta)), row);
    b.setInsertionPointAfter(branch);
    gpu::ReturnOp::create(b);
    return success();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

  /// The sum of the row's products, in all lanes.
  FailureOr<Value> emitSum(Operation *op, ArrayRef<Value> place, Value lane) {
    int64_t depth = cast<ShapedType>(dots.o.getType()).getDimSize(3);
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
    auto loop = scf::ForOp::create(b, lane, index(depth), index(kLanes), zero);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      SmallVector<Value> position(place);
      position.push_back(loop.getInductionVar());
      Value product;
      for (Value array : {dots.o, dots.dout}) {
        Value element = scalars.loadElement(b, op, array, position);
        if (!element)
          return failure();
        if (!element.getType().isF32())
          element = arith::ExtFOp::create(b, b.getF32Type(), element);
        product = product ? arith::MulFOp::create(b, product, element).getResult() : element;
      }
      scf::YieldOp::create(b, arith::AddFOp::create(b, loop.getRegionIterArg(0), product).getResult());
    }
    Value sum = loop.getResult(0);
    auto i32 = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); };
    for (int64_t distance = kLanes / 2; distance > 0; distance /= 2) {
      Value other = NVVM::ShflOp::create(b, b.getF32Type(), i32(-1), sum, i32(distance), /*mask_and_clamp=*/i32(kLanes - 1),
                                         NVVM::ShflKind::bfly, /*return_value_and_is_valid=*/UnitAttr());
      sum = arith::AddFOp::create(b, sum, other);
    }
    return sum;
  }

  ImplicitLocOpBuilder b;
  KernelSignature &signature;
  ScalarCloner scalars;
  Value delta;
  flash::RowDots dots;
};
} // namespace

FailureOr<ManifestKernel> flashc::emitDeltaKernel(func::FuncOp host, gpu::GPUFuncOp main, const TileTables &tables,
                                                  Value delta) {
  OpBuilder b(host.getContext());
  b.setInsertionPointToEnd(main->getBlock());
  ManifestKernel info;
  info.kernel = (main.getName() + "_delta").str();
  gpu::GPUFuncOp kernel = createPlainKernel(b, main.getLoc(), info.kernel, kDeltaThreads);
  KernelSignature signature(host, kernel, tables);
  if (failed(DeltaKernel(kernel, signature, delta).emit()))
    return failure();
  signature.finish();
  info.parameters = signature.getParameters();
  GridFormula rows = tables.getTables()[*tables.getNumber(delta)].tiles;
  info.grid = {ceilDiv(rows, kDeltaThreads / kLanes), 1, 1};
  info.block[0] = kDeltaThreads;
  return info;
}
