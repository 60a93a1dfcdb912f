//===- WorkOrder.h - the order in which CTAs take work tiles ------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H

#include "LoopNest.h"

#include <string>

namespace flashc {

/// Returns the reason why an attention's tiles of queries must be sorted by their work at the launch, or an empty text
/// if the order of their numbers will do: without a mask, if the number of keys that a tile sees grows evenly with its
/// number (causal masks), or if it is the same except at the ends (windows, whole chunks), each up to an eighth.
/// Otherwise tiles must be sorted: bounds read arrays, differ between heads or batches, fall with the queries by more
/// than a fifth in total (chunks that are causal inside), stay and then grow (a prefix), or go up and down (a shared
/// prefix).
///
/// Bounds that depend only on the query are evaluated for some of its tiles. Extents that are unknown before the launch
/// are assumed: 16 to 128 tiles of queries, as many keys, and an eighth of that for other scalars.
///
/// CTAs with one work tile each start the next CTA as they end: any order will do that begins with the longest tiles.
/// In the backward pass, by keys, the same holds for tiles of keys and the queries that see them; there the first tiles
/// start first. Work that differs between heads keeps the order of the grid: sorted, all heads would be read at the
/// same time, for which L2 has no room (0.96 of the speed, a block map of 8 heads, 2026-11-26).
std::string whyUnsorted(const LoopNest &nest, bool isPersistent);

/// Whether tiles with high numbers start before tiles with low ones: under a causal mask the last queries see the most
/// keys, and the first keys are seen by the most queries.
bool isLastFirst(const LoopNest &nest);

/// Whether CTAs with one work tile each may take another tile than that of their number. Kernels that add up in device
/// memory may, since they take long; others have few tiles.
bool mayReorder(const LoopNest &nest);

/// Whether the keys that a tile of queries sees depend on its number, as under a causal mask. They do not if the only
/// mask is that of keys after the last, whose number is unknown before the launch but the same for all tiles.
bool dependsOnResident(const LoopNest &nest);

/// Whether all resident tiles have the same first and the same last streamed tile.
bool hasFixedEnds(const LoopNest &nest);

/// Whether some resident tiles see more streamed tiles than others. False if unknown. Unknown extents are assumed as
/// for whyUnsorted.
bool areKnownToDiffer(const LoopNest &nest);

/// Whether tiles of queries see about as many keys as those before them, except at the ends, as under a window. False
/// if unknown. Unknown extents are assumed as for whyUnsorted.
bool levelsOff(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
