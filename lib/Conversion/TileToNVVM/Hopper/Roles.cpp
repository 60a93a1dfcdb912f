//===- Roles.cpp - the producer, the consumers, and their turns ---------------------------------------------------===//
//
//   thread 0          initialises every barrier, then fences.
//   warpgroup 0       writes the panel of ones and the numbers of columns, if there are any; then the CTA synchronises.
//   warpgroup 0       gives up registers; its first thread runs the producer.
//   warpgroups 1..C   take registers and run the consumer with w = warpgroup - 1.
//   warpgroup C + 1   gives up registers and runs the reducer, if there is one.
//
// Ping-pong: consumer w waits at named barrier 1 + w (256 threads: its own and those of the consumer before it) and
// then passes the turn on at barrier 1 + (w + 1) mod C. The last consumer arrives once at barrier 1 at the start, so
// that consumer 0 begins. Every consumer takes the same number of turns: all run the same loops, and pass turns on for
// iterations that they leave out.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

constexpr int64_t kTurnThreads = 2 * kHopper.groupThreads;

bool takesTurns(WarpSpecializeOp op) {
  return op.getConsumer().walk([](PingPongWaitOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

void setRegisters(Emitter &emit, StringRef direction, int64_t registers) {
  emit.ptx(("setmaxnreg." + direction + ".sync.aligned.u32 " + std::to_string(registers) + ";").str(), "~{memory}", {});
}

/// Writes 16 bytes with each thread.
void writeOnes(Emitter &emit, const KernelContext &kernel, AllocSlotOp slot) {
  static_assert(kHopper.getOnesBytes() == kHopper.groupThreads * 16);
  Value first = emit.add(kernel.sharedBase, kernel.layout.getPlace(slot).data);
  Value address = emit.add(first, emit.mul(kernel.inGroup, 16));
  Value pair = emit.i32(slot.getSlot().getType().getElementType().isBF16() ? 0x3F803F80 : 0x3C003C00);
  emit.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", "r,r,~{memory}", {address, pair});
}

/// Each thread writes one row, from row `first` on. Both halves of row n begin with the three numbers 64 n, n / 32 and
/// n / 32.
void writeColumns(Emitter &emit, const KernelContext &kernel, int64_t offset, SlotType type, int64_t first) {
  Value column = emit.add(kernel.inGroup, first);
  Value address = emit.add(emit.add(kernel.sharedBase, offset), emit.mul(column, kHopper.getStepRowBytes()));
  Value number = arith::UIToFPOp::create(emit.builder, emit.loc, emit.builder.getF32Type(), column);
  auto times = [&](float factor) -> Value {
    Value constant = arith::ConstantOp::create(emit.builder, emit.loc, emit.builder.getF32FloatAttr(factor));
    return arith::MulFOp::create(emit.builder, emit.loc, number, constant);
  };
  Type element = type.getElementType();
  Value high = times(kHighWeight), low = times(kLowWeight);
  Value pair = packPair(emit, element, high, low), third = packPair(emit, element, low, times(0.0f));
  emit.ptx("{\n .reg .pred p;\n setp.lt.u32 p, $2, " + std::to_string(type.getRows()) +
               ";\n @p st.shared.v4.b32 [$0], {$1, $3, $4, $4};\n @p st.shared.v4.b32 [$0+16], {$1, $3, $4, $4};\n }",
           "r,r,r,r,r,~{memory}", {address, pair, column, third, emit.i32(0)});
}

void writeColumns(Emitter &emit, const KernelContext &kernel, AllocSlotOp slot) {
  SlotType type = slot.getSlot().getType();
  for (int64_t row = 0; row < type.getRows(); row += kHopper.groupThreads)
    writeColumns(emit, kernel, kernel.layout.getPlace(slot).data, type, row);
}

/// Makes warpgroup 0 write the constants that products read, and makes them visible to the Tensor Cores (PTX ISA
/// 9.7.13.4, fence.proxy.async).
void initialiseConstants(Emitter &emit, const KernelContext &kernel) {
  SmallVector<AllocSlotOp> slots;
  for (Operation *op : llvm::make_first_range(kernel.layout.numbers))
    if (auto alloc = dyn_cast<AllocSlotOp>(op); alloc && !alloc.isPrivate())
      slots.push_back(alloc);
  if (slots.empty())
    return;
  OpBuilder::InsertionGuard guard(emit.builder);
  auto ifFirst = scf::IfOp::create(emit.builder, emit.loc, TypeRange(), emit.equal(kernel.warpgroup, 0), false);
  emit.builder.setInsertionPointToStart(ifFirst.thenBlock());
  for (AllocSlotOp slot : slots)
    if (slot.getRole() == SlotRole::Ones)
      writeOnes(emit, kernel, slot);
    else
      writeColumns(emit, kernel, slot);
  emit.ptx("fence.proxy.async.shared::cta;", "~{memory}", {});
}

void initialise(Emitter &emit, const KernelContext &kernel, int64_t offset, int64_t arrivals) {
  emit.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
           {emit.add(kernel.sharedBase, offset), emit.i32(arrivals)});
}

/// Whether an op of type `OpTy` in `region` uses `ring`.
template <typename OpTy> bool isUsed(Region &region, Value ring) {
  return llvm::any_of(ring.getUsers(),
                      [&](Operation *op) { return isa<OpTy>(op) && region.isAncestor(op->getParentRegion()); });
}

/// Initialises the barriers. A full barrier completes with the producer's arrival and the bytes that the producer
/// announces, or, if a consumer's warps write the slot (tile.share, tile.send), with the arrivals of these warps. An
/// empty barrier completes when every reader has released the slot.
void initialiseBarriers(Emitter &emit, const KernelContext &kernel, WarpSpecializeOp op) {
  OpBuilder::InsertionGuard guard(emit.builder);
  auto ifThread0 = scf::IfOp::create(emit.builder, emit.loc, TypeRange(), kernel.isThread0, false);
  emit.builder.setInsertionPointToStart(ifThread0.thenBlock());
  for (Operation *allocation : llvm::make_first_range(kernel.layout.numbers)) {
    auto alloc = dyn_cast<AllocRingOp>(allocation);
    if (!alloc)
      continue;
    RingType ring = alloc.getRing().getType();
    SharedLayout::Place place = kernel.layout.getPlace(alloc);
    int64_t consumers = op.getConsumers();
    int64_t slots = ring.getStages() * (ring.getIsPrivate() ? consumers : 1);
    bool isShared = isUsed<ShareOp>(op.getConsumer(), alloc.getRing());
    int64_t fillers = isShared ? kHopper.groupThreads / 32 : 1, readers = ring.getIsPrivate() ? !isShared : consumers;
    readers += isUsed<WaitOp>(op.getReducer(), alloc.getRing());
    if (isUsed<SendOp>(op.getConsumer(), alloc.getRing())) // each warp passes its part to a warp
      fillers = readers = kHopper.groupThreads / 32;
    for (int64_t slot = 0; slot < slots; ++slot) {
      initialise(emit, kernel, place.full + slot * kHopper.barrierBytes, fillers);
      initialise(emit, kernel, place.empty + slot * kHopper.barrierBytes, readers);
    }
  }
  for (int64_t place = 0; kernel.layout.published && place < kPublishPlaces; ++place)
    initialise(emit, kernel, *kernel.layout.published + place * kHopper.barrierBytes, 1);
  emit.ptx("fence.mbarrier_init.release.cluster;", "~{memory}", {});
}

TileValues lowerWarpSpecialize(WarpSpecializeOp op, Adaptor<WarpSpecializeOp> adaptor, Emitter &emit,
                               KernelContext &kernel) {
  // In a pattern, the builder of `emit` is the pattern's rewriter.
  auto &rewriter = static_cast<ConversionPatternRewriter &>(emit.builder);
  initialiseBarriers(emit, kernel, op);
  initialiseConstants(emit, kernel);
  emit.ptx("bar.sync 0;", "~{memory}", {});
  auto roles = scf::IfOp::create(rewriter, op.getLoc(), TypeRange(), emit.equal(kernel.warpgroup, 0),
                                 /*withElseRegion=*/true);
  rewriter.setInsertionPointToStart(roles.thenBlock());
  setRegisters(emit, "dec", op.getProducerRegisters());
  auto first = scf::IfOp::create(rewriter, op.getLoc(), TypeRange(), kernel.isThread0, /*withElseRegion=*/false);
  rewriter.inlineBlockBefore(&op.getProducer().front(), first.thenBlock()->getTerminator());

  rewriter.setInsertionPointToStart(roles.elseBlock());
  if (!op.getReducer().empty()) {
    roles = scf::IfOp::create(rewriter, op.getLoc(), TypeRange(), emit.equal(kernel.warpgroup, op.getConsumers() + 1),
                              /*withElseRegion=*/true);
    rewriter.setInsertionPointToStart(roles.thenBlock());
    setRegisters(emit, "dec", *op.getReducerRegisters());
    rewriter.inlineBlockBefore(&op.getReducer().front(), roles.thenBlock()->getTerminator());
    rewriter.setInsertionPointToStart(roles.elseBlock());
  }
  setRegisters(emit, "inc", op.getConsumerRegisters());
  Value w = emit.toIndex(emit.add(kernel.warpgroup, -1));
  if (takesTurns(op))
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, " + std::to_string(op.getConsumers()) + ";\n @p bar.arrive 1, " +
                 std::to_string(kTurnThreads) + ";\n }",
             "r,~{memory}", {kernel.warpgroup});
  rewriter.inlineBlockBefore(&op.getConsumer().front(), roles.elseBlock()->getTerminator(), w);
  return {};
}

TileValues lowerPingPongWait(PingPongWaitOp op, Adaptor<PingPongWaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  emit.ptx("bar.sync $0, " + std::to_string(kTurnThreads) + ";", "r,~{memory}", {kernel.warpgroup});
  return {};
}

TileValues lowerPingPongPass(PingPongPassOp op, Adaptor<PingPongPassOp> adaptor, Emitter &emit, KernelContext &kernel) {
  // Consumer w waits at barrier 1 + w, which is also the number of its warpgroup. After the last consumer it is the
  // turn of barrier 1.
  int64_t consumers = kernel.schedule.getConsumers();
  Value next = emit.select(emit.equal(kernel.warpgroup, consumers), emit.i32(1), emit.add(kernel.warpgroup, 1));
  emit.ptx("bar.arrive $0, " + std::to_string(kTurnThreads) + ";", "r,~{memory}", {next});
  return {};
}

TileValues lowerWarpgroupBarrier(WarpgroupBarrierOp op, Adaptor<WarpgroupBarrierOp> adaptor, Emitter &emit,
                                 KernelContext &kernel) {
  emitWarpgroupBarrier(emit, kernel);
  return {};
}

} // namespace

void flashc::tiletonvvm::emitWarpgroupBarrier(Emitter &emit, const KernelContext &kernel, StringRef first) {
  Value barrier = emit.add(kernel.warpgroup, kWarpgroupBarriers);
  emit.ptx((first + "bar.sync $0, " + Twine(kHopper.groupThreads) + ";").str(), "r,~{memory}", {barrier});
}

void flashc::tiletonvvm::populateRolePatterns(KernelPatterns &patterns) {
  patterns.add(lowerWarpSpecialize, lowerPingPongWait, lowerPingPongPass, lowerWarpgroupBarrier);
}
