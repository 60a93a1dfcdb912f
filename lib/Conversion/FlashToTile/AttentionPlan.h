//===- AttentionPlan.h - what an L1 function computes, as a value -------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_ATTENTIONPLAN_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_ATTENTIONPLAN_H

#include "flashc/Analysis/LaunchInterface.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace flashc {

/// The argument of the entry function that an operand of the attention is a tile of, and its batch and head.
struct InputTile {
  unsigned argument;
  mlir::OpFoldResult batch, head;
};

/// Where o or lse goes: entry arguments are numbered first, then results.
struct Output {
  unsigned argument;
  bool isLse;
  mlir::Type elementType;
};

/// Consecutive key tiles from `begin` (inclusive) to `end`, in steps of the kv tile, all with the same regions.
struct KeySegment {
  mlir::flash::OnlineAttentionOp op;
  mlir::OpFoldResult begin, end;

  bool isMasked() { return op.hasMask(); }
};

/// The table whose runs the segments are, and its row; null if they are not.
struct RunsOfSegments {
  mlir::flash::TileRunsOp table;
  mlir::SmallVector<mlir::Value, 3> place;
};

/// One dimension of the parallel loop: the position in it, how far it goes, and its step.
struct ParallelDim {
  mlir::Value position;
  mlir::OpFoldResult extent;
  int64_t step;
};

/// FlashAttention-2 in L1, as `convert-flash-to-tile` needs it. Holds references into the IR and makes none.
struct AttentionPlan {
  mlir::func::FuncOp func;
  mlir::flash::FinalizeOp finalize;
  mlir::SmallVector<KeySegment> segments; // in order of keys, disjoint; any of them may be empty
  RunsOfSegments runs;
  ParallelDim batch, head, query;
  /// Where a tile of queries lies, if they follow segments: `query` then counts tiles.
  mlir::flash::SegmentTileOp segmentTile;
  InputTile q, k, v;
  mlir::SmallVector<Output> outputs;
  int64_t qTile, kvTile, headDim, valueDim, groupSize;
  mlir::Type elementType;
  mlir::Region *score = nullptr; // of all segments
  mlir::Region *mask = nullptr;  // of all masked segments

  mlir::flash::OnlineAttentionOp getOp() const { return segments.front().op; }
};

/// Reads the plan off a module. Emits an error that names what was expected and fails if the module is anything but one
/// function that computes one attention with the algorithm fa2.
mlir::FailureOr<AttentionPlan> matchAttention(mlir::ModuleOp module);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_ATTENTIONPLAN_H
