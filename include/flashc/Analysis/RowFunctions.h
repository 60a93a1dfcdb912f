//===- RowFunctions.h - what a mask computes for a query ----------------------------------------------------------===//
//
// A value of a mask region that does not depend on the key is a function of the query i: a row function. One that never
// descends is known between two queries from its values there, whatever it reads: a segment's offset, the id of a
// document. That takes arrays that are declared sorted (`flash.assume_sorted`).
//
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
  SmallVector<Value, 2> indices; // in front of the last dimension
  Value position;

  /// Whether another element lies in the same line of the same array.
  bool isInLineOf(const SortedElement &other) const;
};

/// The element that `value` is: read by tensor.extract, memref.load or flash.nth, and cast to a type that holds it. The
/// clamps that flash-tile puts around a position are looked through; they do nothing for queries and keys that exist.
std::optional<SortedElement> matchSortedElement(Value value);

/// Trends of the values of one mask region, or of the region of a flash.row_table, which has no key.
class RowFunctions {
public:
  /// With `pinned`, that of the queries for which this value is the same.
  explicit RowFunctions(Region &region, Value pinned = {})
      : region(region), query(region.getArgument(2)),
        key(region.getNumArguments() > 3 ? Value(region.getArgument(3)) : Value()), pinned(pinned) {}

  /// A value that depends on the key is Unknown.
  Trend get(Value value);

  /// Whether `value` is a row function that ascends, and depends on an array that is declared sorted or on a quotient
  /// by what is no constant: then there is no other way to know it.
  bool isSearched(Value value);

private:
  Trend compute(Value value);
  Trend computeElement(Value array, ValueRange indices, Value position);
  bool isSegmentClamp(Operation *op);

  Region &region;
  Value query, key, pinned;
  DenseMap<Value, Trend> known;
};

/// Where a row function lies beside the position i itself, if its form says so: above it (the end of a segment or a
/// block that i is in), or at most at it (where that begins).
enum class Side { Above, AtMost };
std::optional<Side> compareWithQuery(Value value, Region &mask);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_ROWFUNCTIONS_H
