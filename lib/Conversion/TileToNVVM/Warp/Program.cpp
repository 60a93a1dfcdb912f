//===- Program.cpp - the prologue of a warp program ---------------------------------------------------------------===//
//
//   every warp   Lane 0 initialises the barriers of the warp's own rings, and executes a fence if the target has TMA.
//                Then the warp's lanes meet. A warp starts its first copies without waiting for another warp.
//   a cluster    Thread 0 initialises the barrier of the data that other CTAs will push, and sets its number of bytes.
//                Then the CTA arrives at the cluster's barrier. It waits for this barrier only before the merge.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;
using flashc::GPUTarget;

void flashc::tiletonvvm::emitWarpBarrier(Emitter &emit) { emit.ptx("bar.warp.sync 0xffffffff;", "~{memory}", {}); }
void flashc::tiletonvvm::emitCTABarrier(Emitter &emit) { emit.ptx("bar.sync 0;", "~{memory}", {}); }

Value flashc::tiletonvvm::getLane(Emitter &emit, const KernelContext &kernel) {
  return emit.bitAnd(kernel.inGroup, 31);
}

void flashc::tiletonvvm::waitForBarrier(Emitter &emit, const GPUTarget &target, Value barrier, Value parity) {
  // try_wait may sleep. It exists since Hopper.
  std::string wait = target.hasTMA ? "try_wait" : "test_wait";
  emit.ptx("{\n .reg .pred P;\n WAIT: mbarrier." + wait +
               ".parity.shared::cta.b64 P, [$0], $1;\n"
               " @P bra.uni DONE;\n bra.uni WAIT;\n DONE:\n }",
           "r,r,~{memory}", {barrier, parity});
}

static void addTypes(TileTypeConverter &converter, MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32);
  // A ring is held as two addresses in shared memory: those of the warp's own first slot and of its first full barrier.
  // A slot is held as its address.
  converter.addConversion([i32](RingType type, SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
    types.append(2, i32);
    return success();
  });
  converter.addConversion([i32](SlotType type) -> Type { return i32; });
  converter.addConversion([](TensorMapType type) -> Type { return LLVM::LLVMPointerType::get(type.getContext()); });
}

namespace {

void initialise(Emitter &emit, Value address, int64_t arrivals) {
  emit.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", {address, emit.i32(arrivals)});
}

/// Returns the number of arrivals at the barrier of a slot: one if one lane starts a TMA copy, or 32 if all lanes copy
/// rows to the slot.
int64_t countArrivals(AllocRingOp alloc) {
  bool areRows = llvm::any_of(alloc.getRing().getUsers(), llvm::IsaPred<CopyRowsOp>);
  return areRows ? 32 : 1;
}

template <typename Fill> void emitIf(Emitter &emit, Value condition, Fill fill) {
  OpBuilder::InsertionGuard guard(emit.builder);
  auto branch = scf::IfOp::create(emit.builder, emit.loc, TypeRange(), condition, /*addElseBlock=*/false);
  emit.builder.setInsertionPointToStart(branch.thenBlock());
  fill();
}

TileValues lowerWarpProgram(WarpProgramOp op, Adaptor<WarpProgramOp> adaptor, Emitter &emit, KernelContext &kernel) {
  auto &rewriter = static_cast<ConversionPatternRewriter &>(emit.builder);
  const flashc::GPUTarget &target = kernel.target;
  emitIf(emit, emit.equal(getLane(emit, kernel), 0), [&] {
    for (auto [allocation, number] : kernel.layout.numbers) {
      auto alloc = dyn_cast<AllocRingOp>(allocation);
      if (!alloc)
        continue;
      int64_t stages = alloc.getRing().getType().getStages(), bytes = stages * target.barrierBytes;
      Value own =
          emit.add(emit.add(kernel.sharedBase, kernel.layout.places[number].full), emit.mul(kernel.warp, bytes));
      for (int64_t stage = 0; stage < stages; ++stage)
        initialise(emit, emit.add(own, stage * target.barrierBytes), countArrivals(alloc));
    }
    if (target.hasTMA) // makes the initialised barriers visible to TMA
      emit.ptx("fence.mbarrier_init.release.cluster;", "~{memory}", {});
  });
  emitWarpBarrier(emit);
  if (op.getCluster() > 1) {
    MergeClusterOp merge;
    op.walk([&](MergeClusterOp found) { merge = found; });
    SharedLayout::Place place = kernel.layout.getPlace(merge);
    Value barrier = emit.add(kernel.sharedBase, place.full);
    emitIf(emit, kernel.isThread0, [&] {
      initialise(emit, barrier, 1);
      emit.ptx("fence.mbarrier_init.release.cluster;", "~{memory}", {});
    });
    emitWarpBarrier(emit);
    emitIf(emit, kernel.isThread0, [&] {
      emit.ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
               {barrier, emit.i32(getClusterMergeBytes(merge))});
    });
    // With .release the instruction would wait for copies that have started (measured: 0.9 us).
    emit.ptx("barrier.cluster.arrive.relaxed;", "~{memory}", {});
  }
  rewriter.inlineBlockBefore(&op.getBody().front(), op, ValueRange{emit.toIndex(kernel.warp)});
  return {};
}

} // namespace

void flashc::tiletonvvm::populateWarpProgramPatterns(KernelPatterns &patterns) { patterns.add(lowerWarpProgram); }

void flashc::tiletonvvm::populateWarpPatterns(KernelPatterns &patterns) {
  addTypes(patterns.converter, patterns.set.getContext());
  populateWarpProgramPatterns(patterns);
  populateWarpRingPatterns(patterns);
  populateWarpProductPatterns(patterns);
  populateWarpMergePatterns(patterns);
  populatePackedRowPatterns(patterns);
}
