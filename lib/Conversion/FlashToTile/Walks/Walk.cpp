//===- Walk.cpp - the work tiles and steps of a kernel ------------------------------------------------------------===//

#include "Walks/Walk.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"

using namespace mlir;
using namespace flashc;

LogicalResult Walk::emitPositions() {
  auto &sources = frame.sources;
  if (failed(frame.rows->emitPlace(frame)) ||
      !llvm::all_of(sources, [](auto &source) { return succeeded(source->emitInvariants()); }) ||
      failed(frame.regions.emitInvariants()))
    return failure();
  return success(llvm::all_of(sources, [](auto &source) { return succeeded(source->emitEnd()); }));
}

FailureOr<ValueRange> Walk::fillLoop(scf::ForOp loop, TileStep &step) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  if (failed(enter(loop.getInductionVar())))
    return failure();
  FailureOr<SmallVector<Value>> next = step.emit(loop.getInductionVar(), loop.getRegionIterArgs());
  if (failed(next))
    return failure();
  scf::YieldOp::create(b, *next);
  return ValueRange(loop.getResults());
}
