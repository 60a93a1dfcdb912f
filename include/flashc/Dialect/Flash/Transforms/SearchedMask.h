//===- SearchedMask.h - a mask over sorted data, as bounds on the key ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H

#include "flashc/Analysis/MaskSet.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Replaces the mask region of an op as long as this object lives. The new region keeps the same pairs of existing
/// queries and keys, in a form that the analysis of masks understands. The new region is meant for computing bounds,
/// once for each tile; run for every pair, it would cost more than the op's own region. In the dual view i and j are
/// exchanged. In the primal view nothing is replaced if the op's own region neither reads arrays that are declared
/// sorted nor divides by captured values.
///
/// - A comparison of the key's quotient by a captured value becomes a comparison of the key (`DividedKeys.h`).
/// - A comparison with the element at the key's position becomes a comparison of the position: `s[j] <= v` becomes `j <
///   count_le v in s`, and `s[j] >= v` becomes `j >= count_le v in s {strict}`. A comparison with `s[count_le j in s]`,
///   the end of the key's segment, becomes a comparison of the count, which then becomes a comparison of the key.
/// - A mask may have the bounds of a segment, `s[p - 1] <= j < s[p]`, and another bound that ascends with the query
///   only inside of each segment (the diagonal of a packed sequence). The other bound is then clamped to the ends of
///   the segment, so that it ascends everywhere.
class SearchedMask {
public:
  explicit SearchedMask(StepOpInterface op, MaskView view = MaskView::Primal);
  /// Replaces the mask of an attention whose queries are not cut into tiles.
  explicit SearchedMask(Region &mask);
  ~SearchedMask() { restore(); }
  /// Puts the op's own region back.
  void restore();
  /// Leaves the new region in the op if it has searches; otherwise restores the op's own region. In the dual view the
  /// searches depend on the key alone, and take the place of reads that would run for each query.
  void keepSearches();
  /// The op's own region, whether it is in the op or not.
  Region &getOriginal() { return original.empty() ? mask : original; }
  SearchedMask(const SearchedMask &) = delete;

private:
  void copyMask();
  void search();

  Region &mask;
  MaskView view = MaskView::Primal;
  /// `isSearched`: whether the mask reads sorted arrays. `isDivided`: whether the mask divides by captured values.
  bool isSearched, isDivided;
  Region original; // empty if nothing was replaced
};

/// Rewrites each comparison in a mask region that has, on one side, an element whose position depends on the key. The
/// new comparison is between this position and the result of a search. This result depends on the query. Returns the
/// searches whose results are positions of keys: their arrays have about as many elements as there are keys. Leaves out
/// searches whose results are numbers of segments.
SmallVector<CountLeOp> searchKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_SEARCHEDMASK_H
