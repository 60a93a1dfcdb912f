//===- ParallelAddSlice.cpp - additions to slices of one tensor by the iterations of a parallel loop --------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flash;

void ParallelAddSliceOp::build(OpBuilder &b, OperationState &result, Value source, Value dest,
                               ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes) {
  SmallVector<int64_t> staticOffsets, staticSizes, staticStrides(offsets.size(), 1);
  SmallVector<Value> dynamicOffsets, dynamicSizes;
  dispatchIndexOpFoldResults(offsets, dynamicOffsets, staticOffsets);
  dispatchIndexOpFoldResults(sizes, dynamicSizes, staticSizes);
  build(b, result, TypeRange(), source, dest, dynamicOffsets, dynamicSizes, ValueRange(),
        b.getDenseI64ArrayAttr(staticOffsets), b.getDenseI64ArrayAttr(staticSizes),
        b.getDenseI64ArrayAttr(staticStrides));
}

LogicalResult ParallelAddSliceOp::verify() {
  auto dest = dyn_cast<BlockArgument>(getDest());
  auto loop = dyn_cast_or_null<scf::ForallOp>((*this)->getParentOp()->getParentOp());
  if (!isa<InParallelOpInterface>((*this)->getParentOp()) || !loop || !dest || dest.getOwner() != loop.getBody())
    return emitOpError() << "expected an op in the terminator of an scf.forall that shares the destination (C1)";
  Type element = getSourceType().getElementType();
  if (!isa<FloatType>(element) || getDestType().getElementType() != element)
    return emitOpError() << "expected tensors of one float type, got " << getSourceType() << " and " << getDestType()
                         << " (C2)";
  if (getSourceType().getRank() != getDestType().getRank() ||
      failed(verifyCompatibleShape(getSourceType().getShape(), getStaticSizes())))
    return emitOpError() << "expected a source with the sizes of the slice, got " << getSourceType() << " (C2)";
  return success();
}

MutableOperandRange ParallelAddSliceOp::getUpdatedDestinations() { return getDestMutable(); }

Operation *ParallelAddSliceOp::getIteratingParent() { return (*this)->getParentOp()->getParentOp(); }

//===--------------------------------------------------------------------------------------------------------------===//
// BufferizableOpInterface
//===--------------------------------------------------------------------------------------------------------------===//

bool ParallelAddSliceOp::bufferizesToMemoryRead(OpOperand &, const bufferization::AnalysisState &) { return true; }

bool ParallelAddSliceOp::bufferizesToMemoryWrite(OpOperand &operand, const bufferization::AnalysisState &) {
  return operand == getDestMutable();
}

bufferization::AliasingValueList ParallelAddSliceOp::getAliasingValues(OpOperand &,
                                                                       const bufferization::AnalysisState &) {
  return {};
}

bool ParallelAddSliceOp::mustBufferizeInPlace(OpOperand &operand, const bufferization::AnalysisState &) {
  return operand == getDestMutable();
}

/// Adds the source to the slice of the destination, before the loop's terminator.
LogicalResult ParallelAddSliceOp::bufferize(RewriterBase &rewriter, const bufferization::BufferizationOptions &options,
                                            bufferization::BufferizationState &state) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint((*this)->getParentOp());
  FailureOr<Value> source = getBuffer(rewriter, getSource(), options, state);
  FailureOr<Value> dest = getBuffer(rewriter, getDest(), options, state);
  if (failed(source) || failed(dest))
    return failure();
  Value slice =
      memref::SubViewOp::create(rewriter, getLoc(), *dest, getMixedOffsets(), getMixedSizes(), getMixedStrides());
  linalg::AddOp::create(rewriter, getLoc(), ValueRange{slice, *source}, ValueRange{slice});
  rewriter.eraseOp(*this);
  return success();
}
