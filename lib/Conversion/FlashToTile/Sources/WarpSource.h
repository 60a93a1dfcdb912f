//===- WarpSource.h - tiles that a warp loads itself --------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H

#include "Sources/Source.h"

namespace flashc {

/// Whether a unit of the frame loads the tiles of a streamed operand itself.
bool isLoadedByUnit(const KernelFrame &frame, const NestOperand &operand);
/// Whether TMA can load these tiles as boxes.
bool areBoxes(const KernelFrame &frame, const NestOperand &operand);

/// The common part of sources of tiles that a warp loads: the end of the sequence, and elements of 8 bits, whose scales
/// belong to the operand or to its pages.
class WarpSource : public Source {
public:
  using Source::Source;

  mlir::LogicalResult check() override;
  mlir::LogicalResult emitInvariants() override;
  mlir::Value emitScaled(mlir::Value tile, mlir::Value position) override;

protected:
  /// Whether the source must know the end of the array if sequences have no lengths.
  virtual bool needsEnd() const = 0;
  /// The number of the page that contains a tile.
  mlir::Value emitPage(mlir::Value position);

  /// The end of the sequence's rows. Null if the source does not need it.
  mlir::Value end;

private:
  bool hasPageScales() const;
  mlir::Value emitScale(mlir::Value page);

  /// The scale of all elements, if there is only one.
  mlir::Value scale;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H
