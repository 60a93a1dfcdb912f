//===- GradientStep.h - flash.accumulate_gradients on tiles -------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H

#include "Steps/TileDropout.h"
#include "Steps/TileStep.h"

namespace flashc {

/// The gradients of the resident dimension: of keys (dk, dv) or of queries (dq). X = Q K^T and dP = dO V^T, or their
/// transposes if keys are resident, are products from shared memory. S are the scores, a function of X, and score' is
/// the derivative of that function. P = exp(S - lse) and dX = P * (dP - delta) * score' are in registers, as operands A
/// of the products that add to the gradients:
///
///   resident keys:     X^T = K Q^T    dP^T = V dO^T    dv += P^T dO    dk += dX^T Q
///   resident queries:  X = Q K^T      dP = dO V^T      dq += dX K
///
/// With dropout, dropped elements are 0 in dP, and in P where it is multiplied for dv.
///
/// For gradients of score inputs, the step computes sums of the rows or columns of dX. The dimension that is not summed
/// is resident: each lane adds up the unrounded dX in its part of a row.
///
/// With all three gradients keys are resident. Then dX K is added to dq in device memory, for which consumers pass dX^T
/// through shared memory.
class GradientStep : public TileStep {
public:
  explicit GradientStep(KernelFrame &frame) : TileStep(frame), dropout(frame) {}

  mlir::LogicalResult check() override { return dropout.check(); }
  /// A step that computes dv alone does not read v.
  bool reads(llvm::StringRef operand) const override;
  bool addsUpRows(llvm::StringRef operand) const override;
  bool multipliesPairs() const override { return !nest.pairs; }
  void emitAllocations() override;
  llvm::SmallVector<mlir::Value> emitIdentity() override;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) override;
  mlir::LogicalResult emitOutputs(mlir::ValueRange state) override;

private:
  mlir::flash::AccumulateGradientsOp getOp() const;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitOfKeys(mlir::Value visit, mlir::ValueRange state);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emitOfQueries(mlir::Value visit, mlir::ValueRange state);
  bool sumsScoreGradients() const { return getOp().sumsScoreGradients(); }
  /// Adds a tile's dX to the sums of rows, or of pairs.
  mlir::Value addScores(mlir::Value sums, mlir::Value dx);
  bool isOfPairs() const { return getOp().isOfPairs(); }
  bool hasResidentKeys() const { return nest.getStep().getResidentDim() == mlir::flash::StepDim::J; }
  mlir::Value startProduct(mlir::Value a, mlir::Value slot);
  /// Emits the score's derivative at the products of a visit. If dX is rounded, the derivative is rounded to 16 bits.
  /// Null if the derivative is a constant (`getConstantSlope`). Fails after an error.
  mlir::FailureOr<mlir::Value> emitSlopes(mlir::Value visit, mlir::Value position, mlir::Value products);
  std::optional<double> getConstantSlope() const;
  /// P, and the derivatives if there are any. Both need the tanh of a soft cap, which takes as long as the exponential.
  /// If the head dimension is above 64, tanh is a polynomial where all of a warp's arguments are small. The results of
  /// the branches are rounded if possible, which saves registers.
  struct Weights {
    mlir::Value weights, slopes;
  };
  mlir::FailureOr<Weights> emitWeightsAndSlopes(mlir::Value visit, mlir::Value position, mlir::Value products,
                                                llvm::function_ref<mlir::Value()> getLse, bool hasSlopes,
                                                bool isRounded);
  /// Emits P * (dP - delta), multiplied by the score's derivative (`slopes`, or a constant). `delta` has one value for
  /// each row or column. `kept` says which elements dropout keeps, and may be null. Null after an error.
  mlir::Value emitScoreGradients(mlir::Value visit, mlir::Value position, mlir::Value weights, mlir::Value dp,
                                 mlir::Value delta, mlir::Value slopes, mlir::Value kept);
  mlir::Value clearUnweighted(mlir::Value weights, llvm::function_ref<mlir::Value()> emit);
  mlir::Value clearHidden(mlir::Value visit, mlir::Value weights, mlir::Value gradients);
  mlir::Value round(mlir::Value a);
  mlir::Value startSum(mlir::Value operand, mlir::Value slot, mlir::Value acc);
  /// Reads row `row` of a slot with statistics: one value for each column.
  mlir::Value readColumns(mlir::Value slot, int64_t row);
  void addToQueries(mlir::Value operand, mlir::Value position);
  /// Adds this head's gradient to the sums of its group.
  mlir::LogicalResult addToGroup(mlir::Value gradient, const AddedSums &ofGroup);
  /// Returns the numbers of the gradients that the loop carries, in order. The other gradients are added up in memory.
  llvm::SmallVector<unsigned> getCarried() const;
  mlir::Value wait(mlir::Value token, int64_t pending);

  TileDropout dropout;
  /// The log-sum-exps and the deltas of the rows. Only if queries are resident.
  mlir::Value lse, delta;
  /// The shifts and deltas of queries in device memory, and the ring into which they are loaded. Only if keys are
  /// resident.
  mlir::Value statistics, statisticsRing;
  /// The ring for dX^T, and the sums of dq in device memory. Only if dq is added up in device memory.
  mlir::Value shared, sums;
  /// The ring for P. Only if one consumer computes P and another one dX.
  mlir::Value handed;
};

StepShape getGradientShape(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_GRADIENTSTEP_H
