//===- WorkOrder.h - in which order CTAs work ---------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H

#include "LoopNest.h"

#include <string>

namespace flashc {

/// Why the tiles of queries of an attention must be sorted by their work at the launch, or an empty text where the
/// order of their numbers will do: without a mask, where the number of keys that a tile sees grows evenly with its
/// number (causal masks), and where it is the same but at the ends (windows, whole chunks), each but for an eighth.
/// Else it is anything: bounds read arrays, differ between heads or batches, fall with the queries by more than a fifth
/// of all (chunks that are causal inside), stay and then grow (a prefix), or go up and down (a shared prefix).
///
/// Bounds that only hang on the query are computed for some of its tiles. What is not known before the launch is
/// supposed: 16 to 128 tiles of queries, as many keys, and of other scalars an eighth of that.
///
/// Where CTAs have one work tile each, they start with the next one as they end: any order will do that begins with the
/// longest. By keys (the backward pass) it is the same of tiles of keys, and of the queries that see them; there the
/// first tiles start first. Work that differs between heads keeps the order of the grid: sorted, all heads would be
/// read at a time, which L2 has no room for (0.96 of the speed, a block map of 8 heads, 2026-11-26).
std::string whyUnsorted(const LoopNest &nest, bool isPersistent);

/// Whether tiles with high numbers start before those with low ones: the last queries of a causal mask see the most
/// keys, the first keys are seen by the most queries.
bool isLastFirst(const LoopNest &nest);

/// Whether CTAs of one work tile each may take another one than their numbers say. Those do that add up in device
/// memory, which take long; others are for few tiles.
bool mayReorder(const LoopNest &nest);

/// Whether the keys that a tile of queries sees depend on its number, as under a causal mask. They do not without a
/// mask: that of the last keys, where their number is not known before the launch, is the same for all tiles.
bool dependsOnResident(const LoopNest &nest);

/// Whether the first streamed tile and the last one are the same for all resident ones.
bool hasFixedEnds(const LoopNest &nest);

/// Whether some resident tiles see more streamed ones than others; false where nobody knows. What is not known before
/// the launch is supposed as above.
bool areKnownToDiffer(const LoopNest &nest);

/// Whether tiles of queries see about as many keys as those before them, but at the ends, as under a window; false
/// where nobody knows. What is not known before the launch is supposed as above.
bool levelsOff(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
