//===- KernelBody.cpp - what the code of launch kernels has in common ---------------------------------------------===//

#include "KernelBody.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;

/// Returns `type`, a scalar or vector, with another element type.
static Type withElement(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.clone(element) : element;
}

Value KernelBody::round(Value x, Type element) {
  Type type = withElement(x.getType(), element);
  return type == x.getType() ? x : arith::TruncFOp::create(b, type, x).getResult();
}

Value KernelBody::widen(Value x) {
  Type type = withElement(x.getType(), b.getF32Type());
  return type == x.getType() ? x : arith::ExtFOp::create(b, type, x).getResult();
}

void KernelBody::emitIf(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

Value KernelBody::emitIf(Value condition, Value otherwise, llvm::function_ref<Value()> emitThen) {
  auto branch = scf::IfOp::create(b, otherwise.getType(), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, otherwise);
  b.setInsertionPointToStart(branch.thenBlock());
  Value result = emitThen();
  if (!result)
    return {};
  scf::YieldOp::create(b, result);
  return branch.getResult(0);
}

void KernelBody::emitFor(Value begin, Value end, Value step, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, begin, end, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value KernelBody::emitFor(Value begin, Value end, Value step, Value init,
                          llvm::function_ref<Value(Value, Value)> body) {
  auto loop = scf::ForOp::create(b, begin, end, step, init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
  if (!next)
    return {};
  scf::YieldOp::create(b, next);
  return loop.getResult(0);
}

Value KernelBody::emitLaneSum(Value value, int64_t lanes) {
  auto i32 = [&](int64_t number) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(number)); };
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    Value other = NVVM::ShflOp::create(b, b.getF32Type(), i32(-1), value, i32(distance), /*mask_and_clamp=*/i32(31),
                                       NVVM::ShflKind::bfly, /*return_value_and_is_valid=*/UnitAttr());
    value = addF(value, other);
  }
  return value;
}

Value KernelBody::emitScratch(int64_t warps) {
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({warps}, b.getF32Type(), MemRefLayoutAttrInterface(), space);
  std::string name = (kernel.getName() + "_scratch").str();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(kernel);
    memref::GlobalOp::create(b, name, b.getStringAttr("private"), type, b.getUnitAttr(), /*constant=*/false,
                             /*alignment=*/IntegerAttr());
  }
  return memref::GetGlobalOp::create(b, type, name);
}

void KernelBody::shareSum(Value value, Value thread, Value scratch) {
  value = emitLaneSum(value, kLanes);
  Value lane = rem(thread, kLanes), warp = div(thread, kLanes);
  emitIf(isZero(lane), [&] { memref::StoreOp::create(b, value, scratch, warp); });
  NVVM::Barrier0Op::create(b);
}

Value KernelBody::emitSharedSum(Value scratch) {
  Value total = memref::LoadOp::create(b, scratch, index(0));
  for (int64_t warp = 1; warp < cast<MemRefType>(scratch.getType()).getDimSize(0); ++warp)
    total = addF(total, memref::LoadOp::create(b, scratch, index(warp)));
  return total;
}

FailureOr<ManifestKernel>
flashc::emitPlainKernel(const LaunchContext &context, StringRef suffix, int64_t threads,
                        llvm::function_ref<LogicalResult(gpu::GPUFuncOp, KernelSignature &)> emitBody) {
  func::FuncOp host = context.host;
  OpBuilder b = OpBuilder::atBlockEnd(gpu::GPUModuleOp(context.module).getBody());
  std::string name = (host.getName() + suffix).str();
  gpu::GPUFuncOp kernel = createPlainKernel(b, host.getLoc(), name, threads);
  KernelSignature signature(host, kernel, context.tables);
  if (failed(emitBody(kernel, signature)))
    return failure();
  b.setInsertionPointToEnd(&kernel.getBody().front());
  gpu::ReturnOp::create(b, host.getLoc());
  signature.finish();
  ManifestKernel info;
  info.kernel = name;
  info.parameters = signature.getParameters();
  info.block[0] = threads;
  return info;
}

FailureOr<TileTables::Table> flashc::getArrayTable(Value value, ArrayRef<OpFoldResult> extents, bool isNumbered) {
  std::optional<GridFormula> elements;
  for (OpFoldResult extent : extents) {
    std::optional<GridFormula> size = getFormula(extent);
    if (!size)
      return emitError(value.getLoc()) << "expected extents that are constants or those of arguments";
    if (!elements)
      elements = *size;
    else
      elements = isNumbered ? *elements * *size : mul64(*elements, *size);
  }
  return TileTables::Table{value, ceilDiv(*elements, 4), /*bytes=*/16};
}
