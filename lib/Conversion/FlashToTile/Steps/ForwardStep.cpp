//===- ForwardStep.cpp - flash.online_attention on tiles ----------------------------------------------------------===//

#include "Steps/ForwardStep.h"
#include "Regions/ScoreMap.h"
#include "Regions/SmallTanh.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

/// The number of the result of flash.finalize that is the output. The other result is the log-sum-exp.
static constexpr unsigned kOutput = 0;

StepShape flashc::getForwardShape(const LoopNest &nest) {
  auto isOutput = [](const NestOutput &output) { return output.result == kOutput; };
  auto hasInputType = [&](const NestOutput &output) {
    return !isOutput(output) || output.elementType == nest.elementType;
  };
  return {nest.getOperand("q").getCols(), nest.getOperand("v").getCols(),
          KernelOutputs{!llvm::all_of(nest.outputs, isOutput), llvm::all_of(nest.outputs, hasInputType)}};
}

Value ForwardStep::replaceNegInf(Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  Value isLowest = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rows, splat(type, kNegInf));
  return arith::SelectOp::create(b, isLowest, splat(type, 0.0), rows);
}

LogicalResult ForwardStep::check() {
  flash::Normalize deferred = flash::Normalize::Deferred;
  for (Segment &segment : nest.segments)
    if (cast<flash::OnlineAttentionOp>(segment.op.getOperation()).getNormalize() != deferred)
      return segment.op.emitError() << "expected normalize = deferred (algorithm fa2)";
  if (cast<flash::FinalizeOp>(nest.epilogue).getNormalize() != deferred)
    return nest.epilogue->emitError() << "expected normalize = deferred (algorithm fa2)";
  hasTensorSlopes = nest.score && hasSlopes(*nest.score, frame.regions.getScale()) &&
                    canAddSlopes(schedule, frame.getTarget(), nest.getOperand("q").getCols(), valueDim, frame.isSorted);
  return failure(failed(checkUnifiedMax()) || failed(dropout.check()));
}

void ForwardStep::emitAllocations() {
  dropout.emitReads();
  const GPUTarget &target = frame.getTarget();
  auto allocate = [&](tile::SlotRole role, tile::SlotType type) { return tile::AllocSlotOp::create(b, type, role); };
  if (schedule.tensorSums)
    ones = allocate(tile::SlotRole::Ones, tile::getOnesType(target, nest.elementType));
  if (hasTensorSlopes) {
    slopesSlot = allocate(tile::SlotRole::Slopes, tile::getSlopesType(target, nest.elementType));
    columns = allocate(tile::SlotRole::Columns, tile::getColumnsType(target, nest.streamedTile, nest.elementType));
  }
  if (schedule.store == Store::OwnSlot)
    outputSlot = allocate(tile::SlotRole::Output,
                          tile::SlotType::get(b.getContext(), frame.tileRows, valueDim, nest.elementType));
}

RankedTensorType ForwardStep::getOutputType() {
  return frame.getAccType(valueDim + (ones ? frame.getTarget().colStep : 0));
}

//===--------------------------------------------------------------------------------------------------------------===//
// The step
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<Value> ForwardStep::emitIdentity() {
  remainingScale = frame.regions.hasScoreMap() ? 1.0 : frame.regions.getScale();
  sinks = emitSinks(); // before the loop, where no other code waits for memory
  SmallVector<Value> identity{splat(getOutputType(), 0.0)};
  if (schedule.max == Max::Running)
    identity.push_back(splat(frame.getRowType(), kNegInf));
  if (!ones)
    identity.push_back(splat(frame.getLanePartialType(), 0.0));
  return identity;
}

ForwardStep::State ForwardStep::getState(ValueRange values) const {
  return {values[0], schedule.max == Max::Unified ? Value() : values[1], ones ? Value() : values.back()};
}

FailureOr<SmallVector<Value>> ForwardStep::emit(Value visit, ValueRange carried) {
  FailureOr<State> state = emitStep(visit, getState(carried));
  if (failed(state))
    return failure();
  SmallVector<Value> next{state->acc};
  for (Value value : {state->max, state->sum})
    if (value)
      next.push_back(value);
  return next;
}

FailureOr<ForwardStep::State> ForwardStep::emitStep(Value visit, State state) {
  RankedTensorType scoreType = frame.getAccType(nest.streamedTile);
  Value key = frame.visits.emitPosition(b, visit), firstKey = key;
  Value kTile = frame.loadStreamed("k", firstKey);
  auto product =
      tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), scoreType), frame.getResident("q"), kTile,
                               /*acc=*/Value(), /*ones=*/Value(), /*transpose_b=*/true, /*stage=*/0);
  if (frame.visits.isInTable()) // the key is read again, so that the mask's values are loaded while the product runs
    key = frame.visits.emitPosition(b, visit);
  Value scores = frame.emitScaled("k", tile::MmaWaitOp::create(b, scoreType, product, /*pending=*/0), firstKey);
  if (!scores)
    return failure();
  FailureOr<Softmax> softmax = emitSoftmax(visit, key, scores, state.max);
  if (failed(softmax))
    return failure();
  addSlopes(product);
  Value probabilities = softmax->probabilities, sum;
  if (!ones) {
    Value addend = tile::RowReduceOp::create(b, frame.getLanePartialType(), tile::ReduceKind::Sum, probabilities);
    Value before = tile::ScaleRowsOp::create(b, state.sum.getType(), state.sum, softmax->rescaleFactor);
    sum = arith::AddFOp::create(b, before, addend);
  }

  auto operandType =
      RankedTensorType::get(scoreType.getShape(), nest.elementType, tile::OperandAAttr::get(b.getContext()));
  Value weights = frame.emitScaled("v", probabilities, firstKey);
  if (!weights)
    return failure();
  Value operand = tile::ToOperandAOp::create(b, operandType, weights);
  FailureOr<Value> kept = dropout.emitMask(key);
  if (failed(kept))
    return failure();
  operand = dropout.clearDropped(operand, *kept);
  Value acc = softmax->rescaleFactor ? emitRescale(state.acc, *softmax) : state.acc;
  Value vTile = frame.loadStreamed("v", firstKey);
  Value output =
      tile::MmaAsyncOp::create(b, tile::TokenType::get(b.getContext(), cast<RankedTensorType>(acc.getType())), operand,
                               vTile, acc, ones, /*transpose_b=*/false, /*stage=*/1);
  return State{tile::MmaWaitOp::create(b, acc.getType(), output, /*pending=*/0), softmax->max, sum};
}

/// Makes `product`, the product of Q and K, add the slopes that the score map leaves to it.
void ForwardStep::addSlopes(tile::MmaAsyncOp product) {
  if (!slopes)
    return;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(slopes);
  tile::StoreSlopesOp::create(b, slopes, slopesSlot);
  product.getSlopesMutable().assign(slopesSlot);
  product.getColumnsMutable().assign(columns);
}

FailureOr<ForwardStep::Scores> ForwardStep::emitScoreRegion(Value visit, Value key, Value scores) {
  OpBuilder::InsertionGuard guard(b);
  Value isMasked = frame.emitIsMasked(visit);
  tile::MapOp map = frame.regions.emitScore(scores, key, isMasked);
  if (!map)
    return failure();
  b.setInsertionPointAfter(map);
  auto asWritten = cast<tile::MapOp>(b.clone(*map));
  ScoreMap simple = simplifyScoreMap(map, /*canSplit=*/schedule.max == Max::Running && frame.rows->areConsecutive(),
                                     /*toProduct=*/hasTensorSlopes, nest.mask, /*rowsAreKeys=*/false);
  remainingScale = simple.factor;
  slopes = simple.slopes;
  if (simple.map.getOffset()) {
    if (failed(emitHasLargeTerms(simple.map)))
      return failure();
    return Scores{simple.map.getResult(), simple.map.getOffset(), /*isExponential=*/false, asWritten};
  }
  asWritten.erase();
  if (schedule.kind != KernelKind::Forward || !nest.score || !isSoftCap(*nest.score))
    return Scores{simple.map.getResult()};
  // If the branches also compute the exponentials, the multi-function unit need not wait for the end of a branch. But
  // if the schedule has a `wait-after`, a wait for a product must be placed among the exponentials, so these come after
  // the branches.
  Scores result;
  result.isExponential = schedule.max == Max::Unified && schedule.waitAfter == 0;
  result.tile = splitSmallTanh(simple.map, remainingScale, [&](OpBuilder &nested, Value branch) {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(nested.saveInsertionPoint());
    return result.isExponential ? emitExponentials(branch, /*offset=*/Value()) : branch;
  });
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Outputs
//===--------------------------------------------------------------------------------------------------------------===//

/// Emits max * scale + log(sum). The result is -inf for a row without keys, whose maximum is -inf and whose sum is 0.
/// Kernels without a maximum have no such output.
Value ForwardStep::emitLogSumExp(Value max, Value sum) {
  auto rowType = cast<RankedTensorType>(sum.getType());
  Value scaled = scale(max, remainingScale);
  if (hasLargeTerms)
    scaled = arith::SelectOp::create(b, hasLargeTerms, max, scaled);
  return math::FmaOp::create(b, math::Log2Op::create(b, sum), splat(rowType, llvm::numbers::ln2), scaled);
}

/// Emits whether a row has seen no key, or only scores of -inf. In such a row the sum is 0. In every other row the sum
/// is not 0: the greatest score adds at least 1 to it (with max=unified, at least 2^-80), and a score that is NaN or
/// +inf makes it NaN.
Value ForwardStep::emitIsEmpty(Value sum) {
  auto rowType = cast<RankedTensorType>(sum.getType());
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, splat(rowType, 0.0));
}

/// Emits the sink of each row's head. Null if there are no sinks. Fails after an error.
FailureOr<Value> ForwardStep::emitSinks() {
  Value sinks = frame.getSinks();
  if (!sinks)
    return Value();
  if (auto slice = sinks.getDefiningOp<tensor::ExtractSliceOp>()) {
    if (!isEqualConstantIntOrValue(slice.getMixedOffsets()[0], nest.head.position))
      return nest.epilogue->emitError() << "expected the sink of the tile's head";
    sinks = slice.getSource();
  }
  Value all = frame.emitOfHeads([&](Value head) { return frame.scalars.loadElement(b, nest.epilogue, sinks, head); });
  if (!all)
    return failure();
  return all;
}

/// Emits what the sinks change in rows whose scores alone give `lse`. `divisor` is the factor 1 + exp(sinks - lse) by
/// which the outputs must be divided. The new `lse` includes the sink; for an empty row it is the sink itself.
ForwardStep::WithSinks ForwardStep::emitWithSinks(Value sinks, Value lse, Value isEmpty) {
  auto type = cast<RankedTensorType>(lse.getType());
  Value one = splat(type, 1.0), difference = arith::SubFOp::create(b, sinks, lse);
  auto power = [&](Value exponent, double factor) -> Value {
    return arith::AddFOp::create(b, math::Exp2Op::create(b, scale(exponent, factor * llvm::numbers::log2e)), one);
  };
  // log(exp(lse) + exp(sink)) is the greater of lse and sink, plus log(1 + x), where x = exp(-|sink - lse|) is at most
  // 1.
  Value added = math::Log2Op::create(b, power(math::AbsFOp::create(b, difference), -1.0));
  Value greater = arith::MaxNumFOp::create(b, lse, sinks);
  Value both = math::FmaOp::create(b, added, splat(type, llvm::numbers::ln2), greater);
  return {power(difference, 1.0), arith::SelectOp::create(b, isEmpty, sinks, both)};
}

/// Emits o = acc / sum and the log-sum-exp. For a row that has seen no key, o is 0, and the log-sum-exp is -inf or, if
/// there are sinks, the row's sink.
LogicalResult ForwardStep::emitOutputs(ValueRange carried) {
  State state = getState(carried);
  RankedTensorType rowType = frame.getRowType();
  Value acc = state.acc, sum;
  if (ones) {
    auto split = tile::SplitSumsOp::create(b, frame.getAccType(valueDim), rowType, acc);
    acc = split.getColumns(), sum = split.getSums();
  } else {
    sum = tile::CombineOp::create(b, rowType, state.sum);
  }
  if (failed(sinks))
    return failure();
  SoftmaxState merged{acc, state.max, sum, getExponentFactor()};
  frame.unit->emitMerged(frame, merged);
  acc = merged.acc, state.max = merged.max, sum = merged.sum;
  Value lse, divisor = sum;
  if (*sinks) {
    lse = state.max ? emitLogSumExp(state.max, sum) : scale(math::Log2Op::create(b, sum), llvm::numbers::ln2);
    WithSinks with = emitWithSinks(*sinks, lse, emitIsEmpty(sum));
    divisor = arith::MulFOp::create(b, sum, with.divisor), lse = with.lse;
  }
  Value inverse = arith::DivFOp::create(b, splat(rowType, dropout.getScale()), divisor);
  // A row counts as empty if all its scores are -inf. With a running maximum, this may be so even if the row sees keys.
  // With max=unified, scores have a bound, so that only a row without keys is empty.
  if (schedule.max == Max::Running || nest.mayHaveEmptyRows())
    inverse = arith::SelectOp::create(b, emitIsEmpty(sum), splat(rowType, 0.0), inverse);
  Value output = tile::ScaleRowsOp::create(b, acc.getType(), acc, inverse);
  if (state.max && !lse)
    lse = emitLogSumExp(state.max, sum);
  if (!frame.storesParts())
    return storeWhole(output, lse);
  auto storeParts = [&] {
    return success(succeeded(frame.storePart(output, kOutput)) && succeeded(frame.storePart(lse, kOutput + 1)));
  };
  return frame.storeWhereWhole([&] { return storeWhole(output, lse); }, storeParts, rowType);
}

LogicalResult ForwardStep::storeWhole(Value output, Value lse) {
  bool isStored = false;
  for (const NestOutput &out : nest.outputs) {
    bool isOutput = out.result == kOutput;
    if (isOutput && schedule.store != Store::Registers && !std::exchange(isStored, true)) // only one copy has a slot
      emitStoreByTMA(out.argument, output);
    else
      frame.store(isOutput ? output : lse, out.argument, isOutput);
  }
  return success();
}

void ForwardStep::emitStoreByTMA(unsigned argument, Value output) {
  Value map = frame.rows->getTensorMap(frame, argument);
  if (outputSlot)
    tile::StoreWaitOp::create(b, /*all=*/true);
  // The rows of another sequence may follow the last row.
  bool areFollowed = frame.rows->areFollowed();
  Value dest = areFollowed ? frame.signature.getMemRef(argument, /*alignment=*/16) : Value();
  tile::StoreAsyncOp::create(b, output, map, frame.batch, frame.head, frame.row,
                             outputSlot ? outputSlot : frame.getResident("q"), areFollowed ? frame.endOfRows : Value(),
                             dest);
}
