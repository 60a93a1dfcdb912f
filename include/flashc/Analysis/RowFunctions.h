//===- RowFunctions.h - what a mask computes for a query ----------------------------------------------------------===//
// A value of a mask region that does not depend on the key is a function of the query i: a row function. If it never
// descends, its values at two queries bound its values between them, no matter what it reads: the offset of a segment,
// the id of a document. Reads never descend only for arrays that are declared sorted (`flash.assume_sorted`).
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_ROWFUNCTIONS_H
#define FLASHC_ANALYSIS_ROWFUNCTIONS_H

#include "flashc/Analysis/LinearExpr.h"
#include "mlir/IR/Region.h"

namespace mlir::flash {

/// How a value changes while i grows, for one batch and head.
enum class Trend { Constant, Ascending, Descending, Unknown };

/// An element of an array that is declared sorted.
struct SortedElement {
  Value array;                   // the result of flash.assume_sorted
  SmallVector<Value, 2> indices; // of all dimensions except for the last one
  Value position;

  /// Whether another element lies in the same line of the same array.
  bool isInLineOf(const SortedElement &other) const;
};

/// Matches a read of an element by tensor.extract, memref.load or flash.nth, followed by casts to types that hold it.
/// Clamps that flash-tile puts around a position are looked through; they change nothing for queries and keys that
/// exist.
std::optional<SortedElement> matchSortedElement(Value value);

/// Trends of the values of one mask region, or of the region of a flash.row_table, which has no key.
class RowFunctions {
public:
  /// With `pinned`, trends are for the queries for which this value is the same.
  explicit RowFunctions(Region &region, Value pinned = {})
      : region(region), query(region.getArgument(2)),
        key(region.getNumArguments() > 3 ? Value(region.getArgument(3)) : Value()), pinned(pinned) {}

  /// Returns the trend of `value`; Unknown if it depends on the key.
  Trend get(Value value);

  /// Whether `value` is a row function that ascends and cannot be expressed linearly: it depends on an array that is
  /// declared sorted, or on a quotient by a divisor that is not constant.
  bool isSearched(Value value);

private:
  Trend compute(Value value);
  Trend computeElement(Value array, ValueRange indices, Value position);
  bool isSegmentClamp(Operation *op);

  Region &region;
  Value query, key, pinned;
  DenseMap<Value, Trend> known;
};

/// How a row function compares with the query i: it is greater (the end of the segment or block of i), or at most i
/// (the begin of that segment or block).
enum class Side { Above, AtMost };
std::optional<Side> compareWithQuery(Value value, Region &mask);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_ROWFUNCTIONS_H
