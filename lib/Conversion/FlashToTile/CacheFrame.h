//===- CacheFrame.h - the frame of a kernel whose keys lie in a cache ---------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_CACHEFRAME_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_CACHEFRAME_H

#include "KernelFrame.h"

namespace flashc {

/// Whether some operand of the nest is a tile of a cache.
bool readsCache(const LoopNest &nest);

/// A KernelFrame whose keys and values are tiles of caches (flash.cache_tile), in pages or not. A tile of keys is
/// loaded in boxes of rows that one page has; pages behind the sequence's last one read as zero and are not looked up.
/// Rows behind the sequence's end, which may hold anything, are cleared in shared memory.
class CacheFrame : public KernelFrame {
public:
  using KernelFrame::KernelFrame;

  mlir::LogicalResult build(TileStep &step) override;
  mlir::Value getNumKeys() override;

private:
  mlir::LogicalResult emitPositions(mlir::Value warpgroup) override;
  mlir::Value emitCapacity(const NestOperand &operand);
  /// Where the rows of an operand's sequence end; null after an error.
  mlir::Value emitEnd(const Operand &operand);
  int64_t getBoxRows(const Operand &operand, int64_t rows) const override;
  mlir::Value load(const Operand &operand, mlir::Value position) override;

  /// Of each operand in a cache.
  llvm::SmallVector<mlir::Value, 3> ends;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_CACHEFRAME_H
