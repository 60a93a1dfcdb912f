//===- Source.h - how the tiles of an operand are loaded ----------------------------------------------------------===//
//
// A source loads the tiles of one operand of a nest: it has the operand's kernel parameters, element type and scales,
// the end of its rows, and the rows to clear. A kind of sources is one file of this folder and one line of
// FrameKinds.def. Only sources know how an operand is stored in memory.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_SOURCE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_SOURCE_H

#include "KernelFrame.h"

namespace flashc {

class Source {
public:
  Source(KernelFrame &frame, const NestOperand &info)
      : info(info), frame(frame), b(frame.b), scalars(frame.scalars), cache(info.cache) {}
  virtual ~Source() = default;

  /// Emits an error and fails if the source cannot load the operand's tiles.
  virtual mlir::LogicalResult check() { return mlir::success(); }
  /// Whether tiles come through a ring in shared memory.
  virtual bool hasRing() const { return true; }
  /// Adds the kernel parameters by which boxes of tiles of `rows` rows are loaded.
  virtual void addMap(int64_t rows) {}
  void allocateRing(int64_t stages, int64_t rows, bool isPrivate);
  /// Emits values that are the same for all tiles of a work tile, after the frame's position is known.
  virtual mlir::LogicalResult emitInvariants();
  /// Emits the end of the rows, if the source reads it from memory. This comes after `emitInvariants` of all sources
  /// and regions.
  virtual mlir::LogicalResult emitEnd() { return mlir::success(); }
  /// Loads the tile from row `position` on. Null after an error.
  virtual mlir::Value load(mlir::Value position) = 0;
  /// Multiplies `tile` by the scales of the operand's elements. `tile` holds products with the operand's tile at
  /// `position`, or factors of such products. Null after an error.
  virtual mlir::Value emitScaled(mlir::Value tile, mlir::Value position) { return tile; }

  /// Emits the number of positions that the longest sequence may have: the array's number of positions, or with a block
  /// table the number for which the table has pages. Null after an error.
  mlir::Value emitExtent();

  const NestOperand &info;
  mlir::Value ring, batch, head;
  /// The resident tile of the work tile.
  mlir::Value resident;
  /// The bounds of the rows that are kept: rows outside of them are cleared when a tile is loaded. Null if no row needs
  /// to be cleared.
  const SeenRows *seen = nullptr;

protected:
  mlir::Type getSlotType() const;
  /// Emits which rows of the tile at `position` are cleared: those from the first number on, and those before the
  /// second number. A null value means that no such rows are cleared.
  std::pair<mlir::Value, mlir::Value> getCleared(mlir::Value position);
  /// Returns the memref of the operand, which is an argument of the launch.
  mlir::Value getMemRef(int64_t alignment) { return frame.signature.getMemRef(*info.getArgument(), alignment); }

  KernelFrame &frame;
  mlir::ImplicitLocOpBuilder &b;
  ScalarCloner &scalars;
  /// The op that takes the operand from a cache. Null if the operand is a slice of an array.
  mlir::flash::CacheTileOp cache;
  /// The tensor map. Null if there is none.
  mlir::Value map;
};

/// Makes the source of an operand: of the first kind in FrameKinds.def that applies.
std::unique_ptr<Source> makeSource(KernelFrame &frame, const NestOperand &operand);
/// The function of each kind is defined in the kind's file.
#define SOURCE(Name) std::unique_ptr<Source> match##Name##Source(KernelFrame &frame, const NestOperand &operand);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_SOURCE_H
