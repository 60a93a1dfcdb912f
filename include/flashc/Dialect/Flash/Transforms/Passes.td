//===- Passes.td - the algorithm passes (L0 to L1, and within L1) -------------------------------------------------===//
#ifndef FLASHC_FLASH_PASSES_TD
#define FLASHC_FLASH_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FLASHC_FLASH_PASSES_TD
