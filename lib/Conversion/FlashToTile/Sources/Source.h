//===- Source.h - how the tiles of an operand come ----------------------------------------------------------------===//
//
// A source is how one operand of a nest comes to the units that compute: which parameters the kernel has for it, its
// element type, where its rows end, which rows are cleared, and its scales. A kind of sources is one file of this
// folder and one line of FrameKinds.def. Nobody else asks how an operand lies in memory.
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

  /// Emits an error and fails where tiles cannot come in this way.
  virtual mlir::LogicalResult check() { return mlir::success(); }
  /// Whether tiles come through a ring in shared memory.
  virtual bool hasRing() const { return true; }
  /// Gives the kernel the parameters that boxes of tiles of `rows` are loaded by.
  virtual void addMap(int64_t rows) {}
  void allocateRing(int64_t stages, int64_t rows, bool isPrivate);
  /// Emits what is the same for all tiles of a work tile, when the frame's position is known.
  virtual mlir::LogicalResult emitInvariants();
  /// Emits the end of the rows, where that is read after the values of score and mask regions.
  virtual mlir::LogicalResult emitEnd() { return mlir::success(); }
  /// The tile from row `position` on; null after an error.
  virtual mlir::Value load(mlir::Value position) = 0;
  /// Products with the tile at `position`, or factors of them, times the scales of its elements. Null after an error.
  virtual mlir::Value emitScaled(mlir::Value tile, mlir::Value position) { return tile; }

  /// Emits the number of positions of the longest sequence: that of the array, or of the pages that a block table has
  /// room for. Null after an error.
  mlir::Value emitExtent();

  const NestOperand &info;
  mlir::Value ring, batch, head;
  /// The resident tile of the work tile.
  mlir::Value resident;
  /// Outside of these positions rows of tiles become 0; null where that makes no difference.
  const SeenRows *seen = nullptr;

protected:
  mlir::Type getSlotType() const;
  /// The rows of a tile at `position` that become 0: from the first one on, and before the second; null if there are
  /// none.
  std::pair<mlir::Value, mlir::Value> getCleared(mlir::Value position);
  /// The memory of the argument.
  mlir::Value getMemRef(int64_t alignment) { return frame.signature.getMemRef(*info.getArgument(), alignment); }

  KernelFrame &frame;
  mlir::ImplicitLocOpBuilder &b;
  ScalarCloner &scalars;
  /// The tile of a cache that the operand is; null if it is a slice of an array.
  mlir::flash::CacheTileOp cache;
  /// The tensor map; null if there is none.
  mlir::Value map;
};

/// The source of an operand: the first one of FrameKinds.def that takes it.
std::unique_ptr<Source> makeSource(KernelFrame &frame, const NestOperand &operand);
/// Each is defined in the file of its kind.
#define SOURCE(Name) std::unique_ptr<Source> match##Name##Source(KernelFrame &frame, const NestOperand &operand);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_SOURCE_H
