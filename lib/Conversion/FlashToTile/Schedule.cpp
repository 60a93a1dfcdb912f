//===- Schedule.cpp - the table of schedules, overrides, budgets --------------------------------------------------===//

#include "flashc/Conversion/Schedule.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace flashc;
namespace hopper = mlir::tile::hopper;

int64_t Schedule::getQTile() const { return tile::kTileRows * consumers; }

std::string Schedule::str() const {
  return llvm::formatv("consumers={0},kv-tile={1},stages={2},producer-registers={3},consumer-registers={4},"
                       "overlap={5},ping-pong={6},persistent={7},q-stages={8},overlap-epilogue={9},tensor-sums={10}",
                       consumers, kvTile, stages, producerRegisters, consumerRegisters, overlap ? "true" : "false",
                       pingPong ? "true" : "false", persistent ? "true" : "false", qStages, overlapEpilogue ? "true" : "false", tensorSums ? "true" : "false");
}

/// `setmaxnreg` shares 65536 registers among the warpgroups; the producer needs next to none.
static void setRegisters(Schedule &schedule) {
  schedule.producerRegisters = schedule.consumers == 3 ? 32 : 24;
  schedule.consumerRegisters = schedule.consumers == 3 ? 160 : 240;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The table
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
struct TableRow {
  int64_t maxD, maxDv; // The first row that both fit applies.
  int64_t consumers, kvTile, stages, qStages;
};
} // namespace

static constexpr TableRow kTable[] = {
    {64, 64, 3, 128, 4, 1}, // Many small products: more rows to share each K and V.
    {128, 128, 2, 128, 2, 2},
    {192, 128, 2, 128, 2, 1},
    {256, 256, 2, 64, 2, 1}, // The output accumulator takes 128 registers, or K takes the shared memory.
};

/// User code that reads memory for every (i, j) holds addresses and values beside the tiles: smaller tiles, or it
/// spills.
static constexpr TableRow kReadingTable[] = {
    {64, 64, 2, 64, 4, 1},
    {192, 128, 2, 64, 2, 1},
    {256, 256, 2, 32, 2, 1},
};

Schedule flashc::chooseSchedule(int64_t d, int64_t dv, bool readsPerElement) {
  ArrayRef<TableRow> table = readsPerElement ? ArrayRef(kReadingTable) : ArrayRef(kTable);
  const TableRow *row = llvm::find_if(table, [&](const TableRow &row) { return d <= row.maxD && dv <= row.maxDv; });
  assert(row != table.end() && "expected head dimensions up to 256");
  Schedule schedule{row->consumers, row->kvTile, row->stages, /*producerRegisters=*/0, /*consumerRegisters=*/0};
  schedule.qStages = row->qStages;
  schedule.tensorSums = dv == hopper::kPanelCols;
  setRegisters(schedule);
  return schedule;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Overrides
//===--------------------------------------------------------------------------------------------------------------===//

static llvm::Error setField(Schedule &schedule, StringRef key, StringRef value) {
  std::pair<StringRef, int64_t *> numbers[] = {{"consumers", &schedule.consumers},
                                               {"kv-tile", &schedule.kvTile},
                                               {"stages", &schedule.stages},
                                               {"q-stages", &schedule.qStages},
                                               {"producer-registers", &schedule.producerRegisters},
                                               {"consumer-registers", &schedule.consumerRegisters}};
  for (auto &[name, field] : numbers)
    if (key == name)
      return value.getAsInteger(10, *field)
                 ? llvm::createStringError("expected an integer for '" + key + "', got '" + value + "'")
                 : llvm::Error::success();
  std::pair<StringRef, bool *> flags[] = {{"overlap", &schedule.overlap},
                                         {"ping-pong", &schedule.pingPong},
                                         {"persistent", &schedule.persistent},
                                         {"overlap-epilogue", &schedule.overlapEpilogue},
                                         {"tensor-sums", &schedule.tensorSums}};
  for (auto &[name, field] : flags) {
    if (key != name)
      continue;
    if (value != "true" && value != "false")
      return llvm::createStringError("expected true or false for '" + key + "', got '" + value + "'");
    *field = value == "true";
    return llvm::Error::success();
  }
  return llvm::createStringError("expected consumers, kv-tile, stages, q-stages, producer-registers, "
                                 "consumer-registers, overlap, ping-pong, persistent, overlap-epilogue or tensor-sums, got '" +
                                 key + "'");
}

llvm::Error flashc::overrideSchedule(Schedule &schedule, StringRef overrides) {
  SmallVector<std::pair<StringRef, StringRef>> pairs;
  for (StringRef item : llvm::split(overrides, ','))
    if (!item.trim().empty())
      pairs.push_back({item.split('=').first.trim(), item.split('=').second.trim()});
  // First what the other choices follow from, whatever the order in the text.
  for (auto [key, value] : pairs) {
    if (key != "consumers")
      continue;
    if (llvm::Error error = setField(schedule, key, value))
      return error;
    setRegisters(schedule);
    schedule.pingPong = schedule.consumers > 1;
  }
  for (auto [key, value] : pairs)
    if (llvm::Error error = setField(schedule, key, value))
      return error;
  return llvm::Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Budgets
//===--------------------------------------------------------------------------------------------------------------===//

/// What the rings take, as tile::getSharedMemoryBytes will find it in the kernel.
static int64_t getSharedMemoryBytes(const Schedule &schedule, int64_t d, int64_t dv) {
  auto slot = [](int64_t rows, int64_t cols) {
    return llvm::divideCeil(cols, hopper::kPanelCols) * rows * 128 + 2 * hopper::kMbarrierBytes;
  };
  return schedule.consumers * schedule.qStages * slot(tile::kTileRows, d) +
         schedule.stages * (slot(schedule.kvTile, d) + slot(schedule.kvTile, dv)) +
         (schedule.tensorSums ? hopper::kOnesBytes : 0) + hopper::kSwizzleAlignment;
}

/// Registers of a consumer thread that hold tiles, and those that everything else needs.
static int64_t getConsumerRegisters(const Schedule &schedule, int64_t dv) {
  // Addresses, counters, row state, and the sums of the rows: seen in the ptxas reports of kernels that fit.
  int64_t other = schedule.tensorSums ? 28 : 32;
  int64_t scores = schedule.kvTile / 2, output = (dv + (schedule.tensorSums ? hopper::kSumCols : 0)) / 2, probabilities = schedule.kvTile / 4;
  return scores + output + probabilities + other;
}

llvm::Error flashc::checkSchedule(const Schedule &schedule, int64_t d, int64_t dv) {
  if (schedule.consumers < 1 || schedule.consumers > 3)
    return llvm::createStringError("expected 1 to 3 consumers, got " + Twine(schedule.consumers));
  if (schedule.kvTile < 16 || schedule.kvTile > 256 || schedule.kvTile % 16 != 0)
    return llvm::createStringError("expected a kv-tile of 16 to 256 in steps of 16, got " + Twine(schedule.kvTile));
  for (auto [name, stages] : {std::pair("", schedule.stages), std::pair("q-", schedule.qStages)})
    if (stages < 1 || stages > 64)
      return llvm::createStringError("expected 1 to 64 " + Twine(name) + "stages, got " + Twine(stages));
  if (schedule.pingPong && schedule.consumers == 1)
    return llvm::createStringError("expected several consumers to ping-pong, got 1");
  if (schedule.tensorSums && dv != hopper::kPanelCols)
    return llvm::createStringError("expected a value dimension of " + Twine(hopper::kPanelCols) +
                                   " for tensor-sums, got " + Twine(dv));
  if (schedule.overlapEpilogue && !(schedule.persistent && schedule.overlap))
    return llvm::createStringError("expected persistent and overlap for overlap-epilogue");
  for (int64_t registers : {schedule.producerRegisters, schedule.consumerRegisters})
    if (registers < hopper::kMinRegisters || registers > hopper::kMaxSetRegisters || registers % 8 != 0)
      return llvm::createStringError("expected 24 to 256 registers in steps of 8, got " + Twine(registers));
  int64_t threads = hopper::kWarpgroupThreads;
  int64_t all = threads * (schedule.producerRegisters + schedule.consumers * schedule.consumerRegisters);
  if (all > hopper::kRegistersPerSM)
    return llvm::createStringError("expected at most " + Twine(hopper::kRegistersPerSM) + " registers per CTA, got " +
                                   Twine(all));
  int64_t tiles = getConsumerRegisters(schedule, dv);
  if (tiles > schedule.consumerRegisters)
    return llvm::createStringError("expected tiles that fit " + Twine(schedule.consumerRegisters) +
                                   " registers per consumer thread, got " + Twine(tiles) + " for a kv-tile of " +
                                   Twine(schedule.kvTile) + " and a value dimension of " + Twine(dv));
  int64_t bytes = getSharedMemoryBytes(schedule, d, dv);
  if (bytes > hopper::kMaxSharedMemory)
    return llvm::createStringError("expected at most " + Twine(hopper::kMaxSharedMemory) +
                                   " bytes of shared memory, got " + Twine(bytes));
  return llvm::Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// For an attention in IR
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether a score or mask region reads memory at a place that depends on the query or the key (its last arguments).
static bool readsPerElement(Region &region) {
  if (region.empty())
    return false;
  llvm::SetVector<Operation *> dependent;
  for (BlockArgument position : region.getArguments().take_back(2))
    getForwardSlice(position, &dependent);
  return llvm::any_of(dependent, [](Operation *op) { return isa<tensor::ExtractOp, memref::LoadOp>(op); });
}

/// The same of any attention beside `op`: after flash-bound-loops only some of them have the mask.
static bool readsPerElement(Operation *op) {
  Operation *function = op->getParentOfType<FunctionOpInterface>();
  return (function ? function : op)
      ->walk([](Operation *nested) {
        bool reads = isa<flash::AttentionOp, flash::OnlineAttentionOp>(nested) &&
                     llvm::any_of(nested->getRegions(), [](Region &region) { return readsPerElement(region); });
        return reads ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether three consumers of 160 registers a thread would spill beside their tiles, and two with a wide K: where a
/// mask computes more than one comparison of the query or has control flow, or where the keys are just one and a bit
/// tiles (then LLVM knows most of the second tile to be masked, and keeps constants in registers).
static bool needsRegisters(Operation *op) {
  if (auto attention = dyn_cast<flash::AttentionOp>(op))
    if (int64_t keys = attention.getKType().getDimSize(2); keys > 128 && keys < 256)
      return true;
  Region &mask = op->getRegion(1);
  if (mask.empty())
    return false;
  llvm::SetVector<Operation *> dependent;
  getForwardSlice(mask.getArgument(2), &dependent);
  auto isBranch = [](Operation *user) { return user->getNumRegions() > 0; };
  auto isComparison = [](Operation *user) { return isa<arith::CmpIOp>(user); };
  return llvm::any_of(dependent, isBranch) || llvm::count_if(dependent, isComparison) > 1;
}

/// Whether the queries are known to be few, and masked: then most of a tile of 192 queries lies on the diagonal, and
/// smaller tiles waste less (docs/performance.md: at 2048 queries they are even).
static bool isShortAndMasked(Operation *op) {
  auto attention = dyn_cast<flash::AttentionOp>(op);
  if (!attention || !attention.hasMask())
    return false;
  int64_t queries = attention.getQType().getDimSize(2);
  return !ShapedType::isDynamic(queries) && queries <= 1024;
}

FailureOr<Schedule> flashc::resolveSchedule(Operation *op, int64_t d, int64_t dv, Type element, StringRef overrides) {
  if (!element.isBF16() && !element.isF16())
    return op->emitError() << "expected bf16 or f16 on sm_90a, got " << element;
  Schedule schedule = chooseSchedule(d, dv, readsPerElement(op));
  if (schedule.consumers == 3 && (needsRegisters(op) || isShortAndMasked(op))) {
    schedule.consumers = 2;
    setRegisters(schedule);
  } else if (d > 128 && schedule.kvTile == 128 && needsRegisters(op)) {
    schedule.kvTile = 96;
  }
  llvm::Error error = overrideSchedule(schedule, overrides);
  // A second slot of Q is for the next tile, and for memory that nothing else needs.
  bool hasRoom = getSharedMemoryBytes(schedule, d, dv) <= hopper::kMaxSharedMemory;
  if (!overrides.contains("q-stages") && (!schedule.persistent || !hasRoom))
    schedule.qStages = 1;
  if (!overrides.contains("overlap-epilogue"))
    schedule.overlapEpilogue = schedule.persistent && schedule.overlap && schedule.qStages > 1;
  if (!error)
    error = checkSchedule(schedule, d, dv);
  if (error)
    return op->emitError() << "schedule: " << llvm::toString(std::move(error));
  return schedule;
}

FailureOr<Schedule> flashc::resolveSchedule(ModuleOp module, StringRef overrides) {
  Operation *found = nullptr;
  ShapedType q, v;
  module.walk([&](Operation *op) {
    if (auto attention = dyn_cast<flash::AttentionOp>(op))
      std::tie(found, q, v) = std::make_tuple(op, attention.getQType(), attention.getVType());
    else if (auto online = dyn_cast<flash::OnlineAttentionOp>(op))
      std::tie(found, q, v) = std::make_tuple(op, ShapedType(online.getQType()), ShapedType(online.getVType()));
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!found)
    return module.emitError() << "expected an attention in the module, got none";
  return resolveSchedule(found, q.getDimSize(3), v.getDimSize(3), q.getElementType(), overrides);
}
