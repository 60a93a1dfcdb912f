//===- WorkTiles.cpp - which work tiles a CTA works on, and where they lie ---------------------------------------===//

#include "WorkTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Who asks for quotients: every thread of a consumer, where a tile waits for them; or the one that loads, beside its
/// work, with few registers for multipliers and shifts.
enum class Quotients { OfAllThreads, OfOneThread };

/// Divides by a number that is known before the loop: n / d = n * m >> s for n and d below 2^31, where 2^(l-1) < d <=
/// 2^l, s = 31 + l and m = ceil(2^s / d) (Granlund and Montgomery, Division by invariant integers using multiplication,
/// 1994). m and s are made uniform once; a quotient is then a multiplication and a shift, which ptxas sees to be the
/// same in every thread. It does not see that of a division.
class Divisor {
public:
  Divisor(ImplicitLocOpBuilder &b, Value divisor, Quotients quotients) : b(b), divisor(divisor) {
    if (quotients == Quotients::OfOneThread || matchPattern(divisor, m_Constant())) // left to the back end
      return;
    Value one = constant(1), wide = toI64(divisor);
    Value zeros = math::CountLeadingZerosOp::create(b, arith::SubIOp::create(b, wide, one));
    Value amount = arith::SubIOp::create(b, constant(31 + 64), zeros);
    Value power = arith::ShLIOp::create(b, one, amount);
    multiplier = toI64(UniformOp::create(b, toIndex(arith::CeilDivUIOp::create(b, power, wide))));
    shift = toI64(UniformOp::create(b, toIndex(amount)));
  }

  /// Quotient and remainder.
  std::pair<Value, Value> divide(Value dividend) {
    Value quotient;
    if (multiplier)
      quotient = toIndex(arith::ShRUIOp::create(b, arith::MulIOp::create(b, toI64(dividend), multiplier), shift));
    else
      quotient = arith::DivUIOp::create(b, dividend, divisor);
    return {quotient, arith::SubIOp::create(b, dividend, arith::MulIOp::create(b, quotient, divisor))};
  }

private:
  Value constant(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value toI64(Value index) { return arith::IndexCastUIOp::create(b, b.getI64Type(), index); }
  Value toIndex(Value value) { return arith::IndexCastUIOp::create(b, b.getIndexType(), value); }

  ImplicitLocOpBuilder &b;
  Value divisor, multiplier, shift;
};

/// What all orders of work tiles have.
class GridWorkTiles : public WorkTiles {
public:
  GridWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b, Quotients quotients = Quotients::OfAllThreads)
      : b(b), quotients(quotients), nx(program.getGrid()[0]), ny(program.getGrid()[1]), nz(program.getGrid()[2]),
        cta(gpu::BlockIdOp::create(b, gpu::Dimension::x)), ctas(gpu::GridDimOp::create(b, gpu::Dimension::x)),
        heads(mul(ny, nz)), byHeads(divideBy(ny)) {}

  std::array<Value, 3> emitWorkTile(scf::ForOp loop) override {
    auto [x, head] = locate(loop.getInductionVar());
    auto [z, y] = byHeads.divide(head);
    return {x, y, z};
  }

protected:
  /// Of the heads of all batches, and in it.
  virtual std::pair<Value, Value> locate(Value item) { llvm_unreachable("expected one of locate and emitWorkTile"); }

  Divisor divideBy(Value divisor) { return Divisor(b, divisor, quotients); }
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
  Value max(Value x, Value y) { return arith::MaxUIOp::create(b, x, y); }
  Value half(Value x) { return b.createOrFold<arith::ShRUIOp>(x, index(1)); }
  Value isOdd(Value x) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowBit(x), index(1)); }
  Value lowBit(Value x) { return arith::AndIOp::create(b, x, index(1)); }
  Value isBelow(Value x, Value y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, condition, x, y); }
  Value count(Value condition) { return select(condition, index(1), index(0)); }

  ImplicitLocOpBuilder &b;
  Quotients quotients;
  Value nx, ny, nz, cta, ctas, heads;
  Divisor byHeads;
};

/// CTA c of n works on the work tiles c, c + n, c + 2n, ...; x runs fastest: CTAs that run at the same time read the
/// same keys.
class PlainWorkTiles : public GridWorkTiles {
public:
  PlainWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b) : GridWorkTiles(program, b), byTiles(divideBy(nx)) {}

  scf::ForOp emitLoop() override { return scf::ForOp::create(b, cta, mul(nx, heads), ctas); }

private:
  std::pair<Value, Value> locate(Value item) override {
    auto [head, x] = byTiles.divide(item);
    return {x, head};
  }

  Divisor byTiles;
};

/// Work tiles whose time falls with x, such as a causal mask's. First come pairs: of two heads side by side, x of one
/// and nx - 1 - x of the other, all pairs of equal time; CTA c takes the pairs c, c + n, ... Dealt like that to the
/// end, the last round of pairs would keep only some CTAs busy. So the last heads, with the work tiles of some one and
/// a half rounds, are dealt work tile by work tile in the order of time (of all of them x = 0, then x = 1, ...): first
/// one to each CTA that got no pair in the last round of pairs, then to all, in turn from the last CTA to the first and
/// from the first to the last.
class PairedWorkTiles : public GridWorkTiles {
public:
  PairedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : GridWorkTiles(program, b), tail(emitTail()), byPairs(divideBy(add(nx, nx))), byTail(divideBy(tail)) {}

  scf::ForOp emitLoop() override {
    pairedHeads = sub(heads, tail);
    Value pairs = half(mul(pairedHeads, nx));
    extra = arith::RemUIOp::create(b, pairs, ctas);
    Value rounds = arith::CeilDivUIOp::create(b, sub(max(pairs, cta), cta), ctas);
    paired = add(rounds, rounds);
    dealt = sub(ctas, extra);
    Value last = mul(tail, nx), rest = sub(max(last, dealt), dealt), full = arith::DivUIOp::create(b, rest, ctas);
    Value mayBeShort = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, cta, extra);
    isShort = arith::AndIOp::create(b, mayBeShort, isBelow(cta, add(extra, last)));
    Value hasLast = isBelow(getPlace(full), sub(rest, mul(full, ctas)));
    Value length = add(add(paired, count(isShort)), add(full, count(hasLast)));
    return scf::ForOp::create(b, index(0), UniformOp::create(b, length), index(1));
  }

private:
  /// Heads that are dealt work tile by work tile: at least one and a half rounds of pairs, and an even number is left.
  Value emitTail() {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(3)), add(nx, nx));
    Value least = arith::MinUIOp::create(b, wanted, heads);
    return add(least, lowBit(sub(heads, least)));
  }

  /// The place of this CTA in round `round` of the tail.
  Value getPlace(Value round) { return select(isOdd(round), cta, sub(sub(ctas, index(1)), cta)); }

  std::pair<Value, Value> locate(Value item) override {
    Value pair = add(cta, mul(half(item), ctas));
    auto [headPair, inPair] = byPairs.divide(add(mul(pair, index(2)), lowBit(item)));
    Value first = half(inPair), second = sub(sub(nx, index(1)), first);
    Value x = select(isOdd(item), second, first), head = add(add(headPair, headPair), lowBit(item));

    Value ofTail = sub(max(item, paired), paired), skipped = count(isShort);
    Value round = sub(max(ofTail, skipped), skipped);
    Value number = add(add(dealt, mul(round, ctas)), getPlace(round));
    number = select(isBelow(ofTail, skipped), sub(max(cta, extra), extra), number);
    auto [tailX, tailHead] = byTail.divide(number);

    Value isPaired = isBelow(item, paired);
    return {select(isPaired, x, tailX), select(isPaired, head, add(pairedHeads, tailHead))};
  }

  Value tail;
  Divisor byPairs, byTail;
  /// Heads in pairs; CTAs with a pair more than others; this CTA's work tiles in pairs; whether it has a pair less;
  /// work tiles of the tail that go to those that have.
  Value pairedHeads, extra, paired, isShort, dealt;
};

/// Items that stand for one work tile in each of `sharers` heads. Those go by in groups, so that CTAs that run at the
/// same time read the keys of few heads: as few heads as give every CTA `tilesPerCta` work tiles, and the last group
/// what is left. A group goes through its items once.
class SharedWorkTiles : public GridWorkTiles {
protected:
  SharedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b, ListScope scope, int64_t tilesPerCta,
               Quotients quotients = Quotients::OfAllThreads)
      : GridWorkTiles(program, b, quotients), scope(scope), items(emitItems()), sharers(emitSharers()),
        group(emitGroup(tilesPerCta)), last(emitLast()), byTiles(divideBy(nx)), byGroups(divideBy(mul(items, group))),
        inGroup(divideBy(group)), inLast(divideBy(last)) {}

  Value getTotal() { return mul(items, sharers); }

  /// Where work tile `number` lies: the place of its item, which head of those that share it, and the number of its
  /// group.
  struct Location {
    Value place, sharer, group;
  };
  Location locateShared(Value number) {
    Value ofGroup = arith::MinUIOp::create(b, byGroups.divide(number).first, lastGroup);
    Value rest = sub(number, mul(ofGroup, mul(items, group)));
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, ofGroup, lastGroup);
    if (quotients == Quotients::OfOneThread) {
      auto [place, sharer] = divideBy(select(isLast, last, group)).divide(rest);
      return {place, add(mul(ofGroup, group), sharer), ofGroup};
    }
    auto [place, sharer] = inGroup.divide(rest);
    auto [lastPlace, lastSharer] = inLast.divide(rest);
    return {select(isLast, lastPlace, place), add(mul(ofGroup, group), select(isLast, lastSharer, sharer)), ofGroup};
  }

  /// The work tile of an item in one of the heads that share it.
  std::array<Value, 3> getWorkTile(Value item, Value sharer) {
    if (scope == ListScope::Tiles) {
      auto [z, y] = byHeads.divide(sharer);
      return {item, y, z};
    }
    auto [rest, x] = byTiles.divide(item);
    if (scope == ListScope::Batches)
      return {x, sharer, rest};
    auto [z, y] = byHeads.divide(rest);
    return {x, y, z};
  }

private:
  Value emitItems() {
    return scope == ListScope::Tiles ? nx : scope == ListScope::Batches ? mul(nx, nz) : mul(nx, heads);
  }
  Value emitSharers() { return scope == ListScope::Tiles ? heads : scope == ListScope::Batches ? ny : index(1); }

  Value emitGroup(int64_t tilesPerCta) {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(tilesPerCta)), items);
    return UniformOp::create(b, arith::MinUIOp::create(b, wanted, sharers));
  }
  /// The size of the last group.
  Value emitLast() {
    lastGroup = UniformOp::create(b, sub(arith::DivUIOp::create(b, sharers, group), index(1)));
    return sub(sharers, mul(lastGroup, group));
  }

  ListScope scope;

protected:
  Value items, lastGroup;

private:
  Value sharers, group, last;
  Divisor byTiles, byGroups, inGroup, inLast;
};

/// WorkTiles that are about as long as their neighbours, the first ones longer: groups go through the tiles forwards
/// and backwards in turn, so that each begins as the one before it ends, the last one forwards. Of this sequence CTA c
/// of n takes c, 2n - 1 - c, 2n + c, ...
class GroupedWorkTiles : public SharedWorkTiles {
public:
  GroupedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : SharedWorkTiles(program, b, ListScope::Tiles, /*tilesPerCta=*/2) {}

  scf::ForOp emitLoop() override {
    Value total = getTotal(), full = arith::DivUIOp::create(b, total, ctas);
    Value hasLast = isBelow(getPlace(full), sub(total, mul(full, ctas)));
    return scf::ForOp::create(b, index(0), UniformOp::create(b, add(full, count(hasLast))), index(1));
  }

  std::array<Value, 3> emitWorkTile(scf::ForOp loop) override {
    Value round = loop.getInductionVar();
    Location at = locateShared(add(mul(round, ctas), getPlace(round)));
    Value isBackwards = isOdd(sub(lastGroup, at.group));
    return getWorkTile(select(isBackwards, sub(sub(items, index(1)), at.place), at.place), at.sharer);
  }

private:
  /// The place of this CTA in a round.
  Value getPlace(Value round) { return select(isOdd(round), sub(sub(ctas, index(1)), cta), cta); }
};

/// WorkTiles by a list, the longest first, which CTAs draw: CTA c begins with number c, and the producer takes the next
/// one that nobody has when it begins to load for the last one that it took.
class DrawnWorkTiles : public SharedWorkTiles {
public:
  DrawnWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : SharedWorkTiles(program, b, program.getWork()->getScope(), /*tilesPerCta=*/3, Quotients::OfOneThread),
        list(program.getList()), warpgroup(program.getWarpgroup()), numShared(program.getWork()->getNumbers()),
        numOwn(program.getWork()->getOwn()), perEntry(numShared + program.getConsumers() * numOwn) {}

  scf::ForOp emitLoop() override {
    Value total = UniformOp::create(b, getTotal()), counter = mul(items, index(getListItemWords(perEntry)));
    SmallVector<Value> first = emitEntry(arith::MinUIOp::create(b, cta, sub(total, index(1))));
    for (Value &value : first)
      value = UniformOp::create(b, value);
    Value most = select(isBelow(cta, total), index(std::numeric_limits<int32_t>::max()), index(0));
    auto loop = scf::ForOp::create(b, index(0), UniformOp::create(b, most), index(1), first);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto draw = DrawOp::create(b, ValueRange(first).getTypes(), list, counter, ctas, total);
    scf::YieldOp::create(b, draw.getNext());
    Block *body = b.createBlock(&draw.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
    DrawnOp::create(b, emitEntry(body->getArgument(0)));
    return loop;
  }

  std::array<Value, 3> emitWorkTile(scf::ForOp loop) override {
    ValueRange entry = loop.getRegionIterArgs();
    numbers.assign(entry.begin() + 3, entry.end());
    return {entry[0], entry[1], entry[2]};
  }

private:
  /// The work tile of a number, the numbers of its item, and the warpgroup's own ones.
  SmallVector<Value> emitEntry(Value number) {
    Location at = locateShared(number);
    SmallVector<Value> loads;
    auto emitLoads = [&](Value begin, int64_t count) {
      for (int64_t offset = 0; offset < count; ++offset) {
        Value load = memref::LoadOp::create(b, list, add(begin, index(offset)));
        loads.push_back(arith::IndexCastOp::create(b, b.getIndexType(), load));
      }
    };
    Value begin = mul(at.place, index(1 + perEntry));
    emitLoads(begin, 1 + numShared);
    if (numOwn > 0)
      emitLoads(add(begin, add(index(1 + numShared), mul(warpgroup, index(numOwn)))), numOwn);
    SmallVector<Value> entry = llvm::to_vector(getWorkTile(loads.front(), at.sharer));
    llvm::append_range(entry, llvm::drop_begin(loads));
    return entry;
  }

  Value list, warpgroup;
  /// Numbers of all warpgroups, of each of them, and in an entry.
  int64_t numShared, numOwn, perEntry;
};
} // namespace

std::unique_ptr<WorkTiles> WorkTiles::create(ProgramOp program, ImplicitLocOpBuilder &b) {
  if (program.getList())
    return std::make_unique<DrawnWorkTiles>(program, b);
  if (program.isWork(Distribution::Grouped))
    return std::make_unique<GroupedWorkTiles>(program, b);
  if (program.isWork(Distribution::Paired))
    return std::make_unique<PairedWorkTiles>(program, b);
  return std::make_unique<PlainWorkTiles>(program, b);
}
