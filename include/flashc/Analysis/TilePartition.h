//===- TilePartition.h - proof that slices in a loop nest partition a tensor --------------------------------------===//
//
// Tiling writes a tensor slice by slice. Exchanging, parallelising or privatising the loops around such a write is
// legal when the iterations own their slices; that is a fact about offsets, sizes and loop bounds, proved here.
//
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

/// How a slice moves with the loops around it, when that could be proved: per dimension, the position in the nest of
/// the loop that moves it, or nothing when no loop does. Otherwise `failure` says what is missing.
struct TilePartition {
  SmallVector<std::optional<unsigned>> loopOfDim;
  std::string failure;

  explicit operator bool() const { return failure.empty(); }
  /// Whether iterations of this loop own disjoint slices.
  bool isMovedBy(unsigned loop) const { return llvm::is_contained(loopOfDim, std::optional<unsigned>(loop)); }
};

/// Proves that the slices that `slice` takes as `loops` run
/// 1. are pairwise disjoint for iterations that differ in a loop that moves them: each dimension is at offset 0, or
///    its offset is the induction variable of one loop, whose step is the tile size, or offset and size are those of a
///    flash.segment_tile with the number that a loop counts (without `extents`);
/// 2. cover a tensor of the given `extents`: a dimension at offset 0 has the size of its extent; a loop that moves a
///    dimension runs from 0 to its extent, and the size is the tile size, clamped (affine.min) where a tile sticks out.
/// Without `extents` only (1) is proved. Strides must be 1.
TilePartition proveTilePartition(OffsetSizeAndStrideOpInterface slice, ArrayRef<scf::ForOp> loops,
                                 std::optional<ArrayRef<OpFoldResult>> extents);

/// The extents of a tensor, from its type and, where that is dynamic, from the tensor.empty that it starts from
/// (through linalg.fill); null for those that are not known.
SmallVector<OpFoldResult> getKnownExtents(Value tensor);

/// Whether `min` is the lesser of `tile` and `rest`, that is, the size of a tile that is cut where a loop ends.
bool isClamped(affine::AffineMinOp min, int64_t tile, const LinearExpr &rest);

/// Whether two sizes are known, and known to be equal.
bool isEqualSize(OpFoldResult a, OpFoldResult b);

} // namespace mlir::flash

#endif // FLASHC_ANALYSIS_TILEPARTITION_H
