//===- Passes.h - passes of the tile dialect; described in Passes.td ----------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_TRANSFORMS_PASSES_H
#define FLASHC_DIALECT_TILE_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tile {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_TRANSFORMS_PASSES_H
