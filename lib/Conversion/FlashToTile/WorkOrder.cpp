//===- WorkOrder.cpp - the order in which CTAs take work tiles ----------------------------------------------------===//

#include "WorkOrder.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

static bool isExtent(Operation *op) { return isa<tensor::DimOp, memref::DimOp>(op); }

//===--------------------------------------------------------------------------------------------------------------===//
// What a bound hangs on
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Collects the values from which a bound of a loop over keys is computed.
class BoundInfo {
public:
  explicit BoundInfo(OpFoldResult bound) {
    if (auto value = dyn_cast<Value>(bound))
      visit(value);
  }

  bool dependsOn(Value position) const { return isa<BlockArgument>(position) && seen.contains(position); }
  /// Whether the bound reads an array.
  bool reads = false;

private:
  /// Whether an op reads elements of an array or searches in it. An op that only asks for the array's extents does not
  /// count.
  static bool hasArray(Operation *op) {
    return !isExtent(op) && llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>);
  }

  void visit(Value value) {
    Operation *op = value.getDefiningOp();
    if (!seen.insert(value).second || !op || isExtent(op))
      return;
    reads |= op->walk([](Operation *nested) {
                 return hasArray(nested) ? WalkResult::interrupt() : WalkResult::advance();
               }).wasInterrupted();
    llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), inputs);
    for (Value input : inputs)
      visit(input);
  }

  llvm::SmallDenseSet<Value> seen;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The work of a tile
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Evaluates bounds to numbers by the ops' folders.
class BoundEvaluator {
public:
  /// Evaluates bounds for the tile of queries that begins at `first`. `length` is the number of queries, from which
  /// other unknown numbers are derived (see whyUnsorted).
  BoundEvaluator(const LoopNest &nest, int64_t first, int64_t length)
      : builder(nest.elementType.getContext()), length(length) {
    values[nest.resident.position] = builder.getIndexAttr(first);
  }

  /// Returns the value of a bound. None if an op does not fold.
  std::optional<int64_t> get(OpFoldResult bound) {
    auto value = dyn_cast<Value>(bound);
    auto number = dyn_cast_or_null<IntegerAttr>(value ? evaluate(value) : cast<Attribute>(bound));
    return number ? std::optional<int64_t>(number.getInt()) : std::nullopt;
  }

private:
  Attribute evaluate(Value value) {
    if (auto found = values.find(value); found != values.end())
      return found->second;
    Attribute result;
    Operation *op = value.getDefiningOp();
    if (op && isExtent(op))
      result = builder.getIndexAttr(length);
    else if (op)
      result = fold(op, cast<OpResult>(value).getResultNumber());
    else if (value.getType().isIntOrIndex())
      result = builder.getIntegerAttr(value.getType(), length / 8);
    return values[value] = result;
  }

  Attribute fold(Operation *op, unsigned number) {
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(evaluate(operand));
      if (!operands.back())
        return {};
    }
    if (op->getNumRegions() > 0)
      return {};
    // Folders may change the op, so a copy is folded.
    OwningOpRef<Operation *> copy(op->clone());
    SmallVector<OpFoldResult> results;
    for (int attempt = 0; attempt < 4 && results.empty(); ++attempt)
      if (failed(copy->fold(operands, results)))
        return {};
    if (results.size() != op->getNumResults())
      return {};
    if (auto attribute = dyn_cast<Attribute>(results[number]))
      return attribute;
    return evaluate(cast<Value>(results[number])); // the result is an operand of the op
  }

  Builder builder;
  int64_t length;
  llvm::DenseMap<Value, Attribute> values;
};
} // namespace

/// Returns the number of tiles of keys that a tile of queries visits. None if unknown. The loops are counted one by
/// one: there may be gaps between them, and no tile belongs to two of them.
static std::optional<int64_t> countVisits(const LoopNest &nest, int64_t first, int64_t length) {
  BoundEvaluator evaluator(nest, first, length);
  int64_t visits = 0;
  for (const Segment &segment : nest.segments) {
    std::optional<int64_t> begin = evaluator.get(segment.begin), end = evaluator.get(segment.end);
    if (!begin || !end)
      return std::nullopt;
    visits += llvm::divideCeil(std::max<int64_t>(*end - *begin, 0), nest.streamedTile);
  }
  return std::max<int64_t>(visits, 1);
}

/// A question about `length` queries. At most `samples` of their tiles are evaluated. Returns none if the answer is
/// unknown.
using Question = std::optional<bool>(const LoopNest &nest, int64_t length, int64_t samples);

/// Answers the question for the nest's number of queries. If this number is unknown, asks the question for several
/// numbers, and returns whether the answer is yes for one of them.
static std::optional<bool> isSoForSome(const LoopNest &nest, Question *isSo) {
  if (std::optional<int64_t> length = getConstantIntValue(nest.resident.extent))
    return isSo(nest, *length, /*samples=*/64);
  for (int64_t tiles : {16, 32, 64, 128}) {
    std::optional<bool> result = isSo(nest, tiles * nest.residentTile, /*samples=*/16);
    if (!result || *result)
      return result;
  }
  return false;
}

/// Whether tiles that start early are too short, for `length` queries. Each tile is compared with the longest of this
/// tile and all tiles that start after it. The result is true if the tiles' visits are, in sum, fewer than four fifths
/// of the visits of the tiles that they are compared with.
static std::optional<bool> startsShort(const LoopNest &nest, int64_t length, int64_t samples) {
  int64_t tiles = llvm::divideCeil(length, nest.residentTile), most = 0, missing = 0, all = 0;
  for (int64_t sample = 0; sample < std::min(tiles, samples); ++sample) {
    int64_t tile = tiles <= samples ? sample : sample * tiles / samples;
    if (!isLastFirst(nest))
      tile = tiles - 1 - tile;
    std::optional<int64_t> visits = countVisits(nest, tile * nest.residentTile, length);
    if (!visits)
      return std::nullopt;
    most = std::max(most, *visits);
    missing += most - *visits;
    all += most;
  }
  return 5 * missing > all;
}

/// Bounds are rounded to tiles. So tiles that see equally many keys may differ by this many visits.
static constexpr int64_t kRounding = 2;

/// Whether numbers of visits differ by more than an eighth: CTAs with equally many tiles would then differ in work by
/// more than that. `getVisits` returns the visits of number 0 to `count` - 1; at most `samples` of these are evaluated.
static std::optional<bool> differ(int64_t count, int64_t samples,
                                  llvm::function_ref<std::optional<int64_t>(int64_t)> getVisits) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  for (int64_t sample = 0; sample < std::min(count, samples); ++sample) {
    std::optional<int64_t> visits = getVisits(count <= samples ? sample : sample * count / samples);
    if (!visits)
      return std::nullopt;
    least = std::min(least, *visits);
    most = std::max(most, *visits);
  }
  return count > 0 && 8 * (most - least - kRounding) > most;
}

/// Returns the number of queries, or a large number if it is unknown.
static int64_t getUsualLength(const LoopNest &nest) {
  return getConstantIntValue(nest.resident.extent).value_or(128 * nest.residentTile);
}

/// Whether pairs of tiles differ in work. A pair is tile i from the beginning and tile i from the end.
static std::optional<bool> pairsDiffer(const LoopNest &nest, int64_t length, int64_t samples) {
  int64_t tiles = llvm::divideCeil(length, nest.residentTile);
  return differ(tiles / 2, samples, [&](int64_t tile) -> std::optional<int64_t> {
    std::optional<int64_t> first = countVisits(nest, tile * nest.residentTile, length),
                           second = countVisits(nest, (tiles - 1 - tile) * nest.residentTile, length);
    return first && second ? std::optional(*first + *second) : std::nullopt;
  });
}

/// Whether the tiles from the middle to seven eighths of the grid differ in work.
static std::optional<bool> tilesDiffer(const LoopNest &nest, int64_t length, int64_t samples) {
  int64_t tiles = llvm::divideCeil(length, nest.residentTile);
  return differ(tiles * 3 / 8, samples,
                [&](int64_t tile) { return countVisits(nest, (tiles / 2 + tile) * nest.residentTile, length); });
}

std::string flashc::whyUnsorted(const LoopNest &nest, bool isPersistent) {
  if (!nest.mask)
    return "";
  bool isByKeys = nest.getStep().getStreamedDim() == flash::StepDim::I;
  std::string streamed = isByKeys ? "queries" : "keys", resident = isByKeys ? "keys" : "queries";
  std::string why;
  for (const Segment &segment : nest.segments)
    for (OpFoldResult bound : {segment.begin, segment.end}) {
      BoundInfo info(bound);
      if (!isPersistent && info.dependsOn(nest.head.position))
        return "";
      if (!why.empty())
        continue;
      if (info.reads)
        why = "the bounds of the " + streamed + " read an array";
      else if (info.dependsOn(nest.batch.position) || info.dependsOn(nest.head.position))
        why = "the bounds of the " + streamed + " differ between heads or batches";
    }
  if (!why.empty())
    return why;
  std::optional<bool> isShortFirst = isSoForSome(nest, startsShort);
  if (!isShortFirst)
    return "the bounds of the " + streamed + " are known at the launch only";
  if (*isShortFirst)
    return "tiles of " + resident + " see fewer " + streamed + " than tiles " + (isByKeys ? "behind" : "before") +
           " them";
  if (!isPersistent || !dependsOnResident(nest))
    return "";
  if (levelsOff(nest))
    return tilesDiffer(nest, getUsualLength(nest), /*samples=*/64).value_or(true)
               ? "tiles of " + resident + " differ in their " + streamed
               : "";
  return isSoForSome(nest, pairsDiffer).value_or(true)
             ? "pairs of tiles of " + resident + ", one from either end, differ in their " + streamed
             : "";
}

bool flashc::isLastFirst(const LoopNest &nest) { return nest.getStep().getStreamedDim() == flash::StepDim::J; }

bool flashc::mayReorder(const LoopNest &nest) { return nest.isAnyAddedUp(); }

bool flashc::dependsOnResident(const LoopNest &nest) {
  return llvm::any_of(nest.segments, [&](const Segment &segment) {
    return llvm::any_of(std::array{segment.begin, segment.end},
                        [&](OpFoldResult bound) { return BoundInfo(bound).dependsOn(nest.resident.position); });
  });
}

bool flashc::hasFixedEnds(const LoopNest &nest) {
  return llvm::none_of(std::array{nest.segments.front().begin, nest.segments.back().end},
                       [&](OpFoldResult bound) { return BoundInfo(bound).dependsOn(nest.resident.position); });
}

bool flashc::areKnownToDiffer(const LoopNest &nest) {
  int64_t length = getUsualLength(nest);
  std::optional<int64_t> first = countVisits(nest, 0, length);
  int64_t step = llvm::divideCeil(length, 64 * nest.residentTile) * nest.residentTile;
  for (int64_t begin = 0; first && begin < length; begin += step)
    if (countVisits(nest, begin, length) != first)
      return true;
  return false;
}

bool flashc::levelsOff(const LoopNest &nest) {
  int64_t length = getUsualLength(nest);
  int64_t tiles = llvm::divideCeil(length, nest.residentTile), middle = tiles / 2, later = tiles * 3 / 4;
  std::optional<int64_t> before = countVisits(nest, middle * nest.residentTile, length),
                         after = countVisits(nest, later * nest.residentTile, length);
  // Under a causal mask the keys grow as fast as the queries; rounding adds at most one tile.
  return before && after && 2 * (*after - *before) * nest.streamedTile < (later - middle) * nest.residentTile;
}
