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
  /// Emits the end of the rows if it is read after the values of score and mask regions.
  virtual mlir::LogicalResult emitEnd() { return mlir::success(); }
  /// Loads the tile from row `position` on. Null after an error.
  virtual mlir::Value load(mlir::Value position) = 0;
  /// Multiplies `tile`, products with the tile at `position` or factors of such products, by the scales of the tile's
  /// elements. Null after an error.
  virtual mlir::Value emitScaled(mlir::Value tile, mlir::Value position) { return tile; }

  /// Emits the number of positions of the longest sequence: that of the array, or of the pages that a block table has
  /// room for. Null after an error.
  mlir::Value emitExtent();

  const NestOperand &info;
  mlir::Value ring, batch, head;
  /// The resident tile of the work tile.
  mlir::Value resident;
  /// Rows of tiles outside these positions are cleared. Null if no row needs to be.
  const SeenRows *seen = nullptr;

protected:
  mlir::Type getSlotType() const;
  /// The rows of a tile at `position` that are cleared: from the first number on, and before the second. Null: none.
  std::pair<mlir::Value, mlir::Value> getCleared(mlir::Value position);
  /// The argument's memory.
  mlir::Value getMemRef(int64_t alignment) { return frame.signature.getMemRef(*info.getArgument(), alignment); }

  KernelFrame &frame;
  mlir::ImplicitLocOpBuilder &b;
  ScalarCloner &scalars;
  /// The op that takes the operand from a cache. Null if the operand is a slice of an array.
  mlir::flash::CacheTileOp cache;
  /// The tensor map; null if there is none.
  mlir::Value map;
};

/// The source of an operand, of the first kind in FrameKinds.def that applies.
std::unique_ptr<Source> makeSource(KernelFrame &frame, const NestOperand &operand);
/// The file of each kind defines its function.
#define SOURCE(Name) std::unique_ptr<Source> match##Name##Source(KernelFrame &frame, const NestOperand &operand);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_SOURCE_H
