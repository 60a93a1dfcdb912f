//===- Rows.h - which rows a tile has -----------------------------------------------------------------------------===//
//
// The rows of the tiles whose results a kernel computes: which positions and heads they have, where a unit's first one
// is, and how they are stored. A kind of rows is one file of this folder and one line of FrameKinds.def.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_ROWS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_ROWS_H

#include "LoopNest.h"
#include "flashc/Runtime/GridFormula.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

class KernelFrame;

class Rows {
public:
  explicit Rows(LoopNest &nest) : nest(nest) {}
  virtual ~Rows() = default;

  /// The extents of the grid of work tiles. Emits an error and fails if one is no formula.
  virtual mlir::FailureOr<std::array<GridFormula, 3>> getExtents() = 0;
  /// How many work tiles `extent`, that of the nest's resident dimension, is.
  virtual mlir::Value emitNumTiles(KernelFrame &frame, mlir::Value extent) const;
  /// Emits where the unit is: the batch, the head, the part, the first row and the end of the frame.
  virtual mlir::LogicalResult emitPlace(KernelFrame &frame) = 0;

  /// Whether a tile's rows have consecutive positions, and one head.
  virtual bool areConsecutive() const { return true; }
  /// Whether another sequence's rows follow on the last one, in the arrays that rows are stored to.
  virtual bool areFollowed() const { return false; }
  /// The head that all rows have; null if each has its own.
  virtual mlir::Value getHead(KernelFrame &frame) const;
  /// What the first row is called in `tile.rows` and `tile.map`.
  virtual mlir::Value emitFirst(KernelFrame &frame) const;
  /// The head and the position of a row of that name.
  virtual std::pair<mlir::Value, mlir::Value> emitHeadAndPosition(KernelFrame &frame, mlir::Value row) const;

  /// Stores a tile, or a value of each row, to the rows of an array.
  virtual void store(KernelFrame &frame, mlir::Value tile, mlir::Value array, mlir::Value batch, bool isMatrix) = 0;

protected:
  LoopNest &nest;
};

/// The rows of a nest: the first kind of FrameKinds.def that takes it.
std::unique_ptr<Rows> makeRows(LoopNest &nest);
/// Each is defined in the file of its kind.
#define ROWS(Name) std::unique_ptr<Rows> match##Name##Rows(LoopNest &nest);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_ROWS_H
