//===- Persist.cpp - CTAs that work on one tile of queries after another ------------------------------------------===//

#include "Utils.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PERSIST
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Divides by a number that is known before the loop: n / d = n * m >> s for n and d below 2^31, where 2^(l-1) < d <= 2^l,
/// s = 31 + l and m = ceil(2^s / d) (Granlund and Montgomery, Division by invariant integers using multiplication, 1994).
/// m and s are made uniform once; a quotient is then a multiplication and a shift, which ptxas sees to be the same in
/// every thread. It does not see that of a division.
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
        paired(program.getPaired()) {}

  /// CTA c of n works on the points c, c + n, c + 2n, ... or, paired, on the pairs of this number.
  scf::ForOp emitLoop() {
    byHeads.emplace(b, ny);
    byTiles.emplace(b, paired ? b.createOrFold<arith::AddIOp>(nx, nx) : nx);
    Value cta = gpu::BlockIdOp::create(b, gpu::Dimension::x), ctas = gpu::GridDimOp::create(b, gpu::Dimension::x);
    heads = mul(ny, nz);
    Value count = mul(nx, heads);
    if (!paired)
      return scf::ForOp::create(b, cta, count, ctas);
    // Point u of this CTA is half u mod 2 of its pair u / 2, which is pair cta + u / 2 * ctas of all. The last point
    // may be without another. If there is a CTA for every point, pairs would leave half of them idle.
    first = cta, stride = ctas;
    Value zero = index(0), one = index(1);
    isSpread = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, count, ctas);
    Value pairs = shr(add(count, one)), mine = ceilDiv(sub(max(pairs, cta), cta), ctas);
    Value isOdd = arith::AndIOp::create(b, count, one);
    Value hasLast = equal(arith::RemUIOp::create(b, sub(pairs, one), ctas), cta);
    Value missing = arith::SelectOp::create(b, hasLast, isOdd, zero);
    Value length = arith::SelectOp::create(b, isSpread, one, sub(add(mine, mine), missing));
    return scf::ForOp::create(b, zero, UniformOp::create(b, length), one);
  }

  /// The point (x, y, z) of an iteration.
  std::array<Value, 3> emitPoint(Value item) {
    auto [x, head] = paired ? splitPaired(item) : split(item);
    auto [z, y] = byHeads->divide(head);
    return {x, y, z};
  }

private:
  /// x runs fastest: CTAs that run at the same time read the same keys.
  std::pair<Value, Value> split(Value item) {
    auto [head, x] = byTiles->divide(item);
    return {x, head};
  }

  /// Two heads side by side have 2 nx points, in the order (x = 0 of one, nx - 1 of the other), (1, nx - 2), ... A last
  /// head without another has its points in order.
  std::pair<Value, Value> splitPaired(Value item) {
    Value pair = add(first, mul(shr(item), stride));
    Value parity = arith::AndIOp::create(b, item, index(1)), number = add(add(pair, pair), parity);
    number = arith::SelectOp::create(b, isSpread, first, number);
    Value half = arith::AndIOp::create(b, number, index(1));
    auto [headPair, inPair] = byTiles->divide(number);
    Value head = add(headPair, headPair);
    Value isAlone = equal(head, sub(heads, index(1)));
    Value x = shr(inPair), mirrored = sub(sub(nx, index(1)), x), isSecond = equal(half, index(1));
    x = arith::SelectOp::create(b, isSecond, mirrored, x);
    x = arith::SelectOp::create(b, isAlone, inPair, x);
    half = arith::SelectOp::create(b, isAlone, index(0), half);
    return {x, add(head, half)};
  }

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value max(Value x, Value y) { return arith::MaxUIOp::create(b, x, y); }
  Value shr(Value x) { return arith::ShRUIOp::create(b, x, index(1)); }
  Value ceilDiv(Value x, Value y) { return arith::CeilDivUIOp::create(b, x, y); }
  Value equal(Value x, Value y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y); }

  ImplicitLocOpBuilder &b;
  Value nx, ny, nz, heads, first, stride, isSpread;
  std::optional<Divisor> byHeads, byTiles;
  bool paired;
};
} // namespace

/// A tile that is loaded once per point (of Q) into a ring of one slot is loaded after those that its first product reads
/// with it: their slots are empty earlier, while the consumers still work on the last point. A second slot is empty
/// earlier still.
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
  Points points(program, b);
  scf::ForOp items = points.emitLoop();
  b.setInsertionPointToStart(items.getBody());
  std::array<Value, 3> point = points.emitPoint(items.getInductionVar());
  for (Operation *op : ops)
    op->moveBefore(items.getBody()->getTerminator());
  items.walk([&](gpu::BlockIdOp id) {
    id.replaceAllUsesWith(point[static_cast<unsigned>(id.getDimension())]);
    id.erase();
  });
  delayPrivateLoads(items);
  program.getGridMutable().clear();
  program.setPaired(false);
}

namespace {
struct Persist : tile::impl::PersistBase<Persist> {
  using PersistBase::PersistBase;

  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (program.getGrid().empty())
        return;
      persistProgram(program);
      ++numPersistent;
    });
  }
};
} // namespace
