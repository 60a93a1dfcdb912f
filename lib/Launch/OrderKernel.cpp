//===- OrderKernel.cpp - a kernel that sorts items by their work --------------------------------------------------===//

#include "OrderKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;

static constexpr int64_t kLanes = 32, kWarps = kOrderThreads / kLanes, kKeys = 256, kKeyBits = 8;
static_assert(kWarps == kLanes, "a lane looks at each warp's number");
/// A row of counters has a column for each sort key, and one more for lanes without an item. The length of a row is
/// odd, so that the counters of a column are in different banks.
static constexpr int64_t kRow = kKeys + 1;
/// After the counters, the scratch memory has one number for each warp.
static constexpr int64_t kPerWarp = kWarps * kRow, kScratch = kPerWarp + kWarps;

OrderKernel::OrderKernel(ImplicitLocOpBuilder &b, gpu::GPUFuncOp kernel, Value list, Value count, int64_t numbers)
    : b(b), numbers(numbers), list(list), count(count), scratch(emitScratch(kernel)) {
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
  warp = arith::ShRUIOp::create(b, thread, index(5));
  steps = arith::CeilDivUIOp::create(b, count, index(kOrderThreads));
  firstItem = add(mul(arith::MulIOp::create(b, warp, steps), kLanes), lane);
}

Value OrderKernel::emitScratch(gpu::GPUFuncOp kernel) {
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({kScratch}, b.getI32Type(), MemRefLayoutAttrInterface(), space);
  std::string name = (kernel.getName() + "_scratch").str();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(kernel);
  memref::GlobalOp::create(b, name, b.getStringAttr("private"), type, b.getUnitAttr(), /*constant=*/false,
                           /*alignment=*/IntegerAttr());
  b.setInsertionPointToStart(&kernel.getBody().front());
  return memref::GetGlobalOp::create(b, type, name);
}

void OrderKernel::emit(llvm::function_ref<Facts(Value)> emitFacts) {
  emitCounter();
  emitMeasure(emitFacts);
  emitBarrier();
  emitMaximum();
  emitCount();
  emitBarrier();
  emitPlaces();
  emitBarrier();
  emitDeal();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Small things
//===--------------------------------------------------------------------------------------------------------------===//

Value OrderKernel::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
Value OrderKernel::i32(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
Value OrderKernel::toI32(Value value) { return arith::IndexCastUIOp::create(b, b.getI32Type(), value); }
Value OrderKernel::toIndex(Value value) { return arith::IndexCastUIOp::create(b, b.getIndexType(), value); }
Value OrderKernel::add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
Value OrderKernel::mul(Value x, int64_t factor) { return arith::MulIOp::create(b, x, index(factor)); }
Value OrderKernel::read(Value place) { return memref::LoadOp::create(b, scratch, place); }
void OrderKernel::write(Value value, Value place) { memref::StoreOp::create(b, value, scratch, place); }

Value OrderKernel::getWorkPlace(Value item) { return add(mul(count, 1 + numbers), item); }

Value OrderKernel::getNumbersPlace(Value item) { return add(mul(count, 2 + numbers), mul(item, numbers)); }

void OrderKernel::emitBarrier() { NVVM::Barrier0Op::create(b); }

Value OrderKernel::isBelow(Value x, Value y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y); }

void OrderKernel::emitTell(Value value) {
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(kLanes - 1));
  auto branch = scf::IfOp::create(b, isLast);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  write(value, add(index(kPerWarp), warp));
}

/// Emits a loop over steps that every lane of every warp runs.
void OrderKernel::emitSteps(llvm::function_ref<void(Value)> emitBody) {
  auto loop = scf::ForOp::create(b, index(0), steps, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  emitBody(loop.getInductionVar());
}

/// Emits the number of this lane's item in a step, and whether the item exists.
std::pair<Value, Value> OrderKernel::emitItem(Value step) {
  Value item = add(firstItem, mul(step, kLanes));
  return {item, isBelow(item, count)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Measure
//===--------------------------------------------------------------------------------------------------------------===//

/// Sets the counter of tile.draw to 0.
void OrderKernel::emitCounter() {
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, index(0)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  memref::StoreOp::create(b, i32(0), list, mul(count, getListItemWords(numbers)));
}

void OrderKernel::emitMeasure(llvm::function_ref<Facts(Value)> emitFacts) {
  auto clear = scf::ForOp::create(b, thread, index(kPerWarp), index(kOrderThreads));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(clear.getBody());
    write(i32(0), clear.getInductionVar());
  }
  auto loop = scf::ForOp::create(b, index(0), steps, index(1), ValueRange(i32(0)));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto [item, isInside] = emitItem(loop.getInductionVar());
    auto branch = scf::IfOp::create(b, b.getI32Type(), isInside, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    Facts facts = emitFacts(item);
    Value work = toI32(facts.work);
    memref::StoreOp::create(b, work, list, getWorkPlace(item));
    for (auto [offset, number] : llvm::enumerate(facts.numbers)) {
      Value narrow = arith::IndexCastOp::create(b, b.getI32Type(), number);
      memref::StoreOp::create(b, narrow, list, add(getNumbersPlace(item), index(offset)));
    }
    scf::YieldOp::create(b, work);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, i32(0));
    b.setInsertionPointAfter(branch);
    Value greater = arith::MaxUIOp::create(b, loop.getRegionIterArg(0), branch.getResult(0));
    scf::YieldOp::create(b, greater);
  }
  Value greatest = NVVM::ReduxOp::create(b, b.getI32Type(), loop.getResult(0), NVVM::ReduxKind::UMAX, i32(-1));
  emitTell(greatest);
}

/// Emits `most`, the greatest work of all items, as the maximum of the works that the warps have stored. Also emits
/// `shift`, the number of bits by which `most` - 1 is longer than a sort key.
void OrderKernel::emitMaximum() {
  Value ofWarp = read(add(index(kPerWarp), lane));
  Value ofAll = NVVM::ReduxOp::create(b, b.getI32Type(), ofWarp, NVVM::ReduxKind::UMAX, i32(-1));
  most = arith::MaxUIOp::create(b, ofAll, i32(1));
  // An item's work is at least 1, so the greatest number that is shifted is `most` - 1.
  Value zeros = math::CountLeadingZerosOp::create(b, arith::SubIOp::create(b, most, i32(1)));
  Value spare = arith::SubIOp::create(b, i32(32 - kKeyBits), zeros);
  shift = arith::MaxSIOp::create(b, spare, i32(0));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Count and deal
//===--------------------------------------------------------------------------------------------------------------===//

OrderKernel::Lane OrderKernel::emitLane(Value step) {
  Lane result;
  std::tie(result.item, result.isInside) = emitItem(step);
  Value last = arith::SubIOp::create(b, count, index(1));
  Value work = memref::LoadOp::create(b, list, getWorkPlace(arith::MinUIOp::create(b, result.item, last)));
  Value key = arith::ShRUIOp::create(b, arith::SubIOp::create(b, most, work), shift);
  key = arith::SelectOp::create(b, result.isInside, key, i32(kKeys));
  result.counter = add(mul(warp, kRow), toIndex(key));
  result.peers = NVVM::MatchSyncOp::create(b, b.getI32Type(), i32(-1), key, NVVM::MatchSyncKind::any);
  Value below = arith::SubIOp::create(b, arith::ShLIOp::create(b, i32(1), toI32(lane)), i32(1));
  result.rank = LLVM::CtPopOp::create(b, arith::AndIOp::create(b, result.peers, below));
  return result;
}

void OrderKernel::emitAdvance(const Lane &lane) {
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane.rank, i32(0));
  auto branch = scf::IfOp::create(b, isFirst);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    write(add(read(lane.counter), LLVM::CtPopOp::create(b, lane.peers)), lane.counter);
  }
  NVVM::SyncWarpOp::create(b, i32(-1));
}

void OrderKernel::emitCount() {
  emitSteps([&](Value step) { emitAdvance(emitLane(step)); });
}

void OrderKernel::emitDeal() {
  emitSteps([&](Value step) {
    Lane lane = emitLane(step);
    Value place = add(read(lane.counter), lane.rank);
    auto branch = scf::IfOp::create(b, lane.isInside);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      Value entry = mul(toIndex(place), 1 + numbers);
      memref::StoreOp::create(b, toI32(lane.item), list, entry);
      for (int64_t number = 0; number < numbers; ++number) {
        Value copy = memref::LoadOp::create(b, list, add(getNumbersPlace(lane.item), index(number)));
        memref::StoreOp::create(b, copy, list, add(entry, index(1 + number)));
      }
    }
    NVVM::SyncWarpOp::create(b, i32(-1));
    emitAdvance(lane);
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Places
//===--------------------------------------------------------------------------------------------------------------===//

/// Replaces each counter by the sum of all counters before it, in the order of sort keys and, within a sort key, of
/// warps. Thread t has sort key t, if there is one. The other threads read the column of lanes without items, and count
/// it as 0. All counters are loaded before any of them is added, since the latency of loads decides the time of a small
/// kernel.
void OrderKernel::emitPlaces() {
  Value hasKey = isBelow(thread, index(kKeys));
  Value column = arith::MinUIOp::create(b, thread, index(kKeys));
  SmallVector<Value> counters, numbers;
  for (int64_t warp = 0; warp < kWarps; ++warp)
    counters.push_back(add(index(warp * kRow), column));
  for (Value counter : counters)
    numbers.push_back(read(counter));
  Value sum = i32(0);
  for (Value number : numbers)
    sum = add(sum, number);
  Value own = arith::SelectOp::create(b, hasKey, sum, i32(0)), upTo = emitSumOfLanes(own);
  emitTell(upTo);
  emitBarrier();
  // Adds the sums of the warps before this one to `place`.
  Value place = arith::SubIOp::create(b, upTo, own);
  auto others = scf::ForOp::create(b, index(0), warp, index(1), ValueRange(place));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(others.getBody());
    Value next = add(others.getRegionIterArg(0), read(add(index(kPerWarp), others.getInductionVar())));
    scf::YieldOp::create(b, next);
  }
  place = others.getResult(0);
  auto branch = scf::IfOp::create(b, hasKey);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (auto [counter, number] : llvm::zip(counters, numbers)) {
    write(place, counter);
    place = add(place, number);
  }
}

/// Emits the sum of a value over this lane and the lanes below it.
Value OrderKernel::emitSumOfLanes(Value value) {
  for (int64_t distance = 1; distance < kLanes; distance *= 2) {
    Value other = NVVM::ShflOp::create(b, b.getI32Type(), i32(-1), value, i32(distance), /*mask_and_clamp=*/i32(0),
                                       NVVM::ShflKind::up, /*return_value_and_is_valid=*/UnitAttr());
    Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, lane, index(distance));
    value = add(value, arith::SelectOp::create(b, isThere, other, i32(0)));
  }
  return value;
}
