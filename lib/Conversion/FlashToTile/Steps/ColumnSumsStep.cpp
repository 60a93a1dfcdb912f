//===- ColumnSumsStep.cpp - flash.accumulate_column_sums on tiles -------------------------------------------------===//

#include "Steps/ColumnSumsStep.h"
#include "Steps/Weights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

SmallVector<Value> ColumnSumsStep::emitIdentity() { return {frame.splat(frame.getLanePartialType(), 0.0)}; }

FailureOr<SmallVector<Value>> ColumnSumsStep::emit(Value visit, ValueRange state) {
  RankedTensorType type = frame.getAccType(nest.streamedTile);
  Value query = frame.visits.emitPosition(b, visit);
  auto product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), type), frame.getResident("k"),
                                          frame.loadStreamed("q", query), /*acc=*/Value(), /*ones=*/Value(),
                                          /*transpose_b=*/true, /*stage=*/0);
  if (frame.visits.isInTable()) // the query is read again, so that the mask's values are loaded while the product runs
    query = frame.visits.emitPosition(b, visit);
  Value products = tile::MmaWaitOp::create(b, type, product, /*pending=*/0, /*read_stage=*/1);
  Value probabilities = emitWeights(frame, visit, query, products, /*lse=*/Value());
  if (!probabilities)
    return failure();
  Value sums = tile::RowReduceOp::create(b, state.front().getType(), tile::ReduceKind::Sum, probabilities);
  return SmallVector<Value>{arith::AddFOp::create(b, state.front(), sums)};
}

LogicalResult ColumnSumsStep::emitOutputs(ValueRange state) {
  Value sums = tile::CombineOp::create(b, frame.getRowType(), state.front());
  FailureOr<SmallVector<Value>> destinations = frame.getDestinations(/*result=*/0);
  if (failed(destinations))
    return failure();
  for (Value destination : *destinations)
    tile::StoreOp::create(b, sums, destination, frame.batch, frame.head, frame.row, frame.endOfRows,
                          /*columns=*/ValueRange());
  return success();
}

StepShape flashc::getColumnSumsShape(const LoopNest &nest) {
  int64_t depth = nest.getOperand("k").getCols();
  return {depth, /*valueDepth=*/0, KernelOutputs{/*hasLse=*/false, /*hasInputType=*/true}};
}
