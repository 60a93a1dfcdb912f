//===- TilePartition.h - proof that slices in a loop nest partition a tensor --------------------------------------===//
// Tiling writes a tensor slice by slice. Loops around such a write may be exchanged, parallelised or privatised if each
// iteration owns its slice; that is a fact about offsets, sizes and loop bounds, which is proved here.
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

/// The result of a proof about a slice in a loop nest: for each dimension the position in the nest of the loop that
/// moves the slice, or nullopt if no loop does. `failure` says which condition is not met.
struct TilePartition {
  SmallVector<std::optional<unsigned>> loopOfDim;
  std::string failure;

  explicit operator bool() const { return failure.empty(); }
  /// Whether iterations of this loop own disjoint slices.
  bool isMovedBy(unsigned loop) const { return llvm::is_contained(loopOfDim, std::optional<unsigned>(loop)); }
};

/// Proves that the slices that `slice` takes in the iterations of `loops`
/// 1. are disjoint for iterations that differ in a loop that moves them: in each dimension the offset is 0, or it is
///    the induction variable of one loop whose step is the tile size, or offset and size are results of a
///    flash.segment_tile whose number is the induction variable (only without `extents`);
/// 2. cover a tensor of the given `extents`: a dimension at offset 0 has the size of its extent; a loop that moves a
///    dimension runs from 0 to its extent, and the size is the tile size, clamped (affine.min) where a tile exceeds the
///    extent.
///
/// Without `extents` only (1) is proved. Strides must be 1.
TilePartition proveTilePartition(OffsetSizeAndStrideOpInterface slice, ArrayRef<scf::ForOp> loops,
                                 std::optional<ArrayRef<OpFoldResult>> extents);

/// Returns the extents of a tensor, from its type or, if that is dynamic, from the tensor.empty that it begins as
/// (through linalg.fill); null for unknown extents.
SmallVector<OpFoldResult> getKnownExtents(Value tensor);

/// Whether `min` is min(tile, rest), the size of a tile that is cut where a loop ends.
bool isClamped(affine::AffineMinOp min, int64_t tile, const LinearExpr &rest);

/// Whether two sizes are known, and known to be equal.
bool isEqualSize(OpFoldResult a, OpFoldResult b);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_TILEPARTITION_H
