//===- KeyRanges.cpp - what flash.tile_runs says of many tiles of keys at once ------------------------------------===//

#include "KeyRanges.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;

KeyRanges::KeyRanges(flash::TileRunsOp op, LineEvaluator &row)
    : op(op), row(row), key(op.getStreamedArgument()) {
  changing.insert(key);
  for (Operation &inner : op.getBody().front())
    if (llvm::any_of(inner.getOperands(), [&](Value operand) { return changing.contains(operand); }))
      changing.insert_range(inner.getResults());
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
    auto table = extract.getTensor().getDefiningOp<flash::TileMinMaxOp>();
    return table ? readEnds(table, extract.getIndices()) : std::nullopt;
  }
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

/// An end of the tiles of an array, of a stretch of them.
KeyRanges::Range KeyRanges::readEnds(flash::TileMinMaxOp table, ValueRange indices) {
  std::vector<int64_t> place;
  int64_t last = 0;
  for (auto [number, index] : llvm::enumerate(indices)) {
    Range range = get(index);
    bool isTile = number == table.getDim();
    if (!range || (!isTile && !range->getConstantValue()))
      return std::nullopt;
    place.push_back(range->smin().getSExtValue());
    if (isTile)
      last = range->smax().getSExtValue();
  }
  auto ends = row.findEnds(table, place, last);
  return ends ? Range(makeRange(getElementTypeOrSelf(table), (*ends)[0], (*ends)[1])) : std::nullopt;
}
