//===- SinkKernel.cpp - the kernel that computes the gradients of sinks -------------------------------------------===//

#include "flashc/Conversion/HostToKernel/SinkKernel.h"
#include "flashc/Launch/Launch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 512, kLanes = 32;

namespace {
/// Writes the kernel's body. CTA h has query head h; its threads take turns at the queries of all batches.
class SinkKernel {
public:
  SinkKernel(gpu::GPUFuncOp kernel, KernelSignature &signature, const SinkSums &sums)
      : b(kernel.getLoc(), kernel.getContext()), kernel(kernel), signature(signature), scalars(signature), sums(sums) {
    b.setInsertionPointToStart(&kernel.getBody().front());
  }

  LogicalResult emit() {
    Value scratch = emitScratch(b, kernel, kThreads / kLanes), thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    head = gpu::BlockIdOp::create(b, gpu::Dimension::x);
    Value sum = emitSumOfThread(thread);
    if (!sum)
      return failure();
    sum = emitLaneSum(b, sum, kLanes);
    Value lane = arith::RemUIOp::create(b, thread, index(kLanes)), warp = arith::DivUIOp::create(b, thread, index(kLanes));
    emitIfZero(lane, [&] { memref::StoreOp::create(b, sum, scratch, warp); });
    NVVM::Barrier0Op::create(b);
    emitIfZero(thread, [&] {
      Value total = memref::LoadOp::create(b, scratch, index(0));
      for (int64_t number = 1; number < kThreads / kLanes; ++number)
        total = arith::AddFOp::create(b, total, memref::LoadOp::create(b, scratch, index(number)));
      for (unsigned output : sums.outputs)
        memref::StoreOp::create(b, total, signature.getMemRef(output), head);
    });
    gpu::ReturnOp::create(b);
    return success();
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

  void emitIfZero(Value value, llvm::function_ref<void()> emitThen) {
    auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, index(0)));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emitThen();
  }

  /// Minus the sum of exp(sinks - lse) * delta over this thread's queries; null after an error.
  Value emitSumOfThread(Value thread) {
    Value statistics = scalars.getStatistics(b, sums.op, sums.of.delta);
    Value sink = scalars.loadElement(b, sums.op, sums.of.sinks, head);
    Value batches = scalars.getExtent(b, sums.op, sums.of.lse, 0), queries = scalars.getExtent(b, sums.op, sums.of.lse, 2);
    if (!statistics || !sink || !batches || !queries)
      return {};
    auto constant = [&](float value) -> Value { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); };
    Value exponent = arith::MulFOp::create(b, sink, constant(llvm::numbers::log2ef));
    auto loop = scf::ForOp::create(b, thread, arith::MulIOp::create(b, batches, queries), index(kThreads), constant(0));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value batch = arith::DivUIOp::create(b, loop.getInductionVar(), queries);
    Value query = arith::RemUIOp::create(b, loop.getInductionVar(), queries);
    auto load = [&](int64_t number) -> Value {
      return memref::LoadOp::create(b, statistics, ValueRange{index(number), batch, head, query});
    };
    Value shift = load(0), delta = load(1); // -log2(e) lse, and -inf where there is no key and no sink
    Value weight = math::Exp2Op::create(b, arith::AddFOp::create(b, exponent, shift));
    Value term = arith::MulFOp::create(b, weight, delta);
    scf::YieldOp::create(b, arith::SubFOp::create(b, loop.getRegionIterArg(0), term).getResult());
    return loop.getResult(0);
  }

  ImplicitLocOpBuilder b;
  gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  ScalarCloner scalars;
  const SinkSums &sums;
  Value head;
};
} // namespace

FailureOr<ManifestKernel> flashc::emitSinkKernel(func::FuncOp host, gpu::GPUFuncOp main, const TileTables &tables,
                                                 const SinkSums &sums) {
  std::optional<GridFormula> heads = getFormula(sums.of.lse, 1);
  if (!heads || !tables.getNumber(sums.of.delta))
    return sums.op->emitOpError() << "expected the lse and the delta of a nest";
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return SinkKernel(kernel, signature, sums).emit();
  };
  FailureOr<ManifestKernel> info =
      emitPlainKernel(host, main, (main.getName() + "_dsinks").str(), kThreads, tables, emit);
  if (succeeded(info))
    info->grid = {*heads, 1, 1};
  return info;
}
