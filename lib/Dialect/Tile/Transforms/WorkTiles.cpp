//===- WorkTiles.cpp - the work tiles of a persistent CTA, and their coordinates ----------------------------------===//

#include "GridWorkTiles.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// A distribution without a work list or #tile.work: CTA c of n works on the work tiles c, c + n, c + 2n, .... Of their
/// coordinates, x runs fastest, so that CTAs that run at the same time read the same keys.
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

/// Work tiles that take less time with larger x, such as those of a causal mask.
///
/// Work tile x of one head and work tile nx - 1 - x of the next head are a pair, so that all pairs take equally long.
/// CTA c of n works on the pairs c, c + n, ....
///
/// In the last round of pairs only some CTAs would be busy. So the last heads, with about one and a half rounds of work
/// tiles, have no pairs: their work tiles are assigned one by one, the longest first (x = 0 of all these heads, then x
/// = 1, ...). First, each CTA that has no pair in the last round of pairs gets one of these work tiles. Then all CTAs
/// share the remaining work tiles in rounds. The first of these rounds goes from the last CTA to the first, the next
/// one from the first to the last, and so on.
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
  /// Emits the number of heads in the tail: the last heads, whose work tiles are assigned one by one. The tail has at
  /// least one and a half rounds of work tiles, or all of them if there are fewer. The number of the other heads is
  /// even.
  Value emitTail() {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(3)), add(nx, nx));
    Value least = arith::MinUIOp::create(b, wanted, heads);
    return add(least, lowBit(sub(heads, least)));
  }

  /// Returns the place of this CTA in round `round` of the tail.
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
  /// `pairedHeads` is the number of heads in pairs. `extra` is the number of CTAs that have one pair more than the
  /// others, and `dealt` is the number of the others. `paired` is the number of this CTA's work tiles in pairs.
  /// `isShort` says whether this CTA has a pair less than others, and gets a work tile of the tail in its place.
  Value pairedHeads, extra, paired, isShort, dealt;
};

/// The base class of distributions that process heads in groups, so that CTAs that run at the same time read the keys
/// of few heads. A group has as few heads as can give every CTA `tilesPerCta` work tiles. The last group also has the
/// remaining heads. Each group goes through all items once.
class HeadGroups : public SharedWorkTiles {
protected:
  HeadGroups(ProgramOp program, ImplicitLocOpBuilder &b, ListScope scope, int64_t tilesPerCta,
             Quotients quotients = Quotients::OfAllThreads)
      : SharedWorkTiles(program, b, scope, quotients), group(emitFewSharers(tilesPerCta)), last(emitLast()),
        byGroups(divideBy(mul(items, group))), inGroup(divideBy(group)), inLast(divideBy(last)) {}

  Value getTotal() { return mul(items, sharers); }

  /// Where the work tile with a given number is: the place of its item in the order of items (`place`), its head among
  /// those that share the item (`sharer`), and the number of its group (`group`).
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

private:
  /// Emits the number of heads of the last group.
  Value emitLast() {
    lastGroup = UniformOp::create(b, sub(arith::DivUIOp::create(b, sharers, group), index(1)));
    return sub(sharers, mul(lastGroup, group));
  }

protected:
  Value lastGroup;

private:
  Value group, last;
  Divisor byGroups, inGroup, inLast;
};

/// Work tiles that take about as long as their neighbours, and longer at the beginning than at the end of the order.
/// The groups go through their work tiles forwards and backwards in turn, the last group forwards. So each group begins
/// with work tiles like those with which the previous group ends. CTA c of n works on the numbers c, 2n - 1 - c, 2n +
/// c, ... of this sequence.
class GroupedWorkTiles : public HeadGroups {
public:
  GroupedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : HeadGroups(program, b, ListScope::Tiles, /*tilesPerCta=*/2) {}

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
  /// Returns the place of this CTA in round `round`.
  Value getPlace(Value round) { return select(isOdd(round), sub(sub(ctas, index(1)), cta), cta); }
};

/// Work tiles that the dynamic tile scheduler assigns in the order of a work list, the longest first. CTA c begins with
/// number c. When the CTA's producer begins to load for the latest number that it has fetched, it fetches the next free
/// number.
class DrawnWorkTiles : public HeadGroups {
public:
  DrawnWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b)
      : HeadGroups(program, b, program.getWork()->getScope(), /*tilesPerCta=*/3, Quotients::OfOneThread),
        list(program, b) {}

  scf::ForOp emitLoop() override {
    Value total = UniformOp::create(b, getTotal());
    if (!counter)
      counter = mul(items, index(getListItemWords(list.countNumbers())));
    SmallVector<Value> first = emitEntry(arith::MinUIOp::create(b, cta, sub(total, index(1))));
    for (Value &value : first)
      value = UniformOp::create(b, value);
    Value most = select(isBelow(cta, total), index(std::numeric_limits<int32_t>::max()), index(0));
    auto loop = scf::ForOp::create(b, index(0), UniformOp::create(b, most), index(1), first);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto draw = DrawOp::create(b, ValueRange(first).getTypes(), list.list, counter, ctas, total);
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
  /// Emits the coordinates of the work tile `number`, and then the numbers that the list has for its item: those for
  /// all warpgroups, and those for this warpgroup alone.
  SmallVector<Value> emitEntry(Value number) {
    Location at = locateShared(number);
    Value begin = mul(at.place, index(1 + list.countNumbers())), item = list.emitLoad(begin);
    SmallVector<Value> numbers = list.emitNumbers(begin, 1);
    SmallVector<Value> entry = llvm::to_vector(getWorkTile(item, at.sharer));
    llvm::append_range(entry, numbers);
    return entry;
  }

  WorkList list;
};
} // namespace

std::unique_ptr<WorkTiles> WorkTiles::create(ProgramOp program, ImplicitLocOpBuilder &b) {
  if (program.getSingle())
    return createSingleWorkTiles(program, b);
  if (program.getList())
    return std::make_unique<DrawnWorkTiles>(program, b);
  if (program.isWork(Distribution::Grouped))
    return std::make_unique<GroupedWorkTiles>(program, b);
  if (program.isWork(Distribution::Paired))
    return std::make_unique<PairedWorkTiles>(program, b);
  return std::make_unique<PlainWorkTiles>(program, b);
}
