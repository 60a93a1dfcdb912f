//===- ScalarCode.h - inputs of ops, and which ops are scalar code ------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_IR_SCALARCODE_H
#define FLASHC_DIALECT_TILE_IR_SCALARCODE_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// Returns the operands of `op`, and the values from outside of its regions that these regions read.
SetVector<Value> getInputs(Operation *op);

/// Whether `op` is a tile.load or contains one.
bool hasLoads(Operation *op);

/// Whether `op` has no effects except reads of arrays and votes of the warp.
bool isArithmetic(Operation *op);

/// Whether `op` is scalar code: its results are no tiles, and it has no effects except reads of arrays.
bool isScalarCode(Operation *op);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_SCALARCODE_H
