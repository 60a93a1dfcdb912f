//===- GradientStep.h - flash.accumulate_gradients on tiles -------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H

#include "Steps/TileStep.h"

namespace flashc {

/// The gradients of the resident dimension, of keys (dk, dv) or of queries (dq). With X = Q K^T and dP = dO V^T, or their
/// transposes where keys are resident, both from shared memory, P = exp(S - lse) and dX = P * (dP - delta) * score' are in
/// registers, and the operands A of the products that add to the gradients:
///
///   resident keys:     X^T = K Q^T    dP^T = V dO^T    dv += P^T dO    dk += dX^T Q
///   resident queries:  X = Q K^T      dP = dO V^T      dq += dX K
class GradientStep : public TileStep {
public:
  using TileStep::TileStep;

  /// All but `v` for dv alone.
  bool reads(llvm::StringRef operand) const override;
  llvm::SmallVector<mlir::Value> emitIdentity() override;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) override;
  mlir::LogicalResult emitOutputs(mlir::ValueRange state) override;

private:
  mlir::flash::AccumulateGradientsOp getOp() const;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitOfKeys(mlir::Value visit, mlir::ValueRange state);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitOfQueries(mlir::Value visit, mlir::ValueRange state);
  bool hasResidentKeys() const { return nest.getStep().getResidentDim() == mlir::flash::StepDim::J; }
  mlir::Value startProduct(mlir::Value a, mlir::Value slot);
  mlir::Value emitScoreGradients(mlir::Value visit, mlir::Value position, mlir::Value products, mlir::Value weights,
                                 mlir::Value dp);
  mlir::Value startSum(mlir::Value a, mlir::Value slot, mlir::Value acc);
  mlir::Value wait(mlir::Value token, int64_t pending);

  /// Of rows, where queries are resident.
  mlir::Value lse, delta;
};

StepShape getGradientShape(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H
