//===- SearchedMask.h - a mask over sorted data, as bounds on the key ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Replaces the mask region of an op, during its lifetime, by one that keeps the same pairs of existing queries and
/// keys in a form that the analysis of masks understands. This form is for computing bounds once for a tile; for every
/// pair it would cost more than the op's own region. The region is the op's own if it has neither arrays that are
/// declared sorted nor divisions by captured values. In the dual view i and j are exchanged.
///
/// - A comparison of the key's quotient by a captured value becomes one of the key (`DividedKeys.h`).
/// - A comparison with the element at the key's position becomes one of that position: `s[j] <= v` is
///   `j < count_le v in s`, `s[j] >= v` is `j >= count_le v in s {strict}`. A comparison with `s[count_le j in s]`, the
///   end of the key's segment, becomes one with the count, and then one with the key.
/// - In a mask with the bounds of a segment, `s[p - 1] <= j < s[p]`, another bound that ascends with the query only
///   inside of a segment (the diagonal of a packed sequence) is clamped to the segment's ends, so that it always
///   ascends.
class SearchedMask {
public:
  explicit SearchedMask(StepOpInterface op, MaskView view = MaskView::Primal);
  /// The mask of an attention whose queries are not cut into tiles.
  explicit SearchedMask(Region &mask);
  ~SearchedMask() { restore(); }
  /// Puts the op's own region back.
  void restore();
  /// Leaves the new region in the op, if it has searches. This is for the dual view, where searches that depend on the
  /// key alone replace reads for each query.
  void keepSearches();
  /// The op's own region, whether it is in the op or not.
  Region &getOriginal() { return original.empty() ? mask : original; }
  SearchedMask(const SearchedMask &) = delete;

private:
  void copyMask();
  void search();

  Region &mask;
  MaskView view = MaskView::Primal;
  /// Whether the mask reads sorted arrays, and whether it divides by captured values.
  bool isSearched, isDivided;
  Region original; // empty if nothing was replaced
};

/// Replaces each comparison in a mask region with an element at a position that depends on the key by a comparison of
/// this position with a search, which depends on the query. Returns the searches whose result is a key position, so
/// that their array is about as long as there are keys, and not those whose result is the number of the key's segment.
SmallVector<CountLeOp> searchKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
