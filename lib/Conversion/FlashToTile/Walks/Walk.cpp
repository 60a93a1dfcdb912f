//===- Walk.cpp - over what a kernel walks ------------------------------------------------------------------------===//

#include "Walks/Walk.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"

using namespace mlir;
using namespace flashc;

namespace flashc {
#define WALK(Name) std::unique_ptr<Walk> match##Name##Walk(KernelFrame &frame);
#include "Walks/Walks.def"
} // namespace flashc

std::unique_ptr<Walk> flashc::makeWalk(KernelFrame &frame) {
#define WALK(Name)                                                                                                     \
  if (std::unique_ptr<Walk> walk = match##Name##Walk(frame))                                                           \
    return walk;
#include "Walks/Walks.def"
  llvm_unreachable("the last kind takes any frame");
}

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
