//===- NestSchedules.cpp - the schedules of a launch's nests, and their grids -------------------------------------===//

#include "NestKernel.h"
#include "PairNest.h"
#include "Rows/Rows.h"
#include "Steps/TileStep.h"
#include "WorkOrder.h"
#include "flashc/Conversion/ScheduleChoice.h"
#include "flashc/Schedule/Rules.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Schedules
//===--------------------------------------------------------------------------------------------------------------===//

/// The schedule that the function carries as an attribute, or none.
static FailureOr<std::optional<Schedule>> getCarried(const LoopNest &nest) {
  flash::StepOpInterface op = nest.getStep();
  Attribute carried = func::FuncOp(nest.func)->getAttr(kScheduleAttrName);
  if (!carried)
    return std::optional<Schedule>();
  if (!isa<DictionaryAttr>(carried))
    return op.emitError() << "expected '" << kScheduleAttrName << "' to be a dictionary, got " << carried;
  llvm::Expected<Schedule> schedule = Schedule::get(cast<DictionaryAttr>(carried));
  if (!schedule)
    return op.emitError() << "schedule: " << llvm::toString(schedule.takeError());
  if ((schedule->kind == KernelKind::Decode) != nest.isOfDecoding())
    return op.emitError()
           << "expected a schedule of kind=decode for packed rows, and of another kind for others, got kind="
           << getKindName(schedule->kind);
  return std::optional(*schedule);
}

/// Returns the schedule that the function carries as an attribute. Without such an attribute, returns the table's.
static FailureOr<Schedule> getSchedule(const LoopNest &nest, StringRef target, StringRef overrides) {
  FailureOr<std::optional<Schedule>> carried = getCarried(nest);
  if (failed(carried))
    return failure();
  if (*carried)
    return **carried;
  StepShape shape = getStepShape(nest);
  return resolveSchedule(nest.getStep(), target, shape.depth, shape.valueDepth, nest.elementType, shape.outputs,
                         overrides);
}

/// Chooses the schedule of a nest. Emits an error and fails if the tiles of level L1 have other sizes than this
/// schedule. Level L1 does not tile a nest of pairs. Such a nest gets a schedule of its own, unless overrides set one.
static FailureOr<Schedule> chooseFor(LoopNest &nest, StringRef target, StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  FailureOr<Schedule> schedule = getSchedule(nest, target, overrides);
  if (failed(schedule))
    return failure();
  if (nest.pairs) {
    Schedule ofPairs = choosePairSchedule(nest, *schedule, *GPUTarget::lookup(target));
    for (auto [field, other] : llvm::zip_equal(ofPairs.getFields(), schedule->getFields()))
      if (field.second != other.second && hasOverride(overrides, field.first))
        return op.emitError() << "schedule: expected " << field.first << "=" << field.second
                              << " for sums of pairs of queries and keys, got " << field.first << "=" << other.second;
    return ofPairs;
  }
  if (auto gradients = dyn_cast<flash::AccumulateGradientsOp>(op.getOperation());
      gradients && schedule->getGradientTile() &&
      gradients.getGradients() == (flash::Gradients::DK | flash::Gradients::DV)) {
    schedule->sharers = schedule->consumers;
    ++schedule->stages; // half as many resident rows leave room for another stage
  }
  if (nest.residentTile != schedule->getQTile() || nest.streamedTile != schedule->kvTile)
    return op.emitError() << "expected tiles of " << schedule->getQTile() << " queries and " << schedule->kvTile
                          << " keys (schedule " << schedule->str() << "), got " << nest.residentTile << " and "
                          << nest.streamedTile;
  if (int64_t heads = nest.packed ? nest.packed->heads : 1; heads != schedule->heads)
    return op.emitError() << "expected tiles of " << schedule->heads
                          << " query heads (schedule heads=" << schedule->heads << "), got " << heads;
  if (std::optional<int64_t> parts = getConstantIntValue(nest.parts.dim.extent); parts != schedule->splits)
    return op.emitError() << "expected " << schedule->splits
                          << " parts of each tile's keys (schedule splits=" << schedule->splits << ")";
  return schedule;
}

/// Applies the overrides to `carried`, the schedule that the nest's function carries, or without it to the default.
/// Emits an error and fails if the result does not fit.
static FailureOr<Schedule> completeDecodeSchedule(LoopNest &nest, std::optional<Schedule> carried, StringRef target,
                                                  StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  if (!GPUTarget::lookup(target))
    return op->emitError() << "expected the target to be one of " << GPUTarget::getNames() << ", got '" << target
                           << "'";
  StepShape shape = getStepShape(nest);
  Question question(KernelKind::Decode, target, shape.depth, shape.valueDepth);
  question.cache.emplace().isWidened = llvm::any_of(
      nest.operands, [](const NestOperand &operand) { return operand.getStoredType().getIntOrFloatBitWidth() == 8; });
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

/// Returns the kernel of a decoding nest, with its schedule.
static FailureOr<NestKernel> scheduleDecoding(LoopNest &nest, StringRef target, StringRef overrides) {
  FailureOr<std::optional<Schedule>> carried = getCarried(nest);
  if (failed(carried))
    return failure();
  FailureOr<Schedule> schedule = completeDecodeSchedule(nest, *carried, target, overrides);
  FailureOr<std::array<GridFormula, 3>> extents = makeRows(nest)->getExtents();
  if (failed(schedule) || failed(extents))
    return failure();
  if (schedule->getCluster() > 1) // the CTAs of a cluster merge the parts
    llvm::erase_if(nest.kernels, [&](const auto &kernel) { return kernel->getOp() == nest.parts.merge; });
  bool mayOverlap = GPUTarget::lookup(target)->hasClusters; // a target with clusters can overlap launches
  return NestKernel{nest, *schedule, *extents, /*whySorted=*/"", mayOverlap};
}

FailureOr<std::vector<NestKernel>> flashc::scheduleNests(MutableArrayRef<LoopNest> nests, StringRef target,
                                                         StringRef overrides) {
  std::vector<NestKernel> kernels;
  for (LoopNest &nest : nests) {
    if (nest.isOfDecoding()) {
      FailureOr<NestKernel> kernel = scheduleDecoding(nest, target, overrides);
      if (failed(kernel))
        return failure();
      kernels.push_back(std::move(*kernel));
      continue;
    }
    FailureOr<Schedule> schedule = chooseFor(nest, target, overrides);
    if (failed(schedule))
      return failure();
    FailureOr<std::array<GridFormula, 3>> extents = nest.pairs ? getPairExtents(nest) : makeRows(nest)->getExtents();
    if (failed(extents))
      return failure();
    kernels.push_back({nest, *schedule, *extents});
  }
  return kernels;
}

/// Returns the reason why a list sorts the work tiles of the nest's kernel, or an empty text. There is no list if the
/// launch has several nests, or if tiles have rows of several heads, unless the list says how long parts are or where
/// packed sequences begin. A persistent kernel with a reducer warpgroup has no list either, since its reducer cannot
/// follow one.
static std::string decideWhySorted(const NestKernel &kernel, bool isOnlyNest) {
  const auto &[nest, schedule] = std::tie(kernel.nest, kernel.schedule);
  if (!isOnlyNest || nest.pairs || (nest.packed && !nest.segmentTile && !nest.parts.size) ||
      (schedule.persistent ? schedule.hasReducer() : !mayReorder(nest)))
    return "";
  return whyUnsorted(nest, schedule.persistent);
}

LogicalResult flashc::decideWorkLists(MutableArrayRef<NestKernel> kernels, StringRef target, bool hasTables) {
  for (NestKernel &kernel : kernels) {
    const auto &[nest, schedule] = std::tie(kernel.nest, kernel.schedule);
    if (nest.isOfDecoding())
      continue;
    kernel.whySorted = decideWhySorted(kernel, kernels.size() == 1);
    kernel.mayOverlap = hasTables || !kernel.whySorted.empty(); // a kernel that is alone overlaps with none
    // checkSchedule checks schedules that come from the table. The schedule of pairs comes from choosePairSchedule.
    if (nest.pairs)
      continue;
    if (nest.parts.size && kernel.whySorted.empty())
      return nest.end->emitError()
             << "schedule: expected persistent=false for splits=" << schedule.splits
             << ": no list sorts the tiles of queries of this launch, so nothing decides how long parts are";
    StepShape shape = getStepShape(nest);
    if (llvm::Error error = checkSchedule(schedule, *GPUTarget::lookup(target), shape.depth, shape.valueDepth,
                                          {bool(nest.segmentTile), /*isSorted=*/!kernel.whySorted.empty()}))
      return nest.end->emitError() << "schedule: " << llvm::toString(std::move(error));
  }
  return success();
}
