//===- RowFunctions.h - what a mask computes for a query ----------------------------------------------------------===//
// A value of a mask region that does not depend on the key is a function of the query i: a row function. If a row
// function never descends as i grows, its values at two queries bound its values between them, whatever it reads (the
// offset of a segment, the id of a document). If a function reads an array, it is known not to descend only if the
// array is declared sorted (`flash.assume_sorted`).
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
  SmallVector<Value, 2> indices; // indices in all dimensions except for the last one
  Value position;

  /// Whether this element and `other` are in the same array, and their indices are equal in all dimensions but the
  /// last.
  bool isInLineOf(const SortedElement &other) const;
};

/// Matches a read of an element by tensor.extract, memref.load or flash.nth, also if casts to wider types follow.
/// Ignores clamps that flash-tile puts around the position: they change nothing for queries and keys that exist.
std::optional<SortedElement> matchSortedElement(Value value);

/// Finds the trends of values in the region of a mask, or of a flash.row_table (which has no key).
class RowFunctions {
public:
  /// If `pinned` is given, trends are taken only over queries for which `pinned` has the same value.
  explicit RowFunctions(Region &region, Value pinned = {})
      : region(region), query(region.getArgument(2)),
        key(region.getNumArguments() > 3 ? Value(region.getArgument(3)) : Value()), pinned(pinned) {}

  /// Returns the trend of `value`; Unknown if it depends on the key.
  Trend get(Value value);

  /// Whether `value` is a row function that ascends, and that cannot be expressed linearly because it depends on an
  /// array that is declared sorted, or on a quotient by a divisor that is not a constant.
  bool isSearched(Value value);

private:
  Trend compute(Value value);
  Trend computeElement(Value array, ValueRange indices, Value position);
  bool isSegmentClamp(Operation *op);

  Region &region;
  Value query, key, pinned;
  DenseMap<Value, Trend> known;
};

/// How a row function compares with the query i. Above: it is greater than i, for example the end of the segment or
/// block that contains i. AtMost: it is at most i, for example the begin of that segment or block.
enum class Side { Above, AtMost };
std::optional<Side> compareWithQuery(Value value, Region &mask);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_ROWFUNCTIONS_H
