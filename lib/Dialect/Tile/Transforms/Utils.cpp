//===- Utils.cpp - what the schedule passes share -----------------------------------------------------------------===//

#include "Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

DrawOp tile::findDraw(scf::ForOp loop) {
  auto draws = loop.getOps<DrawOp>();
  return draws.empty() ? DrawOp() : *draws.begin();
}

SmallVector<unsigned> tile::getDrawnArgs(scf::ForOp loop) {
  SmallVector<unsigned> numbers;
  for (auto [number, value] : llvm::enumerate(loop.getYieldedValues()))
    if (value.getDefiningOp<DrawOp>())
      numbers.push_back(number);
  return numbers;
}

FailureOr<ScheduleAttr> tile::getSchedule(ProgramOp program) {
  auto schedule = program->getParentOp()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  if (!schedule)
    return program.emitOpError() << "expected a '" << kScheduleAttrName << "' on its kernel";
  return schedule;
}

void tile::delayRelease(scf::ForOp loop, int64_t elements) {
  auto waits = llvm::to_vector(loop.getOps<MmaWaitOp>());
  if (waits.size() != 2 || waits[0].getPending() != 1)
    return;
  Value exponentials;
  for (Operation &op : *loop.getBody())
    if (isa<math::Exp2Op>(op) && hasEncoding<AccAttr>(op.getResult(0).getType()) &&
        op.isBeforeInBlock(waits[1]))
      exponentials = op.getResult(0);
  auto release = dyn_cast<ReleaseOp>(waits[0]->getNextNode());
  if (!exponentials || !release)
    return;
  release->moveBefore(waits[1]);
  release.getAfterMutable().assign(exponentials);
  release.setElements(std::min<int64_t>(elements, cast<RankedTensorType>(exponentials.getType()).getDimSize(1) / 2));
}
