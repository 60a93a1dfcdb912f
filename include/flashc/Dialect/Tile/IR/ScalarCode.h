//===- ScalarCode.h - what ops read, and which of them are scalar code --------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_IR_SCALARCODE_H
#define FLASHC_DIALECT_TILE_IR_SCALARCODE_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// Everything that `op` reads, its regions included.
SetVector<Value> getInputs(Operation *op);

/// Whether `op` is a tile.load or has one inside.
bool hasLoads(Operation *op);

/// Whether `op` only computes: no effects but reading arrays and asking the warp.
bool isArithmetic(Operation *op);

/// Whether `op` is scalar code: no tiles, no effects but reading arrays.
bool isScalarCode(Operation *op);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_SCALARCODE_H
