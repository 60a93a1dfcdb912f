//===- SinkKernel.cpp - the kernel that computes the gradients of sinks -------------------------------------------===//

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 512;

namespace {
/// CTA h has query head h. Its threads take turns over the queries of all batches in a fixed order, so that equal
/// arguments give equal bits.
class SinkBody : public KernelBody {
public:
  SinkBody(gpu::GPUFuncOp kernel, KernelSignature &signature, Operation *op, const flash::SinkGradients &of,
           ArrayRef<unsigned> outputs)
      : KernelBody(kernel, signature), op(op), of(of), outputs(outputs) {}

  LogicalResult emit() {
    Value scratch = emitScratch(kThreads / kLanes), number = thread(), head = block();
    Value sum = emitSumOfThread(number, head);
    if (!sum)
      return failure();
    shareSum(sum, number, scratch);
    emitIf(isZero(number), [&] {
      Value total = emitSharedSum(scratch);
      for (unsigned output : outputs)
        memref::StoreOp::create(b, total, signature.getMemRef(output), head);
    });
    return success();
  }

private:
  /// Returns minus the sum of exp(sink - lse) * delta over this thread's queries. Null after an error.
  Value emitSumOfThread(Value thread, Value head) {
    Value statistics = scalars.getStatistics(b, op, of.delta), sink = scalars.loadElement(b, op, of.sinks, head);
    Value batches = scalars.getExtent(b, op, of.lse, 0), queries = scalars.getExtent(b, op, of.lse, 2);
    if (!statistics || !sink || !batches || !queries)
      return {};
    Value exponent = mulF(sink, constant(llvm::numbers::log2ef));
    return emitFor(thread, mul(batches, queries), index(kThreads), constant(0), [&](Value number, Value sum) -> Value {
      Value batch = div(number, queries), query = rem(number, queries);
      auto load = [&](int64_t number) -> Value {
        return memref::LoadOp::create(b, statistics, ValueRange{index(number), batch, head, query});
      };
      Value shift = load(0), delta = load(1); // shift: -log2(e) lse, or -inf if the query sees neither a key nor a sink
      Value weight = math::Exp2Op::create(b, addF(exponent, shift));
      return arith::SubFOp::create(b, sum, mulF(weight, delta));
    });
  }

  Operation *op;
  const flash::SinkGradients &of;
  ArrayRef<unsigned> outputs;
};

/// Computes the gradients of the sinks (flash::emitSinkGradients) from the table that DeltaKernel writes.
class SinkKernel : public LaunchKernel {
public:
  SinkKernel(linalg::GenericOp op, const flash::SinkGradients &of, func::FuncOp func)
      : LaunchKernel(op, findOutputs(func, op.getResult(0))), of(of) {}

  Time getTime() const override { return Time::Last; }

  void addRoles(LaunchRoles &roles) const override {
    if (BlockArgument sinks = flash::getRootArgument(of.sinks))
      roles.roles.push_back({{"sinks", 0, {flash::StepDim::H}}, {sinks.getArgNumber()}, /*isOutput=*/false});
    roles.roles.push_back({{"dsinks", 0, {flash::StepDim::H}}, outputs, /*isOutput=*/true});
  }

  FailureOr<ManifestKernel> emit(const LaunchNest &, const LaunchContext &context) const override {
    std::optional<GridFormula> heads = getFormula(of.lse, 1);
    if (!heads || !context.tables.getNumber(of.delta))
      return op->emitOpError() << "expected the lse and the delta of a nest";
    return emitKernel<SinkBody>(context, "_dsinks", kThreads, {*heads, 1, 1}, op, of, outputs);
  }

private:
  flash::SinkGradients of;
};
} // namespace

void flashc::matchSink(LaunchNest &nest) {
  nest.func.walk([&](linalg::GenericOp op) {
    if (std::optional<flash::SinkGradients> of = flash::matchSinkGradients(op.getResult(0)))
      nest.kernels.push_back(std::make_unique<SinkKernel>(op, *of, nest.func));
  });
}
