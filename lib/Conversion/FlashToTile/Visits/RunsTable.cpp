//===- RunsTable.cpp - loops over the runs of a table -------------------------------------------------------------===//

#include "Visits/RunsTable.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

LogicalResult flashc::matchRuns(LoopNest &nest) {
  auto isOfRuns = [](Segment &segment) {
    return flash::matchRunsElement(segment.begin) || flash::matchRunsElement(segment.end);
  };
  if (llvm::none_of(nest.segments, isOfRuns))
    return success();
  tensor::ExtractOp first = flash::matchRunsElement(nest.segments.front().begin);
  bool isWhole = first != nullptr;
  auto isElement = [&](OpFoldResult bound, int64_t run, int64_t field) {
    tensor::ExtractOp element = flash::matchRunsElement(bound);
    return element && element.getTensor() == first.getTensor() &&
           element.getIndices().take_front(3) == first.getIndices().take_front(3) &&
           isConstantIntValue(element.getIndices()[3], run) && isConstantIntValue(element.getIndices()[4], field);
  };
  if (isWhole) {
    nest.runs.table = first.getTensor().getDefiningOp<flash::TileRunsOp>();
    nest.runs.place.assign(first.getIndices().begin(), first.getIndices().begin() + 3);
    isWhole = static_cast<int64_t>(nest.segments.size()) == 3 * nest.runs.table.getNumRuns();
  }
  for (auto [index, segment] : llvm::enumerate(nest.segments))
    isWhole = isWhole && isElement(segment.begin, index / 3, index % 3) &&
              isElement(segment.end, index / 3, index % 3 + 1) && segment.isMasked() == (index % 3 != 1);
  if (!isWhole)
    return nest.getStep().emitError() << "expected loops over all runs of one flash.tile_runs (flash-bound-loops)";
  return success();
}
