//===- TileDialect.cpp - registration, types and the kernel's budget ----------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tile;

#include "flashc/Dialect/Tile/IR/TileOpsDialect.cpp.inc"
#include "flashc/Dialect/Tile/IR/TileOpsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsTypes.cpp.inc"

void TileDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "flashc/Dialect/Tile/IR/TileOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "flashc/Dialect/Tile/IR/TileOpsAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "flashc/Dialect/Tile/IR/TileOpsTypes.cpp.inc"
      >();
}

/// wgmma multiplies so many elements of depth at a time.
static constexpr int64_t kDepthStep = 16;

SlotType tile::getOnesType(Type element) {
  static_assert(kDepthStep * hopper::kPanelCols * 2 == hopper::kOnesBytes);
  return SlotType::get(element.getContext(), kDepthStep, hopper::kPanelCols, element);
}

SlotType tile::getColumnsType(int64_t cols, Type element) {
  static_assert(kDepthStep * 2 == hopper::kStepRowBytes);
  return SlotType::get(element.getContext(), cols, kDepthStep, element);
}

SlotType tile::getSlopesType(Type element) { return getColumnsType(kTileRows, element); }

RankedTensorType tile::getAccType(int64_t cols, Type element) {
  return RankedTensorType::get({kTileRows, cols}, element, AccAttr::get(element.getContext()));
}

RankedTensorType tile::getRowType(Type element) {
  return RankedTensorType::get({kTileRows}, element, RowAttr::get(element.getContext()));
}

RankedTensorType tile::getRowPartialType(MLIRContext *context) {
  return RankedTensorType::get({kTileRows}, Float32Type::get(context), RowPartialAttr::get(context));
}

bool tile::drawsNumbers(gpu::GPUFuncOp kernel) {
  auto draws = [](Operation *op) {
    auto program = dyn_cast<ProgramOp>(op);
    bool isFound = isa<DrawOp, AnnounceOp>(op) || (program && (program.getSorted() || program.getList()));
    return isFound ? WalkResult::interrupt() : WalkResult::advance();
  };
  return kernel.walk(draws).wasInterrupted();
}

int64_t tile::getAnnouncementWords(gpu::GPUFuncOp kernel) {
  auto hasOwn = [](Operation *op) {
    auto announce = dyn_cast<AnnounceOp>(op);
    auto visits = dyn_cast<OwnVisitsOp>(op);
    bool isFound = (announce && !announce.getOwn().empty()) || (visits && visits.getListed());
    return isFound ? WalkResult::interrupt() : WalkResult::advance();
  };
  return kernel.walk(hasOwn).wasInterrupted() ? hopper::kOwnAnnouncementWords : hopper::kAnnouncementWords;
}

int64_t tile::getSharedMemoryBytes(gpu::GPUFuncOp kernel) {
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  int64_t bytes = 0, consumers = schedule ? schedule.getConsumers() : 1;
  kernel.walk([&](AllocRingOp alloc) {
    RingType ring = alloc.getRing().getType();
    int64_t copies = ring.getIsPrivate() ? consumers : 1;
    bytes += copies * ring.getStages() * (ring.getSlotBytes() + 2 * hopper::kMbarrierBytes);
  });
  kernel.walk([&](AllocOutputOp alloc) { bytes += consumers * alloc.getSlot().getType().getBytes(); });
  kernel.walk([&](AllocOnesOp) { bytes += hopper::kOnesBytes; });
  kernel.walk([&](AllocSlopesOp) { bytes += consumers * kTileRows * hopper::kStepRowBytes; });
  kernel.walk([&](AllocColumnsOp alloc) { bytes += alloc.getSlot().getType().getRows() * hopper::kStepRowBytes; });
  bytes += drawsNumbers(kernel) ? hopper::getAnnouncementBytes(getAnnouncementWords(kernel)) : 0;
  return bytes ? bytes + hopper::kSwizzleAlignment : 0;
}

/// The lowering has one place for what an `OpTy` allocates.
template <typename OpTy>
static LogicalResult verifyAtMostOne(gpu::GPUFuncOp kernel) {
  int64_t count = 0;
  kernel.walk([&](OpTy) { ++count; });
  if (count <= 1)
    return success();
  return kernel.emitOpError() << "expected at most one " << OpTy::getOperationName() << ", got " << count;
}

/// `tile.schedule` on a kernel: what the kernel asks for must be there.
LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != kScheduleAttrName)
    return op->emitError() << "unknown attribute '" << attribute.getName().getValue() << "' of the tile dialect";
  auto schedule = dyn_cast<ScheduleAttr>(attribute.getValue());
  auto kernel = dyn_cast<gpu::GPUFuncOp>(op);
  if (!schedule || !kernel)
    return op->emitError() << "expected '" << kScheduleAttrName << "' to be a #tile.schedule on a gpu.func";
  if (schedule.getConsumers() < 1 || schedule.getConsumers() > kMaxConsumers)
    return op->emitError() << "expected 1 to " << kMaxConsumers << " consumer warpgroups, got "
                           << schedule.getConsumers();
  if (schedule.getKvTile() < 16 || schedule.getKvTile() > 256 || schedule.getKvTile() % 16 != 0)
    return op->emitError() << "expected a kv tile of 16 to 256 keys in steps of 16, got " << schedule.getKvTile();
  if (schedule.getStages() < 1)
    return op->emitError() << "expected at least one stage, got " << schedule.getStages();
  for (int64_t registers : {schedule.getProducerRegisters(), schedule.getConsumerRegisters()})
    if (registers < hopper::kMinRegisters || registers > hopper::kMaxSetRegisters || registers % 8 != 0)
      return op->emitError() << "expected " << hopper::kMinRegisters << " to " << hopper::kMaxSetRegisters
                             << " registers in steps of 8, got " << registers;
  int64_t registers = hopper::kWarpgroupThreads *
                      (schedule.getProducerRegisters() + schedule.getConsumers() * schedule.getConsumerRegisters());
  int64_t most = hopper::getRegistersOfCTA(hopper::kWarpgroupThreads * (schedule.getConsumers() + 1));
  if (registers > most)
    return op->emitError() << "expected at most " << most << " registers per CTA, got " << registers;
  if (failed(verifyAtMostOne<AllocOnesOp>(kernel)) || failed(verifyAtMostOne<AllocSlopesOp>(kernel)) ||
      failed(verifyAtMostOne<AllocColumnsOp>(kernel)))
    return failure();
  int64_t bytes = getSharedMemoryBytes(kernel);
  if (bytes > hopper::kMaxSharedMemory)
    return op->emitError() << "expected at most " << hopper::kMaxSharedMemory << " bytes of shared memory, got "
                           << bytes;
  return success();
}
