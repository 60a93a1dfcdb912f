//===- Rings.cpp - rings, copies and their barriers ---------------------------------------------------------------===//
//
// Load number g of a ring uses slot g mod stages. The phase of a barrier flips each time the barrier completes. The
// consumer of load g waits for phase (g / stages) mod 2 of the full barrier. The producer waits for the other phase of
// the empty barrier, so that the first `stages` acquires pass at once (PTX ISA 9.7.13.15).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

void flashc::tiletonvvm::waitForPhase(Emitter &emit, Value barrier, Value parity) {
  emit.ptx("{\n .reg .pred P;\n WAIT: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;\n"
           " @P bra.uni DONE;\n bra.uni WAIT;\n DONE:\n }",
           "r,r,~{memory}", {barrier, parity});
}

Turn flashc::tiletonvvm::getTurn(Emitter &emit, RingType ring, Value count, Value owner) {
  Value g = emit.toI32(count);
  Value stages = emit.i32(ring.getStages());
  Value slot = arith::RemUIOp::create(emit.builder, emit.loc, g, stages);
  Value parity = emit.bitAnd(arith::DivUIOp::create(emit.builder, emit.loc, g, stages), 1);
  if (owner)
    slot = emit.add(slot, emit.mul(owner, ring.getStages()));
  return {slot, parity};
}

Value flashc::tiletonvvm::getBarrier(Emitter &emit, Value barriers, Value slot) {
  return emit.add(barriers, emit.mul(slot, kHopper.barrierBytes));
}

Value flashc::tiletonvvm::getSlotAddress(Emitter &emit, RingType ring, ValueRange places, Turn turn) {
  return emit.add(places[0], emit.mul(turn.slot, ring.getSlotBytes(kHopper)));
}

void flashc::tiletonvvm::waitUntilEmpty(Emitter &emit, ValueRange places, Turn turn) {
  Value parity = arith::XOrIOp::create(emit.builder, emit.loc, turn.parity, emit.i32(1));
  waitForPhase(emit, getBarrier(emit, places[2], turn.slot), parity);
}

namespace {

Value getOwner(Emitter &emit, std::optional<uint64_t> owner) { return owner ? emit.i32(*owner) : Value(); }

TileValues lowerAllocRing(AllocRingOp op, Adaptor<AllocRingOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SharedLayout::Place place = kernel.layout.getPlace(op);
  SmallVector<Value> values = {emit.add(kernel.sharedBase, place.data), emit.add(kernel.sharedBase, place.full),
                               emit.add(kernel.sharedBase, place.empty)};
  return {values};
}

/// Returns the address field of a matrix descriptor: bits 4 to 17 of the address (PTX ISA 9.7.15.5.1.2.2).
Value getAddressField(Emitter &emit, Value address) {
  Value field = emit.bitAnd(emit.shr(address, 4), 0x3FFF);
  return arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI64Type(), field);
}

TileValues lowerAllocSlot(AllocSlotOp op, Adaptor<AllocSlotOp> adaptor, Emitter &emit, KernelContext &kernel) {
  int64_t first = kernel.layout.getPlace(op).data;
  auto getOwn = [&] { return emit.add(emit.mul(emit.add(kernel.warpgroup, -1), op.getBytes(kHopper)), first); };
  Value address = op.isPrivate() ? emit.add(kernel.sharedBase, getOwn()) : emit.add(kernel.sharedBase, first);
  SmallVector<Value> values = {getAddressField(emit, address), emit.i32(0)}; // the slot is never released
  return {values};
}

TileValues lowerAcquire(AcquireOp op, Adaptor<AcquireOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Turn turn = getTurn(emit, op.getRing().getType(), op.getCount(), getOwner(emit, op.getOwner()));
  waitUntilEmpty(emit, adaptor.getRing(), turn);
  return {};
}

/// Copies consecutive rows of an array of f32 (PTX ISA 9.7.9.25.4.1, cp.async.bulk).
void copyRows(Emitter &emit, CopyAsyncOp op, ValueRange array, Value data, Value barrier) {
  RingType ring = op.getRing().getType();
  int64_t bytes = 4 * ring.getCols();
  for (int64_t row = 0; row < ring.getRows(); ++row) {
    SmallVector<Value> place{emit.i32(row), emit.toI32(op.getB()), emit.toI32(op.getH()), emit.toI32(op.getRow())};
    Value source = getElementPointer(emit, array, ring.getElementType(), place);
    emit.ptx("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
             "r,l,r,r,~{memory}", {emit.add(data, row * bytes), source, emit.i32(bytes), barrier});
  }
}

/// Returns PTX that computes `n = at div divisor`, and the address of entry n of a row of the table. $6 is the address
/// of the row.
std::string findEntry(int64_t divisor) {
  std::string quotient = llvm::isPowerOf2_64(divisor) ? " shr.u32 n, at, " + std::to_string(llvm::Log2_64(divisor))
                                                      : " div.u32 n, at, " + std::to_string(divisor);
  return quotient + ";\n mad.wide.u32 entry, n, 4, $6;\n";
}

/// Copies boxes in a loop, which needs few of the producer's registers. An entry of the table is read one box ahead.
/// For a box after the sequence's end or at a negative position the entry is -1. The copy is then outside of the
/// tensor: it writes zeros and counts their bytes.
void copyPages(Emitter &emit, CopyAsyncOp op, Adaptor<CopyAsyncOp> adaptor, Value data, Value barrier) {
  RingType ring = op.getRing().getType();
  int64_t boxRows = cast<TensorMapType>(op.getMap().getType()).getRows(), pageRows = *op.getPageRows();
  std::string read = " setp.lt.u32 p, at, $5;\n mov.b32 next, -1;\n @p ld.global.b32 next, [entry];\n", copies;
  for (int64_t panel = 0; panel < kHopper.countPanels(ring.getCols()); ++panel)
    copies += " mov.b32 c, " + std::to_string(panel * kHopper.getPanelCols()) +
              ";\n cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [box+" +
              std::to_string(panel * ring.getRows() * kHopper.swizzleBytes) + "], [$1, {c, first, $3, page}], [$2];\n";
  std::string ofPage = boxRows == pageRows
                           ? " mov.b32 first, 0;\n"
                           : " mul.lo.u32 n, n, " + std::to_string(pageRows) + ";\n sub.s32 first, at, n;\n";
  Value b = emit.toI32(op.getB()), row = emit.toI32(op.getRow());
  Value table = getElementPointer(emit, adaptor.getTable(), emit.builder.getI32Type(), {b, emit.i32(0)});
  emit.ptx("{\n .reg .pred p;\n .reg .b32 at, n, first, c, page, next, box, done;\n .reg .b64 entry;\n"
           " mov.b32 at, $4;\n mov.b32 box, $0;\n mov.b32 done, 0;\n" +
               findEntry(pageRows) + read + " .pragma \"nounroll\";\n BOX:\n mov.b32 page, next;\n" + ofPage +
               " add.s32 at, at, " + std::to_string(boxRows) + ";\n" + findEntry(pageRows) + read + copies +
               " add.s32 box, box, " + std::to_string(boxRows * kHopper.swizzleBytes) + ";\n add.s32 done, done, " +
               std::to_string(boxRows) + ";\n setp.lt.s32 p, done, " + std::to_string(ring.getRows()) +
               ";\n @p bra.uni BOX;\n }",
           "r,l,r,r,r,r,l,~{memory}",
           {data, adaptor.getMap()[0], barrier, emit.toI32(op.getH()), row, emit.toI32(op.getEnd()), table});
}

TileValues lowerCopyAsync(CopyAsyncOp op, Adaptor<CopyAsyncOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Turn turn = getTurn(emit, ring, op.getCount(), getOwner(emit, op.getOwner()));
  Value barrier = getBarrier(emit, adaptor.getRing()[1], turn.slot);
  bool isF32 = ring.getElementType().isF32();
  int64_t bytes = isF32 ? 4 * ring.getRows() * ring.getCols() : ring.getSlotBytes(kHopper);
  if (auto map = dyn_cast<TensorMapType>(op.getMap().getType()); map && map.getHeads() > 1)
    bytes = bytes / ring.getRows() * map.countRows(); // the rows of a group need not fill the slot
  emit.ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", {barrier, emit.i32(bytes)});
  Value data = getSlotAddress(emit, ring, adaptor.getRing(), turn);
  if (isF32) {
    copyRows(emit, op, adaptor.getMap(), data, barrier);
    return {};
  }
  if (op.getTable()) {
    copyPages(emit, op, adaptor, data, barrier);
    return {};
  }
  Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), row = emit.toI32(op.getRow());
  // One box of 64 columns for each panel (PTX ISA 9.7.9.25.5, cp.async.bulk.tensor).
  for (int64_t col = 0, offset = 0; col < ring.getCols();
       col += kHopper.getPanelCols(), offset += ring.getRows() * 2 * kHopper.getPanelCols())
    emit.ptx("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
             "[$0], [$1, {$3, $4, $5, $6}], [$2];",
             "r,l,r,r,r,r,r,~{memory}",
             {emit.add(data, offset), adaptor.getMap()[0], barrier, emit.i32(col), row, h, b});
  return {};
}

TileValues lowerWait(WaitOp op, Adaptor<WaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Value owner = getOwner(emit, op.getOwner());
  if (!owner && ring.getIsPrivate())
    owner = emit.add(kernel.warpgroup, -1);
  Turn turn = getTurn(emit, ring, op.getCount(), owner);
  waitForPhase(emit, getBarrier(emit, adaptor.getRing()[1], turn.slot), turn.parity);
  Value data = getSlotAddress(emit, ring, adaptor.getRing(), turn);
  SmallVector<Value> values = {getAddressField(emit, data), getBarrier(emit, adaptor.getRing()[2], turn.slot)};
  return {values};
}

constexpr int64_t kThreadBytes = 16, kThreadsOfRow = kHopper.swizzleBytes / kThreadBytes;

/// Returns the first address in a slot that a thread clears, and the row of this address. Each thread stores 16 bytes,
/// so that one pass covers sixteen rows of a panel. Whole rows are written, so the swizzle does not matter.
SmallVector<Value> getClearedPlace(ClearRowsOp op, Adaptor<ClearRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value field = arith::TruncIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), adaptor.getSlot()[0]);
  Value address = emit.mul(emit.add(field, kernel.inGroup), kThreadBytes);
  return {address, emit.shr(kernel.inGroup, llvm::Log2_64(kThreadsOfRow))};
}

/// Clears rows of a slot up to `end`. `first` is PTX that sets r to the first row. `isNone` is PTX that sets p if there
/// is no row to clear. Every branch is uniform. $0 and $1 are the values of getClearedPlace, $2 is the first row or the
/// end, whichever is no constant, and $3 is the consumer's barrier.
void clearRows(Emitter &emit, SlotType slot, const std::string &first, const std::string &end,
               const std::string &isNone, ArrayRef<Value> operands) {
  std::string stores;
  for (int64_t panel = 0; panel < kHopper.countPanels(slot.getCols()); ++panel)
    stores += " @q st.shared.v4.b32 [a+" + std::to_string(panel * slot.getRows() * kHopper.swizzleBytes) +
              "], {z, z, z, z};\n";
  emit.ptx("{\n .reg .pred p, q;\n .reg .b32 r, a, z;\n" + isNone +
               " @p bra.uni DONE;\n"
               " mov.b32 z, 0;\n" +
               first +
               " CLEAR:\n"
               " add.s32 a, r, $1;\n setp.lt.s32 q, a, " +
               end +
               ";\n"
               " mad.lo.s32 a, r, " +
               std::to_string(kHopper.swizzleBytes) + ", $0;\n" + stores + " add.s32 r, r, " +
               std::to_string(kHopper.groupThreads / kThreadsOfRow) +
               ";\n"
               " setp.lt.s32 p, r, " +
               end +
               ";\n @p bra.uni CLEAR;\n"
               // Products, and the next copy, access the slot through another proxy (PTX ISA 9.7.13.4).
               " fence.proxy.async.shared::cta;\n bar.sync $3, " +
               std::to_string(kHopper.groupThreads) + ";\n DONE:\n }",
           "r,r,r,r,~{memory}", operands);
}

/// If a tile has no rows to clear, only a comparison and a branch are executed.
TileValues lowerClearRows(ClearRowsOp op, Adaptor<ClearRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getSlot().getType();
  std::string rows = std::to_string(slot.getRows());
  SmallVector<Value> place = getClearedPlace(op, adaptor, emit, kernel);
  auto clear = [&](StringRef from, const std::string &end, const std::string &isNone, Value bound) {
    clearRows(emit, slot, from.str(), end, isNone,
              {place[0], place[1], bound, emit.add(kernel.warpgroup, kWarpgroupBarriers)});
  };
  if (Value first = op.getFirst())
    clear(" max.s32 r, $2, 0;\n", rows, " setp.ge.s32 p, $2, " + rows + ";\n", emit.toI32(first));
  if (Value begin = op.getBegin())
    clear(" mov.b32 r, 0;\n", "$2", " setp.le.s32 p, $2, 0;\n",
          arith::MinSIOp::create(emit.builder, emit.loc, emit.toI32(begin), emit.i32(slot.getRows())));
  return {};
}

/// Reads the two columns that a thread has in each block.
TileValues lowerReadColumns(ReadColumnsOp op, Adaptor<ReadColumnsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getSlot().getType();
  Value field = arith::TruncIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), adaptor.getSlot()[0]);
  Value address = emit.add(emit.mul(field, 16), emit.mul(kernel.laneCol, 8));
  Type f32 = emit.builder.getF32Type();
  SmallVector<Value> values;
  for (int64_t col = 0; col < slot.getCols(); col += kBlockCols) {
    int64_t offset = 4 * (op.getRow() * slot.getCols() + col);
    llvm::append_range(values, emit.ptx({f32, f32}, "ld.shared.v2.f32 {$0, $1}, [$2+" + std::to_string(offset) + "];",
                                        "=f,=f,r,~{memory}", {address}));
  }
  return {values};
}

TileValues lowerRelease(ReleaseOp op, Adaptor<ReleaseOp> adaptor, Emitter &emit, KernelContext &kernel) {
  // One thread arrives for its warpgroup. Either the warpgroup has waited for the products that read the slot, or its
  // warps have met at a barrier (tile.advance_ring).
  std::string text = "{\n .reg .pred p;\n setp.eq.u32 p, $1, 0;\n", constraints = "r,r";
  SmallVector<Value> operands = {adaptor.getSlot()[1], kernel.inGroup};
  // The comparisons are always true, even for NaN, but ptxas cannot prove this.
  ValueRange after = adaptor.getAfter();
  for (int64_t i = 0, count = op.getElements(); i < count; ++i) {
    text += " setp.geu.and.f32 p, $" + std::to_string(operands.size()) + ", 0f00000000, p;\n";
    constraints += ",f";
    operands.push_back(after[after.size() - 1 - i * after.size() / count]);
  }
  emit.ptx(text + " @p mbarrier.arrive.shared::cta.b64 _, [$0];\n }", constraints + ",~{memory}", operands);
  return {};
}

} // namespace

void flashc::tiletonvvm::populateRingPatterns(KernelPatterns &patterns) {
  patterns.add(lowerAllocRing, lowerAllocSlot, lowerAcquire, lowerCopyAsync, lowerWait, lowerClearRows,
               lowerReadColumns, lowerRelease);
}
