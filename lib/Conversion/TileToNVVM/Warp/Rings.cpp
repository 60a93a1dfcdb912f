//===- Rings.cpp - the rings of one warp --------------------------------------------------------------------------===//
//
// Load number g of a ring uses slot g mod stages. The phase of the slot's barrier flips each time the slot's bytes have
// arrived, so the warp waits for phase (g / stages) mod 2. No barrier says that a slot is empty, since the warp that
// fills a slot is the one that has read it. To fill a slot, the lanes meet. Then one lane starts the copy (PTX ISA
// 9.7.9.25.5), or each lane copies chunks of 16 bytes (tile.copy_rows) and arrives when its chunks are in the slot.
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
  Value barriers =
      emit.add(emit.add(kernel.sharedBase, place.full), emit.mul(kernel.warp, stages * kernel.target.barrierBytes));
  SmallVector<Value> values{slots, barriers};
  return {values};
}

/// The slot that load number `count` of a ring uses, the slot's full barrier, and the parity of the phase of this load.
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
  int64_t panelCols = kernel.target.swizzleBytes * 8 / ring.getElementType().getIntOrFloatBitWidth();
  emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $2, 0;\n @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;\n }",
           "r,r,r,~{memory}", {place.barrier, emit.i32(ring.getSlotBytes(kernel.target)), lane});
  Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), row = emit.toI32(op.getRow());
  for (int64_t col = 0, offset = 0; col < ring.getCols();
       col += panelCols, offset += ring.getRows() * kernel.target.swizzleBytes)
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $7, 0;\n @p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
             "complete_tx::bytes [$0], [$1, {$3, $4, $5, $6}], [$2];\n }",
             "r,l,r,r,r,r,r,r,~{memory}",
             {emit.add(place.slot, offset), adaptor.getMap()[0], place.barrier, emit.i32(col), row, h, b, lane});
  return {};
}

TileValues lowerReadPages(ReadPagesOp op, Adaptor<ReadPagesOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value last = emit.add(emit.toI32(op.getEntries()), -1);
  SmallVector<Value> pages;
  for (int64_t half = 0; half < 2; ++half) {
    Value row = emit.add(emit.add(emit.toI32(op.getRow()), kernel.row), 8 * half);
    Value number = arith::DivUIOp::create(emit.builder, emit.loc, row, emit.i32(op.getSize()));
    number = arith::MinUIOp::create(emit.builder, emit.loc, number, last);
    Type i32 = emit.builder.getI32Type();
    Value pointer = getElementPointer(emit, adaptor.getTable(), i32, {emit.toI32(op.getB()), number});
    pages.push_back(LLVM::LoadOp::create(emit.builder, emit.loc, i32, pointer, /*alignment=*/4));
  }
  return {pages};
}

/// How a tile's chunks of 16 bytes are assigned to lanes. `lanesPerRow` lanes have neighbouring chunks of one row. The
/// lanes after them have the next rows.
struct ChunkOrder {
  explicit ChunkOrder(int64_t cols, int64_t chunkCols)
      : chunks(llvm::divideCeil(cols, chunkCols)), paddedChunks(llvm::alignTo(chunks, 2)),
        lanesPerRow(std::min<int64_t>(llvm::PowerOf2Ceil(paddedChunks), kWarpThreads)),
        rowsAtOnce(kWarpThreads / lanesPerRow) {}

  static constexpr int64_t kWarpThreads = 32;
  /// `chunks` is the number of chunks that a row of the array has, `paddedChunks` the number after rounding up to whole
  /// steps of depth.
  int64_t chunks, paddedChunks;
  int64_t lanesPerRow, rowsAtOnce;
};

/// Returns the number of the page of row `first + rowInStep`. The lane that holds this number passes it on.
Value getPage(Emitter &emit, ValueRange pages, int64_t first, const ChunkOrder &order, Value rowInStep) {
  auto ask = [&](Value page, Value row) {
    Value lane = emit.mul(emit.bitAnd(row, 7), 4);
    return emit.intrinsic(page.getType(), "llvm.nvvm.shfl.sync.idx.i32", {emit.i32(-1), page, lane, emit.i32(31)});
  };
  Value row = emit.add(rowInStep, first);
  if (order.rowsAtOnce <= 8)
    return ask(pages[first / 8], row);
  Value isLower = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::ult, row, emit.i32(8));
  Value upper = ask(pages[1], row);
  return emit.select(isLower, ask(pages[0], row), upper);
}

TileValues lowerCopyRows(CopyRowsOp op, Adaptor<CopyRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Place place = getPlace(emit, kernel, ring, adaptor.getRing(), op.getCount());
  emitWarpBarrier(emit);
  constexpr int64_t kChunkBytes = 16;
  Type element = ring.getElementType();
  if (element.getIntOrFloatBitWidth() == 8)
    element = emit.builder.getI8Type(); // LLVM has no float8
  int64_t chunkCols = kChunkBytes * 8 / element.getIntOrFloatBitWidth(), rowBytes = kernel.target.swizzleBytes;
  int64_t chunksOfPanel = rowBytes / kChunkBytes;
  ChunkOrder order(ring.getCols(), chunkCols);
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(emit.builder, emit.loc, predicate, x, y);
  };
  Value lane = getLane(emit, kernel);
  Value rowInStep = emit.shr(lane, llvm::Log2_64(order.lanesPerRow)),
        chunkOfLane = emit.bitAnd(lane, order.lanesPerRow - 1);
  Value first = emit.toI32(op.getRow()), limit = emit.toI32(op.getLimit()), head = emit.toI32(op.getH());
  bool hasPages = op.getSize().has_value();
  for (int64_t step = 0; step < ring.getRows(); step += order.rowsAtOnce) {
    Value rowInTile = emit.add(rowInStep, step), row = emit.add(first, rowInTile), zero = emit.i32(0);
    Value exists = compare(arith::CmpIPredicate::slt, row, limit);
    if (Value begin = op.getBegin())
      exists = arith::AndIOp::create(emit.builder, emit.loc, exists,
                                     compare(arith::CmpIPredicate::sge, row, emit.toI32(begin)));
    Value outer = hasPages ? getPage(emit, adaptor.getB(), step, order, rowInStep) : emit.toI32(op.getB());
    Value inner =
        hasPages ? arith::RemUIOp::create(emit.builder, emit.loc, row, emit.i32(*op.getSize())).getResult() : row;
    // A row that does not exist is not read, but must have an address: it gets the address of an existing row.
    outer = emit.select(exists, outer, zero), inner = emit.select(exists, inner, zero);
    Value swizzle = emit.bitAnd(rowInTile, chunksOfPanel - 1);
    for (int64_t chunk = 0; chunk < order.paddedChunks; chunk += order.lanesPerRow) {
      Value number = emit.add(chunkOfLane, chunk);
      Value isChunk = compare(arith::CmpIPredicate::ult, number, emit.i32(order.chunks));
      Value col = emit.mul(emit.select(isChunk, number, zero), chunkCols);
      Value source = getElementPointer(emit, adaptor.getSource(), element, {outer, head, inner, col});
      Value isRead = arith::AndIOp::create(emit.builder, emit.loc, exists, isChunk);
      Value panel = emit.shr(number, llvm::Log2_64(chunksOfPanel));
      Value slot = emit.bitAnd(number, chunksOfPanel - 1);
      Value target = emit.add(place.slot, emit.mul(panel, ring.getRows() * rowBytes));
      target = emit.add(target, emit.mul(rowInTile, rowBytes));
      target = emit.add(target, emit.mul(arith::XOrIOp::create(emit.builder, emit.loc, slot, swizzle), kChunkBytes));
      Value bytes = emit.select(isRead, emit.i32(kChunkBytes), zero);
      Value hasChunk = compare(arith::CmpIPredicate::ult, number, emit.i32(order.paddedChunks));
      emit.ptx("@$3 cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,b,~{memory}",
               {target, source, bytes, hasChunk});
    }
  }
  emit.ptx("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r,~{memory}", {place.barrier});
  return {};
}

TileValues lowerWait(WaitOp op, Adaptor<WaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Place place = getPlace(emit, kernel, op.getRing().getType(), adaptor.getRing(), op.getCount());
  waitForBarrier(emit, kernel.target, place.barrier, place.parity);
  return {{place.slot}};
}

/// Stores 16 bytes with each lane, so that eight lanes have a row of a panel. Whole rows are written, so the swizzle
/// does not matter.
TileValues lowerClearRows(ClearRowsOp op, Adaptor<ClearRowsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getSlot().getType();
  Value lane = getLane(emit, kernel), first = op.getFirst() ? emit.toI32(op.getFirst()) : Value();
  Value address = emit.add(adaptor.getSlot()[0], emit.mul(lane, 16));
  constexpr int64_t kRowsAtOnce = 4;
  int64_t rowBytes = kernel.target.swizzleBytes, panels = slot.getBytes(kernel.target) / (slot.getRows() * rowBytes);
  auto clear = [&](StringRef predicate, Value bound) {
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t row = 0; row < slot.getRows(); row += kRowsAtOnce)
        emit.ptx(("{\n .reg .pred p;\n setp." + predicate + ".s32 p, $1, $2;\n @p st.shared.v4.b32 [$0+" +
                  Twine((panel * slot.getRows() + row) * rowBytes) + "], {$3, $3, $3, $3};\n }")
                     .str(),
                 "r,r,r,r,~{memory}", {address, emit.add(emit.shr(lane, 3), row), bound, emit.i32(0)});
  };
  if (first)
    clear("ge", first);
  if (Value begin = op.getBegin())
    clear("lt", emit.toI32(begin));
  // The next copy into the slot writes through another proxy (PTX ISA 9.7.13.4).
  emit.ptx("fence.proxy.async.shared::cta;", "~{memory}", {});
  emitWarpBarrier(emit);
  return {};
}

} // namespace

void flashc::tiletonvvm::populateWarpRingPatterns(KernelPatterns &patterns) {
  patterns.add(lowerAllocRing, lowerCopyAsync, lowerReadPages, lowerCopyRows, lowerWait, lowerClearRows);
}
