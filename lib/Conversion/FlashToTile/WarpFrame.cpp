//===- WarpFrame.cpp - the frame of a decoding kernel -------------------------------------------------------------===//

#include "WarpFrame.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "flashc/Schedule/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

FailureOr<Schedule> flashc::completeDecodeSchedule(LoopNest &nest, std::optional<Schedule> carried, StringRef target,
                                                   StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  if (!GPUTarget::lookup(target))
    return op->emitError() << "expected the target to be one of " << GPUTarget::getNames() << ", got '" << target
                           << "'";
  Question question;
  question.kind = KernelKind::Decode;
  question.target = target.str();
  question.d = nest.getOperand("k").getCols(), question.dv = nest.getOperand("v").getCols();
  question.cache.emplace().isWidened = nest.getOperand("k").getStoredType().getIntOrFloatBitWidth() == 8;
  ScheduleRow row;
  row.kind = KernelKind::Decode;
  row.overrides = carried ? carried->str() : "splits=1";
  llvm::Expected<Schedule> schedule = applyRow(row, question, overrides);
  if (!schedule)
    return op.emitError() << "schedule: " << llvm::toString(schedule.takeError());
  if (nest.streamedTile != DecodeSchedule::kKeys)
    return op.emitError() << "expected tiles of " << DecodeSchedule::kKeys << " keys, got " << nest.streamedTile;
  std::optional<int64_t> parts = getConstantIntValue(nest.parts.dim.extent);
  if (schedule->chunk == 0 && parts != schedule->splits)
    return op.emitError() << "expected " << schedule->splits << " parts of the keys (schedule " << schedule->str()
                          << ")";
  return *schedule;
}

FailureOr<ValueRange> WarpFrame::emitLoop(TileStep &step) {
  visits = Visits::ofPositions(/*isMasked=*/nest.mask != nullptr);
  Value begin = scalars.get(b, b.getLoc(), nest.segments.front().begin),
        end = scalars.get(b, b.getLoc(), nest.segments.back().end);
  if (!begin || !end)
    return failure();
  // Read from memory, perhaps, but the same in all lanes.
  begin = tile::UniformOp::create(b, begin), end = tile::UniformOp::create(b, end);
  Value tile = index(nest.streamedTile);
  Value first = arith::AddIOp::create(b, begin, arith::MulIOp::create(b, unitNumber, tile));
  SmallVector<Value> identity = step.emitIdentity();
  auto loop = scf::ForOp::create(b, first, end, index(nest.streamedTile * schedule.warps), identity);
  return fillLoop(loop, step);
}
