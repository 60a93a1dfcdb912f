//===- PackedOps.cpp - rows of packed sequences: constraints, shapes, and the ops as linalg -----------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::flash;

/// Verifies an op whose value `packed` has the packed rows, and whose value `batch` has the same rows in a batch.
static LogicalResult verifyRows(Operation *op, Value packed, Value batch, Value offsets) {
  auto packedType = cast<RankedTensorType>(packed.getType()), batchType = cast<RankedTensorType>(batch.getType());
  auto offsetsType = cast<ShapedType>(offsets.getType());
  if (offsetsType.getRank() != 1 || !offsets.getDefiningOp<AssumeSortedOp>())
    return op->emitOpError() << "expected offsets of rank 1 that flash.assume_sorted declares (C2), got "
                             << offsetsType;
  bool isSame = packedType.getRank() == batchType.getRank() && packedType.getRank() >= 3 && packedType.getRank() <= 4 &&
                packedType.getElementType() == batchType.getElementType() &&
                packedType.getShape().drop_front() == batchType.getShape().drop_front();
  if (!isSame || packedType.getDimSize(0) != 1)
    return op->emitOpError() << "expected packed rows of one batch, and as many heads, rows and columns in each "
                                "sequence (C1), got "
                             << packedType << " and " << batchType;
  int64_t sequences = batchType.getDimSize(0), count = offsetsType.getDimSize(0);
  if (!ShapedType::isDynamic(sequences) && !ShapedType::isDynamic(count) && count != sequences + 1)
    return op->emitOpError() << "expected an offset more than sequences (C1), got " << count << " and " << sequences;
  return success();
}

LogicalResult UnpackRowsOp::verify() { return verifyRows(*this, getSource(), getResult(), getOffsets()); }
LogicalResult PackRowsOp::verify() { return verifyRows(*this, getResult(), getSource(), getOffsets()); }

OpFoldResult mlir::flash::countSequences(OpBuilder &b, Location loc, Value offsets) {
  return affine::makeComposedFoldedAffineApply(b, loc, b.getAffineDimExpr(0) - 1,
                                               {tensor::getMixedSize(b, loc, offsets, 0)});
}

LogicalResult UnpackRowsOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(b, getLoc(), getSource()));
  shapes.front().front() = countSequences(b, getLoc(), getOffsets());
  return success();
}

LogicalResult PackRowsOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(b, getLoc(), getSource()));
  shapes.front().front() = b.getIndexAttr(1);
  return success();
}

Value mlir::flash::emitSequence(OpBuilder &builder, Location loc, Value begun, Value offsets) {
  ImplicitLocOpBuilder b(loc, builder);
  Value one = arith::ConstantIndexOp::create(b, 1), zero = arith::ConstantIndexOp::create(b, 0);
  Value count = getValueOrCreateConstantIndexOp(b, loc, countSequences(b, loc, offsets));
  Value last = b.createOrFold<arith::SubIOp>(count, one);
  Value number = arith::SubIOp::create(b, begun, one);
  return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, number, last), zero);
}

/// Emits a tensor with the extents of the result of `op`. `getElement` emits an element, from its indices and the
/// sequence of its row.
static FailureOr<SmallVector<Value>>
emitRows(OpBuilder &builder, Operation *op, Value offsets,
         llvm::function_ref<Value(ImplicitLocOpBuilder &, SmallVector<Value>, Value)> getElement) {
  ImplicitLocOpBuilder b(op->getLoc(), builder);
  ReifiedRankedShapedTypeDims shapes;
  if (failed(reifyResultShapes(b, op, shapes)))
    return failure();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Value empty = tensor::EmptyOp::create(b, shapes.front(), type.getElementType());
  SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
  auto rows = linalg::GenericOp::create(
      b, empty.getType(), ValueRange(), empty, b.getMultiDimIdentityMap(type.getRank()), loops,
      [&](OpBuilder &nested, Location loc, ValueRange) {
        ImplicitLocOpBuilder inside(loc, nested);
        SmallVector<Value> indices;
        for (int64_t dim = 0; dim < type.getRank(); ++dim)
          indices.push_back(linalg::IndexOp::create(inside, dim));
        Value begun = CountLeOp::create(inside, inside.getIndexType(), indices[2], offsets, ValueRange(),
                                        /*strict=*/false);
        linalg::YieldOp::create(inside, getElement(inside, indices, emitSequence(inside, loc, begun, offsets)));
      });
  return SmallVector<Value>{b.createOrFold<tensor::CastOp>(type, rows.getResult(0))};
}

FailureOr<SmallVector<Value>> UnpackRowsOp::decomposeOperation(OpBuilder &builder) {
  return emitRows(builder, *this, getOffsets(),
                  [&](ImplicitLocOpBuilder &b, SmallVector<Value> indices, Value sequence) -> Value {
                    Value isOfSequence = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, indices[0], sequence);
                    indices[0] = arith::ConstantIndexOp::create(b, 0);
                    Value element = tensor::ExtractOp::create(b, getSource(), indices);
                    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element.getType()));
                    return arith::SelectOp::create(b, isOfSequence, element, zero);
                  });
}

FailureOr<SmallVector<Value>> PackRowsOp::decomposeOperation(OpBuilder &builder) {
  return emitRows(builder, *this, getOffsets(),
                  [&](ImplicitLocOpBuilder &b, SmallVector<Value> indices, Value sequence) -> Value {
                    indices[0] = sequence;
                    return tensor::ExtractOp::create(b, getSource(), indices);
                  });
}
