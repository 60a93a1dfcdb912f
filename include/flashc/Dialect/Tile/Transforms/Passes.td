//===- Passes.td - the schedule passes (within L2) ----------------------------------------------------------------===//
#ifndef FLASHC_TILE_PASSES_TD
#define FLASHC_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FLASHC_TILE_PASSES_TD
