//===- RangeReader.h - a mask of one tile, by intervals -----------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::flash {

/// An integer of a mask region is between these two, in i64, for all pairs of a tile. Nothing is known of a value
/// without an interval.
struct Interval64 {
  Value lo, hi;
  bool isNatural = false; // lo is known to be >= 0
  /// The arrays whose elements it is computed from, and values that were run: sums of such may wrap around.
  llvm::SetVector<Value> arrays = {};
};

/// Whether a condition holds for some pairs of a tile, and whether it does not for some: i1, null for true.
struct ConditionRange {
  Value mayHold, mayFail;
  llvm::SetVector<Value> arrays = {}; // that say so

  bool isKnown() const { return mayHold || mayFail; }
};

/// Bits of an integer, an index having 64.
inline unsigned getWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

/// The arrays of either.
inline llvm::SetVector<Value> unite(const llvm::SetVector<Value> &x, const llvm::SetVector<Value> &y) {
  llvm::SetVector<Value> both = x;
  both.insert(y.begin(), y.end());
  return both;
}

/// Computes a mask region with intervals for integers. What hangs on the query alone, or on the key alone, is between
/// the least and the greatest value that it has in the tile: those of the tile's ends where it is monotone, and else
/// those of all its positions (flash.tile_range). What is not understood may have any value.
///
/// What is computed from elements may wrap around; where it may in a tile, it has any value of its type. Positions and
/// what is computed from them alone do not overflow, as for the analysis of masks.
class RangeReader {
public:
  /// A tile of keys or of queries: how many, the first one, in the region that is written, and how many there are in
  /// all.
  struct Tile {
    int64_t size;
    Value first, extent;
  };
  /// `b` writes what is computed for a tile. What is captured from inside of `anchor` is not understood.
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
  /// Whether `range` times `factor`, twice, fits 64 bits.
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
  /// Null is true.
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
  int64_t numRangeOps = 0; // in all flash.tile_range
};

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_RANGEREADER_H
