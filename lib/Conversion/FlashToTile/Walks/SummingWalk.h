//===- SummingWalk.h - pairs of tiles that are added up over batches and heads ------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_SUMMINGWALK_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_SUMMINGWALK_H

#include "Walks/Walk.h"

namespace flashc {

/// What the walks of a step that L1 leaves whole (PairNest.h) have in common: in each visit a tile of all operands is
/// loaded, and each unit has its queries.
class SummingWalk : public Walk {
public:
  using Walk::Walk;

  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitGrid() override;
  mlir::LogicalResult emitPositions() override;
  mlir::FailureOr<mlir::ValueRange> emitLoop(TileStep &step) override;

protected:
  /// A pair of tiles.
  struct Place {
    mlir::Value batch, head, query, key;
  };

  /// Emits where the CTA is, what its state is stored to, and how many visits it makes.
  virtual void emitCTA() = 0;
  /// The queries and keys of a visit; what is left of its number is the batch and the head.
  virtual void emitPair(mlir::Value &number, Place &place) = 0;

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value ceilDiv(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);

  mlir::Value batches, heads, queries, keys;
  /// The batch and the head of the CTA, if they are not added up over; and its visits in all.
  mlir::Value ownBatch, ownHead, total;

private:
  mlir::LogicalResult enter(mlir::Value visit) override;
  mlir::LogicalResult skipUnneeded();
  Place emitPlace(mlir::Value visit);
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_WALKS_SUMMINGWALK_H
