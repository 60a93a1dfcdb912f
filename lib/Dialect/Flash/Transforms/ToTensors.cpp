//===- ToTensors.cpp - attention on memrefs becomes attention on tensors ------------------------------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"

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

AttentionOp mlir::flash::convertToTensors(RewriterBase &rewriter, AttentionOp op) {
  if (op.hasTensorSemantics())
    return op;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  // Two `restrict` views of one memref would contradict each other.
  DenseMap<Value, Value> views;
  SmallVector<Value> inputs;
  for (Value input : {op.getQ(), op.getK(), op.getV()}) {
    Value &view = views[input];
    if (!view)
      view = bufferization::ToTensorOp::create(rewriter, loc, getTensorType(input), input, /*restrict=*/true);
    inputs.push_back(view);
  }
  SmallVector<Type> types{getTensorType(op.getOuts()[0]), getTensorType(op.getOuts()[1])};
  auto attention = AttentionOp::create(rewriter, loc, types, inputs[0], inputs[1], inputs[2], ValueRange{},
                                       op.getScaleAttr(), op.getGroupSizeAttr());
  rewriter.inlineRegionBefore(op.getScore(), attention.getScore(), attention.getScore().end());
  rewriter.inlineRegionBefore(op.getMask(), attention.getMask(), attention.getMask().end());
  for (auto [result, out] : llvm::zip_equal(attention.getResults(), op.getOuts())) {
    auto write = bufferization::MaterializeInDestinationOp::create(rewriter, loc, result, out);
    write.setRestrict(true);
    write.setWritable(true);
  }
  rewriter.eraseOp(op);
  return attention;
}

namespace {
struct ToTensors : flash::impl::ToTensorsBase<ToTensors> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AttentionOp op) { convertToTensors(rewriter, op); });
  }
};
} // namespace
