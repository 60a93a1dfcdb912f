//===- WorkOrder.h - the order in which CTAs take work tiles ------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H

#include "LoopNest.h"

#include <string>

namespace flashc {

/// Returns the reason why an attention's tiles of queries must be sorted by their work at the launch, or an empty text
/// if the order of their numbers will do. The order of numbers will do if there is no mask, if the number of keys that
/// a tile sees grows evenly with the tile's number (causal masks), or if all tiles see equally many keys except at the
/// ends (windows, whole chunks); deviations of up to an eighth are allowed. Otherwise tiles must be sorted. This is so
/// if bounds read arrays, differ between heads or batches, fall with the queries by more than a fifth in total (chunks
/// that are causal inside), stay the same and then grow (a prefix), or go up and down (a shared prefix).
///
/// Bounds that depend only on the query are evaluated for some tiles of queries. Extents that are unknown before the
/// launch are assumed: 16 to 128 tiles of queries, and as many keys as queries. Any other unknown scalar is assumed to
/// be an eighth of the number of queries.
///
/// If CTAs have one work tile each, another CTA starts whenever one ends. Then any order will do that begins with the
/// longest tiles. For the gradients of keys the same holds with keys and queries exchanged: tiles of keys are sorted by
/// the queries that see them, and the first tiles start first. If CTAs have one work tile each and the work differs
/// between heads, the tiles keep the order of the grid: sorted CTAs would read all heads at the same time, for which
/// the L2 cache has no room (0.96 of the speed, a block map of 8 heads, 2026-11-26).
std::string whyUnsorted(const LoopNest &nest, bool isPersistent);

/// Whether tiles with high numbers start before tiles with low ones. This holds for tiles of queries, since under a
/// causal mask the last queries see the most keys. Tiles of keys start with the first, since the first keys are seen by
/// the most queries.
bool isLastFirst(const LoopNest &nest);

/// Whether CTAs with one work tile each may take other tiles than those with their own numbers. Only kernels that add
/// up in device memory may: they run long. In the others there are too few tiles for the order to matter.
bool mayReorder(const LoopNest &nest);

/// Whether the keys that a tile of queries sees depend on the tile's number, as under a causal mask. False if the mask
/// hides only positions at or after the number of keys: that number is unknown before the launch, but the same for all
/// tiles.
bool dependsOnResident(const LoopNest &nest);

/// Whether all resident tiles have the same first and the same last streamed tile.
bool hasFixedEnds(const LoopNest &nest);

/// Whether some resident tiles are known to see more streamed tiles than others. False if this is unknown. Unknown
/// extents are assumed as for whyUnsorted.
bool areKnownToDiffer(const LoopNest &nest);

/// Whether tiles of queries see about as many keys as the tiles before them, except at the ends, as under a window.
/// False if this is unknown. Unknown extents are assumed as for whyUnsorted.
bool levelsOff(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
