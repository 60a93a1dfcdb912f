//===- WorkOrder.h - in which order a persistent kernel works -----------------------------------------------------===//
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
std::string whyUnsorted(const LoopNest &nest);

/// Whether the keys that a tile of queries sees depend on its number, as under a causal mask. They do not without a
/// mask: that of the last keys, where their number is not known before the launch, is the same for all tiles.
bool dependsOnResident(const LoopNest &nest);

/// Whether the first streamed tile and the last one are the same for all resident ones.
bool hasFixedEnds(const LoopNest &nest);

/// Whether tiles of queries see about as many keys as those before them, but at the ends, as under a window; false
/// where nobody knows. What is not known before the launch is supposed as above.
bool levelsOff(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
