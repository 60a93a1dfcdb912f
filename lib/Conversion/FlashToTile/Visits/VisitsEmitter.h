//===- VisitsEmitter.h - emits the numbers of key tiles -----------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITSEMITTER_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITSEMITTER_H

#include "KernelFrame.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace flashc {

/// Emits the value that Visits::emit returns.
class Visits::Emitter {
public:
  explicit Emitter(KernelFrame &frame)
      : b(frame.b), nest(frame.nest), scalars(frame.scalars), signature(frame.signature),
        ownRow(frame.schedule.ownKeys && !differsBetweenHeads(frame.nest) ? frame.row : mlir::Value()),
        ownRows(frame.rows->countPositions(frame)), hasList(frame.isSorted) {}

  mlir::FailureOr<Visits> emit() {
    visits.tile = nest.streamedTile;
    auto isMasked = [](Segment &segment) { return segment.isMasked(); };
    visits.isFull = !llvm::all_of(nest.segments, isMasked);
    if (mlir::failed(emitAny()))
      return mlir::failure();
    return std::move(visits);
  }

private:
  /// Whether a tile has several heads, and the mask depends on the head. The bounds of one head's rows then do not hold
  /// for the rows of the other heads.
  static bool differsBetweenHeads(const LoopNest &nest) {
    return nest.packed && nest.packed->heads > 1 && nest.mask && !nest.mask->getArgument(1).use_empty();
  }

  /// The last run of keys. Visits of the other runs are inserted before its visit `place`: first `numMasked` masked
  /// ones, then `numFull` full ones. All rows see the keys before `fixedEnd`.
  struct MovingRun {
    llvm::MutableArrayRef<Segment> segments;
    mlir::Value begin, end, fixedEnd, place, numMasked, numFull;
  };
  /// The visits of some rows: from `first` to `last`. Those from `fullBegin` to `fullEnd` need no mask.
  struct RowVisits {
    mlir::Value first, last, fullBegin, fullEnd;
  };

  mlir::LogicalResult emitAny();
  mlir::LogicalResult emitRun();
  mlir::LogicalResult emitPieces();
  mlir::LogicalResult emitTable();
  mlir::LogicalResult emitPiecesOf(llvm::MutableArrayRef<Segment> segments, bool isMasked,
                                   llvm::SmallVectorImpl<Piece> &pieces, mlir::Value &count);
  void emitConstants() { step = index(nest.streamedTile), one = index(1), zero = index(0); }
  void setTotal(mlir::Value count, bool &mayBeEmpty);
  mlir::LogicalResult emitRotation();

  // Defined in OwnVisits.cpp.
  mlir::Value getOwnRowInL1(mlir::OpBuilder &inL1);
  mlir::Value makeUniform(mlir::Value visit);
  mlir::LogicalResult leaveOutMissingRows(mlir::Value &first, mlir::Value &last);
  mlir::FailureOr<bool> emitOwn(mlir::Value begin, mlir::Value end);
  mlir::FailureOr<RowVisits> emitReadVisits(mlir::Value begin, mlir::Value end, mlir::OpBuilder &inL1);
  mlir::OpFoldResult getEndOfRows(mlir::OpBuilder &inL1);
  mlir::Value getVisitAt(mlir::Value key, mlir::Value begin);
  mlir::LogicalResult emitMovingRun(mlir::OpFoldResult fixedEnd);
  mlir::FailureOr<mlir::Value> emitPlace(const MovingRun &run);
  mlir::LogicalResult emitOwn(const MovingRun &run);
  mlir::FailureOr<RowVisits> emitVisitsOf(const MovingRun &run, mlir::Value firstRow, mlir::OpBuilder &inL1);
  mlir::FailureOr<RowVisits> emitRowVisits(const mlir::flash::RowBounds &bounds,
                                           llvm::function_ref<mlir::Value(mlir::OpFoldResult)> getVisit);
  mlir::Value divideExactly(mlir::Value distance);

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); }
  mlir::Value bound(mlir::OpFoldResult value);
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::AddIOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::SubIOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::MulIOp>(x, y); }
  mlir::Value min(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::MinSIOp>(x, y); }
  mlir::Value max(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::MaxSIOp>(x, y); }
  /// Returns the op of the first masked segment. There must be such a segment.
  mlir::flash::OnlineAttentionOp getMaskedOp() {
    auto *masked = llvm::find_if(nest.segments, [](Segment &segment) { return segment.isMasked(); });
    return mlir::cast<mlir::flash::OnlineAttentionOp>(masked->op.getOperation());
  }
  mlir::Value countTiles(mlir::Value distance) {
    return b.createOrFold<mlir::arith::DivUIOp>(add(distance, index(nest.streamedTile - 1)), step);
  }
  mlir::Value isEmpty(mlir::Value count) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::eq, count, zero);
  }

  mlir::ImplicitLocOpBuilder &b;
  LoopNest &nest;
  ScalarCloner &scalars;
  KernelSignature &signature;
  /// The first row of the unit, and the number of its rows. `ownRow` is null unless only the keys of these rows are
  /// visited.
  mlir::Value ownRow;
  int64_t ownRows;
  bool hasList;
  mlir::Value step, one, zero;
  Visits visits;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_VISITSEMITTER_H
