//===- Roles.cpp - the producer, the consumers, and their turns ---------------------------------------------------===//
//
//   thread 0          initialises every barrier, fences.
//   warpgroup 0       writes the panel of ones, if there is one; then the CTA synchronises.
//   warpgroup 0       gives up registers; its first thread runs the producer.
//   warpgroups 1..C   take registers and run the consumer with w = warpgroup - 1.
//
// Ping-pong: consumer w waits at named barrier 1 + w (256 threads: its own and those of the consumer before it) and
// hands over to barrier 1 + (w + 1) mod C. The last consumer arrives once at barrier 1 at the start, so that consumer
// 0 begins. Every consumer takes the same number of turns, because they run the same loops.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

constexpr int64_t kTurnThreads = 2 * hopper::kWarpgroupThreads;

struct WarpSpecializeLowering : KernelPattern<WarpSpecializeOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(WarpSpecializeOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    initialiseBarriers(emit, op);
    initialiseOnes(emit);
    emit.ptx("bar.sync 0;", "~{memory}", {});
    auto roles = scf::IfOp::create(rewriter, op.getLoc(), TypeRange(), emit.equal(kernel.warpgroup, 0),
                                   /*withElseRegion=*/true);
    rewriter.setInsertionPointToStart(roles.thenBlock());
    setRegisters(emit, "dec", op.getProducerRegisters());
    auto first = scf::IfOp::create(rewriter, op.getLoc(), TypeRange(), kernel.isThread0, /*withElseRegion=*/false);
    rewriter.inlineBlockBefore(&op.getProducer().front(), first.thenBlock()->getTerminator());

    rewriter.setInsertionPointToStart(roles.elseBlock());
    setRegisters(emit, "inc", op.getConsumerRegisters());
    Value w = emit.toIndex(emit.add(kernel.warpgroup, -1));
    if (takesTurns(op))
      emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, " + std::to_string(op.getConsumers()) +
                   ";\n @p bar.arrive 1, " + std::to_string(kTurnThreads) + ";\n }",
               "r,~{memory}", {kernel.warpgroup});
    rewriter.inlineBlockBefore(&op.getConsumer().front(), roles.elseBlock()->getTerminator(), w);
    rewriter.eraseOp(op);
    return success();
  }

private:
  static bool takesTurns(WarpSpecializeOp op) {
    return op.getConsumer().walk([](TurnWaitOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }

  static void setRegisters(Emitter &emit, StringRef direction, int64_t registers) {
    emit.ptx(("setmaxnreg." + direction + ".sync.aligned.u32 " + std::to_string(registers) + ";").str(), "~{memory}",
             {});
  }

  /// A full barrier completes with the producer's arrival and its bytes; an empty one when every reader has released.
  void initialiseBarriers(Emitter &emit, WarpSpecializeOp op) const {
    OpBuilder::InsertionGuard guard(emit.builder);
    auto ifThread0 = scf::IfOp::create(emit.builder, emit.loc, TypeRange(), kernel.isThread0, false);
    emit.builder.setInsertionPointToStart(ifThread0.thenBlock());
    for (auto &[alloc, offsets] : kernel.rings) {
      RingType ring = cast<AllocRingOp>(alloc).getRing().getType();
      int64_t consumers = op.getConsumers();
      int64_t slots = ring.getStages() * (ring.getIsPrivate() ? consumers : 1);
      for (int64_t slot = 0; slot < slots; ++slot) {
        initialise(emit, offsets.full + slot * hopper::kMbarrierBytes, 1);
        initialise(emit, offsets.empty + slot * hopper::kMbarrierBytes, ring.getIsPrivate() ? 1 : consumers);
      }
    }
    emit.ptx("fence.mbarrier_init.release.cluster;", "~{memory}", {});
  }

  /// Warpgroup 0 writes them, 16 bytes a thread, and makes them visible to the tensor cores (PTX ISA 9.7.13.4,
  /// fence.proxy.async).
  void initialiseOnes(Emitter &emit) const {
    if (!kernel.onesType)
      return;
    OpBuilder::InsertionGuard guard(emit.builder);
    auto ifFirst = scf::IfOp::create(emit.builder, emit.loc, TypeRange(), emit.equal(kernel.warpgroup, 0), false);
    emit.builder.setInsertionPointToStart(ifFirst.thenBlock());
    static_assert(hopper::kOnesBytes == hopper::kWarpgroupThreads * 16);
    Value address = emit.add(emit.add(kernel.sharedBase, kernel.ones), emit.mul(kernel.inGroup, 16));
    Value pair = emit.i32(kernel.onesType.isBF16() ? 0x3F803F80 : 0x3C003C00);
    emit.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};\n fence.proxy.async.shared::cta;", "r,r,~{memory}",
             {address, pair});
  }

  void initialise(Emitter &emit, int64_t offset, int64_t arrivals) const {
    emit.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
             {emit.add(kernel.sharedBase, offset), emit.i32(arrivals)});
  }
};

struct TurnWaitLowering : KernelPattern<TurnWaitOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(TurnWaitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    emit.ptx("bar.sync $0, " + std::to_string(kTurnThreads) + ";", "r,~{memory}", {kernel.warpgroup});
    rewriter.eraseOp(op);
    return success();
  }
};

struct TurnPassLowering : KernelPattern<TurnPassOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(TurnPassOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    // Warpgroup g = 1 + w waits at barrier g; the next one is g mod C + 1.
    int64_t consumers = kernel.schedule.getConsumers();
    Value next = emit.select(emit.equal(kernel.warpgroup, consumers), emit.i32(1), emit.add(kernel.warpgroup, 1));
    emit.ptx("bar.arrive $0, " + std::to_string(kTurnThreads) + ";", "r,~{memory}", {next});
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void flashc::tiletonvvm::populateRolePatterns(TileTypeConverter &converter, RewritePatternSet &patterns,
                                              KernelContext &kernel) {
  patterns.add<WarpSpecializeLowering, TurnWaitLowering, TurnPassLowering>(converter, patterns.getContext(), kernel);
}
