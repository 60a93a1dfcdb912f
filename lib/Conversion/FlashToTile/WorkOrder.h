//===- WorkOrder.h - in which order a persistent kernel works -----------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H

#include "AttentionPlan.h"

#include <string>

namespace flashc {

/// Why the tiles of queries of an attention must be sorted by their work at the launch, or an empty text where the order
/// of their numbers will do: without a mask, and where the bounds of the keys move evenly with the queries (causal masks,
/// windows, also with sinks beside them), so that the number of keys that a tile sees only grows with its number or stays.
/// Else it is anything: bounds read arrays, differ between heads or batches, or jump (chunks of more than a tile).
std::string whyUnsorted(const AttentionPlan &plan);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WORKORDER_H
