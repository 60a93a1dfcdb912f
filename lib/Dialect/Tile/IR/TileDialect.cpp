//===- TileDialect.cpp - registration, types and the kernel's budget ----------------------------------------------===//

#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

#include "flashc/Dialect/Tile/IR/TileOpsDialect.cpp.inc"
#include "flashc/Dialect/Tile/IR/TileOpsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsTypes.cpp.inc"

/// Verifies that `type` has a size in bits, from which sizes in bytes are computed. The verifiers of ops check later
/// whether an op allows the type.
static LogicalResult verifyElement(llvm::function_ref<InFlightDiagnostic()> emitError, Type type) {
  return type.isIntOrFloat() ? success() : emitError() << "expected elements that are integers or floats, got " << type;
}

LogicalResult RingType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t, int64_t, int64_t,
                               Type elementType, bool) {
  return verifyElement(emitError, elementType);
}

LogicalResult SlotType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t, int64_t, Type elementType) {
  return verifyElement(emitError, elementType);
}

SlotType RingType::getSlotType() const { return SlotType::get(getContext(), getRows(), getCols(), getElementType()); }

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

int64_t tile::getSlotBytes(const GPUTarget &target, int64_t rows, int64_t cols, Type element) {
  if (element.isF32())
    return rows * cols * 4;
  return target.getSlotBytes(rows, element.getIntOrFloatBitWidth() == 8 ? llvm::divideCeil(cols, 2) : cols);
}

bool tile::isColTile(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return hasEncoding<ColAttr>(type) && tensor.getRank() == 1 && tensor.hasStaticShape() &&
         tensor.getDimSize(0) % kBlockCols == 0;
}

SlotType tile::getOnesType(const GPUTarget &target, Type element) {
  return SlotType::get(element.getContext(), target.depthStep, target.getPanelCols(), element);
}

SlotType tile::getColumnsType(const GPUTarget &target, int64_t cols, Type element) {
  return SlotType::get(element.getContext(), cols, target.depthStep, element);
}

SlotType tile::getSlopesType(const GPUTarget &target, Type element) {
  return getColumnsType(target, kTileRows, element);
}

RankedTensorType tile::getAccType(int64_t cols, Type element, int64_t rows) {
  return RankedTensorType::get({rows, cols}, element, AccAttr::get(element.getContext()));
}

RankedTensorType tile::getRowType(Type element, int64_t rows) {
  return RankedTensorType::get({rows}, element, RowAttr::get(element.getContext()));
}

RankedTensorType tile::getLanePartialType(MLIRContext *context, int64_t rows) {
  return RankedTensorType::get({rows}, Float32Type::get(context), LanePartialAttr::get(context));
}

WarpProgramOp tile::getWarpProgram(gpu::GPUFuncOp kernel) {
  auto programs = kernel.getBody().getOps<WarpProgramOp>();
  return programs.empty() ? WarpProgramOp() : *programs.begin();
}

/// Whether `kernel` has an op for which `isMatch` holds.
static bool hasOp(gpu::GPUFuncOp kernel, llvm::function_ref<bool(Operation *)> isMatch) {
  auto stop = [&](Operation *op) { return isMatch(op) ? WalkResult::interrupt() : WalkResult::advance(); };
  return kernel.walk(stop).wasInterrupted();
}

bool tile::drawsNumbers(gpu::GPUFuncOp kernel) {
  return hasOp(kernel, [](Operation *op) {
    auto program = dyn_cast<ProgramOp>(op);
    return isa<DrawOp, PublishOp>(op) ||
           (program && (program.isWork(Distribution::Sorted) || program.isWork(Distribution::List)));
  });
}

int64_t tile::getPublishWords(gpu::GPUFuncOp kernel) {
  bool hasOwn = hasOp(kernel, [](Operation *op) {
    auto publish = dyn_cast<PublishOp>(op);
    auto visits = dyn_cast<OwnVisitsOp>(op);
    return (publish && !publish.getOwn().empty()) || (visits && visits.getListed());
  });
  return hasOwn ? kOwnPublishWords : kPublishWords;
}

bool tile::hasReducer(gpu::GPUFuncOp kernel) {
  return hasOp(kernel, [](Operation *op) {
    auto roles = dyn_cast<WarpSpecializeOp>(op);
    return isa<AddProductOp>(op) || (roles && !roles.getReducer().empty());
  });
}

int64_t tile::getReducerRegisters(const GPUTarget &target, ScheduleAttr schedule) {
  int64_t groups = schedule.getConsumers() + 2;
  int64_t ofThread = target.getRegistersOfCTA(target.groupThreads * groups) / (target.groupThreads * groups);
  int64_t left =
      ofThread * groups - schedule.getProducerRegisters() - schedule.getConsumers() * schedule.getConsumerRegisters();
  return std::min({left, ofThread, schedule.getConsumerRegisters()}); // the reducer only gives registers up
}

/// Verifies `tile.schedule` on a kernel: the target must have the registers and the shared memory that the kernel
/// needs.
LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != kScheduleAttrName)
    return op->emitError() << "unknown attribute '" << attribute.getName().getValue() << "' of the tile dialect";
  auto schedule = dyn_cast<ScheduleAttr>(attribute.getValue());
  auto kernel = dyn_cast<gpu::GPUFuncOp>(op);
  if (!schedule || !kernel)
    return op->emitError() << "expected '" << kScheduleAttrName << "' to be a #tile.schedule on a gpu.func";
  if (failed(GPUTarget::verify(kernel)))
    return failure();
  const GPUTarget &target = GPUTarget::of(kernel);
  if (!target.hasWarpgroupProducts)
    return op->emitError() << "expected a target whose warpgroups compute products, got " << target.name;
  if (schedule.getConsumers() < 1 || schedule.getConsumers() > kMaxConsumers)
    return op->emitError() << "expected 1 to " << kMaxConsumers << " consumer warpgroups, got "
                           << schedule.getConsumers();
  for (int64_t registers : {schedule.getProducerRegisters(), schedule.getConsumerRegisters()})
    if (!target.allowsRegisters(registers))
      return op->emitError() << "expected " << target.minRegisters << " to " << target.maxRegisters
                             << " registers in steps of 8, got " << registers;
  int64_t registers = target.groupThreads *
                      (schedule.getProducerRegisters() + schedule.getConsumers() * schedule.getConsumerRegisters());
  int64_t groups = schedule.getConsumers() + 1;
  if (hasReducer(kernel)) { // the reducer gets the registers that are left, at least kReducerRegisters
    groups += 1;
    registers += target.groupThreads * kReducerRegisters;
  }
  int64_t most = target.getRegistersOfCTA(target.groupThreads * groups);
  if (registers > most)
    return op->emitError() << "expected at most " << most << " registers per CTA, got " << registers;
  int64_t bytes = KernelLayout(kernel).bytes;
  if (bytes > target.maxSharedMemory)
    return op->emitError() << "expected at most " << target.maxSharedMemory << " bytes of shared memory, got " << bytes;
  return success();
}
