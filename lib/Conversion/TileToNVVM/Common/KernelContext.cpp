//===- KernelContext.cpp - shared-memory layout, thread roles and types -------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

/// The dynamic shared memory of a CTA, as an external array of unknown size.
static Value createSharedBase(gpu::GPUFuncOp kernel, int64_t alignment, Emitter &emit) {
  auto module = kernel->getParentOfType<gpu::GPUModuleOp>();
  OpBuilder moduleBuilder = OpBuilder::atBlockBegin(module.getBody());
  constexpr unsigned kShared = 3;
  std::string name = (kernel.getName() + "_shared").str();
  auto array = LLVM::LLVMArrayType::get(emit.builder.getI8Type(), 0);
  LLVM::GlobalOp::create(moduleBuilder, kernel.getLoc(), array, /*isConstant=*/false, LLVM::Linkage::External, name,
                         Attribute(), alignment, kShared);
  Value address = LLVM::AddressOfOp::create(emit.builder, emit.loc,
                                            LLVM::LLVMPointerType::get(emit.builder.getContext(), kShared), name);
  Value base = LLVM::PtrToIntOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), address);
  return emit.bitAnd(emit.add(base, alignment - 1), -alignment);
}

KernelContext flashc::tiletonvvm::createKernelContext(gpu::GPUFuncOp kernel) {
  KernelContext context(kernel);
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Emitter emit(builder, kernel.getLoc());
  context.sharedBase = createSharedBase(kernel, context.target.swizzleAlignment, emit);
  Value thread = NVVM::ThreadIdXOp::create(builder, kernel.getLoc(), builder.getI32Type());
  context.isThread0 = emit.equal(thread, 0);
  context.warpgroup = emit.makeUniform(emit.shr(thread, llvm::Log2_64(context.target.groupThreads)));
  context.inGroup = emit.bitAnd(thread, context.target.groupThreads - 1);
  Value lane = emit.bitAnd(thread, 31);
  context.laneCol = emit.bitAnd(lane, 3);
  if (WarpProgramOp program = getWarpProgram(kernel)) {
    context.warp = emit.makeUniform(emit.shr(thread, 5));
    context.row = emit.shr(lane, 2);
    context.warps = program.getWarps(), context.cluster = program.getCluster();
  } else {
    context.row = emit.add(emit.mul(emit.shr(context.inGroup, 5), 16), emit.shr(lane, 2));
  }
  return context;
}

int64_t flashc::tiletonvvm::getElementsPerThread(RankedTensorType tile) {
  if (hasEncoding<OperandAAttr>(tile))
    return tile.getDimSize(1) / 4; // 32-bit registers of two elements each
  if (hasEncoding<FlagsAttr>(tile))
    return tile.getDimSize(1) / 8; // 32-bit registers of four flags each
  if (isColTile(tile))
    return tile.getDimSize(0) / 4;
  return tile.getRank() == 1 ? 2 : tile.getDimSize(1) / 2;
}

static bool isTile(RankedTensorType type) {
  return hasEncoding<AccAttr>(type) || hasEncoding<RowAttr>(type) || hasEncoding<LanePartialAttr>(type) ||
         hasEncoding<OperandAAttr>(type) || hasEncoding<ColAttr>(type) || hasEncoding<FlagsAttr>(type);
}

unsigned flashc::tiletonvvm::getAddressSpace(MemRefType type) {
  auto space = dyn_cast_or_null<gpu::AddressSpaceAttr>(type.getMemorySpace());
  return space && space.getValue() == gpu::AddressSpace::Workgroup ? 3 : 1;
}

TileTypeConverter::TileTypeConverter(MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  auto convertTile = [i32](RankedTensorType type, SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
    if (!isTile(type))
      return std::nullopt;
    bool isPacked = hasEncoding<OperandAAttr>(type) || hasEncoding<FlagsAttr>(type);
    types.append(getElementsPerThread(type), isPacked ? i32 : type.getElementType());
    return success();
  };
  addConversion([](Type type) { return type; });
  addConversion(convertTile);
  addConversion(
      [convertTile](TokenType type, SmallVectorImpl<Type> &types) { return convertTile(type.getResultType(), types); });
  // A memref is held as its pointer and the strides of all dimensions but the innermost one, which is contiguous.
  addConversion([i64](MemRefType type, SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
    types.push_back(LLVM::LLVMPointerType::get(type.getContext(), getAddressSpace(type)));
    types.append(std::max<int64_t>(type.getRank() - 1, 0), i64);
    return success();
  });
}
