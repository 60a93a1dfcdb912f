//===- Rings.cpp - the rings of one warp --------------------------------------------------------------------------===//
//
// Load number g of a ring uses slot g mod stages, whose barrier's phase flips each time its bytes have arrived: the warp
// waits for phase (g / stages) mod 2. No barrier says that a slot is empty: who fills it is who has read it. Its lanes
// meet, and one of them starts the copy (PTX ISA 9.7.9.25.5).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

TileValues lowerAllocRing(AllocRingOp op, Adaptor<AllocRingOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SharedLayout::Place place = kernel.layout.getPlace(op);
  RingType ring = op.getRing().getType();
  int64_t stages = ring.getStages();
  Value slots = emit.add(emit.add(kernel.sharedBase, place.data),
                         emit.mul(kernel.warp, stages * ring.getSlotBytes(kernel.target)));
  Value barriers = emit.add(emit.add(kernel.sharedBase, place.full), emit.mul(kernel.warp, stages * kernel.target.barrierBytes));
  SmallVector<Value> values{slots, barriers};
  return {values};
}

/// Of load number `count`.
struct Place {
  Value slot, barrier, parity;
};

Place getPlace(Emitter &emit, const KernelContext &kernel, RingType ring, ValueRange values, Value count) {
  Value g = emit.toI32(count), stages = emit.i32(ring.getStages());
  Value slot = arith::RemUIOp::create(emit.builder, emit.loc, g, stages);
  Value parity = emit.bitAnd(arith::DivUIOp::create(emit.builder, emit.loc, g, stages), 1);
  return {emit.add(values[0], emit.mul(slot, ring.getSlotBytes(kernel.target))),
          emit.add(values[1], emit.mul(slot, kernel.target.barrierBytes)), parity};
}

TileValues lowerCopyAsync(CopyAsyncOp op, Adaptor<CopyAsyncOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Place place = getPlace(emit, kernel, ring, adaptor.getRing(), op.getCount());
  emitWarpBarrier(emit);
  Value lane = getLane(emit, kernel);
  int64_t panelCols = kernel.target.getPanelCols();
  emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $2, 0;\n @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;\n }",
           "r,r,r,~{memory}", {place.barrier, emit.i32(ring.getSlotBytes(kernel.target)), lane});
  Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), row = emit.toI32(op.getRow());
  for (int64_t col = 0, offset = 0; col < ring.getCols(); col += panelCols, offset += ring.getRows() * 2 * panelCols)
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $7, 0;\n @p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
             "complete_tx::bytes [$0], [$1, {$3, $4, $5, $6}], [$2];\n }",
             "r,l,r,r,r,r,r,r,~{memory}",
             {emit.add(place.slot, offset), adaptor.getMap()[0], place.barrier, emit.i32(col), row, h, b, lane});
  return {};
}

TileValues lowerWait(WaitOp op, Adaptor<WaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Place place = getPlace(emit, kernel, op.getRing().getType(), adaptor.getRing(), op.getCount());
  waitForBarrier(emit, place.barrier, place.parity);
  return {{place.slot}};
}

/// 16 bytes a lane and store: eight lanes have a row of a panel. All of a row is written, so that its swizzle is no
/// matter.
TileValues lowerClearRows(ClearRowsOp op, Adaptor<ClearRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getSlot().getType();
  Value lane = getLane(emit, kernel), first = emit.toI32(op.getFirst());
  Value address = emit.add(adaptor.getSlot()[0], emit.mul(lane, 16));
  constexpr int64_t kRowsAtOnce = 4;
  int64_t panels = kernel.target.countPanels(slot.getCols()), rowBytes = kernel.target.swizzleBytes;
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t row = 0; row < slot.getRows(); row += kRowsAtOnce)
      emit.ptx("{\n .reg .pred p;\n setp.ge.s32 p, $1, $2;\n @p st.shared.v4.b32 [$0+" +
                   std::to_string((panel * slot.getRows() + row) * rowBytes) + "], {$3, $3, $3, $3};\n }",
               "r,r,r,r,~{memory}", {address, emit.add(emit.shr(lane, 3), row), first, emit.i32(0)});
  // The next copy into the slot writes through another proxy (PTX ISA 9.7.13.4).
  emit.ptx("fence.proxy.async.shared::cta;", "~{memory}", {});
  emitWarpBarrier(emit);
  return {};
}

} // namespace

void flashc::tiletonvvm::populateWarpRingPatterns(KernelPatterns &patterns) {
  patterns.add(lowerAllocRing, lowerCopyAsync, lowerWait, lowerClearRows);
}
