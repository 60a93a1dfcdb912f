//===- TileMaps.cpp - tile.map: values that are the same in a row, bounds on the key position ---------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::tile;

/// Whether `value` is an argument of the region that differs between the elements of a row.
static bool isOfColumn(MapOp map, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &map.getBody().front() || argument.getArgNumber() == 1)
    return false;
  return argument.getArgNumber() < 3 || isColTile(map.getRows()[argument.getArgNumber() - 3].getType());
}

/// Whether `value` is the same for all elements of a row: no code of the region computes it from an argument that
/// differs between them. With `inThread`, whether `value` is the same for the elements of a row that one thread holds;
/// then code may also compute it from tile.first_column.
static bool isSame(MapOp map, Value value, bool inThread) {
  SmallVector<Value> pending = {value};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (isOfColumn(map, next))
      return false;
    Operation *op = next.getDefiningOp();
    if (!op || !op->getBlock() || !map.getBody().isAncestor(op->getParentRegion()) || !seen.insert(op).second)
      continue;
    if (inThread && isa<FirstColumnOp>(op))
      continue;
    if (op->getNumRegions() > 0)
      return false;
    llvm::append_range(pending, op->getOperands());
  }
  return true;
}

bool MapOp::isSameInRow(Value value) { return isSame(*this, value, /*inThread=*/false); }
bool MapOp::isSameInThread(Value value) { return isSame(*this, value, /*inThread=*/true); }

namespace {
/// Reads values of a map's region as sums (MapOp::Linear). Caches the results: without a cache n ops could take 2^n
/// steps, since ops share operands.
class SumReader {
public:
  using Linear = MapOp::Linear;

  explicit SumReader(MapOp map) : map(map) {}

  std::optional<Linear> get(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    std::optional<Linear> result = compute(value);
    known[value] = result;
    return result;
  }

private:
  std::optional<Linear> compute(Value value);

  MapOp map;
  llvm::SmallDenseMap<Value, std::optional<Linear>, 8> known;
};
} // namespace

std::optional<MapOp::Linear> SumReader::compute(Value value) {
  if (value == map.getBody().getArgument(1))
    return Linear{1, 0};
  if (value == map.getBody().getArgument(2))
    return Linear{0, 1};
  Region *region = value.getParentRegion(); // null where a conversion has replaced the value's op
  if (!region || !map.getBody().isAncestor(region) || matchPattern(value, m_Constant()) ||
      value.getDefiningOp<FirstColumnOp>())
    return Linear{0, 0};
  Operation *def = value.getDefiningOp();
  std::optional<Linear> ofRow;
  if (map.isSameInRow(value))
    ofRow = Linear{std::nullopt, 0};
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(def);
      cast && !cast.getType().isIndex() && cast.getType().getIntOrFloatBitWidth() < 32)
    return ofRow;
  if (isa_and_nonnull<arith::IndexCastOp, arith::ExtSIOp>(def))
    return get(def->getOperand(0));
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(def))
    return ofRow;
  std::optional<Linear> x = get(def->getOperand(0)), y = get(def->getOperand(1));
  if (!x || !y)
    return std::nullopt;
  bool isKnown = x->i && y->i;
  auto make = [&](int64_t i, int64_t j) {
    if (!llvm::isInt<32>(i) || !llvm::isInt<32>(j))
      return ofRow;
    return std::optional(Linear{isKnown ? std::optional(i) : std::nullopt, j});
  };
  int64_t xi = x->i.value_or(0), yi = y->i.value_or(0);
  if (isa<arith::AddIOp>(def))
    return make(xi + yi, x->j + y->j);
  if (isa<arith::SubIOp>(def))
    return make(xi - yi, x->j - y->j);
  APInt factor;
  if (!matchPattern(def->getOperand(1), m_ConstantInt(&factor)) || !factor.isSignedIntN(16))
    return ofRow;
  return make(xi * factor.getSExtValue(), x->j * factor.getSExtValue());
}

std::optional<MapOp::Linear> MapOp::getLinear(Value value) { return SumReader(*this).get(value); }

std::optional<MapOp::Bound> MapOp::getBound(Value condition) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  BlockArgument j = getBody().getArgument(2);
  if (!compare || (compare.getLhs() == j) == (compare.getRhs() == j))
    return std::nullopt;
  bool isSwapped = compare.getRhs() == j;
  Value limit = isSwapped ? compare.getLhs() : compare.getRhs();
  if (!isSameInRow(limit))
    return std::nullopt;
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::sle:
    return Bound{!isSwapped, limit, 0};
  case arith::CmpIPredicate::sge:
    return Bound{isSwapped, limit, 0};
  case arith::CmpIPredicate::slt:
    return Bound{!isSwapped, limit, isSwapped ? 1 : -1};
  case arith::CmpIPredicate::sgt:
    return Bound{isSwapped, limit, isSwapped ? -1 : 1};
  default:
    return std::nullopt;
  }
}

Value mlir::tile::getMagnitudeOperand(Operation *op) {
  if (isa<math::AbsIOp>(op))
    return op->getOperand(0);
  if (!isa<arith::MaxSIOp>(op))
    return {};
  for (unsigned operand : {0u, 1u}) {
    Value value = op->getOperand(operand);
    auto minus = op->getOperand(1 - operand).getDefiningOp<arith::SubIOp>();
    if (minus && matchPattern(minus.getLhs(), m_Zero()) && minus.getRhs() == value)
      return value;
  }
  return {};
}

namespace {
/// Merges the bounds on j in a conjunction.
struct MergeBounds : OpRewritePattern<arith::AndIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AndIOp op, PatternRewriter &rewriter) const override {
    auto map = dyn_cast<MapOp>(op->getParentOp());
    if (!map || !op.getType().isInteger(1) ||
        llvm::any_of(op->getUsers(), [](Operation *user) { return isa<arith::AndIOp>(user); }))
      return rewriter.notifyMatchFailure(op, "not the root of a conjunction in a tile.map");
    SmallVector<Value> terms, others;
    collectTerms(op, terms);
    SmallVector<MapOp::Bound> bounds[2];
    for (Value term : terms) {
      if (std::optional<MapOp::Bound> bound = map.getBound(term))
        bounds[bound->isUpper].push_back(*bound);
      else
        others.push_back(term);
    }
    if (bounds[0].size() < 2 && bounds[1].size() < 2)
      return rewriter.notifyMatchFailure(op, "no two bounds from one side");
    for (ArrayRef<MapOp::Bound> side : bounds)
      if (!side.empty())
        others.push_back(merge(rewriter, op.getLoc(), map.getBody().getArgument(2), side));
    Value result = others.front();
    for (Value term : ArrayRef(others).drop_front())
      result = arith::AndIOp::create(rewriter, op.getLoc(), result, term);
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  static void collectTerms(Value value, SmallVector<Value> &terms) {
    if (auto conjunction = value.getDefiningOp<arith::AndIOp>()) {
      collectTerms(conjunction.getLhs(), terms);
      collectTerms(conjunction.getRhs(), terms);
    } else {
      terms.push_back(value);
    }
  }

  static Value merge(OpBuilder &b, Location loc, Value j, ArrayRef<MapOp::Bound> side) {
    Value limit;
    for (const MapOp::Bound &bound : side) {
      Value offset = arith::ConstantIndexOp::create(b, loc, bound.offset);
      Value next = b.createOrFold<arith::AddIOp>(loc, bound.limit, offset);
      if (!limit)
        limit = next;
      else if (bound.isUpper)
        limit = arith::MinSIOp::create(b, loc, limit, next);
      else
        limit = arith::MaxSIOp::create(b, loc, limit, next);
    }
    auto predicate = side.front().isUpper ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sge;
    return arith::CmpIOp::create(b, loc, predicate, j, limit);
  }
};

/// Turns a comparison of a function of j with a limit that is the same in the row into a comparison of j with a new
/// limit. The function is x - j, j - x, j + x, j floordiv c, a cast of j, or a chain of such functions. An equality
/// becomes two bounds. Positions are less than kFar. So the limit may be clamped first, which keeps the new limit from
/// wrapping around.
struct IsolateKey : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    auto map = dyn_cast<MapOp>(op->getParentOp());
    if (!map)
      return rewriter.notifyMatchFailure(op, "not in a tile.map");
    arith::CmpIPredicate predicate = op.getPredicate();
    Value key = op.getLhs(), limit = op.getRhs();
    if (map.isSameInRow(key)) {
      std::swap(key, limit);
      predicate = swap(predicate);
    }
    if (!map.isSameInRow(limit) || !isOfKey(map, key))
      return rewriter.notifyMatchFailure(op, "not a comparison of a function of j with what is the same in its row");
    if (isOrder(predicate) && key != map.getBody().getArgument(2)) {
      rewriter.replaceOp(op, isolate(rewriter, map, predicate, key, limit));
      return success();
    }
    bool isEqual = predicate == arith::CmpIPredicate::eq;
    if (!isEqual && predicate != arith::CmpIPredicate::ne)
      return rewriter.notifyMatchFailure(op, "a bound already, or none");
    Value above = isolate(rewriter, map, arith::CmpIPredicate::sge, key, limit);
    Value below = isolate(rewriter, map, arith::CmpIPredicate::sle, key, limit);
    Value result = arith::AndIOp::create(rewriter, op.getLoc(), above, below);
    if (!isEqual)
      result = arith::XOrIOp::create(rewriter, op.getLoc(), result,
                                     constant(rewriter, op.getLoc(), rewriter.getI1Type(), 1));
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  static constexpr int64_t kFar = int64_t(1) << 30;

  static bool isOrder(arith::CmpIPredicate predicate) {
    using P = arith::CmpIPredicate;
    return predicate == P::sle || predicate == P::slt || predicate == P::sge || predicate == P::sgt;
  }
  static arith::CmpIPredicate swap(arith::CmpIPredicate predicate) {
    using P = arith::CmpIPredicate;
    switch (predicate) {
    case P::sle:
      return P::sge;
    case P::slt:
      return P::sgt;
    case P::sge:
      return P::sle;
    case P::sgt:
      return P::slt;
    default:
      return predicate;
    }
  }

  static std::optional<int64_t> getDivisor(Operation *op) {
    APInt divisor;
    if (!isa<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp>(op) ||
        !matchPattern(op->getOperand(1), m_ConstantInt(&divisor)) || !divisor.isSignedIntN(30) ||
        !divisor.isStrictlyPositive())
      return std::nullopt;
    return divisor.getSExtValue();
  }

  /// Whether `key` is a function of j that `isolate` can invert.
  static bool isOfKey(MapOp map, Value key) {
    if (key == map.getBody().getArgument(2))
      return true;
    Operation *op = key.getDefiningOp();
    if (!op || op->getBlock() != &map.getBody().front())
      return false;
    if (isa<arith::AddIOp, arith::SubIOp>(op)) {
      bool isSecond = map.isSameInRow(op->getOperand(0));
      return map.isSameInRow(op->getOperand(1 - isSecond)) && isOfKey(map, op->getOperand(isSecond));
    }
    bool isWiden = isa<arith::IndexCastOp, arith::ExtSIOp>(op) &&
                   (key.getType().isIndex() || key.getType().getIntOrFloatBitWidth() >= 32);
    return (isWiden || getDivisor(op)) && isOfKey(map, op->getOperand(0));
  }

  static Value constant(OpBuilder &b, Location loc, Type type, int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  }

  /// Clamps `limit` to [-far, far], unless it is known to lie there.
  static Value bringNear(OpBuilder &b, MapOp map, Value limit, int64_t far) {
    APInt known;
    if ((matchPattern(limit, m_ConstantInt(&known)) && known.abs().ule(far)) ||
        (far == kFar && limit == map.getBody().getArgument(1)))
      return limit;
    Location loc = limit.getLoc();
    Value most = constant(b, loc, limit.getType(), far), least = constant(b, loc, limit.getType(), -far);
    return arith::MaxSIOp::create(b, loc, arith::MinSIOp::create(b, loc, limit, most), least);
  }

  static Value isolate(OpBuilder &b, MapOp map, arith::CmpIPredicate predicate, Value key, Value limit) {
    using P = arith::CmpIPredicate;
    Location loc = limit.getLoc();
    while (key != map.getBody().getArgument(2)) {
      Operation *op = key.getDefiningOp();
      std::optional<int64_t> divisor = getDivisor(op);
      if (isa<arith::SubIOp>(op) && op->getOperand(0) == map.getBody().getArgument(1)) // i is at least 0
        limit = arith::MaxSIOp::create(b, loc, limit, constant(b, loc, limit.getType(), -kFar));
      else
        limit = bringNear(b, map, limit, kFar / divisor.value_or(1));
      if (divisor) { // j <= limit * c + c - 1, j < limit * c
        limit = arith::MulIOp::create(b, loc, limit, constant(b, loc, limit.getType(), *divisor));
        if (predicate == P::sle || predicate == P::sgt)
          limit = arith::AddIOp::create(b, loc, limit, constant(b, loc, limit.getType(), *divisor - 1));
        key = op->getOperand(0);
        continue;
      }
      if (isa<arith::IndexCastOp, arith::ExtSIOp>(op)) {
        Type type = op->getOperand(0).getType();
        bool isOfIndex = type.isIndex() || limit.getType().isIndex();
        limit = isOfIndex ? arith::IndexCastOp::create(b, loc, type, limit).getResult()
                          : arith::TruncIOp::create(b, loc, type, limit).getResult();
        key = op->getOperand(0);
        continue;
      }
      bool isSecond = map.isSameInRow(op->getOperand(0));
      Value other = op->getOperand(1 - isSecond);
      key = op->getOperand(isSecond);
      if (isa<arith::AddIOp>(op)) {
        limit = arith::SubIOp::create(b, loc, limit, other);
      } else if (isSecond) {
        limit = arith::SubIOp::create(b, loc, other, limit);
        predicate = swap(predicate);
      } else {
        limit = arith::AddIOp::create(b, loc, limit, other);
      }
    }
    return arith::CmpIOp::create(b, loc, predicate, key, limit);
  }
};

/// Rewrites max(x, 0 - x) to |x|, which `convert-tile-to-nvvm` can compute in floating point for consecutive elements.
struct RecognizeMagnitude : OpRewritePattern<arith::MaxSIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::MaxSIOp op, PatternRewriter &rewriter) const override {
    Value operand = getMagnitudeOperand(op);
    if (!isa<MapOp>(op->getParentOp()) || !operand)
      return rewriter.notifyMatchFailure(op, "not of a value and its negative in a tile.map");
    rewriter.replaceOpWithNewOp<math::AbsIOp>(op, operand);
    return success();
  }
};

/// Rewrites |x| <= c to x + c <= 2 c, compared as unsigned numbers. If x is a difference with an operand that is the
/// same in the row, c is added to that operand. If x is a sum of multiples of i and j (getLinear), the comparison stays
/// as it is: a lowering turns bounds on such sums into bit masks. (In 32 bits |-2^31| is negative; in the new form
/// -2^31 counts as large.)
struct CompareMagnitude : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    auto map = dyn_cast<MapOp>(op->getParentOp());
    auto magnitude = op.getLhs().getDefiningOp<math::AbsIOp>();
    APInt number;
    if (!map || !magnitude || !matchPattern(op.getRhs(), m_ConstantInt(&number)))
      return rewriter.notifyMatchFailure(op, "not of a magnitude and a constant in a tile.map");
    using Predicate = arith::CmpIPredicate;
    Predicate predicate = op.getPredicate();
    bool isWithin = predicate == Predicate::slt || predicate == Predicate::sle;
    bool isBeyond = predicate == Predicate::sgt || predicate == Predicate::sge;
    Value x = magnitude.getOperand();
    if ((!isWithin && !isBeyond) || !number.isSignedIntN(30) || map.getLinear(x))
      return rewriter.notifyMatchFailure(op, "not an order, or of a sum of positions");
    bool isStrict = predicate == Predicate::slt || predicate == Predicate::sge;
    int64_t most = number.getSExtValue() - isStrict;
    if (most < 0)
      return rewriter.notifyMatchFailure(op, "of a negative constant");
    auto constant = [&](int64_t value) {
      return arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getIntegerAttr(x.getType(), value));
    };
    auto add = [&](Value value) { return arith::AddIOp::create(rewriter, op.getLoc(), value, constant(most)); };
    Value moved;
    auto difference = x.getDefiningOp<arith::SubIOp>();
    if (difference && map.isSameInRow(difference.getRhs()))
      moved = arith::SubIOp::create(rewriter, op.getLoc(), add(difference.getRhs()), difference.getLhs());
    else if (difference && map.isSameInRow(difference.getLhs()))
      moved = arith::SubIOp::create(rewriter, op.getLoc(), add(difference.getLhs()), difference.getRhs());
    else
      moved = add(x);
    rewriter.replaceOpWithNewOp<arith::CmpIOp>(op, isWithin ? Predicate::ule : Predicate::ugt, moved,
                                               constant(2 * most));
    return success();
  }
};
} // namespace

void MapOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeBounds, IsolateKey, RecognizeMagnitude, CompareMagnitude>(context);
}
