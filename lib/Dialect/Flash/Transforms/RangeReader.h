//===- RangeReader.h - interval arithmetic on the mask of one tile ------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::flash {

/// The bounds, in i64, of an integer of a mask region over all pairs of a tile. If an integer has no Interval64, it may
/// have any value.
struct Interval64 {
  Value lo, hi;
  bool isNatural = false; // lo is known to be >= 0
  /// If this set is not empty, a sum with the integer may wrap around. The set has the arrays whose elements the
  /// integer is computed from. If the bounds come from a flash.tile_range that reads no array, the set has the value of
  /// which the flash.tile_range computes the bounds.
  llvm::SetVector<Value> arrays = {};
};

/// Whether a condition may hold for some pair of a tile, and whether it may fail for some pair. Both are i1 values,
/// where null stands for true.
struct ConditionRange {
  Value mayHold, mayFail;
  llvm::SetVector<Value> arrays = {}; // the arrays that the condition depends on

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

/// Evaluates a mask region for a whole tile, with intervals for integers. If an integer depends on the query alone, or
/// on the key alone, its interval is from its least to its greatest value in the tile. These two are computed at the
/// tile's ends if the integer is monotone, and otherwise over all positions (flash.tile_range). A value whose code is
/// not understood may be anything.
///
/// Integers that are computed from elements may wrap around. Where such an integer may do so in a tile, its interval is
/// all values of its type. Positions, and integers that are computed from positions alone, are assumed not to overflow,
/// as in the analysis of masks.
class RangeReader {
public:
  /// A tile of keys or of queries: its size, its first position as a value of the emitted code, and the extent of the
  /// sequence.
  struct Tile {
    int64_t size;
    Value first, extent;
  };
  /// `b` emits the code that runs for a tile. Nothing is known of a captured value that is defined inside of `anchor`.
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
  /// Emits whether the bounds of `range`, times twice the `factor`, fit 64 bits.
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
  /// Emit the conjunction and the disjunction of two conditions. A null condition is true.
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
