//===- ColumnSumsStep.h - flash.accumulate_column_sums on tiles ---------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_COLUMNSUMSSTEP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_COLUMNSUMSSTEP_H

#include "Steps/TileStep.h"

namespace flashc {

/// The first half of the forward step, transposed: S^T = K Q^T with keys resident and queries streamed, the
/// exponentials of scores minus the log-sum-exp of each column, and their sums along the rows.
class ColumnSumsStep : public TileStep {
public:
  using TileStep::TileStep;

  llvm::SmallVector<mlir::Value> emitIdentity() override;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) override;
  mlir::LogicalResult emitOutputs(mlir::ValueRange state) override;
};

StepShape getColumnSumsShape(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_COLUMNSUMSSTEP_H
