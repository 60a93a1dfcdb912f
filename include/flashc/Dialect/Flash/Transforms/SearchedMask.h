//===- SearchedMask.h - a mask over sorted data, as bounds on the key ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// While it lives, the mask region of an op is another one that keeps the same pairs of queries and keys that exist, in
/// a form that the analysis of masks understands. It is the form to compute bounds from, once for a tile: what it
/// computes for a pair takes longer. Without arrays that are declared sorted and divisions by captured values it is the
/// op's own region. In the dual view i and j are exchanged.
///
/// - A comparison of the key's quotient by a captured value becomes one of the key (`DividedKeys.h`).
/// - A comparison with the element at the key's position becomes one of that position: `s[j] <= v` is
///   `j < count_le v in s`, `s[j] >= v` is `j >= count_le v in s {strict}`. One with `s[count_le j in s]`, the end of
///   the key's segment, becomes one with the count, and that one with the key again.
/// - Inside a segment, `s[p - 1] <= j < s[p]`, another bound that ascends only while the segment stays the same (the
///   diagonal of a packed sequence) is brought between the segment's ends, where it ascends altogether.
class SearchedMask {
public:
  explicit SearchedMask(StepOpInterface op, MaskView view = MaskView::Primal);
  /// The mask of an attention whose queries are not cut into tiles.
  explicit SearchedMask(Region &mask);
  ~SearchedMask() { restore(); }
  /// Puts the op's own region back.
  void restore();
  /// Leaves the op the other region, if that searches: in the dual view, where what it computes of the key alone takes
  /// the place of what it read for each query.
  void keepSearches();
  /// The op's own region, put back or not.
  Region &getOriginal() { return original.empty() ? mask : original; }
  SearchedMask(const SearchedMask &) = delete;

private:
  void copyMask();
  void search();

  Region &mask;
  MaskView view = MaskView::Primal;
  /// Whether it reads sorted arrays, and divides by captured values.
  bool isSearched, isDivided;
  Region original; // empty if nothing was replaced
};

/// Replaces the comparisons of a mask region with elements at positions that depend on the key by comparisons of these
/// positions with searches, which depend on the query. Returns those that are for a position itself, and so in an array
/// about as long as there are keys; not those for the number of the key's segment.
SmallVector<CountLeOp> searchKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
