//===- KeyRanges.cpp - what flash.tile_runs says of many tiles of keys at once ------------------------------------===//

#include "KeyRanges.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;

KeyRanges::KeyRanges(flash::TileRunsOp op, LineEvaluator &row)
    : op(op), row(row), key(op.getStreamedArgument()) {
  markChanging(key, op.getBody().front());
}

void KeyRanges::markChanging(ValueRange arguments, Block &block) {
  changing.insert_range(arguments);
  for (Operation &inner : block) {
    if (llvm::any_of(inner.getOperands(), [&](Value operand) { return changing.contains(operand); }))
      changing.insert_range(inner.getResults());
    auto read = dyn_cast<tensor::ExtractOp>(inner);
    if (auto classes = read ? read.getTensor().getDefiningOp<flash::TileClassesOp>() : flash::TileClassesOp())
      markChanging(classes.getKnown().getArguments(), classes.getKnown().front());
  }
}

static ConstantIntRanges makeRange(Type type, int64_t low, int64_t high) {
  unsigned bits = ConstantIntRanges::getStorageBitwidth(type);
  return ConstantIntRanges::fromSigned(APInt(bits, low, /*isSigned=*/true), APInt(bits, high, /*isSigned=*/true));
}

std::optional<int64_t> KeyRanges::getAnswer(int64_t first, int64_t last) {
  known.clear();
  known.try_emplace(key, makeRange(key.getType(), first * op.getStreamedTile(), last * op.getStreamedTile()));
  Range range = get(cast<flash::YieldOp>(op.getBody().front().getTerminator()).getValue());
  std::optional<APInt> constant = range ? range->getConstantValue() : std::nullopt;
  return constant ? std::optional(constant->getSExtValue()) : std::nullopt;
}

KeyRanges::Range KeyRanges::get(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Range range;
  if (changing.contains(value))
    range = compute(cast<OpResult>(value));
  else if (std::optional<int64_t> number = row.getNumber(row.get(value)))
    range = makeRange(value.getType(), *number, *number);
  if (range)
    known.try_emplace(value, *range);
  return range;
}

KeyRanges::Range KeyRanges::compute(OpResult result) {
  Operation *owner = result.getOwner();
  if (auto extract = dyn_cast<tensor::ExtractOp>(owner)) {
    auto classes = extract.getTensor().getDefiningOp<flash::TileClassesOp>();
    return classes ? getKnownClass(classes, extract.getIndices()) : std::nullopt;
  }
  if (auto range = dyn_cast<flash::TileRangeOp>(owner))
    return getEnds(range);
  auto inferring = dyn_cast<InferIntRangeInterface>(owner);
  SmallVector<ConstantIntRanges, 4> operands;
  for (Value operand : owner->getOperands()) {
    Range range = inferring && operand.getType().isIntOrIndex() ? get(operand) : std::nullopt;
    if (!range)
      return std::nullopt;
    operands.push_back(*range);
  }
  Range inferred;
  if (inferring)
    inferring.inferResultRanges(operands, [&](Value value, const ConstantIntRanges &range) {
      if (value == result)
        inferred = range;
    });
  return inferred;
}

/// What is known without running the mask (LineEvaluator::readKnownClass).
KeyRanges::Range KeyRanges::getKnownClass(flash::TileClassesOp classes, ValueRange tile) {
  Block &body = classes.getKnown().front();
  int64_t steps[] = {1, 1, int64_t(classes.getQTile()), int64_t(classes.getKvTile())};
  for (auto [argument, number, step] : llvm::zip_equal(body.getArguments(), tile, steps)) {
    Range range = get(number);
    if (!range)
      return std::nullopt;
    int64_t low = range->smin().getSExtValue() * step, high = range->smax().getSExtValue() * step;
    known.insert_or_assign(argument, makeRange(argument.getType(), low, high));
  }
  return get(cast<flash::YieldOp>(body.getTerminator()).getValue());
}

/// Both ends of the tiles of a stretch.
KeyRanges::Range KeyRanges::getEnds(flash::TileRangeOp op) {
  SmallVector<int64_t> operands;
  int64_t last = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    Range range = get(operand.get());
    bool isTile = &operand == &op.getFirstMutable();
    if (!range || (!isTile && !range->getConstantValue()))
      return std::nullopt;
    operands.push_back(range->smin().getSExtValue());
    if (isTile)
      last = range->smax().getSExtValue();
  }
  auto ends = row.findEnds(op, operands, last);
  return ends ? Range(makeRange(op.getLeast().getType(), (*ends)[0], (*ends)[1])) : std::nullopt;
}
