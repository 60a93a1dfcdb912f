//===- TilePartition.h - proof that slices in a loop nest partition a tensor --------------------------------------===//
// Tiling writes a tensor slice by slice. The loops around such a write may be exchanged, parallelised or privatised if
// each iteration writes a slice of its own. The functions here prove that from offsets, sizes and loop bounds.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_ANALYSIS_TILEPARTITION_H
#define FLASHC_ANALYSIS_TILEPARTITION_H

#include "flashc/Analysis/LinearExpr.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include <optional>
#include <string>

namespace mlir::flash {

/// The result of a proof about a slice in a loop nest. For each dimension: the position, in the nest, of the loop that
/// moves the slice in that dimension, or nullopt if no loop does. `failure` says which condition is not met.
struct TilePartition {
  SmallVector<std::optional<unsigned>> loopOfDim;
  std::string failure;

  explicit operator bool() const { return failure.empty(); }
  /// Whether iterations of this loop own disjoint slices.
  bool isMovedBy(unsigned loop) const { return llvm::is_contained(loopOfDim, std::optional<unsigned>(loop)); }
};

/// Proves the following about the slices that `slice` takes in the iterations of `loops`:
/// 1. If two iterations differ in a loop that moves the slice, their slices are disjoint. This holds if, in each
///    dimension, one of the following holds: the offset is 0; the offset is the induction variable of one loop whose
///    step is the tile size; or (only without `extents`) offset and size are results of a flash.segment_tile whose
///    number is the induction variable.
/// 2. The slices cover a tensor of the given `extents`. This holds if a dimension at offset 0 has the size of its
///    extent, and if a loop that moves a dimension runs from 0 to its extent with slices of the tile size, clamped
///    (affine.min) where a tile exceeds the extent.
///
/// Without `extents`, proves only (1). Strides must be 1. A number of heads that is not static is known to be a
/// multiple of `headDivisor`.
TilePartition proveTilePartition(OffsetSizeAndStrideOpInterface slice, ArrayRef<scf::ForOp> loops,
                                 std::optional<ArrayRef<OpFoldResult>> extents, int64_t headDivisor = 1);

/// Returns the extents of a tensor. If its type is dynamic, takes them from the tensor.empty that the tensor comes from
/// (looking through linalg.fill). Unknown extents are null.
SmallVector<OpFoldResult> getKnownExtents(Value tensor);

/// Whether `min` is min(tile, rest): the size of a tile that is cut at the end of a loop.
bool isClamped(affine::AffineMinOp min, int64_t tile, const LinearExpr &rest);

/// Whether two sizes are known, and known to be equal.
bool isEqualSize(OpFoldResult a, OpFoldResult b);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_TILEPARTITION_H
