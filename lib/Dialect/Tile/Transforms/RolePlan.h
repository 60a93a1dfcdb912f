//===- RolePlan.h - what tile-specialize decides before it rewrites -----------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// What the two sides of a program are made of, decided before anything changes.
class RolePlan {
public:
  explicit RolePlan(ProgramOp program) : program(program), warpgroup(program.getWarpgroup()) {}

  /// Emits an error and fails if the program cannot be split.
  LogicalResult compute();

  /// Whether the producer runs `op`, once for all consumers.
  bool isProducerScalar(Operation *op) const { return scalars.contains(op) && !varyingOps.contains(op); }
  void addScalar(Operation *op) { scalars.insert(op); }
  /// The scalar ops that `load` needs once for each consumer, in order.
  SmallVector<Operation *> getPrivateScalars(LoadOp load) const;

  /// Whether there is something that consumers share: a role adds it up.
  bool hasReducer() const { return isShared; }

  /// Whether a value differs from one consumer to another, such as a result of a tile.draw; and whether an op does.
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
  /// Scalar code that the producer needs.
  SetVector<Operation *> scalars;
  /// What differs from one consumer to another.
  llvm::DenseSet<Value> varying;
  llvm::DenseSet<Operation *> varyingOps;
  bool isShared = false;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_ROLEPLAN_H
