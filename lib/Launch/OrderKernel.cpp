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
/// The least work of a part, the time in which a part starts and ends, and the time in which a row of a part is stored
/// and merged. The unit is a tile of keys.
static constexpr int64_t kLeastWork = 2;
static constexpr double kStartOfPart = 1, kRowOfPart = 1.0 / 8;
/// Parts count as equal if their mean is this fraction of the longest.
static constexpr double kEqual = 0.9;
static_assert(kWarps == kLanes, "a lane looks at each warp's number, and a warp at each lane's limit");
/// A row of counters has a column for each sort key, and one more for lanes without an item. The length of a row is
/// odd, so that the counters of a column are in different banks.
static constexpr int64_t kRow = kKeys + 1;
/// After the counters, the scratch memory has one number for each warp.
static constexpr int64_t kPerWarp = kWarps * kRow, kScratch = kPerWarp + kWarps;
/// With parts, each warp has three more numbers, and two numbers for each limit that is tried. The length of a row of
/// numbers for limits is odd, as that of counters.
static constexpr int64_t kWorkSums = kScratch, kRowSums = kWorkSums + kWarps, kTimes = kRowSums + kWarps,
                         kTrials = kTimes + kWarps, kTrialRow = kLanes + 1, kCutTrials = kTrials + kWarps * kTrialRow,
                         kScratchOfParts = kCutTrials + kWarps * kTrialRow;

OrderKernel::OrderKernel(ImplicitLocOpBuilder &b, gpu::GPUFuncOp kernel, Value list, Value count, int64_t numbers,
                         std::optional<Parts> parts)
    : b(b), numbers(numbers), parts(parts), list(list), count(count), scratch(emitScratch(kernel)) {
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = arith::AndIOp::create(b, thread, index(kLanes - 1));
  warp = arith::ShRUIOp::create(b, thread, index(5));
  divide(count);
}

void OrderKernel::divide(Value number) {
  entries = number;
  steps = arith::CeilDivUIOp::create(b, entries, index(kOrderThreads));
  firstEntry = add(mul(arith::MulIOp::create(b, warp, steps), kLanes), lane);
}

Value OrderKernel::emitScratch(gpu::GPUFuncOp kernel) {
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({parts ? kScratchOfParts : kScratch}, b.getI32Type(), MemRefLayoutAttrInterface(), space);
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
  if (parts) {
    emitSizeOfParts();
    divide(mul(count, parts->most));
  }
  emitShift();
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
Value OrderKernel::f32(double value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
Value OrderKernel::toF32(Value value) { return arith::UIToFPOp::create(b, b.getF32Type(), value); }
Value OrderKernel::toI32(Value value) { return arith::IndexCastUIOp::create(b, b.getI32Type(), value); }
Value OrderKernel::toIndex(Value value) { return arith::IndexCastUIOp::create(b, b.getIndexType(), value); }
Value OrderKernel::add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
Value OrderKernel::addF(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
Value OrderKernel::mul(Value x, int64_t factor) { return arith::MulIOp::create(b, x, index(factor)); }
Value OrderKernel::read(Value place) { return memref::LoadOp::create(b, scratch, place); }
void OrderKernel::write(Value value, Value place) { memref::StoreOp::create(b, value, scratch, place); }

Value OrderKernel::getCounterPlace() { return mul(count, countEntries() * getListItemWords(numbers)); }

Value OrderKernel::getWorkPlace(Value item) { return add(mul(count, countEntries() * (1 + numbers)), item); }

Value OrderKernel::getNumbersPlace(Value item) {
  return add(mul(count, countEntries() * (1 + numbers) + 1), mul(item, numbers));
}

void OrderKernel::emitBarrier() { NVVM::Barrier0Op::create(b); }

Value OrderKernel::isBelow(Value x, Value y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y); }

void OrderKernel::emitTell(Value value, int64_t first) {
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(kLanes - 1));
  auto branch = scf::IfOp::create(b, isLast);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  write(value, add(index(first), warp));
}

/// Emits a loop over steps that every lane of every warp runs.
void OrderKernel::emitSteps(llvm::function_ref<void(Value)> emitBody) {
  auto loop = scf::ForOp::create(b, index(0), steps, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  emitBody(loop.getInductionVar());
}

std::pair<Value, Value> OrderKernel::emitEntry(Value step) {
  Value entry = add(firstEntry, mul(step, kLanes));
  return {entry, isBelow(entry, entries)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Measure
//===--------------------------------------------------------------------------------------------------------------===//

/// Sets the counter of tile.draw to 0.
void OrderKernel::emitCounter() {
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, index(0)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  memref::StoreOp::create(b, i32(0), list, getCounterPlace());
}

void OrderKernel::emitMeasure(llvm::function_ref<Facts(Value)> emitFacts) {
  auto clear = scf::ForOp::create(b, thread, index(kPerWarp), index(kOrderThreads));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(clear.getBody());
    write(i32(0), clear.getInductionVar());
  }
  SmallVector<Value, 3> none(parts ? 3 : 1, i32(0));
  auto loop = scf::ForOp::create(b, index(0), steps, index(1), none);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto [item, isInside] = emitEntry(loop.getInductionVar());
    SmallVector<Type, 2> measured(parts ? 2 : 1, b.getI32Type());
    auto branch = scf::IfOp::create(b, measured, isInside, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    Facts facts = emitFacts(item);
    Value work = toI32(facts.work);
    memref::StoreOp::create(b, work, list, getWorkPlace(item));
    for (auto [offset, number] : llvm::enumerate(facts.numbers)) {
      Value narrow = arith::IndexCastOp::create(b, b.getI32Type(), number);
      memref::StoreOp::create(b, narrow, list, add(getNumbersPlace(item), index(offset + (parts ? 1 : 0))));
    }
    SmallVector<Value, 2> ofItem{work};
    if (parts)
      ofItem.push_back(toI32(facts.rows));
    scf::YieldOp::create(b, ofItem);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, SmallVector<Value, 2>(measured.size(), i32(0)));
    b.setInsertionPointAfter(branch);
    SmallVector<Value, 3> next{arith::MaxUIOp::create(b, loop.getRegionIterArg(0), branch.getResult(0))};
    if (parts)
      for (auto [sum, result] : llvm::zip_equal(loop.getRegionIterArgs().drop_front(), branch.getResults()))
        next.push_back(add(sum, result));
    scf::YieldOp::create(b, next);
  }
  Value greatest = NVVM::ReduxOp::create(b, b.getI32Type(), loop.getResult(0), NVVM::ReduxKind::UMAX, i32(-1));
  emitTell(greatest, kPerWarp);
  for (auto [number, sum] : llvm::enumerate(loop.getResults().drop_front()))
    emitTell(NVVM::ReduxOp::create(b, b.getI32Type(), sum, NVVM::ReduxKind::ADD, i32(-1)),
             number ? kRowSums : kWorkSums);
}

/// Emits `most`, the greatest work of all items, as the maximum of the works that the warps have stored.
void OrderKernel::emitMaximum() {
  Value ofWarp = read(add(index(kPerWarp), lane));
  Value ofAll = NVVM::ReduxOp::create(b, b.getI32Type(), ofWarp, NVVM::ReduxKind::UMAX, i32(-1));
  most = arith::MaxUIOp::create(b, ofAll, i32(1));
}

/// Emits `limit`, the most work of a part. Then `most` is the greatest work of all parts.
void OrderKernel::emitSizeOfParts() {
  emitTrials();
  emitBarrier();
  emitTime();
  emitBarrier();
  emitLimit();
  Value least = arith::CeilDivUIOp::create(b, most, i32(parts->most));
  most = arith::MinUIOp::create(b, most, arith::MaxUIOp::create(b, limit, least));
}

/// Emits `shift`, the number of bits by which `most` - 1 is longer than a sort key. The work of an entry is at least 1,
/// so `most` - 1 is the greatest number that is shifted.
void OrderKernel::emitShift() {
  Value zeros = math::CountLeadingZerosOp::create(b, arith::SubIOp::create(b, most, i32(1)));
  Value spare = arith::SubIOp::create(b, i32(32 - kKeyBits), zeros);
  shift = arith::MaxSIOp::create(b, spare, i32(0));
}

/// Emits limit `number` of those that are tried: the work of a part if the longest item has `number` + 1 parts.
Value OrderKernel::emitTrial(Value number) {
  Value size = arith::CeilDivUIOp::create(b, most, toI32(add(number, index(1))));
  return arith::MaxUIOp::create(b, size, i32(kLeastWork));
}

/// Emits, for each lane's limit, how many parts all items of this warp have, and how many of these are parts of items
/// that are cut. Stores both for all other warps.
void OrderKernel::emitTrials() {
  Value inverse = arith::DivFOp::create(b, f32(1), toF32(emitTrial(lane)));
  auto loop = scf::ForOp::create(b, index(0), steps, index(1), ValueRange{f32(0), f32(0)});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto [item, isInside] = emitEntry(loop.getInductionVar());
    Value last = arith::SubIOp::create(b, count, index(1));
    Value own = memref::LoadOp::create(b, list, getWorkPlace(arith::MinUIOp::create(b, item, last)));
    // Each lane counts the parts of all items of the step. A warp without items counts none; the loop is one of
    // constant length, so that its shuffles overlap.
    Value first = arith::SubIOp::create(b, item, lane);
    own = arith::SelectOp::create(b, isInside, own, i32(0));
    auto branch = scf::IfOp::create(b, TypeRange(loop.getRegionIterArgs()), isBelow(first, count), /*withElse=*/true);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loop.getRegionIterArgs());
    b.setInsertionPointToStart(branch.thenBlock());
    auto lanes = scf::ForOp::create(b, index(0), index(kLanes), index(1), loop.getRegionIterArgs());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(lanes.getBody());
      Value work = NVVM::ShflOp::create(b, b.getI32Type(), i32(-1), own, toI32(lanes.getInductionVar()),
                                        /*mask_and_clamp=*/i32(kLanes - 1), NVVM::ShflKind::idx,
                                        /*return_value_and_is_valid=*/UnitAttr());
      Value number = math::CeilOp::create(b, arith::MulFOp::create(b, toF32(work), inverse));
      Value isCut = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, number, f32(1));
      Value ofCut = arith::SelectOp::create(b, isCut, number, f32(0));
      scf::YieldOp::create(b,
                           ValueRange{addF(lanes.getRegionIterArg(0), number), addF(lanes.getRegionIterArg(1), ofCut)});
    }
    scf::YieldOp::create(b, lanes.getResults());
    b.setInsertionPointAfter(branch);
    scf::YieldOp::create(b, branch.getResults());
  }
  for (auto [place, number] : llvm::zip(std::array{kTrials, kCutTrials}, loop.getResults()))
    write(arith::FPToUIOp::create(b, b.getI32Type(), number), add(add(index(place), mul(warp, kTrialRow)), lane));
}

/// Emits the estimated time of the launch with this warp's limit, and stores it for all other warps. If there are at
/// most as many parts as CTAs, the longest part ends last. Otherwise CTAs have the mean work and, since the longest
/// parts start first, a small share of the longest part more. If all parts are equal, the last round of parts leaves
/// CTAs without work instead.
void OrderKernel::emitTime() {
  auto mulF = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, x, y); };
  auto sum = [&](Value place) {
    return toF32(NVVM::ReduxOp::create(b, b.getI32Type(), read(place), NVVM::ReduxKind::ADD, i32(-1)));
  };
  auto sumOfTrials = [&](int64_t first) { return sum(add(add(index(first), mul(lane, kTrialRow)), warp)); };
  Value total = sum(add(index(kWorkSums), lane)), rows = sum(add(index(kRowSums), lane));
  Value number = sumOfTrials(kTrials), ofCut = sumOfTrials(kCutTrials), sharers = toF32(toI32(parts->sharers));
  Value ctas = toF32(NVVM::SmDimOp::create(b, b.getI32Type())), longest = toF32(emitTrial(warp));
  // The time of storing and merging a row's part is that of reading a key's tile times kRowOfPart.
  Value rowsOfItem = arith::DivFOp::create(b, rows, toF32(toI32(count)));
  Value merged = mulF(rowsOfItem, f32(kRowOfPart));
  Value work = addF(total, addF(mulF(number, f32(kStartOfPart)), mulF(ofCut, merged)));
  Value rounds = arith::DivFOp::create(b, mulF(number, sharers), ctas);
  Value missing = arith::SubFOp::create(b, math::CeilOp::create(b, rounds), rounds);
  Value areEqual = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, total, mulF(mulF(number, longest), f32(kEqual)));
  Value share = arith::DivFOp::create(b, f32(0.5), rounds);
  Value uneven = mulF(longest, arith::SelectOp::create(b, areEqual, missing, share));
  Value ofOne = addF(longest, addF(merged, f32(kStartOfPart)));
  Value mean = addF(arith::DivFOp::create(b, mulF(work, sharers), ctas), uneven);
  mean = arith::MaximumFOp::create(b, mean, ofOne);
  Value areFew = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, rounds, f32(1));
  Value time = arith::SelectOp::create(b, areFew, ofOne, mean);
  // Times are positive, so their bits are in the order of the times. The last bits make room for the limit's number.
  Value bits = arith::BitcastOp::create(b, b.getI32Type(), time);
  emitTell(arith::OrIOp::create(b, arith::AndIOp::create(b, bits, i32(-kLanes)), toI32(warp)), kTimes);
}

/// Emits the limit with which the launch ends first.
void OrderKernel::emitLimit() {
  Value least =
      NVVM::ReduxOp::create(b, b.getI32Type(), read(add(index(kTimes), lane)), NVVM::ReduxKind::UMIN, i32(-1));
  limit = emitTrial(toIndex(arith::AndIOp::create(b, least, i32(kLanes - 1))));
}

std::pair<Value, Value> OrderKernel::emitDivision(Value work) {
  Value least = arith::CeilDivUIOp::create(b, work, i32(parts->most));
  Value wanted = arith::CeilDivUIOp::create(b, work, arith::MaxUIOp::create(b, limit, least));
  Value size = arith::CeilDivUIOp::create(b, work, arith::MaxUIOp::create(b, wanted, i32(1)));
  return {size, arith::CeilDivUIOp::create(b, work, arith::MaxUIOp::create(b, size, i32(1)))};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Count and deal
//===--------------------------------------------------------------------------------------------------------------===//

OrderKernel::Lane OrderKernel::emitLane(Value step) {
  Lane result;
  std::tie(result.entry, result.isInside) = emitEntry(step);
  result.item = result.entry;
  if (parts)
    result.item = arith::DivUIOp::create(b, result.entry, index(parts->most));
  Value last = arith::SubIOp::create(b, count, index(1));
  result.work = memref::LoadOp::create(b, list, getWorkPlace(arith::MinUIOp::create(b, result.item, last)));
  if (parts) {
    auto [size, number] = emitDivision(result.work);
    Value part = toI32(arith::RemUIOp::create(b, result.entry, index(parts->most)));
    result.isInside = arith::AndIOp::create(b, result.isInside, isBelow(part, number));
    result.work = size;
  }
  Value key = arith::ShRUIOp::create(b, arith::SubIOp::create(b, most, result.work), shift);
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
      // All numbers are loaded before the first is stored, since a load waits for stores that may be to its place.
      int64_t first = parts ? 1 : 0;
      SmallVector<Value> copies;
      for (int64_t number = first; number < numbers; ++number)
        copies.push_back(memref::LoadOp::create(b, list, add(getNumbersPlace(lane.item), index(number))));
      memref::StoreOp::create(b, toI32(lane.entry), list, entry);
      if (parts)
        memref::StoreOp::create(b, lane.work, list, add(entry, index(1)));
      for (auto [number, copy] : llvm::enumerate(copies))
        memref::StoreOp::create(b, copy, list, add(entry, index(1 + first + number)));
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
  emitTell(upTo, kPerWarp);
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
  if (!parts)
    return;
  auto isLast = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, index(kKeys - 1)));
  b.setInsertionPointToStart(isLast.thenBlock());
  memref::StoreOp::create(b, place, list, add(getCounterPlace(), index(1))); // the number of all entries
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
