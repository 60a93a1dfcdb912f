//===- RangeReader.h - interval arithmetic on the mask of one tile ------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::flash {

/// The bounds, in i64, of an integer of a mask region for all pairs of a tile. A value without an interval may be
/// anything.
struct Interval64 {
  Value lo, hi;
  bool isNatural = false; // lo is known to be >= 0
  /// The arrays whose elements the integer is computed from, and the values that flash.tile_range evaluated: sums of
  /// these may wrap around.
  llvm::SetVector<Value> arrays = {};
};

/// Whether a condition may hold for some pair of a tile, and whether it may fail for some: i1 values, null for true.
struct ConditionRange {
  Value mayHold, mayFail;
  llvm::SetVector<Value> arrays = {}; // the arrays that these depend on

  bool isKnown() const { return mayHold || mayFail; }
};

/// The number of bits of an integer; 64 for an index.
inline unsigned getWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

/// The union of two sets of arrays.
inline llvm::SetVector<Value> unite(const llvm::SetVector<Value> &x, const llvm::SetVector<Value> &y) {
  llvm::SetVector<Value> both = x;
  both.insert(y.begin(), y.end());
  return both;
}

/// Evaluates a mask region for a tile with intervals for integers. An integer that depends on the query alone, or on
/// the key alone, has its least and greatest value in the tile as its interval: they are computed at the tile's ends if
/// the integer is monotone, and else over all positions (flash.tile_range). Code that the class does not know may have
/// any value.
///
/// Integers that are computed from elements may wrap around; if they may in a tile, they have any value of their type.
/// Positions, and integers that are computed from positions alone, are assumed not to overflow, as in the analysis of
/// masks.
class RangeReader {
public:
  /// A tile of keys or of queries: its size, its first position as a value of the emitted code, and the extent of the
  /// sequence.
  struct Tile {
    int64_t size;
    Value first, extent;
  };
  /// `b` emits the code that runs for a tile. Values that are captured from inside of `anchor` may have any value.
  RangeReader(Region &mask, ImplicitLocOpBuilder &b, Operation *anchor, Value batch, Value head, Tile queries,
              Tile keys);

  ConditionRange getCondition(Value condition);

private:
  using Range = std::optional<Interval64>;

  Range getRange(Value value);
  Range computeRange(Value value);
  Range getByRunning(Value value);
  Range getElement(Operation *op);
  Range getUniform(Value value);
  Range getPosition(const Tile &tile);
  Range getSum(Operation *op);
  Range getProduct(arith::MulIOp op);
  Range getExtremum(Operation *op);
  Range getSelect(arith::SelectOp op);
  Range getByConstant(Operation *op);
  Range getUnsigned(Operation *op);
  Range wrap(Type type, Interval64 range, Value isSafe = {});
  /// Whether twice `range` times `factor` fits 64 bits.
  Value isModerate(const Interval64 &range, int64_t factor);

  bool isOfEnds(Operation *op);
  ConditionRange computeCondition(Value condition);
  ConditionRange getComparison(arith::CmpIOp op);
  ConditionRange getEqual(const ConditionRange &x, const ConditionRange &y, bool areEqual);

  bool isUniform(Value value);
  Value copyUniform(Value value);
  bool isMonotone(Value value);

  Value constant(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value min(Value x, Value y) { return b.createOrFold<arith::MinSIOp>(x, y); }
  Value max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return b.createOrFold<arith::CmpIOp>(predicate, x, y);
  }
  /// Conjunction and disjunction of conditions of which null is true.
  Value both(Value x, Value y) { return !x ? y : !y ? x : b.createOrFold<arith::AndIOp>(x, y); }
  Value either(Value x, Value y) { return !x || !y ? Value() : b.createOrFold<arith::OrIOp>(x, y); }

  Region &mask;
  ImplicitLocOpBuilder &b;
  Operation *anchor;
  Tile queries, keys;
  IRMapping uniform;
  DenseMap<Value, bool> knownUniform, ofQuery, ofKey;
  DenseMap<Value, Range> ranges;
  DenseMap<Value, ConditionRange> conditions;
  int64_t numRangeOps = 0; // operations in all flash.tile_range
};

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H
