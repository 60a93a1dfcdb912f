//===- Maps.cpp - user code on tiles: once per row, once per element ----------------------------------------------===//

#include "Lowering.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// Repeats the region of a tile.map for each element. Code that depends only on (b, h), only on i or only on j is the
/// same for many elements; common subexpression elimination merges it. Two kinds of code are not cloned as they are:
/// conditions that bound j, which become bits of words, and positions that are converted to floating point.
class MapExpander {
public:
  MapExpander(MapOp op, ValueRange source, ArrayRef<ValueRange> rows, const KernelContext &kernel, OpBuilder &b)
      : op(op), source(source), rows(rows), b(b), emit(b, op.getLoc()) {
    Value row = emit.add(op.getRow(), emit.toIndex(kernel.row));
    positions[0] = row, positions[1] = emit.add(row, 8);
    col = emit.add(op.getCol(), emit.toIndex(emit.mul(kernel.laneCol, 2)));
  }

  /// Returns the elements. If the map has a second result, adds to `offsets` the values that must be added to whole
  /// rows.
  SmallVector<Value> expand(SmallVector<Value> &offsets) {
    auto yield = cast<tile::YieldOp>(op.getBody().front().getTerminator());
    findCodeOfOffset(yield);
    Value yielded = yield.getValue();
    SmallVector<Value> results(source.size());
    for (memref::LoadOp load : op.getBody().getOps<memref::LoadOp>())
      if (isReadAlongRow(op, load))
        reads[load] = readPairs(emit, op, load, {mapArguments(0), mapArguments(2)}, source.size());
    for (int64_t half = 0; half < 2; ++half) // row by row: eight bits of a word at a time
      for (int64_t e = 0, n = source.size(); e < n; ++e) {
        if (getHalf(e) != half)
          continue;
        IRMapping mapping = mapArguments(e);
        bool isFirst = getColumn(e) == 0;
        for (Operation &nested : op.getBody().front().without_terminator())
          if (isFirst || !codeOfOffset.contains(&nested))
            expandOp(nested, e, mapping);
        mapBit(yielded, e, mapping);
        results[e] = mapping.lookupOrDefault(yielded);
        if (isFirst && yield.getOffset())
          offsets.push_back(mapping.lookupOrDefault(yield.getOffset()));
      }
    return results;
  }

private:
  IRMapping mapArguments(int64_t e) {
    IRMapping mapping;
    Block::BlockArgListType arguments = op.getBody().getArguments();
    Value j = addColumn(emit, col, getColumn(e));
    mapping.map(arguments.take_front(3), ValueRange{source[e], positions[getHalf(e)], j});
    for (auto [argument, values, tile] : llvm::zip_equal(arguments.drop_front(3), rows, op.getRows()))
      mapping.map(argument, values[isColTile(tile.getType()) ? getColumnNumber(e) : getHalf(e)]);
    return mapping;
  }

  /// Finds the code that only the second result needs. Such code is emitted only for the first element of a row.
  void findCodeOfOffset(tile::YieldOp yield) {
    auto isOfOffset = [&](OpOperand &use) {
      return codeOfOffset.contains(use.getOwner()) || (use.getOwner() == yield && use.getOperandNumber() == 1);
    };
    for (Operation &nested : llvm::reverse(op.getBody().front().without_terminator()))
      if (isPure(&nested) && !nested.use_empty() && llvm::all_of(nested.getUses(), isOfOffset))
        codeOfOffset.insert(&nested);
  }

  void expandOp(Operation &nested, int64_t e, IRMapping &mapping) {
    if (auto first = dyn_cast<FirstColumnOp>(nested)) {
      mapping.map(first.getResult(), col);
      return;
    }
    if (auto known = reads.find(&nested); known != reads.end()) {
      mapping.map(nested.getResult(0), known->second[e]);
      return;
    }
    if (nested.getNumResults() == 1 && isWord(nested.getResult(0)))
      return; // emitted where it is used
    nested.walk([&](Operation *user) {
      for (Value operand : user->getOperands())
        mapBit(operand, e, mapping);
    });
    auto convert = dyn_cast<arith::SIToFPOp>(nested);
    if (!joinConditions(nested, mapping) && (!convert || !convertPosition(convert, e, mapping)))
      b.clone(nested, mapping);
  }

  /// Joins two conditions by one predicate instruction. LLVM would use two selects, which cost more. Conditions on
  /// distances i - j are left to LLVM: many elements share them, and the seven predicates cannot hold them all (a
  /// dilated window took 1.3 times as long).
  bool joinConditions(Operation &nested, IRMapping &mapping) {
    bool isCondition = isa<arith::AndIOp, arith::OrIOp>(nested) && nested.getResult(0).getType().isInteger(1) &&
                       !op.isSameInRow(nested.getResult(0));
    if (!isCondition || isOfDistance(nested.getResult(0)))
      return false;
    SmallVector<Value> operands =
        llvm::map_to_vector(nested.getOperands(), [&](Value x) { return mapping.lookupOrDefault(x); });
    StringRef text = isa<arith::AndIOp>(nested) ? "and.pred $0, $1, $2;" : "or.pred $0, $1, $2;"; // PTX ISA 9.7.8
    mapping.map(nested.getResult(0), emit.ptx(b.getI1Type(), text, "=b,b,b", operands, /*sideEffects=*/false));
    return true;
  }

  // Functions for conditions that are held as words: bit n of word g belongs to element 32 g + n of the row.
  bool isWord(Value value);
  Value getWord(Value value, int64_t half, int64_t group, IRMapping &mapping);
  Value getBoundWord(const MapOp::Bound &bound, int64_t half, int64_t group, IRMapping &mapping);
  /// Whether the value is computed from a sum a * i + b * j, such as the distance i - j.
  bool isOfDistance(Value value);
  std::optional<int64_t> getRepeat(Value value);
  Value getRepeatedWord(Value value, int64_t repeat, int64_t half, int64_t group);
  llvm::SetVector<Operation *> getSlice(Value value);
  Value evaluate(Value value, int64_t e);
  Value countBefore(const MapOp::Bound &bound, IRMapping &mapping);
  void mapBit(Value value, int64_t e, IRMapping &mapping);

  bool convertPosition(arith::SIToFPOp convert, int64_t e, IRMapping &mapping);

  MapOp op;
  ValueRange source;
  ArrayRef<ValueRange> rows;
  OpBuilder &b;
  Emitter emit;
  Value positions[2], col;
  llvm::SmallPtrSet<Operation *, 8> codeOfOffset;
  llvm::DenseMap<Value, bool> wordLike, ofDistance;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> words, counts;
  llvm::DenseMap<Operation *, Value> firstPositions;
  /// Values that are loaded from an array for every element.
  llvm::DenseMap<Operation *, SmallVector<Value>> reads;
};

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Conditions
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether the value is held as bits of words: a bound on j, a condition that repeats along j, or a combination of
/// these with values that are constant in a row.
bool MapExpander::isWord(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !value.getType().isInteger(1) || def->getBlock() != &op.getBody().front())
    return false;
  auto [known, isNew] = wordLike.try_emplace(value, false);
  if (!isNew)
    return known->second;
  bool result = op.getBound(value) || getRepeat(value);
  if (!result && isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(def))
    result =
        llvm::any_of(def->getOperands(), [&](Value operand) { return isWord(operand); }) &&
        llvm::all_of(def->getOperands(), [&](Value operand) { return isWord(operand) || op.isSameInRow(operand); });
  return wordLike[value] = result;
}

/// Emits how many of a thread's elements in a row lie before a bound. An upper bound lies before the first element that
/// it excludes. The thread's columns lie 8 n and 8 n + 1 columns after its first one. Those whose distance from the
/// first column is less than that of the bound are counted. Limits that are far away are first clamped, so that the
/// difference cannot wrap around.
Value MapExpander::countBefore(const MapOp::Bound &bound, IRMapping &mapping) {
  auto max = [&](Value x, Value y) -> Value { return arith::MaxSIOp::create(b, emit.loc, x, y); };
  auto min = [&](Value x, Value y) -> Value { return arith::MinSIOp::create(b, emit.loc, x, y); };
  int64_t cols = cast<RankedTensorType>(op.getType()).getDimSize(1);
  Value limit = max(mapping.lookupOrDefault(bound.limit), emit.add(col, -2));
  limit = min(limit, emit.add(col, cols + 1));
  Value distance = emit.toI32(arith::SubIOp::create(b, emit.loc, limit, col));
  distance = max(emit.add(distance, bound.offset + bound.isUpper), emit.i32(0));
  return emit.add(emit.mul(emit.shr(distance, 3), 2), min(emit.bitAnd(distance, 7), emit.i32(2)));
}

Value MapExpander::getBoundWord(const MapOp::Bound &bound, int64_t half, int64_t group, IRMapping &mapping) {
  // Bounds of several elements may have the same limit with different offsets, so `counts` is indexed by both.
  Value &count = counts[{bound.limit, 8 * half + 2 * bound.offset + bound.isUpper}];
  if (!count)
    count = countBefore(bound, mapping);
  Value inWord = count;
  if (group > 0)
    inWord = arith::MaxSIOp::create(b, emit.loc, emit.add(count, -32 * group), emit.i32(0));
  // The operands of bmsk: d, first bit, number of bits (PTX ISA 9.7.1.22).
  SmallVector<Value> bits = {emit.i32(0), inWord};
  if (!bound.isUpper)
    bits = {inWord, emit.i32(32)};
  return emit.ptx(b.getI32Type(), "bmsk.clamp.b32 $0, $1, $2;", "=r,r,r", bits, /*sideEffects=*/false);
}

std::optional<int64_t> MapExpander::getRepeat(Value value) {
  if (!value.getDefiningOp<arith::CmpIOp>())
    return std::nullopt;
  return tile::getRepeat(value, op.getBody().getArgument(2), cast<RankedTensorType>(op.getType()).getDimSize(1));
}

/// Returns the ops of the region that compute `value`.
llvm::SetVector<Operation *> MapExpander::getSlice(Value value) {
  Block &body = op.getBody().front();
  BackwardSliceOptions options;
  options.inclusive = true;
  options.filter = [&](Operation *other) { return other->getBlock() == &body; };
  llvm::SetVector<Operation *> slice;
  LogicalResult isComplete = getBackwardSlice(value, &slice, options);
  assert(succeeded(isComplete) && "tile.map has one block");
  (void)isComplete;
  return slice;
}

bool MapExpander::isOfDistance(Value value) {
  auto [known, isNew] = ofDistance.try_emplace(value, false);
  if (!isNew)
    return known->second;
  bool result = llvm::any_of(getSlice(value), [&](Operation *nested) {
    std::optional<MapOp::Linear> linear =
        isa<arith::AddIOp, arith::SubIOp>(nested) ? op.getLinear(nested->getResult(0)) : std::nullopt;
    return linear && linear->j != 0 && linear->i.value_or(0) != 0;
  });
  return ofDistance[value] = result;
}

/// Evaluates `value` at the thread's element `e`.
Value MapExpander::evaluate(Value value, int64_t e) {
  IRMapping mapping = mapArguments(e);
  for (Operation *nested : getSlice(value))
    b.clone(*nested, mapping);
  return mapping.lookup(value);
}

/// Emits the word of a condition that repeats after `repeat` blocks of columns. The condition is evaluated for each
/// column of the first `repeat` blocks. If it holds there, it sets the bits of all columns that repeat this one.
Value MapExpander::getRepeatedWord(Value value, int64_t repeat, int64_t half, int64_t group) {
  Value word = emit.i32(0);
  for (int64_t first = 0; first < 2 * repeat; ++first) {
    uint32_t bits = 0;
    for (int64_t bit = 0; bit < 32; ++bit)
      bits |= uint32_t((32 * group + bit) % (2 * repeat) == first) << bit;
    Value holds = evaluate(value, 4 * (first / 2) + 2 * half + first % 2);
    Value selected = arith::SelectOp::create(b, emit.loc, holds, emit.i32(bits), emit.i32(0));
    word = arith::OrIOp::create(b, emit.loc, word, selected);
  }
  return word;
}

Value MapExpander::getWord(Value value, int64_t half, int64_t group, IRMapping &mapping) {
  std::pair<Value, int64_t> key{value, 2 * group + half};
  if (Value known = words.lookup(key))
    return known;
  Value word;
  if (std::optional<MapOp::Bound> bound = isWord(value) ? op.getBound(value) : std::nullopt) {
    word = getBoundWord(*bound, half, group, mapping);
  } else if (std::optional<int64_t> repeat = isWord(value) ? getRepeat(value) : std::nullopt) {
    word = getRepeatedWord(value, *repeat, half, group);
  } else if (isWord(value)) {
    Operation *def = value.getDefiningOp();
    Value x = getWord(def->getOperand(0), half, group, mapping), y = getWord(def->getOperand(1), half, group, mapping);
    OperationState state(emit.loc, def->getName(), ValueRange{x, y}, TypeRange(b.getI32Type()));
    word = b.create(state)->getResult(0);
  } else {
    word = arith::ExtSIOp::create(b, emit.loc, b.getI32Type(), mapping.lookupOrDefault(value));
  }
  words[key] = word;
  return word;
}

/// If `value` is held as bits of words, maps `value` to the bit of element `e`. ptxas tests eight such bits at once
/// (R2P).
void MapExpander::mapBit(Value value, int64_t e, IRMapping &mapping) {
  if (mapping.contains(value) || !isWord(value))
    return;
  int64_t number = 2 * (e / 4) + e % 2;
  Value word = getWord(value, getHalf(e), number / 32, mapping);
  mapping.map(value, emit.isSet(word, number % 32));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Positions
//===--------------------------------------------------------------------------------------------------------------===//

/// Converts a position, or its absolute value, to f32: adds a constant to the conversion of the position of the
/// thread's first element. The result is exact up to 2^24, and rounded twice above. An addition takes a quarter of the
/// time of a conversion.
bool MapExpander::convertPosition(arith::SIToFPOp convert, int64_t e, IRMapping &mapping) {
  auto isWide = [](Type type) { return type.isIndex() || type.getIntOrFloatBitWidth() >= 32; };
  Value position = convert.getIn();
  while (isa_and_nonnull<arith::IndexCastOp, arith::ExtSIOp>(position.getDefiningOp()) && isWide(position.getType()))
    position = position.getDefiningOp()->getOperand(0);
  auto magnitude = position.getDefiningOp<math::AbsIOp>();
  position = magnitude ? magnitude.getOperand() : convert.getIn();
  std::optional<MapOp::Linear> linear = op.getLinear(position);
  if (!convert.getType().isF32() || !linear || !linear->i || (linear->i == 0 && linear->j == 0))
    return false;
  Value &first = firstPositions[convert];
  if (!first) {
    Value whole = mapping.lookupOrDefault(position);
    first =
        arith::SIToFPOp::create(b, emit.loc, convert.getType(), whole.getType().isIndex() ? emit.toI32(whole) : whole);
  }
  int64_t distance = *linear->i * 8 * getHalf(e) + linear->j * getColumn(e);
  Value result = first;
  if (distance != 0) {
    Value constant = arith::ConstantOp::create(b, emit.loc, b.getF32FloatAttr(static_cast<float>(distance)));
    result = arith::AddFOp::create(b, emit.loc, first, constant);
  }
  if (magnitude)
    result = math::AbsFOp::create(b, emit.loc, result);
  mapping.map(convert.getResult(), result);
  return true;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Patterns
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

TileValues lowerMap(MapOp op, Adaptor<MapOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SmallVector<ValueRange> rows = llvm::to_vector(adaptor.getRows());
  SmallVector<Value> offsets, results;
  if (isLargeMap(op))
    results = expandInLoops(op, adaptor.getSource(), rows, kernel, emit.builder, offsets);
  else
    results = MapExpander(op, adaptor.getSource(), rows, kernel, emit.builder).expand(offsets);
  return op.getOffset() ? TileValues{results, offsets} : TileValues{results};
}

TileValues lowerRows(RowsOp op, Adaptor<RowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value first = emit.add(op.getRow(), emit.toIndex(kernel.row));
  SmallVector<Value> results;
  for (int64_t half = 0; half < 2; ++half) {
    IRMapping mapping;
    mapping.map(op.getBody().getArgument(0), emit.add(first, 8 * half));
    for (Operation &nested : op.getBody().front().without_terminator())
      emit.builder.clone(nested, mapping);
    results.push_back(mapping.lookupOrDefault(cast<tile::YieldOp>(op.getBody().front().getTerminator()).getValue()));
  }
  return {results};
}

} // namespace

void flashc::tiletonvvm::populateMapPatterns(KernelPatterns &patterns) { patterns.add(lowerMap, lowerRows); }
