//===- ColumnSumsStep.cpp - flash.accumulate_column_sums on tiles -------------------------------------------------===//

#include "Steps/ColumnSumsStep.h"
#include "Regions/ScoreMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

SmallVector<Value> ColumnSumsStep::emitIdentity() {
  return {frame.splat(tile::getLanePartialType(b.getContext()), 0.0)};
}

FailureOr<SmallVector<Value>> ColumnSumsStep::emit(Value visit, ValueRange state) {
  RankedTensorType type = tile::getAccType(nest.streamedTile, b.getF32Type());
  Value query = frame.visits.emitPosition(b, visit);
  auto product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), type), frame.getResident("k"),
                                          frame.loadStreamed("q", query), /*acc=*/Value(), /*ones=*/Value(),
                                          /*transpose_b=*/true, /*stage=*/0);
  if (frame.visits.isInTable()) // again: what masks need comes from memory, while the product is in flight
    query = frame.visits.emitPosition(b, visit);
  // With overlap the next tile's product runs beside this one's exponentials.
  Value products = tile::MmaWaitOp::create(b, type, product, /*pending=*/0, /*read_stage=*/1);
  Value probabilities = emitProbabilities(visit, query, products);
  if (!probabilities)
    return failure();
  Value sums = tile::RowReduceOp::create(b, state.front().getType(), tile::ReduceKind::Sum, probabilities);
  return SmallVector<Value>{arith::AddFOp::create(b, state.front(), sums)};
}

/// exp(score - lse), and 0 where the mask keeps nothing. Null after an error.
Value ColumnSumsStep::emitProbabilities(Value visit, Value query, Value products) {
  double factor = frame.regions.getScale();
  if (frame.regions.hasScoreMap()) {
    tile::MapOp map = frame.regions.emitScore(products, query, frame.emitIsMasked(visit));
    if (!map)
      return {};
    ScoreMap simple = simplifyScoreMap(map, /*canSplit=*/false, /*toProduct=*/false, nest.mask);
    products = simple.map.getResult(), factor = simple.factor;
  }
  Value exponentials = emitExponentials(visit, query, products, factor * llvm::numbers::log2e);
  if (!exponentials)
    return {};
  auto masked = frame.emitWhereMasked(visit, exponentials, [&]() -> FailureOr<SmallVector<Value>> {
    Value kept = frame.regions.emitMask(exponentials, query, 0.0);
    if (!kept)
      return failure();
    return SmallVector<Value>{kept};
  });
  return succeeded(masked) ? masked->front() : Value();
}

/// 2^(factor * s - log2(e) * lse). A column whose log-sum-exp is -inf has seen nothing, and gives 0. The multiply-add
/// rounds by the size of the log-sum-exp, as that is itself.
Value ColumnSumsStep::emitExponentials(Value visit, Value query, Value scores, double factor) {
  Value isMasked = frame.emitIsMasked(visit);
  auto map = tile::MapOp::create(b, scores, frame.row, query);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&map.getBody(), {}, {b.getF32Type(), b.getIndexType(), b.getIndexType()},
                              SmallVector<Location>(3, b.getLoc()));
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  };
  Value element = frame.loadStreamedElement("lse", body->getArgument(2), isMasked);
  if (!element)
    return {};
  Value lowest = constant(-std::numeric_limits<double>::infinity());
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, element, lowest);
  Value shift = arith::MulFOp::create(b, element, constant(-llvm::numbers::log2e));
  shift = arith::SelectOp::create(b, isEmpty, lowest, shift);
  Value exponent = math::FmaOp::create(b, body->getArgument(0), constant(factor), shift);
  tile::YieldOp::create(b, math::Exp2Op::create(b, exponent));
  return map.getResult();
}

LogicalResult ColumnSumsStep::emitOutputs(ValueRange state) {
  Value sums = tile::CombineOp::create(b, tile::getRowType(b.getF32Type()), state.front());
  FailureOr<SmallVector<Value>> destinations = frame.getDestinations(/*result=*/0);
  if (failed(destinations))
    return failure();
  for (Value destination : *destinations)
    tile::StoreOp::create(b, sums, destination, frame.batch, frame.head, frame.row, frame.endOfRows);
  return success();
}

StepShape flashc::getColumnSumsShape(const LoopNest &nest) {
  int64_t depth = nest.getOperand("k").getCols();
  return {depth, /*valueDepth=*/0, KernelOutputs{/*hasLse=*/false, /*hasInputType=*/true}};
}

