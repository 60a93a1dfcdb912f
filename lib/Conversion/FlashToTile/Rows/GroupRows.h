//===- GroupRows.h - heads of a group times queries, for a warpgroup ----------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_GROUPROWS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_GROUPROWS_H

#include "Rows/HeadRows.h"

namespace flashc {

/// Rows of several heads of a group, which read the same keys (PackGQA of FlashAttention-3, Shah et al. 2024): with few
/// queries a tile is full, and the group's keys are loaded once. The units of a CTA have consecutive queries of the
/// CTA's tile. Row r of a unit has head `frame.head` + r / queries and position `frame.row` + r mod queries, where
/// `queries` is the number of queries of a unit. Rows after the last head are not stored.
class GroupRows : public HeadRows {
public:
  using HeadRows::HeadRows;

  int64_t countPositions(KernelFrame &frame) const override;
  bool areConsecutive() const override { return false; }
  mlir::Value getHead(KernelFrame &frame) const override { return {}; }
  mlir::Value emitFirst(KernelFrame &frame) const override;
  std::pair<mlir::Value, mlir::Value> emitHeadAndPosition(KernelFrame &frame, mlir::Value row) const override;
  mlir::Value getTensorMap(KernelFrame &frame, unsigned argument) const override;
  void store(KernelFrame &frame, mlir::Value tile, mlir::Value array, mlir::Value batch, bool isMatrix) override;

private:
  int64_t countHeads() const override { return nest.packed->heads; }
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ROWS_GROUPROWS_H
