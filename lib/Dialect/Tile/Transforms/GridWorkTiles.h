//===- GridWorkTiles.h - the base classes of the distributions of work tiles --------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_TILE_TRANSFORMS_GRIDWORKTILES_H
#define FLASHC_LIB_DIALECT_TILE_TRANSFORMS_GRIDWORKTILES_H

#include "WorkTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

namespace mlir::tile {

/// Which threads compute the quotients of a distribution.
/// OfAllThreads: all threads of the consumers, in every iteration of the loop over work tiles. So quotients must be
/// uniform and fast (Divisor).
/// OfOneThread: only the producer's one thread, which has few registers for multipliers and shifts. Or there is no loop
/// over work tiles, so each quotient is computed once. In both cases quotients are plain divisions.
enum class Quotients { OfAllThreads, OfOneThread };

/// Emits quotients n / d, where d is known before the loop over work tiles. For n and d below 2^31, n / d = (n * m) >>
/// s, where 2^(l-1) < d <= 2^l, s = 31 + l and m = ceil(2^s / d) (Granlund and Montgomery, Division by invariant
/// integers using multiplication, 1994). The loop uses m and s as results of tile.uniform. So ptxas knows that the
/// product and the shift are the same in every thread. It would not know this of a division.
class Divisor {
public:
  Divisor(ImplicitLocOpBuilder &b, Value divisor, Quotients quotients) : b(b), divisor(divisor) {
    if (quotients == Quotients::OfOneThread || matchPattern(divisor, m_Constant())) // the back end divides by d itself
      return;
    Value one = constant(1), wide = toI64(divisor);
    Value zeros = math::CountLeadingZerosOp::create(b, arith::SubIOp::create(b, wide, one));
    Value amount = arith::SubIOp::create(b, constant(31 + 64), zeros);
    Value power = arith::ShLIOp::create(b, one, amount);
    multiplier = toI64(UniformOp::create(b, toIndex(arith::CeilDivUIOp::create(b, power, wide))));
    shift = toI64(UniformOp::create(b, toIndex(amount)));
  }

  /// Emits the quotient and the remainder of `dividend`.
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

/// The base class of all distributions of work tiles.
class GridWorkTiles : public WorkTiles {
public:
  GridWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b, Quotients quotients = Quotients::OfAllThreads)
      : b(b), quotients(quotients), nx(program.getGrid()[0]), ny(program.getGrid()[1]), nz(program.getGrid()[2]),
        cta(gpu::BlockIdOp::create(b, gpu::Dimension::x)), ctas(emitCTAs(b, program)), heads(mul(ny, nz)),
        byHeads(divideBy(ny)) {}

  std::array<Value, 3> emitWorkTile(scf::ForOp loop) override {
    auto [x, head] = locate(loop.getInductionVar());
    auto [z, y] = byHeads.divide(head);
    return {x, y, z};
  }

protected:
  /// Emits the number of CTAs that run at once. For a `single` program, emits the number of multiprocessors instead,
  /// which is close to that number.
  static Value emitCTAs(ImplicitLocOpBuilder &b, ProgramOp program) {
    if (!program.getSingle())
      return gpu::GridDimOp::create(b, gpu::Dimension::x);
    Value multiprocessors = NVVM::SmDimOp::create(b, b.getI32Type());
    return arith::IndexCastUIOp::create(b, b.getIndexType(), multiprocessors);
  }

  /// Emits the x of the work tile with the number `item`, and the number of its attention head, counted over all
  /// batches.
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

/// Reads the work list that `tile-order` writes for a program.
class WorkList {
public:
  WorkList(ProgramOp program, ImplicitLocOpBuilder &b)
      : list(program.getList()), b(b), warpgroup(program.getWarpgroup()), numShared(program.getWork()->getNumbers()),
        numOwn(program.getWork()->getOwn()), perEntry(numShared + program.getConsumers() * numOwn) {}

  Value emitLoad(Value place) {
    Value load = memref::LoadOp::create(b, list, place);
    return arith::IndexCastOp::create(b, b.getIndexType(), load);
  }

  /// Emits loads of the numbers of an entry: first those for all warpgroups, which begin `first` words after `begin`,
  /// and then those for this warpgroup alone.
  SmallVector<Value> emitNumbers(Value begin, int64_t first) {
    SmallVector<Value> numbers;
    for (int64_t number = 0; number < numShared; ++number)
      numbers.push_back(emitLoad(add(begin, index(first + number))));
    if (numOwn > 0)
      begin = add(begin, add(index(first + numShared), b.createOrFold<arith::MulIOp>(warpgroup, index(numOwn))));
    for (int64_t number = 0; number < numOwn; ++number)
      numbers.push_back(emitLoad(add(begin, index(number))));
    return numbers;
  }

  /// Returns how many numbers an entry has.
  int64_t countNumbers() const { return perEntry; }

  const Value list;

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }

  ImplicitLocOpBuilder &b;
  Value warpgroup;
  /// In an entry: how many numbers are for all warpgroups, how many are for each warpgroup alone, and how many there
  /// are in all.
  int64_t numShared, numOwn, perEntry;
};

/// The base class of distributions of items. `sharers` heads share an item, which stands for one work tile in each of
/// these heads.
class SharedWorkTiles : public GridWorkTiles {
protected:
  SharedWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b, ListScope scope,
                  Quotients quotients = Quotients::OfAllThreads)
      : GridWorkTiles(program, b, quotients), scope(scope), items(emitItems(program)), sharers(emitSharers()),
        byTiles(divideBy(nx)) {}

  /// Emits the least number of heads whose work tiles are enough to give every CTA `tilesPerCta` of them.
  Value emitFewSharers(int64_t tilesPerCta) {
    Value wanted = arith::CeilDivUIOp::create(b, mul(ctas, index(tilesPerCta)), items);
    return UniformOp::create(b, arith::MinUIOp::create(b, wanted, sharers));
  }

  /// Emits the work tile (x, y, z) of `item` in the head with the number `sharer` among the heads that share the item.
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
  /// Emits the number of items. With parts of query tiles it is the number of entries in the list.
  Value emitItems(ProgramOp program) {
    Value most = scope == ListScope::Tiles ? nx : scope == ListScope::Batches ? mul(nx, nz) : mul(nx, heads);
    if (!program.getWork() || program.getWork()->getParts() == 1)
      return most;
    WorkList list(program, b);
    counter = mul(most, index(getListItemWords(list.countNumbers())));
    return list.emitLoad(add(counter, index(1)));
  }
  Value emitSharers() { return scope == ListScope::Tiles ? heads : scope == ListScope::Batches ? ny : index(1); }

  ListScope scope;

protected:
  /// `counter`: the place in the list of tile.draw's counter, with parts of query tiles.
  Value counter, items, sharers;

private:
  Divisor byTiles;
};

/// Creates the distribution of a `single` program, whose CTAs have one work tile each (SingleWorkTiles.cpp).
std::unique_ptr<WorkTiles> createSingleWorkTiles(ProgramOp program, ImplicitLocOpBuilder &b);

} // namespace mlir::tile

#endif // FLASHC_LIB_DIALECT_TILE_TRANSFORMS_GRIDWORKTILES_H
