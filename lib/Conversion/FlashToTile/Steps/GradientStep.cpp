//===- GradientStep.cpp - flash.accumulate_gradients on tiles -----------------------------------------------------===//

#include "Steps/GradientStep.h"
#include "Steps/Weights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;

flash::AccumulateGradientsOp GradientStep::getOp() const {
  return cast<flash::AccumulateGradientsOp>(nest.getStep().getOperation());
}

bool GradientStep::reads(StringRef operand) const {
  return operand != "v" || getOp().getGradients() != Gradients::DV;
}

SmallVector<Value> GradientStep::emitIdentity() {
  if (!hasResidentKeys()) {
    lse = emitRowsOfQueries(frame, "lse");
    delta = emitRowsOfQueries(frame, "delta");
  }
  SmallVector<Value> identity;
  for (Value part : getOp().getState())
    identity.push_back(
        frame.splat(tile::getAccType(cast<ShapedType>(part.getType()).getDimSize(3), b.getF32Type()), 0.0));
  return identity;
}

/// For the descriptors of so many columns there are registers beside the accumulators.
static constexpr int64_t kMostColsOfDescriptors = 128;

/// A B^T, 64 rows by a streamed tile's.
Value GradientStep::startProduct(Value a, Value slot) {
  RankedTensorType type = tile::getAccType(nest.streamedTile, b.getF32Type());
  auto product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), type), a, slot, /*acc=*/Value(),
                                          /*ones=*/Value(), /*transpose_b=*/true, /*stage=*/0);
  product.setLocalDescriptors(cast<tile::SlotType>(a.getType()).getCols() > kMostColsOfDescriptors);
  return product;
}

/// acc + T(A) B.
Value GradientStep::startSum(Value a, Value slot, Value acc) {
  auto operandType = RankedTensorType::get(cast<ShapedType>(a.getType()).getShape(), nest.elementType,
                                           tile::OperandAAttr::get(b.getContext()));
  Value operand = tile::ToOperandAOp::create(b, operandType, a);
  auto type = tile::TokenType::get(b.getContext(), cast<RankedTensorType>(acc.getType()));
  return tile::MmaAsyncOp::create(b, type, operand, slot, acc, /*ones=*/Value(), /*transpose_b=*/false, /*stage=*/0);
}

/// What a product gives, when all but the last `pending` ones have ended.
Value GradientStep::wait(Value token, int64_t pending) {
  return tile::MmaWaitOp::create(b, cast<tile::TokenType>(token.getType()).getResultType(), token, pending);
}

/// P * (dP - delta), times the score's derivative. Null after an error.
Value GradientStep::emitScoreGradients(Value visit, Value position, Value products, Value weights, Value dp) {
  Value gradients = emitWithQueries(frame, visit, position, dp, "delta", delta, [&](Value element, Value ofQuery) -> Value {
    return arith::SubFOp::create(b, element, ofQuery);
  });
  if (!gradients)
    return {};
  FloatAttr slope; // of an affine score
  if (nest.derivative)
    matchPattern(cast<flash::YieldOp>(nest.derivative->front().getTerminator()).getValue(), m_Constant(&slope));
  if (!nest.derivative || slope)
    return arith::MulFOp::create(b, weights, frame.scale(gradients, slope ? slope.getValueAsDouble() : 1.0));
  tile::MapOp slopes = frame.regions.emitDerivative(products, position, frame.emitIsMasked(visit));
  if (!slopes)
    return {};
  gradients = arith::MulFOp::create(b, gradients, slopes.getResult());
  // Where the probability is 0, so is this, whatever the score's derivative is there.
  Value zeros = frame.splat(cast<RankedTensorType>(weights.getType()), 0.0);
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, weights, zeros);
  return arith::SelectOp::create(b, isNone, zeros, arith::MulFOp::create(b, weights, gradients));
}

FailureOr<SmallVector<Value>> GradientStep::emit(Value visit, ValueRange state) {
  return hasResidentKeys() ? emitOfKeys(visit, state) : emitOfQueries(visit, state);
}

/// dP runs while the exponentials are computed.
FailureOr<SmallVector<Value>> GradientStep::emitOfQueries(Value visit, ValueRange state) {
  if (!lse || !delta)
    return failure();
  Value key = frame.visits.emitPosition(b, visit);
  Value kTile = frame.loadStreamed("k", key), vTile = frame.loadStreamed("v", key);
  Value ofScores = startProduct(frame.getResident("q"), kTile), ofGradients = startProduct(frame.getResident("do"), vTile);
  Value products = wait(ofScores, /*pending=*/1), weights = emitWeights(frame, visit, key, products, lse);
  Value dp = weights ? wait(ofGradients, /*pending=*/0) : Value();
  Value dx = weights ? emitScoreGradients(visit, key, products, weights, dp) : Value();
  if (!dx)
    return failure();
  return SmallVector<Value>{wait(startSum(dx, kTile, state[0]), /*pending=*/0)};
}

/// dP begins when the exponentials are there, for which there are the registers then; dv runs while dX is computed.
FailureOr<SmallVector<Value>> GradientStep::emitOfKeys(Value visit, ValueRange state) {
  SmallVector<flash::StepOperand> parts = getOp().getStepState();
  Value query = frame.visits.emitPosition(b, visit);
  Value qTile = frame.loadStreamed("q", query), doTile = frame.loadStreamed("do", query);
  Value products = wait(startProduct(frame.getResident("k"), qTile), /*pending=*/0);
  Value weights = emitWeights(frame, visit, query, products, /*lse=*/Value());
  if (!weights)
    return failure();
  bool hasDV = getOp().has(Gradients::DV), hasDK = getOp().has(Gradients::DK);
  Value ofGradients = hasDK ? startProduct(frame.getResident("v"), doTile) : Value();
  Value ofDV = hasDV ? startSum(weights, doTile, state.back()) : Value();
  if (!hasDK)
    return SmallVector<Value>{wait(ofDV, /*pending=*/0)};
  Value dp = wait(ofGradients, /*pending=*/hasDV);
  Value dx = emitScoreGradients(visit, query, products, weights, dp);
  if (!dx)
    return failure();
  Value ofDK = startSum(dx, qTile, state.front());
  SmallVector<Value> next(parts.size());
  if (hasDV)
    next.back() = wait(ofDV, /*pending=*/1);
  next.front() = wait(ofDK, /*pending=*/0);
  return next;
}

LogicalResult GradientStep::emitOutputs(ValueRange state) {
  for (auto [number, part] : llvm::enumerate(getOp().getStepState())) {
    Value gradient = part.name == "dv" ? state[number] : frame.scale(state[number], frame.regions.getScale());
    FailureOr<SmallVector<Value>> destinations = frame.getDestinations(number);
    if (failed(destinations))
      return failure();
    for (Value destination : *destinations)
      tile::StoreOp::create(b, gradient, destination, frame.batch, frame.head, frame.row, frame.endOfRows);
  }
  return success();
}

StepShape flashc::getGradientShape(const LoopNest &nest) {
  return {nest.getOperand("q").getCols(), nest.getOperand("v").getCols(),
          KernelOutputs{/*hasLse=*/false, /*hasInputType=*/true}};
}
