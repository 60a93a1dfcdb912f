//===- RolePlan.h - the decisions of tile-specialize --------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// Decides which code of a program the producer needs, and which values differ between consumers. Changes nothing.
class RolePlan {
public:
  explicit RolePlan(ProgramOp program) : program(program), warpgroup(program.getWarpgroup()) {}

  /// Emits an error and fails if the program cannot be split.
  LogicalResult compute();

  /// Whether the producer runs `op` once for all consumers.
  bool isProducerScalar(Operation *op) const { return scalars.contains(op) && !varyingOps.contains(op); }
  void addScalar(Operation *op) { scalars.insert(op); }
  /// Returns the scalar ops, in order, that the producer runs once for each consumer to load `load`.
  SmallVector<Operation *> getPrivateScalars(LoadOp load) const;

  /// Whether the program has a tile.add_product, so that it needs a reducer.
  bool hasReducer() const { return isShared; }

  /// Whether a value, or the results of an op, differ between consumers.
  bool isOwn(Value value) const { return varying.contains(value); }
  bool isOwn(Operation *op) const { return varyingOps.contains(op); }

private:
  void findVarying();
  void markDrawn(DrawOp draw);
  void markIfVarying(Operation *op);
  bool varies(Value value) const { return value == warpgroup || varying.contains(value); }
  LogicalResult addScalars(Operation *user, Value value);
  LogicalResult checkLoops(Operation *op);
  LogicalResult checkLoad(LoadOp load);
  LogicalResult checkSlot(LoadOp load);
  LogicalResult checkOwnVisits(OwnVisitsOp own);
  LogicalResult checkDraw(DrawOp draw);
  LogicalResult checkProduct(AddProductOp product);

  ProgramOp program;
  Value warpgroup;
  /// The scalar ops that the producer needs.
  SetVector<Operation *> scalars;
  /// The values that differ between consumers, and the ops that read such values.
  llvm::DenseSet<Value> varying;
  llvm::DenseSet<Operation *> varyingOps;
  bool isShared = false;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H
