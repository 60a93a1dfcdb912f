//===- DecomposeColumnSums.cpp - sums of columns as linalg -------------------------------------------------------===//
//
//   flash.column_sums             S, c = colsum(exp(S - lse))     (Algorithm 0)
//   flash.accumulate_column_sums  the same, added to the running sums
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;

/// Emits c + colsum(exp(S - lse)).
static Value emitColumnSums(ImplicitLocOpBuilder &b, Value scores, Value lse, Value c) {
  return generic(b, 4, {{scores, {B, H, I, J}}, {lse, {B, H, I}}}, {c, {B, H, J}},
                 [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                   return arith::AddFOp::create(b, args[2], emitWeight(b, args[0], args[1]));
                 });
}

FailureOr<SmallVector<Value>> ColumnSumsOp::decomposeOperation(OpBuilder &builder) {
  if (!hasTensorSemantics())
    return failure();
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value scores = emitScores(b, *this, emitQK(b, *this), SmallVector<Value>(4));
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, getLoc(), scores);
  sizes.erase(sizes.begin() + I);
  Value c = emitColumnSums(b, scores, getLse(), filledTensor(b, sizes, 0.0f));
  if (getSumGroups())
    c = emitGroupSums(b, getLoc(), c, tensor::getMixedSize(b, getLoc(), getK(), 1), getGroup());
  SmallVector<Value> results{c};
  castResults(b, results, *this);
  return results;
}

FailureOr<SmallVector<Value>> AccumulateColumnSumsOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value scores = emitScores(b, *this, emitQK(b, *this), llvm::to_vector_of<Value>(getPosition()));
  return SmallVector<Value>{emitColumnSums(b, scores, getLse(), getC())};
}
