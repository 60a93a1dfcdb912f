//===- Rows.h - which rows a tile has -----------------------------------------------------------------------------===//
//
// The rows of the tiles whose results a kernel computes: their positions and heads, the first row of a unit, and how
// rows are stored. A kind of rows is one file of this folder and one line of FrameKinds.def.
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
  /// Emits the number of work tiles along `extent`, which is the extent of the nest's resident dimension.
  virtual mlir::Value emitNumTiles(KernelFrame &frame, mlir::Value extent) const;
  /// Emits the number of work tiles along `extent`, which is the extent of the nest's heads.
  virtual mlir::Value emitNumHeads(KernelFrame &frame, mlir::Value extent) const;
  /// Emits the position of the unit: the frame's batch, head, part, first row and end of rows.
  virtual mlir::LogicalResult emitPlace(KernelFrame &frame) = 0;

  /// The number of positions that a unit's rows have, from the frame's first row on.
  virtual int64_t countPositions(KernelFrame &frame) const;
  /// Whether the rows of a tile are consecutive positions of one head.
  virtual bool areConsecutive() const { return true; }
  /// Whether, in the stored arrays, the rows of a sequence may be followed by rows of another one.
  virtual bool areFollowed() const { return false; }
  /// Returns the batch of all rows for keys, scores and masks.
  virtual mlir::Value getBatch(KernelFrame &frame) const;
  /// Returns the head of all rows. Null if rows have different heads.
  virtual mlir::Value getHead(KernelFrame &frame) const;
  /// Emits the number of the first row, from which `tile.rows` and `tile.map` count.
  virtual mlir::Value emitFirst(KernelFrame &frame) const;
  /// Emits the head and the position of the row with the number `row`.
  virtual std::pair<mlir::Value, mlir::Value> emitHeadAndPosition(KernelFrame &frame, mlir::Value row) const;

  /// Returns a TMA map of a launch argument, whose boxes are the rows of a unit's tile.
  virtual mlir::Value getTensorMap(KernelFrame &frame, unsigned argument) const;
  /// Stores a tile, or one value for each row, to the rows of an array.
  virtual void store(KernelFrame &frame, mlir::Value tile, mlir::Value array, mlir::Value batch, bool isMatrix) = 0;

protected:
  /// Emits the head and the position of row `row` of a tile whose rows are the tokens of the first head, then those of
  /// the second one, and so on, from `frame.head` and `frame.row` on.
  static std::pair<mlir::Value, mlir::Value> emitPlaceOfHeads(KernelFrame &frame, mlir::Value row, PackedShape shape);

  LoopNest &nest;
};

/// Makes the rows of a nest: of the first kind in FrameKinds.def that applies.
std::unique_ptr<Rows> makeRows(LoopNest &nest);
/// The function of each kind is defined in the kind's file.
#define ROWS(Name) std::unique_ptr<Rows> match##Name##Rows(LoopNest &nest);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_ROWS_H
