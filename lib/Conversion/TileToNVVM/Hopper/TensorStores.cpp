//===- TensorStores.cpp - stores by TMA, and to shared memory that products read ----------------------------------===//

#include "Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// If `isCut`, that is, if the op's limit lies inside of the tile, stores the rows before the limit with ordinary
/// stores. Each thread has 16 bytes of every 16th row of a panel. Eight neighbouring threads have the 128 bytes of a
/// row.
void storeFromSlot(Emitter &emit, const KernelContext &kernel, StoreAsyncOp op, Adaptor<StoreAsyncOp> adaptor,
                   Value data, int64_t panelBytes, Value isCut) {
  constexpr int64_t kChunks = 8, kRowsAtOnce = kHopper.groupThreads / kChunks;
  Type element = op.getSlot().getType().getElementType();
  int64_t cols = cast<RankedTensorType>(op.getSource().getType()).getDimSize(1);
  Value chunk = emit.bitAnd(kernel.inGroup, kChunks - 1), first = emit.shr(kernel.inGroup, 3);
  Value swizzled = arith::XOrIOp::create(emit.builder, emit.loc, chunk, emit.bitAnd(first, kChunks - 1));
  Value source = emit.add(data, emit.add(emit.mul(first, 2 * kHopper.getPanelCols()), emit.mul(swizzled, 16)));
  Value b = emit.toI32(op.getB()), h = emit.toI32(op.getH()), limit = emit.toI32(op.getLimit());
  for (int64_t below = 0; below < op.getSlot().getType().getRows(); below += kRowsAtOnce) {
    Value row = emit.add(emit.add(emit.toI32(op.getRow()), first), below);
    Value isStored = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, row, limit);
    isStored = arith::AndIOp::create(emit.builder, emit.loc, isStored, isCut);
    for (int64_t col = 0, panel = 0; col < cols; col += kHopper.getPanelCols(), ++panel) {
      Value predicate = isStored;
      if (int64_t chunks = (cols - col) / kChunks; chunks < kChunks) {
        Value exists =
            arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::slt, chunk, emit.i32(chunks));
        predicate = arith::AndIOp::create(emit.builder, emit.loc, predicate, exists);
      }
      Value place = emit.add(emit.mul(chunk, kChunks), col);
      Value pointer = getElementPointer(emit, adaptor.getDest(), element, {b, h, row, place});
      Value address = emit.add(source, panel * panelBytes + below * 2 * kHopper.getPanelCols());
      emit.ptx(
          "{\n .reg .pred p;\n .reg .b32 w<4>;\n setp.ne.u32 p, $2, 0;\n @p ld.shared.v4.b32 {w0, w1, w2, w3}, "
          "[$1];\n @p st.global.v4.b32 [$0], {w0, w1, w2, w3};\n }",
          "l,r,r,~{memory}",
          {pointer, address, arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), predicate)});
    }
  }
}

/// Writes pairs of elements to a slot. `getWord` returns each of `numWords` pairs, in the order of an accumulator. Each
/// stmatrix stores four 8 x 8 matrices: the two halves of two blocks. Lane l gives the address of row l mod 8 of matrix
/// l / 8. With the 128-byte swizzle, block c of a row r (eight columns) is at byte 16 * (c xor r mod 8) of the row.
void writeToSlot(Emitter &emit, const KernelContext &kernel, int64_t numWords,
                 llvm::function_ref<Value(int64_t)> getWord, Value data, int64_t panelBytes) {
  Value lane = emit.bitAnd(kernel.inGroup, 31), rowInMatrix = emit.bitAnd(lane, 7);
  Value half = emit.bitAnd(emit.shr(lane, 3), 1), nextBlock = emit.shr(lane, 4);
  Value warpRow = emit.mul(emit.shr(kernel.inGroup, 5), 16);
  Value row = emit.add(emit.add(warpRow, rowInMatrix), emit.mul(half, 8));
  Value chunk = arith::XOrIOp::create(emit.builder, emit.loc, nextBlock, rowInMatrix);
  Value offset = emit.add(emit.mul(row, 2 * kHopper.getPanelCols()), emit.mul(chunk, 16));
  int64_t blocks = numWords / 2, blocksPerPanel = kHopper.getPanelCols() / 8;
  for (int64_t block = 0; block < blocks; block += 2) {
    SmallVector<Value> operands;
    for (int64_t word = 2 * block, end = std::min(word + 4, numWords); word < end; ++word)
      operands.push_back(getWord(word));
    Value swizzled = arith::XOrIOp::create(emit.builder, emit.loc, offset, emit.i32(block % blocksPerPanel * 16));
    Value address = emit.add(emit.add(data, block / blocksPerPanel * panelBytes), swizzled);
    std::string list = operands.size() == 4 ? "{$1, $2, $3, $4}" : "{$1, $2}";
    operands.insert(operands.begin(), address);
    emit.ptx("stmatrix.sync.aligned.m8n8.x" + std::to_string(operands.size() - 1) + ".shared.b16 [$0], " + list + ";",
             operands.size() == 5 ? "r,r,r,r,r,~{memory}" : "r,r,r,~{memory}", operands);
  }
}

/// Stores a tile through a slot. No barrier is needed between the last product and the first stmatrix: a warp
/// overwrites the 16 rows of Q that only its own part of the products reads, and it has waited for this part. If the
/// output has a slot of its own, a tile.store_wait all comes before.
TileValues lowerStoreAsync(StoreAsyncOp op, Adaptor<StoreAsyncOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType slot = op.getSlot().getType();
  Value field = arith::TruncIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), adaptor.getSlot()[0]);
  Value data = emit.mul(field, 16);
  int64_t panelBytes = slot.getRows() * 2 * kHopper.getPanelCols();
  ValueRange source = adaptor.getSource();
  auto getWord = [&](int64_t word) {
    return packPair(emit, slot.getElementType(), source[2 * word], source[2 * word + 1]);
  };
  writeToSlot(emit, kernel, source.size() / 2, getWord, data, panelBytes);
  emitWarpgroupBarrier(emit, kernel, "fence.proxy.async.shared::cta;\n ");
  int64_t cols = cast<RankedTensorType>(op.getSource().getType()).getDimSize(1);
  Value issuer = kernel.inGroup; // the thread whose value is 0 starts the copies
  if (op.getLimit()) {
    Value end = emit.add(emit.toI32(op.getRow()), slot.getRows()), limit = emit.toI32(op.getLimit());
    Value isCut = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::sgt, end, limit);
    issuer = emit.select(isCut, emit.i32(1), issuer);
    storeFromSlot(emit, kernel, op, adaptor, data, panelBytes, isCut);
  }
  for (int64_t col = 0, offset = 0; col < cols; col += kHopper.getPanelCols(), offset += panelBytes)
    emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $6, 0;\n @p cp.async.bulk.tensor.4d.global.shared::cta.bulk_group "
             "[$0, {$2, $3, $4, $5}], [$1];\n }",
             "l,r,r,r,r,r,r,~{memory}",
             {adaptor.getMap()[0], emit.add(data, offset), emit.i32(col), emit.toI32(op.getRow()),
              emit.toI32(op.getH()), emit.toI32(op.getB()), issuer});
  emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, 0;\n @p cp.async.bulk.commit_group;\n }", "r,~{memory}", {issuer});
  return {};
}

TileValues lowerShare(ShareOp op, Adaptor<ShareOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Turn turn = getTurn(emit, ring, op.getCount(), emit.add(kernel.warpgroup, -1));
  waitUntilEmpty(emit, adaptor.getRing(), turn);
  ValueRange source = adaptor.getSource();
  writeToSlot(
      emit, kernel, source.size(), [&](int64_t word) { return source[word]; },
      getSlotAddress(emit, ring, adaptor.getRing(), turn), ring.getRows() * 2 * kHopper.getPanelCols());
  Value lane = emit.bitAnd(kernel.inGroup, 31);
  emit.ptx("{\n .reg .pred p;\n fence.proxy.async.shared::cta;\n bar.warp.sync 0xffffffff;\n setp.eq.u32 p, $1, 0;\n"
           " @p mbarrier.arrive.shared::cta.b64 _, [$0];\n }",
           "r,r,~{memory}", {getBarrier(emit, adaptor.getRing()[1], turn.slot), lane});
  return {};
}

/// Emits an arrival of each warp at `barrier`, after all of its threads.
void arriveByWarp(Emitter &emit, KernelContext &kernel, Value barrier) {
  emit.ptx("{\n .reg .pred p;\n bar.warp.sync 0xffffffff;\n setp.eq.u32 p, $1, 0;\n"
           " @p mbarrier.arrive.shared::cta.b64 _, [$0];\n }",
           "r,r,~{memory}", {barrier, emit.bitAnd(kernel.inGroup, 31)});
}

/// The address of the first four elements of a thread in the slot of a passed tile.
Value getPassedAddress(Emitter &emit, KernelContext &kernel, Value slot) {
  return emit.add(slot, emit.mul(kernel.inGroup, 16));
}

TileValues lowerSend(SendOp op, Adaptor<SendOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Turn turn = getTurn(emit, ring, op.getCount(), /*owner=*/Value());
  waitUntilEmpty(emit, adaptor.getRing(), turn);
  Value address = getPassedAddress(emit, kernel, getSlotAddress(emit, ring, adaptor.getRing(), turn));
  ValueRange source = adaptor.getSource();
  for (size_t i = 0; i < source.size(); i += 4)
    emit.ptx("st.shared.v4.f32 [$0+" + std::to_string(i * 4 * kHopper.groupThreads) + "], {$1, $2, $3, $4};",
             "r,f,f,f,f,~{memory}", {address, source[i], source[i + 1], source[i + 2], source[i + 3]});
  arriveByWarp(emit, kernel, getBarrier(emit, adaptor.getRing()[1], turn.slot));
  return {};
}

TileValues lowerReceive(ReceiveOp op, Adaptor<ReceiveOp> adaptor, Emitter &emit, KernelContext &kernel) {
  RingType ring = op.getRing().getType();
  Turn turn = getTurn(emit, ring, op.getCount(), /*owner=*/Value());
  waitForPhase(emit, getBarrier(emit, adaptor.getRing()[1], turn.slot), turn.parity);
  Value address = getPassedAddress(emit, kernel, getSlotAddress(emit, ring, adaptor.getRing(), turn));
  Type f32 = emit.builder.getF32Type();
  SmallVector<Value> values;
  int64_t elements = ring.getRows() * ring.getCols() / kHopper.groupThreads;
  for (int64_t i = 0; i < elements; i += 4)
    llvm::append_range(values, emit.ptx({f32, f32, f32, f32},
                                        "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4+" +
                                            std::to_string(i * 4 * kHopper.groupThreads) + "];",
                                        "=f,=f,=f,=f,r,~{memory}", {address}));
  arriveByWarp(emit, kernel, getBarrier(emit, adaptor.getRing()[2], turn.slot));
  return {values};
}

/// Returns `rest` / weight, rounded to `element`. Subtracts the rounded number times the weight, a power of two, from
/// `rest`.
Value takeRounded(Emitter &emit, Type element, Value &rest, float weight) {
  auto constant = [&](float number) -> Value {
    return arith::ConstantOp::create(emit.builder, emit.loc, emit.builder.getF32FloatAttr(number));
  };
  Value scaled = arith::MulFOp::create(emit.builder, emit.loc, rest, constant(1.0f / weight));
  Value rounded = arith::TruncFOp::create(emit.builder, emit.loc, element, scaled);
  rounded = arith::ExtFOp::create(emit.builder, emit.loc, emit.builder.getF32Type(), rounded);
  rest = math::FmaOp::create(emit.builder, emit.loc, rounded, constant(-weight), rest);
  return rounded;
}

/// Writes the slopes. Four lanes hold a row and the row eight below it. Two of the lanes write the two halves of the
/// first row, the other two write those of the second row. One half is (hi, mid, lo, 0, ...), the other half is zeros.
/// The 32-byte swizzle exchanges the halves of some rows; this has no effect, since the other factor has equal halves.
TileValues lowerStoreSlopes(StoreSlopesOp op, Adaptor<StoreSlopesOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Type element = op.getSlot().getType().getElementType();
  Value isSecondRow = emit.equal(emit.bitAnd(kernel.laneCol, 2), 2), secondHalf = emit.bitAnd(kernel.laneCol, 1);
  Value rest = emit.select(isSecondRow, adaptor.getSource()[1], adaptor.getSource()[0]);
  Value high = takeRounded(emit, element, rest, kHighWeight), mid = takeRounded(emit, element, rest, kLowWeight);
  Value low = takeRounded(emit, element, rest, kLowWeight), none = emit.i32(0), isFirst = emit.equal(secondHalf, 0);
  Value zero = arith::ConstantOp::create(emit.builder, emit.loc, emit.builder.getF32FloatAttr(0.0f));
  Value pair = emit.select(isFirst, packPair(emit, element, high, mid), none);
  Value third = emit.select(isFirst, packPair(emit, element, low, zero), none);

  Value field = arith::TruncIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), adaptor.getSlot()[0]);
  Value row = emit.add(kernel.row, emit.select(isSecondRow, emit.i32(8), none));
  Value offset = emit.add(emit.mul(row, kHopper.getStepRowBytes()), emit.mul(secondHalf, 16));
  Value address = emit.add(emit.mul(field, 16), offset);
  emitWarpgroupBarrier(emit, kernel);
  emit.ptx("st.shared.v4.b32 [$0], {$1, $2, $3, $3};", "r,r,r,r,~{memory}", {address, pair, third, none});
  emitWarpgroupBarrier(emit, kernel, "fence.proxy.async.shared::cta;\n ");
  return {};
}

TileValues lowerStoreWait(StoreWaitOp op, Adaptor<StoreWaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  // The thread that started the copies waits. The same thread releases the slot later.
  emit.ptx("{\n .reg .pred p;\n setp.eq.u32 p, $0, 0;\n @p cp.async.bulk.wait_group.read 0;\n }", "r,~{memory}",
           {kernel.inGroup});
  if (op.getAll())
    emitWarpgroupBarrier(emit, kernel);
  return {};
}

} // namespace

void flashc::tiletonvvm::populateTensorStorePatterns(KernelPatterns &patterns) {
  patterns.add(lowerStoreAsync, lowerShare, lowerSend, lowerReceive, lowerStoreSlopes, lowerStoreWait);
}
