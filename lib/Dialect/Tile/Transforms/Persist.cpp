//===- Persist.cpp - CTAs that work on one tile of queries after another ------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PERSIST
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Divides by a number that is known before the loop: n / d = n * m >> s for n and d below 2^31, where 2^(l-1) < d <=
/// 2^l, s = 31 + l and m = ceil(2^s / d) (Granlund and Montgomery, Division by invariant integers using multiplication,
/// 1994). m and s are made uniform once; a quotient is then a multiplication and a shift, which ptxas sees to be the
/// same in every thread. It does not see that of a division.
class Divisor {
public:
  Divisor(ImplicitLocOpBuilder &b, Value divisor) : b(b), divisor(divisor) {
    if (matchPattern(divisor, m_Constant())) // left to the back end
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

/// The loop over the points of one CTA, and where each of them lies.
class Points {
public:
  Points(ProgramOp program, ImplicitLocOpBuilder &b)
      : b(b), nx(program.getGrid()[0]), ny(program.getGrid()[1]), nz(program.getGrid()[2]),
        cta(gpu::BlockIdOp::create(b, gpu::Dimension::x)), ctas(gpu::GridDimOp::create(b, gpu::Dimension::x)),
        heads(mul(ny, nz)), byHeads(b, ny) {}
  virtual ~Points() = default;

  virtual scf::ForOp emitLoop() = 0;

  /// The numbers of the list that a point has; after emitPoint.
  ArrayRef<Value> getNumbers() const { return numbers; }

  /// The point (x, y, z) of an iteration.
  virtual std::array<Value, 3> emitPoint(Value item) {
    auto [x, head] = locate(item);
    auto [z, y] = byHeads.divide(head);
    return {x, y, z};
  }

protected:
  /// Of the heads of all batches, and in it.
  virtual std::pair<Value, Value> locate(Value item) { llvm_unreachable("expected one of locate and emitPoint"); }

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
  Value nx, ny, nz, cta, ctas, heads;
  SmallVector<Value> numbers;

  Divisor byHeads;
};

/// CTA c of n works on the points c, c + n, c + 2n, ...; x runs fastest: CTAs that run at the same time read the same
/// keys.
class PlainPoints : public Points {
public:
  PlainPoints(ProgramOp program, ImplicitLocOpBuilder &b) : Points(program, b), byTiles(b, nx) {}

  scf::ForOp emitLoop() override { return scf::ForOp::create(b, cta, mul(nx, heads), ctas); }

private:
  std::pair<Value, Value> locate(Value item) override {
    auto [head, x] = byTiles.divide(item);
    return {x, head};
  }

  Divisor byTiles;
};

/// Points whose time falls with x, such as a causal mask's. First come pairs: of two heads side by side, x of one and
/// nx - 1 - x of the other, all pairs of equal time; CTA c takes the pairs c, c + n, ... Dealt like that to the end,
/// the last round of pairs would keep only some CTAs busy. So the last heads, with the points of some one and a half
/// rounds, are dealt point by point in the order of time (of all of them x = 0, then x = 1, ...): first one to each CTA
/// that got no pair in the last round of pairs, then to all, in turn from the last CTA to the first and from the first
/// to the last.
class PairedPoints : public Points {
public:
  PairedPoints(ProgramOp program, ImplicitLocOpBuilder &b, bool isRotated)
      : Points(program, b), tail(emitTail()), byPairs(b, add(nx, nx)), byTail(b, tail) {
    if (isRotated)
      byCtas.emplace(b, ctas);
  }

  scf::ForOp emitLoop() override {
    pairedHeads = sub(heads, tail);
    Value pairs = half(mul(pairedHeads, nx));
    extra = arith::RemUIOp::create(b, pairs, ctas);
    if (byCtas)
      fullRounds = byCtas->divide(pairs).first;
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
  /// Heads that are dealt point by point: at least one and a half rounds of pairs, and an even number is left.
  Value emitTail() {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(3)), add(nx, nx));
    Value least = arith::MinUIOp::create(b, wanted, heads);
    return add(least, lowBit(sub(heads, least)));
  }

  /// The place of this CTA in round `round` of pairs. Where nx divides the number of CTAs, the same one in every round
  /// would be the same tiles in every head, those that are a little longer in some CTAs. In the last round, of fewer
  /// pairs than CTAs, the first CTAs have them.
  Value getPlaceInRound(Value round) {
    if (!byCtas)
      return cta;
    return select(isBelow(round, fullRounds), byCtas->divide(add(cta, round)).second, cta);
  }

  /// The place of this CTA in round `round` of the tail.
  Value getPlace(Value round) { return select(isOdd(round), cta, sub(sub(ctas, index(1)), cta)); }

  std::pair<Value, Value> locate(Value item) override {
    Value pair = add(getPlaceInRound(half(item)), mul(half(item), ctas));
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
  /// If a CTA moves on by one pair from round to round.
  std::optional<Divisor> byCtas;
  /// Heads in pairs; CTAs with a pair more than others; this CTA's points in pairs; whether it has a pair less; points
  /// of the tail that go to those that have.
  Value pairedHeads, extra, paired, isShort, dealt;
  /// With `byCtas`: the rounds in which every CTA has a pair.
  Value fullRounds;
};

/// Points by a list of items, the longest first; without a list x is the item, and its place. An item stands for one
/// point in each of `sharers` heads; those go by in groups, so that CTAs that run at the same time read the keys of few
/// heads: as few heads as give every CTA three points, and the last group what is left. A group goes through the list
/// once, forwards or backwards, so that it begins as the one before it ends, with long points or with short ones; the
/// last one goes forwards. Of this sequence CTA c of n takes c, 2n - 1 - c, 3n - 1 - c, 3n + c, 4n + c, ...: sums of
/// four neighbours in a sorted list are about equal, also where those of two, as far from either end, are not. Without
/// a list points are about as long as their neighbours: two for every CTA in a group, and c, 2n - 1 - c, 2n + c, ...
/// are enough.
class GroupedPoints : public Points {
public:
  GroupedPoints(ProgramOp program, ImplicitLocOpBuilder &b)
      : Points(program, b), list(program.getList()), scope(program.getScope().value_or(ListScope::Tiles)),
        perEntry(program.getNumbers()),
        items(emitItems()), sharers(emitSharers()), group(emitGroup()), last(emitLast()), byTiles(b, nx),
        byGroups(b, mul(items, group)), inGroup(b, group), inLast(b, last) {}

  scf::ForOp emitLoop() override {
    Value total = mul(items, sharers), full = arith::DivUIOp::create(b, total, ctas);
    Value hasLast = isBelow(getPlace(full), sub(total, mul(full, ctas)));
    return scf::ForOp::create(b, index(0), UniformOp::create(b, add(full, count(hasLast))), index(1));
  }

  std::array<Value, 3> emitPoint(Value round) override {
    Value number = add(mul(round, ctas), getPlace(round));
    Value ofGroup = arith::MinUIOp::create(b, byGroups.divide(number).first, lastGroup);
    Value rest = sub(number, mul(ofGroup, mul(items, group)));
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, ofGroup, lastGroup);
    auto [place, sharer] = inGroup.divide(rest);
    auto [lastPlace, lastSharer] = inLast.divide(rest);
    place = select(isLast, lastPlace, place);
    sharer = add(mul(ofGroup, group), select(isLast, lastSharer, sharer));
    place = select(isOdd(sub(lastGroup, ofGroup)), sub(sub(items, index(1)), place), place);
    SmallVector<Value> entry = emitEntry(place);
    numbers.assign(entry.begin() + 1, entry.end());
    return getPoint(entry.front(), sharer);
  }

private:
  /// The item at a place in the list, and its numbers.
  SmallVector<Value> emitEntry(Value place) {
    if (!list)
      return {place};
    SmallVector<Value> loads, entry;
    Value begin = mul(place, index(1 + perEntry));
    for (int64_t offset = 0; offset <= perEntry; ++offset)
      loads.push_back(memref::LoadOp::create(b, list, add(begin, index(offset))));
    for (Value load : loads)
      entry.push_back(UniformOp::create(b, arith::IndexCastOp::create(b, b.getIndexType(), load)));
    return entry;
  }

  Value emitItems() {
    return scope == ListScope::Tiles ? nx : scope == ListScope::Batches ? mul(nx, nz) : mul(nx, heads);
  }
  Value emitSharers() { return scope == ListScope::Tiles ? heads : scope == ListScope::Batches ? ny : index(1); }

  Value emitGroup() {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(list ? 3 : 2)), items);
    return UniformOp::create(b, arith::MinUIOp::create(b, wanted, sharers));
  }
  /// The size of the last group.
  Value emitLast() {
    lastGroup = UniformOp::create(b, sub(arith::DivUIOp::create(b, sharers, group), index(1)));
    return sub(sharers, mul(lastGroup, group));
  }

  /// The place of this CTA in a round: of four by a list, the second and the third go from the last CTA to the first.
  Value getPlace(Value round) {
    Value isBackwards = isOdd(list ? half(add(round, index(1))) : round);
    return select(isBackwards, sub(sub(ctas, index(1)), cta), cta);
  }

  /// The point of an item in one of the heads that share it.
  std::array<Value, 3> getPoint(Value item, Value sharer) {
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

  Value list;
  ListScope scope;
  /// Numbers in an entry.
  int64_t perEntry;
  Value items, sharers, group, lastGroup, last;
  Divisor byTiles, byGroups, inGroup, inLast;
};
} // namespace

/// A tile that is loaded once per point (of Q) into a ring of one slot is loaded after those that its first product
/// reads with it: their slots are empty earlier, while the consumers still work on the last point. A second slot is
/// empty earlier still.
static void delayPrivateLoads(scf::ForOp items) {
  for (LoadOp load : llvm::to_vector(items.getOps<LoadOp>())) {
    RingType ring = load.getRing().getType();
    if (!ring.getIsPrivate() || ring.getStages() > 1)
      continue;
    Operation *first = nullptr;
    for (Operation *user : load->getUsers()) {
      Operation *ancestor = items.getBody()->findAncestorOpInBlock(*user);
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
    if (first)
      load->moveBefore(first);
  }
}

void tile::persistProgram(ProgramOp program) {
  Block &body = program.getBody().front();
  SmallVector<Operation *> ops = llvm::to_vector(llvm::make_pointer_range(body));
  ImplicitLocOpBuilder b = ImplicitLocOpBuilder::atBlockBegin(program.getLoc(), &body);
  std::unique_ptr<Points> points;
  if (program.getList() || program.getGrouped())
    points = std::make_unique<GroupedPoints>(program, b);
  else if (program.getPaired())
    points = std::make_unique<PairedPoints>(program, b, program.getRotated());
  else
    points = std::make_unique<PlainPoints>(program, b);
  scf::ForOp items = points->emitLoop();
  b.setInsertionPointToStart(items.getBody());
  std::array<Value, 3> point = points->emitPoint(items.getInductionVar());
  for (Operation *op : ops)
    op->moveBefore(items.getBody()->getTerminator());
  items.walk([&](gpu::BlockIdOp id) {
    id.replaceAllUsesWith(point[static_cast<unsigned>(id.getDimension())]);
    id.erase();
  });
  items.walk([&](ListNumberOp op) {
    op.replaceAllUsesWith(points->getNumbers()[op.getNumber()]);
    op.erase();
  });
  delayPrivateLoads(items);
  program.getGridMutable().clear();
  program.setPaired(false);
  program.setRotated(false);
  program.setGrouped(false);
  program.getListMutable().clear();
  program.removeScopeAttr();
  program.setNumbers(0);
}

namespace {
struct Persist : tile::impl::PersistBase<Persist> {
  using PersistBase::PersistBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](ProgramOp program) {
      if (program.getGrid().empty())
        return WalkResult::advance();
      if (program.getSorted()) {
        program.emitOpError() << "expected a list of its points, which tile-order makes";
        return WalkResult::interrupt();
      }
      persistProgram(program);
      ++numPersistent;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
