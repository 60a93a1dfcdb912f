//===- ToTensors.cpp - ops on memrefs become ops on tensors ----------------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::flash {
#define GEN_PASS_DEF_TOTENSORS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

static RankedTensorType getTensorType(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

void mlir::flash::convertToTensors(RewriterBase &rewriter, WholeOpInterface op) {
  size_t numInputs = op.getInputs().size();
  if (isa<RankedTensorType>(op.getQ().getType()))
    return;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  // Each memref becomes one `restrict` tensor, even if it is passed twice. Two such tensors of one memref would
  // contradict each other.
  DenseMap<Value, Value> views;
  SmallVector<Value> inputs;
  for (Value input : op->getOperands().take_front(numInputs)) {
    Value &view = views[input];
    if (!view)
      view = bufferization::ToTensorOp::create(rewriter, loc, getTensorType(input), input, /*restrict=*/true);
    inputs.push_back(view);
  }
  ValueRange outs = op->getOperands().drop_front(numInputs);
  Operation *onTensors =
      clone(rewriter, op, llvm::map_to_vector<2>(outs, [](Value out) -> Type { return getTensorType(out); }), inputs);
  TypeSwitch<Operation *>(onTensors).Case<AttentionOp, AttentionBackwardOp>(
      [](auto whole) { whole.getProperties().operandSegmentSizes.back() = 0; });
  for (auto [result, out] : llvm::zip_equal(onTensors->getResults(), outs)) {
    auto write = bufferization::MaterializeInDestinationOp::create(rewriter, loc, result, out);
    write.setRestrict(true);
    write.setWritable(true);
  }
  rewriter.eraseOp(op);
}

namespace {
struct ToTensors : flash::impl::ToTensorsBase<ToTensors> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](WholeOpInterface op) { convertToTensors(rewriter, op); });
  }
};
} // namespace
