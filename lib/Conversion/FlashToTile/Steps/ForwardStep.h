//===- ForwardStep.h - flash.online_attention on tiles ------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_FORWARDSTEP_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_FORWARDSTEP_H

#include "Steps/TileDropout.h"
#include "Steps/TileStep.h"
#include <limits>

namespace flashc {

/// FlashAttention-2 with three changes, all exact: exponents in base 2 with the scale folded in, the row's maximum
/// subtracted within the same multiply-add, and a running maximum that may be stale by a factor of 2^8
/// (docs/hopper-softmax.md explains them).
class ForwardStep : public TileStep {
public:
  explicit ForwardStep(KernelFrame &frame)
      : TileStep(frame), valueDim(nest.getOperand("v").getCols()), dropout(frame) {}

  mlir::LogicalResult check() override;
  bool addsUpRows(llvm::StringRef operand) const override { return operand == "v"; }
  void emitAllocations() override;
  llvm::SmallVector<mlir::Value> emitIdentity() override;
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::Value visit, mlir::ValueRange state) override;
  mlir::LogicalResult emitOutputs(mlir::ValueRange state) override;

private:
  static constexpr double kNegInf = -std::numeric_limits<double>::infinity();

  /// The state that the loop carries. `sum` may be null; then the last eight columns of `acc` hold the sum. `max` may
  /// be null; then the maximum is 0 (max=unified).
  struct State {
    mlir::Value acc, max, sum;
  };
  /// The scores of a tile: `tile`, plus `offset` if it is not null. `offset` has a value for each row and lane. With
  /// `isExponential`, `tile` holds the exponentials of the scores instead. If there is an offset, `asWritten` computes
  /// the same scores without splitting them, and is used if `hasLargeTerms` holds.
  struct Scores {
    mlir::Value tile;
    mlir::Value offset = {};
    bool isExponential = false;
    mlir::tile::MapOp asWritten = {};
  };
  /// The exponents of a tile are `tile` * getExponentFactor() + `offset`. `offset` has a value for each row, or for
  /// each row and lane.
  struct Exponents {
    mlir::Value tile, offset;
  };
  /// The results of a tile's softmax. `sum` must be multiplied by `rescaleFactor`, and so must `acc` if `needsRescale`
  /// holds. Without a maximum there are only the probabilities.
  struct Softmax {
    mlir::Value probabilities, max, rescaleFactor, needsRescale;
  };

  State getState(mlir::ValueRange values) const;
  mlir::LogicalResult checkUnifiedMax();
  mlir::FailureOr<State> emitStep(mlir::Value visit, State state);
  void addSlopes(mlir::tile::MmaAsyncOp product);
  mlir::FailureOr<Softmax> emitSoftmax(mlir::Value visit, mlir::Value key, mlir::Value rawScores, mlir::Value oldMax);
  mlir::FailureOr<Exponents> emitSplitOrAsWritten(mlir::Value visit, mlir::Value key, Scores scores, mlir::Value oldMax,
                                                  Softmax &result);
  mlir::FailureOr<Exponents> emitAsWritten(mlir::Value visit, mlir::Value key, Scores scores, mlir::Value oldMax,
                                           Softmax &result);
  mlir::FailureOr<Exponents> emitRescaledExponents(mlir::Value visit, mlir::Value key, Scores scores,
                                                   mlir::Value oldMax, Softmax &result);
  void emitNewMaximum(Scores scores, mlir::Value oldMax, double factor, Softmax &result);
  Exponents emitExponents(Scores scores, mlir::Value max);
  mlir::LogicalResult emitHasLargeTerms(mlir::tile::MapOp split);
  mlir::Value emitDifferences(Scores scores, mlir::Value max, double growth);
  mlir::Value emitShift(Scores scores, mlir::Value max);
  mlir::Value emitMayExceed(Scores scores, mlir::Value oldMax);
  mlir::Value emitMaximum(Scores scores);
  mlir::Value emitExponentials(mlir::Value scores, mlir::Value offset);
  mlir::Value emitRescale(mlir::Value acc, const Softmax &softmax);
  mlir::FailureOr<Scores> emitScoreRegion(mlir::Value visit, mlir::Value key, mlir::Value scores);
  mlir::FailureOr<Scores> emitMasked(mlir::Value visit, mlir::Value key, Scores source, double masked);
  mlir::Value emitLaneMaximum(Scores scores);
  mlir::FailureOr<Scores> emitMaskedScores(mlir::Value key, Scores source, double masked);
  mlir::Value emitLogSumExp(mlir::Value max, mlir::Value sum);
  mlir::Value emitIsEmpty(mlir::Value sum);
  mlir::FailureOr<mlir::Value> emitSinks();
  struct WithSinks {
    mlir::Value divisor, lse;
  };
  WithSinks emitWithSinks(mlir::Value sinks, mlir::Value lse, mlir::Value isEmpty);
  /// Stores the results of all keys of the rows to the outputs.
  mlir::LogicalResult storeWhole(mlir::Value output, mlir::Value lse);
  void emitStoreByTMA(unsigned argument, mlir::Value output);

  double getExponentFactor() const { return llvm::numbers::log2e * remainingScale; }
  /// Returns the type of acc: 64 rows, and the value dimension as columns, plus eight columns if they hold the row
  /// sums.
  mlir::RankedTensorType getOutputType();
  mlir::Value splat(mlir::RankedTensorType type, double value) { return frame.splat(type, value); }
  mlir::Value scale(mlir::Value values, double factor) { return frame.scale(values, factor); }
  mlir::Value replaceNegInf(mlir::Value rows);

  int64_t valueDim;
  /// Whether the Tensor Cores add the terms of the score that grow along the keys.
  bool hasTensorSlopes = false;
  TileDropout dropout;
  /// The factor by which the loop's scores must still be multiplied: the exponent of a score is score * remainingScale
  /// * log2(e).
  double remainingScale;
  /// The panel of ones, if the Tensor Cores sum the rows.
  mlir::Value ones;
  /// Only if the Tensor Cores add the bias. `slopesSlot` is the slot for the slopes of the rows, `columns` holds the
  /// numbers of a tile's columns, and `slopes` holds the slopes.
  mlir::Value slopesSlot, columns, slopes;
  /// Whether a term that was split from the scores is large for one of this warp's rows. The warp then computes scores
  /// as they are written. Null if no term was split.
  mlir::Value hasLargeTerms;
  /// The slot through which the output is stored, if it is not Q's slot.
  mlir::Value outputSlot;
  /// The sink of each row's head. Null if there are none.
  mlir::FailureOr<mlir::Value> sinks = mlir::Value();
};

StepShape getForwardShape(const LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_STEPS_FORWARDSTEP_H
