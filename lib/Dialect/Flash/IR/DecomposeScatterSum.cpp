//===- DecomposeScatterSum.cpp - flash.scatter_sum as loops -------------------------------------------------------===//
//
// for each element x of the sums, in ascending order, at the position (b, h, i, j): init[index(b, h, i, j)] += x
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::flash;

SmallVector<Value> mlir::flash::emitPairOfSum(OpBuilder &builder, Location loc, Gradients gradients, ValueRange at,
                                              Value queries) {
  ImplicitLocOpBuilder b(loc, builder);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  if (gradients == Gradients::Rows)
    return {at[0], at[1], at[2], zero};
  if (gradients == Gradients::Columns)
    return {at[0], at[1], zero, at[2]};
  if (gradients == Gradients::Pairs)
    return llvm::to_vector(at);
  Value last = arith::SubIOp::create(b, queries, arith::ConstantIndexOp::create(b, 1));
  Value distance = arith::SubIOp::create(b, at[2], last); // j - i
  Value i = arith::MaxSIOp::create(b, arith::SubIOp::create(b, zero, distance), zero);
  Value j = arith::MaxSIOp::create(b, distance, zero);
  return {at[0], at[1], i, j};
}

/// The op has no decomposition: flash-differentiate-captures replaces it.
FailureOr<SmallVector<Value>> CapturedGradientOp::decomposeOperation(OpBuilder &) { return failure(); }

FailureOr<SmallVector<Value>> ScatterSumOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  SmallVector<Value> zeros, ones, extents;
  for (OpFoldResult extent : tensor::getMixedSizes(b, getLoc(), getSums())) {
    zeros.push_back(arith::ConstantIndexOp::create(b, 0));
    ones.push_back(arith::ConstantIndexOp::create(b, 1));
    extents.push_back(getValueOrCreateConstantIndexOp(b, getLoc(), extent));
  }
  auto nest = scf::buildLoopNest(
      b, getLoc(), zeros, extents, ones, getInit(),
      [&](OpBuilder &inner, Location loc, ValueRange at, ValueRange states) -> scf::ValueVector {
        IRMapping mapping;
        mapping.map(getIndex().getArguments(), emitPairOfSum(inner, loc, getGradients(), at, getQueries()));
        for (Operation &op : getIndex().front().without_terminator())
          inner.clone(op, mapping);
        SmallVector<Value> indices =
            llvm::map_to_vector(getIndices(), [&](Value index) { return mapping.lookupOrDefault(index); });
        Value element = tensor::ExtractOp::create(inner, loc, getSums(), at);
        Value before = tensor::ExtractOp::create(inner, loc, states.front(), indices);
        Value sum = arith::AddFOp::create(inner, loc, before, element);
        return {tensor::InsertOp::create(inner, loc, sum, states.front(), indices)};
      });
  return SmallVector<Value>(nest.results);
}
