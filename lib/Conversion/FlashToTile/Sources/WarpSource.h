//===- WarpSource.h - tiles that a warp loads itself --------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H

#include "Sources/Source.h"

namespace flashc {

/// Whether a unit of the frame loads the tiles of a streamed operand itself.
bool isLoadedByUnit(const KernelFrame &frame, const NestOperand &operand);
/// Whether these tiles are boxes that TMA can copy.
bool areBoxes(const KernelFrame &frame, const NestOperand &operand);

/// What the sources of tiles that a warp loads have in common: the end of the sequence, and elements of 8 bits, whose
/// scales are the operand's or its pages'.
class WarpSource : public Source {
public:
  using Source::Source;

  mlir::LogicalResult check() override;
  mlir::LogicalResult emitInvariants() override;
  mlir::Value emitScaled(mlir::Value tile, mlir::Value position) override;

protected:
  /// Whether the end of the array has to be told, where sequences have no lengths.
  virtual bool needsEnd() const = 0;
  /// The number of the page of a tile, which is part of one.
  mlir::Value emitPage(mlir::Value position);

  /// Where the rows of the sequence end; null where tiles need not be told.
  mlir::Value end;

private:
  bool hasPageScales() const;
  mlir::Value emitScale(mlir::Value page);

  /// The scale of all elements, if there is one.
  mlir::Value scale;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_SOURCES_WARPSOURCE_H
