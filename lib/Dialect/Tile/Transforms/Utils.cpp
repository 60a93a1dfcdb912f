//===- Utils.cpp - functions that the schedule passes share -------------------------------------------------------===//

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

FailureOr<ScheduleAttr> tile::getSchedule(Operation *program) {
  auto schedule = program->getParentOp()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  if (!schedule)
    return program->emitOpError() << "expected a '" << kScheduleAttrName << "' on its kernel";
  return schedule;
}
