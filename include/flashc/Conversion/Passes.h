//===- Passes.h - the passes that cross a level; described in Passes.td -------------------------------------------===//
#ifndef FLASHC_CONVERSION_PASSES_H
#define FLASHC_CONVERSION_PASSES_H

#include "flashc/Target/GPUTarget.h"
#include "mlir/Pass/Pass.h"

namespace flashc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashc/Conversion/Passes.h.inc"

/// Attaches the tile code of the flash dialect's steps (TileStepOpInterface).
void registerTileSteps(mlir::DialectRegistry &registry);
} // namespace flashc

#endif // FLASHC_CONVERSION_PASSES_H
