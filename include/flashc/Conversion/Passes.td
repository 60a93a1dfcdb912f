//===- Passes.td - the passes that cross a level ------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_PASSES_TD
#define FLASHC_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FLASHC_CONVERSION_PASSES_TD
