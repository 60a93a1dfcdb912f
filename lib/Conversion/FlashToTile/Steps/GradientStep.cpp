//===- GradientStep.cpp - flash.accumulate_gradients on tiles -----------------------------------------------------===//

#include "Steps/GradientStep.h"
#include "Regions/ScoreMap.h"
#include "Regions/SmallTanh.h"
#include "Steps/Weights.h"
#include "flashc/LaunchKernels/AddedSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;

flash::AccumulateGradientsOp GradientStep::getOp() const {
  return cast<flash::AccumulateGradientsOp>(nest.getStep().getOperation());
}

bool GradientStep::reads(StringRef operand) const { return operand != "v" || getOp().getGradients() != Gradients::DV; }

bool GradientStep::addsUpRows(StringRef operand) const {
  if (sumsScoreGradients())
    return false;
  if (operand == "k") // the product for dq adds up rows of k
    return !hasResidentKeys() || nest.isAnyAddedUp();
  return hasResidentKeys() &&
         ((operand == "q" && getOp().has(Gradients::DK)) || (operand == "do" && getOp().has(Gradients::DV)));
}

SmallVector<unsigned> GradientStep::getCarried() const {
  return llvm::to_vector(llvm::make_filter_range(llvm::seq<unsigned>(0, nest.results.size()),
                                                 [&](unsigned result) { return !nest.results[result].isAddedUp; }));
}

void GradientStep::emitAllocations() {
  dropout.emitReads();
  if (hasResidentKeys()) {
    statistics = frame.scalars.getStatistics(b, nest.getStep(), nest.delta);
    auto type = tile::RingType::get(b.getContext(), schedule.stages, /*rows=*/2, nest.streamedTile, b.getF32Type(),
                                    /*isPrivate=*/false);
    statisticsRing = tile::AllocRingOp::create(b, type);
  }
  if (frame.unit->sharesRows())
    handed = tile::AllocRingOp::create(b, tile::RingType::get(b.getContext(), /*stages=*/1, frame.tileRows,
                                                              nest.streamedTile, b.getF32Type(), /*isPrivate=*/false));
  if (!nest.isAnyAddedUp())
    return;
  // Two slots, so that one is read while the other is written.
  auto type = tile::RingType::get(b.getContext(), /*stages=*/2, frame.tileRows, nest.streamedTile, nest.elementType,
                                  /*isPrivate=*/true);
  shared = tile::AllocRingOp::create(b, type);
}

SmallVector<Value> GradientStep::emitIdentity() {
  if (isOfPairs()) // lse and delta are then loaded in each visit
    return {frame.splat(frame.getAccType(nest.streamedTile), 0.0)};
  if (!hasResidentKeys()) {
    lse = emitRowsOfQueries(frame, "lse");
    delta = emitRowsOfQueries(frame, "delta");
  }
  if (shared) // dq is the first of the three gradients
    sums = nest.getAddedSums(0)->getArray(b, frame.scalars);
  if (sumsScoreGradients())
    return {frame.splat(frame.getLanePartialType(), 0.0)};
  return llvm::map_to_vector(getCarried(), [&](unsigned result) {
    int64_t depth = cast<ShapedType>(getOp().getState()[result].getType()).getDimSize(3);
    return frame.splat(frame.getAccType(depth), 0.0);
  });
}

/// Starts the product A B^T of 64 rows of A and the rows of a streamed tile B.
Value GradientStep::startProduct(Value a, Value slot) {
  RankedTensorType type = frame.getAccType(nest.streamedTile);
  auto product = tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), type), a, slot, /*acc=*/Value(),
                                          /*ones=*/Value(), /*transpose_b=*/true, /*stage=*/0);
  product.setLocalDescriptors(true); // several products run at once, and registers are few
  return product;
}

Value GradientStep::round(Value a) {
  auto type = RankedTensorType::get(cast<ShapedType>(a.getType()).getShape(), nest.elementType,
                                    tile::OperandAAttr::get(b.getContext()));
  return tile::ToOperandAOp::create(b, type, a);
}

/// Adds dX K to the rows of dq for the queries from `position` on.
void GradientStep::addToQueries(Value operand, Value position) {
  tile::AddProductOp::create(b, operand, shared, frame.getResident("k"), sums, frame.batch, frame.head, position,
                             b.getF32FloatAttr(frame.regions.getScale()));
}

/// Starts acc + A B.
Value GradientStep::startSum(Value operand, Value slot, Value acc) {
  auto type = tile::TokenType::get(b.getContext(), cast<RankedTensorType>(acc.getType()));
  return tile::MmaAsyncOp::create(b, type, operand, slot, acc, /*ones=*/Value(), /*transpose_b=*/false, /*stage=*/0);
}

/// Waits until all products but the last `pending` ones have ended. Returns the result of the product that gave
/// `token`.
Value GradientStep::wait(Value token, int64_t pending) {
  return tile::MmaWaitOp::create(b, cast<tile::TokenType>(token.getType()).getResultType(), token, pending);
}

Value GradientStep::readColumns(Value slot, int64_t row) {
  auto type = RankedTensorType::get({nest.streamedTile}, b.getF32Type(), tile::ColAttr::get(b.getContext()));
  return tile::ReadColumnsOp::create(b, type, slot, row);
}

/// Returns the score's derivative if it is constant: there is no score region, or the score is affine in s. None
/// otherwise.
std::optional<double> GradientStep::getConstantSlope() const {
  FloatAttr slope;
  if (!nest.derivative)
    return 1.0;
  if (!matchPattern(cast<flash::YieldOp>(nest.derivative->front().getTerminator()).getValue(), m_Constant(&slope)))
    return std::nullopt;
  return slope.getValueAsDouble();
}

FailureOr<Value> GradientStep::emitSlopes(Value visit, Value position, Value products) {
  if (getConstantSlope())
    return Value();
  tile::MapOp slopes = frame.regions.emitDerivative(products, position, frame.emitIsMasked(visit));
  if (!slopes)
    return failure();
  simplifyDerivativeMap(slopes, nest.mask, hasResidentKeys());
  return sumsScoreGradients() ? slopes.getResult() : round(slopes.getResult());
}

Value GradientStep::addScores(Value sums, Value dx) {
  if (isOfPairs())
    return arith::AddFOp::create(b, sums, dx);
  Value added = tile::RowReduceOp::create(b, sums.getType(), tile::ReduceKind::Sum, dx);
  return arith::AddFOp::create(b, sums, added);
}

FailureOr<GradientStep::Weights> GradientStep::emitWeightsAndSlopes(Value visit, Value position, Value products,
                                                                    function_ref<Value()> getLse, bool hasSlopes,
                                                                    bool isRounded) {
  auto emit = [&](function_ref<Value()> getLse) -> FailureOr<Weights> {
    FailureOr<Value> slopes = hasSlopes ? emitSlopes(visit, position, products) : FailureOr<Value>(Value());
    Value weights = emitWeights(frame, visit, position, products, getLse());
    if (failed(slopes) || !weights)
      return failure();
    return Weights{weights, *slopes};
  };
  // For 64 columns the polynomials are no faster (docs/hopper-softmax.md).
  bool mayBranch = nest.score && getStepShape(nest).depth > 64 && !sumsScoreGradients();
  std::optional<double> factor = mayBranch ? getTanhFactor(*nest.score) : std::nullopt;
  if (!factor)
    return emit(getLse);
  Value lse = getLse(); // once, before both branches
  double limit = getSmallTanhLimit() / std::abs(*factor * frame.regions.getScale());
  auto isSmall = tile::AllWithinOp::create(b, b.getI1Type(), products, b.getF32FloatAttr(static_cast<float>(limit)));
  auto operandType = RankedTensorType::get(cast<ShapedType>(products.getType()).getShape(), nest.elementType,
                                           tile::OperandAAttr::get(b.getContext()));
  SmallVector<Type> types{isRounded ? operandType : products.getType()};
  if (hasSlopes && !getConstantSlope())
    types.push_back(operandType);
  auto branch = scf::IfOp::create(b, types, isSmall, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.elseBlock());
  FailureOr<Weights> values = emit([&] { return lse; });
  if (failed(values))
    return failure();
  SmallVector<Value> yielded{isRounded ? round(values->weights) : values->weights};
  if (values->slopes)
    yielded.push_back(values->slopes);
  scf::YieldOp::create(b, yielded);
  b.setInsertionPointToEnd(branch.thenBlock());
  IRMapping mapping;
  for (Operation &op : *branch.elseBlock())
    b.clone(op, mapping);
  expandSmallTanh(*branch.thenBlock());
  return Weights{branch.getResult(0), types.size() > 1 ? branch.getResult(1) : Value()};
}

Value GradientStep::emitScoreGradients(Value visit, Value position, Value weights, Value dp, Value delta, Value slopes,
                                       Value kept) {
  dp = dropout.clearDropped(dp, kept);
  Value gradients =
      emitWithQueries(frame, visit, position, dp, "delta", delta, [&](Value element, Value ofQuery) -> Value {
        if (!kept)
          return arith::SubFOp::create(b, element, ofQuery);
        Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(dropout.getScale())));
        return math::FmaOp::create(b, element, scale, arith::NegFOp::create(b, ofQuery));
      });
  if (!gradients)
    return {};
  if (!slopes)
    return clearHidden(visit, weights, arith::MulFOp::create(b, weights, frame.scale(gradients, *getConstantSlope())));
  if (slopes.getType() != weights.getType())
    slopes = tile::FromOperandAOp::create(b, weights.getType(), slopes);
  gradients = arith::MulFOp::create(b, gradients, slopes);
  // If the probability is 0, dX must be 0, whatever the derivative of the score is.
  return clearUnweighted(weights, [&] { return arith::MulFOp::create(b, weights, gradients); });
}

/// Emits the values that `emit` returns, with 0 where a weight is 0.
Value GradientStep::clearUnweighted(Value weights, function_ref<Value()> emit) {
  Value zeros = frame.splat(cast<RankedTensorType>(weights.getType()), 0.0);
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, weights, zeros);
  return arith::SelectOp::create(b, isNone, zeros, emit());
}

/// Clears dX of pairs that a mask hides by the contents of arrays. dP and delta may be NaN for such pairs.
Value GradientStep::clearHidden(Value visit, Value weights, Value gradients) {
  if (!frame.hidesData())
    return gradients;
  auto kept = frame.emitWhereMasked(visit, gradients, [&]() -> FailureOr<SmallVector<Value>> {
    return SmallVector<Value>{clearUnweighted(weights, [&] { return gradients; })};
  });
  return kept->front(); // `emitMasked` does not fail
}

FailureOr<SmallVector<Value>> GradientStep::emit(Value visit, ValueRange state) {
  return hasResidentKeys() ? emitOfKeys(visit, state) : emitOfQueries(visit, state);
}

/// The product dP runs while the exponentials are computed.
FailureOr<SmallVector<Value>> GradientStep::emitOfQueries(Value visit, ValueRange state) {
  if (isOfPairs()) {
    lse = emitRowsOfQueries(frame, "lse");
    delta = emitRowsOfQueries(frame, "delta");
  }
  if (!lse || !delta)
    return failure();
  Value key = isOfPairs() ? frame.columns.front() : frame.visits.emitPosition(b, visit);
  Value kTile = frame.loadStreamed("k", key), vTile = frame.loadStreamed("v", key);
  Value ofScores = startProduct(frame.getResident("q"), kTile),
        ofGradients = startProduct(frame.getResident("do"), vTile);
  FailureOr<Value> kept = dropout.emitMask(key);
  if (failed(kept))
    return failure();
  Value products = wait(ofScores, /*pending=*/1);
  FailureOr<Weights> softmax = emitWeightsAndSlopes(
      visit, key, products, [&] { return lse; }, /*hasSlopes=*/true,
      /*isRounded=*/false);
  if (failed(softmax))
    return failure();
  Value dx =
      emitScoreGradients(visit, key, softmax->weights, wait(ofGradients, /*pending=*/0), delta, softmax->slopes, *kept);
  if (!dx)
    return failure();
  if (sumsScoreGradients())
    return SmallVector<Value>{addScores(state[0], dx)};
  return SmallVector<Value>{wait(startSum(round(dx), kTile, state[0]), /*pending=*/0)};
}

/// The product dP starts after the exponentials, when registers are free for it. The product of dv runs while dX is
/// computed. If P is packed as an operand for dv, dX is computed from that operand, so that no other copy of P is live.
/// With `early-statistics` the lse and the delta are read before the waits.
FailureOr<SmallVector<Value>> GradientStep::emitOfKeys(Value visit, ValueRange state) {
  if (!statistics || (shared && !sums))
    return failure();
  Value query = frame.visits.emitPosition(b, visit);
  Value qTile = frame.loadStreamed("q", query), doTile = frame.loadStreamed("do", query);
  tile::RingType ring = cast<tile::RingType>(statisticsRing.getType());
  auto slotType = tile::SlotType::get(b.getContext(), ring.getRows(), ring.getCols(), ring.getElementType());
  Value ofQueries = tile::LoadOp::create(b, slotType, statistics, frame.batch, frame.head, query, statisticsRing);
  Value ofScores = startProduct(frame.getResident("k"), qTile);
  bool hasDV = getOp().has(Gradients::DV), hasDK = getOp().has(Gradients::DK | Gradients::Columns);
  auto readEarly = [&](int64_t row) { return schedule.earlyStatistics ? readColumns(ofQueries, row) : Value(); };
  auto readLate = [&](Value early, int64_t row) { return early ? early : readColumns(ofQueries, row); };
  Value earlyLse = readEarly(0);
  Value products = wait(ofScores, /*pending=*/0);
  auto getLse = [&] { return readLate(earlyLse, 0); };
  FailureOr<Weights> softmax = emitWeightsAndSlopes(visit, query, products, getLse, hasDK,
                                                    /*isRounded=*/hasDV && !handed);
  if (failed(softmax))
    return failure();
  auto [weights, slopes] = *softmax;
  FailureOr<Value> kept = dropout.emitMask(query);
  if (failed(kept))
    return failure();
  Value whole = handed ? tile::HandOverOp::create(b, weights.getType(), weights, handed, /*count=*/Value()) : Value();
  Value ofGradients = hasDK ? startProduct(frame.getResident("v"), doTile) : Value();
  if (hasDV && weights.getType() == products.getType())
    weights = round(weights);
  Value ofDV = hasDV ? startSum(dropout.clearDropped(weights, *kept), doTile, state.back()) : Value();
  if (!hasDK)
    return SmallVector<Value>{wait(ofDV, /*pending=*/0)};
  Value earlyDelta = readEarly(1);
  Value dp = wait(ofGradients, /*pending=*/hasDV);
  if (whole)
    weights = whole;
  else if (hasDV)
    weights = tile::FromOperandAOp::create(b, products.getType(), weights);
  Value dx = emitScoreGradients(visit, query, weights, dp, readLate(earlyDelta, 1), slopes, *kept);
  if (!dx)
    return failure();
  if (sumsScoreGradients())
    return SmallVector<Value>{addScores(state.front(), dx)};
  Value operand = round(dx);
  if (shared)
    addToQueries(operand, query);
  Value ofDK = startSum(operand, qTile, state.front());
  SmallVector<Value> next(state.size());
  if (hasDV)
    next.back() = wait(ofDV, /*pending=*/1);
  next.front() = wait(ofDK, /*pending=*/0);
  return next;
}

LogicalResult GradientStep::addToGroup(Value gradient, const AddedSums &ofGroup) {
  Value array = ofGroup.getArray(b, frame.scalars);
  Value head = frame.scalars.get(b, b.getLoc(), nest.getOperand("k").head);
  if (!array || !head)
    return failure();
  Value rows = arith::DivUIOp::create(b, frame.row, frame.index(frame.tileRows));
  tile::AtomicAddOp::create(b, gradient, array, frame.batch, head, rows, frame.index(0));
  return success();
}

LogicalResult GradientStep::emitOutputs(ValueRange state) {
  SmallVector<flash::StepOperand> parts = getOp().getStepState();
  for (auto [result, part] : llvm::zip_equal(getCarried(), state)) {
    Value gradient = isOfPairs()            ? part
                     : sumsScoreGradients() ? tile::CombineOp::create(b, frame.getRowType(), part).getResult()
                                            : frame.scale(part, parts[result].name == "dv" ? dropout.getScale()
                                                                                           : frame.regions.getScale());
    if (const AddedSums *sums = nest.getAddedSums(result)) {
      if (failed(addToGroup(gradient, *sums)))
        return failure();
      continue;
    }
    FailureOr<SmallVector<Value>> destinations = frame.getDestinations(result);
    if (failed(destinations))
      return failure();
    for (Value destination : *destinations)
      tile::StoreOp::create(b, gradient, destination, frame.batch, frame.head, frame.row, frame.endOfRows,
                            getOp().has(Gradients::Pairs) ? ValueRange(frame.columns) : ValueRange());
  }
  return success();
}

StepShape flashc::getGradientShape(const LoopNest &nest) {
  return {nest.getOperand("q").getCols(), nest.getOperand("v").getCols(),
          KernelOutputs{/*hasLse=*/false, /*hasInputType=*/true}};
}
