//===- LineEvaluator.cpp - spaces of iterations, and how they are split -------------------------------------------===//
//
// What operations do to lines is in LineOperations.cpp.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "LineEvaluator.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace flashc;

SmallVector<LoopCounter> flashc::getLoopCounters(Operation *op) {
  auto loop = cast<LoopLikeOpInterface>(op);
  SmallVector<LoopCounter> counters;
  for (auto [value, begin, end, step] : llvm::zip_equal(*loop.getLoopInductionVars(), *loop.getLoopLowerBounds(),
                                                        *loop.getLoopUpperBounds(), *loop.getLoopSteps()))
    counters.push_back({value, begin, end, step});
  return counters;
}

bool flashc::isComputedFrom(ValueRange values, BlockArgument counter) {
  Region &loop = *counter.getParentRegion();
  return llvm::any_of(values, [&](Value value) { return flash::dependsOn(value, counter, loop); });
}

static __int128 abs(__int128 value) { return value < 0 ? -value : value; }

static __int128 divideFloor(__int128 value, __int128 divisor) { return value / divisor - (value % divisor < 0); }

//===--------------------------------------------------------------------------------------------------------------===//
// The space
//===--------------------------------------------------------------------------------------------------------------===//

void LineEvaluator::setCounter(Value counter, int64_t value) {
  arguments[counter] = Line{value};
  known.clear();
}

void LineEvaluator::enter(unsigned loop, const Loop &part) {
  loops[loop] = part;
  loops[loop].count = simplify(part.count);
  loops[loop].value = simplify(part.value);
  known.clear();
}

bool LineEvaluator::isSingle() const {
  return llvm::all_of(ArrayRef(loops).take_front(numLoops),
                      [](const Loop &loop) { return loop.count.isConstant() && loop.count.base == 1; });
}

Line LineEvaluator::simplify(Line line) const {
  for (unsigned loop = 0; loop < kMaxLoops; ++loop)
    if (loop >= numLoops || (loops[loop].count.isConstant() && loops[loop].count.base == 1))
      line.slope[loop] = 0;
  return line;
}

llvm::DynamicAPInt LineEvaluator::countPoints() const {
  llvm::DynamicAPInt points(1);
  if (numLoops > 0)
    points = llvm::DynamicAPInt(loops[0].count.base);
  if (numLoops < 2)
    return points;
  // The sum of a line.
  const Line &inner = loops[1].count;
  return points * inner.base + points * (points - 1) / 2 * inner.slope[0];
}

LineEvaluator::Range LineEvaluator::getRange(const Line &line) const { return getRange(widen(line)); }

LineEvaluator::Range LineEvaluator::getRange(const Wide &line) const {
  auto getLast = [](const Line &count, __int128 at) { return count.base + at * count.slope[0] - 1; };
  Range range{line[0], line[0]};
  for (__int128 k0 : {__int128(0), numLoops > 0 ? getLast(loops[0].count, 0) : 0})
    for (__int128 k1 : {__int128(0), numLoops > 1 ? getLast(loops[1].count, k0) : 0}) {
      __int128 value = line[0] + line[1] * k0 + line[2] * k1;
      range = {std::min(range.low, value), std::max(range.high, value)};
    }
  return range;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Splitting
//===--------------------------------------------------------------------------------------------------------------===//

static Line moveBy(Line line, const Line &by, int64_t factor) {
  line.base += factor * by.base;
  line.slope[0] += factor * by.slope[0];
  return line;
}

/// In ascending order, for a stack.
SmallVector<LineEvaluator::Loop> LineEvaluator::takeParts(const Loop &loop, const Split &split) {
  unsigned own = split.loop;
  SmallVector<Loop> parts;
  if (!split.classes) {
    Loop front = loop, back = loop;
    front.count = split.at;
    back.value = moveBy(back.value, split.at, loop.value.slope[own]);
    back.count = moveBy(back.count, split.at, -1);
    return {back, front};
  }
  for (int64_t remainder = split.classes - 1; remainder >= 0; --remainder) {
    Loop part = loop;
    part.value.base += remainder * loop.value.slope[own];
    part.value.slope[own] *= split.classes;
    part.count.base = llvm::divideCeilSigned(loop.count.base - remainder, split.classes);
    parts.push_back(part);
  }
  return parts;
}

std::optional<Iterations> LineEvaluator::getIterations(const LoopCounter &counter) {
  std::optional<Line> begin = get(counter.begin), end = begin ? get(counter.end) : std::nullopt;
  std::optional<Line> by = end ? get(counter.step) : std::nullopt;
  std::optional<Line> distance = by ? add(*end, *begin, -1) : std::nullopt;
  int64_t step = by ? std::max<int64_t>(by->base, 1) : 1;
  std::optional<Line> count = distance ? divide(*distance, step, /*isCeil=*/true) : std::nullopt;
  return count ? std::optional(Iterations{counter.value, *begin, step, *count}) : std::nullopt;
}

LogicalResult LineEvaluator::forEachPart(Iterations iterations, llvm::function_ref<LogicalResult()> visit) {
  std::optional<bool> hasAny = isNotLess(iterations.count, Line{1});
  if (!hasAny || !*hasAny)
    return success(hasAny.has_value());
  unsigned own = numLoops++;
  iterations.begin.slope[own] = iterations.step;
  SmallVector<Loop> parts = {{iterations.counter, iterations.begin, iterations.count}};
  LogicalResult result = success();
  while (!parts.empty() && succeeded(result)) {
    Loop part = parts.pop_back_val();
    enter(own, part);
    result = visit();
    if (failed(result) && split && split->loop == own) {
      llvm::append_range(parts, takeParts(part, *std::exchange(split, std::nullopt)));
      result = success();
    }
  }
  --numLoops;
  known.clear();
  return result;
}

LogicalResult LineEvaluator::forEachNumber(const Iterations &iterations, bool firstOnly,
                                           llvm::function_ref<LogicalResult()> visit) {
  const auto &[counter, begin, step, count] = iterations;
  std::optional<bool> hasAny = isNotLess(count, Line{1});
  if (!hasAny || !*hasAny)
    return success(hasAny.has_value());
  if (!firstOnly && (!begin.isConstant() || !count.isConstant())) {
    splitInHalves();
    return failure();
  }
  for (int64_t number = 0; number < (firstOnly ? 1 : count.base); ++number) {
    setCounter(counter, begin.base + number * step);
    if (failed(visit()))
      return failure();
  }
  return success();
}

void LineEvaluator::splitInHalves() {
  unsigned loop = loops[0].count.base > 1 ? 0 : 1;
  split = Split{loop, Line{loops[loop].count.base / 2}};
}

std::optional<bool> LineEvaluator::isNotLess(const Line &a, const Line &b) {
  Wide difference = widen(a);
  for (auto [part, other] : llvm::zip_equal(difference, widen(b)))
    part -= other;
  Range range = getRange(difference);
  if (range.low >= 0 || range.high < 0)
    return range.low >= 0;
  if (std::optional<Line> line = narrow(difference))
    splitAtSign(*line);
  return std::nullopt;
}

/// Of a line with both signs: at the first iteration whose sign is not that of the one before.
void LineEvaluator::splitAtSign(const Line &line) {
  unsigned loop = numLoops > 1 && line.slope[1] ? 1 : 0;
  int64_t slope = line.slope[loop];
  Line rest = line;
  rest.slope[loop] = 0;
  // The first k with rest + slope * k >= 0, or < 0.
  std::optional<Line> distance = slope > 0 ? add({}, rest, -1) : rest;
  std::optional<Line> at = distance ? divide(*distance, std::abs(slope), /*isCeil=*/slope > 0) : std::nullopt;
  if (at && slope < 0)
    at = add(*at, Line{1});
  if (!at)
    return;
  // A part of the inner loop must have an iteration for every one of the outer loop.
  if (loop == 1 && (!isNotLess(*at, Line{1}) || !isNotLess(loops[1].count, moveBy(Line{1}, *at, 1))))
    return;
  split = Split{loop, *at};
}

std::optional<Line> LineEvaluator::narrow(const Wide &line, unsigned bits) {
  constexpr __int128 kMaxSlope = __int128(1) << 62;
  __int128 limit = __int128(1) << (bits - 1);
  Range range = getRange(line);
  bool hasRoom = llvm::all_of(ArrayRef(line).drop_front(), [&](__int128 slope) { return abs(slope) < kMaxSlope; });
  if (!isSingle() && (!hasRoom || range.low < -limit || range.high >= limit)) {
    splitInHalves();
    return std::nullopt;
  }
  return simplify({int64_t(line[0]), {int64_t(line[1]), int64_t(line[2])}});
}

std::optional<Line> LineEvaluator::add(const Line &a, const Line &b, int64_t factor) {
  Wide sum;
  for (auto [part, x, y] : llvm::zip_equal(sum, widen(a), widen(b)))
    part = x + y * factor;
  return narrow(sum);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Quotients
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<Line> LineEvaluator::divide(const Line &line, int64_t divisor, bool isCeil) {
  Wide wide = widen(line);
  if (isCeil)
    wide[0] += divisor - 1;
  // What the divisor divides stays in front of the quotient of the rest.
  Wide whole{}, rest = wide;
  for (unsigned part : {1, 2})
    if (wide[part] % divisor == 0)
      whole[part] = std::exchange(rest[part], 0) / divisor;
  Range range = getRange(rest);
  __int128 quotient = divideFloor(range.low, divisor);
  if (quotient != divideFloor(range.high, divisor)) {
    splitAtQuotient(rest, divisor);
    return std::nullopt;
  }
  whole[0] = quotient;
  return narrow(whole);
}

/// Where the quotient steps, or into residue classes without steps.
void LineEvaluator::splitAtQuotient(const Wide &line, int64_t divisor) {
  bool isOuter = loops[0].count.base > 1;
  unsigned loop = isOuter ? 0 : 1;
  if (isOuter && numLoops > 1 && line[2] != 0)
    return splitInHalves();
  __int128 slope = line[loop + 1];
  Range range = getRange(line);
  __int128 steps = divideFloor(range.high, divisor) - divideFloor(range.low, divisor);
  int64_t classes = divisor / std::gcd(int64_t(abs(slope) % divisor), divisor);
  if (classes <= steps && classes < loops[loop].count.base) {
    split = Split{loop, {}, classes};
    return;
  }
  __int128 first = divideFloor(line[0], divisor);
  // The first k in the next quotient: line[0] + slope * k >= (first + 1) * divisor, or < first * divisor.
  __int128 at = slope > 0 ? -divideFloor(line[0] - (first + 1) * divisor, slope)
                          : divideFloor(line[0] - first * divisor, -slope) + 1;
  split = Split{loop, Line{int64_t(at)}};
}
