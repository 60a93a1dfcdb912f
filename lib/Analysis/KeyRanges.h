//===- KeyRanges.h - what flash.tile_runs says of many tiles of keys at once --------------------------------------===//
//
// A table of runs asks its region about every tile of keys for every tile of queries: a million keys and as many
// queries are 2^28 pairs. Mostly the answer is the same for thousands of neighbours. So it is asked for the ranges that
// values have over a stretch of tiles (MLIR's InferIntRangeInterface; of a flash.tile_range, those of its tiles), and a
// stretch whose answer is not one number is halved. What a range says is true of each of its tiles, and single tiles
// have numbers: the runs are those of asking about every tile.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_KEYRANGES_H
#define FLASHC_LIB_ANALYSIS_KEYRANGES_H

#include "LineEvaluator.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace flashc {

class KeyRanges {
public:
  /// `row` knows the batch, the head and the first query.
  KeyRanges(mlir::flash::TileRunsOp op, LineEvaluator &row);

  /// What the region yields for each of the tiles first to last, if that is the same and is seen to be.
  std::optional<int64_t> getAnswer(int64_t first, int64_t last);

private:
  using Range = std::optional<mlir::ConstantIntRanges>;

  Range get(mlir::Value value);
  Range compute(mlir::OpResult result);
  Range getKnownClass(mlir::flash::TileClassesOp classes, mlir::ValueRange tile);
  Range getEnds(mlir::flash::TileRangeOp op);
  /// Marks what hangs on them in their block, too.
  void markChanging(mlir::ValueRange arguments, mlir::Block &block);

  mlir::flash::TileRunsOp op;
  LineEvaluator &row;
  mlir::Value key;
  /// Values that differ from tile to tile.
  llvm::DenseSet<mlir::Value> changing;
  /// Of the stretch that is asked about.
  llvm::DenseMap<mlir::Value, mlir::ConstantIntRanges> known;
};

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_KEYRANGES_H
