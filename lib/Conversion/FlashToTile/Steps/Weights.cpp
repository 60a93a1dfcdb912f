//===- Weights.cpp - probabilities from the log-sum-exp, on tiles -------------------------------------------------===//

#include "Steps/Weights.h"
#include "Regions/ScoreMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

static bool isOfQueries(const LoopNest &nest) { return nest.getStep().getResidentDim() == flash::StepDim::I; }

/// Loads the element that an operand has for a query. If the query does not exist, loads the last element instead.
static Value loadResidentElement(KernelFrame &frame, StringRef name, Value position) {
  ImplicitLocOpBuilder &b = frame.b;
  Operation *step = frame.nest.getStep();
  const NestOperand &operand = frame.nest.getOperand(name);
  Value extent = frame.scalars.getExtent(b, step, operand.array, 2);
  if (!extent)
    return {};
  Value last = arith::SubIOp::create(b, extent, frame.index(1));
  return frame.scalars.loadElement(b, step, operand.array,
                                   {frame.batch, frame.head, arith::MinSIOp::create(b, position, last)});
}

/// Emits, for each row of the tile, the element that operand `name` has for the row's query. Null after an error.
Value flashc::emitRowsOfQueries(KernelFrame &frame, StringRef name) {
  ImplicitLocOpBuilder &b = frame.b;
  auto rows = tile::RowsOp::create(b, frame.getRowType(), frame.row);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  Value element = loadResidentElement(frame, name, body->getArgument(0));
  if (!element)
    return {};
  tile::YieldOp::create(b, element);
  return rows.getResult();
}

Value flashc::emitWithQueries(KernelFrame &frame, Value visit, Value position, Value tile, StringRef name, Value values,
                              llvm::function_ref<Value(Value, Value)> compute) {
  ImplicitLocOpBuilder &b = frame.b;
  bool hasValues = values != nullptr;
  Value isMasked = hasValues ? Value() : frame.emitIsMasked(visit);
  auto map = tile::MapOp::create(b, tile.getType(), /*offset=*/Type(), tile,
                                 hasValues ? ValueRange(values) : ValueRange(), frame.row, position);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types{b.getF32Type(), b.getIndexType(), b.getIndexType()};
  if (hasValues)
    types.push_back(b.getF32Type());
  Block *body = b.createBlock(&map.getBody(), {}, types, SmallVector<Location>(types.size(), b.getLoc()));
  Value element =
      hasValues ? Value(body->getArgument(3)) : frame.loadStreamedElement(name, body->getArgument(2), isMasked);
  if (!element)
    return {};
  tile::YieldOp::create(b, compute(body->getArgument(0), element));
  return map.getResult();
}

/// Emits 2^(factor * s - log2(e) * lse). The result is 0 for a query whose log-sum-exp is -inf, since such a query has
/// seen no key. The rounding error of the multiply-add is in proportion to the log-sum-exp. It does no harm, since lse
/// has an error of the same proportion.
static Value emitExponentials(KernelFrame &frame, Value visit, Value position, Value scores, double factor, Value lse) {
  ImplicitLocOpBuilder &b = frame.b;
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  };
  bool isShift = lse && !isOfQueries(frame.nest);
  return emitWithQueries(frame, visit, position, scores, "lse", lse, [&](Value score, Value element) -> Value {
    Value shift = element;
    if (!isShift) {
      Value lowest = constant(-std::numeric_limits<double>::infinity());
      Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, element, lowest);
      shift = arith::MulFOp::create(b, element, constant(-llvm::numbers::log2e));
      shift = arith::SelectOp::create(b, isEmpty, lowest, shift);
    }
    Value exponent = math::FmaOp::create(b, score, constant(factor), shift);
    return math::Exp2Op::create(b, exponent);
  });
}

Value flashc::emitWeights(KernelFrame &frame, Value visit, Value position, Value products, Value lse) {
  double factor = frame.regions.getScale();
  if (frame.regions.hasScoreMap()) {
    tile::MapOp map = frame.regions.emitScore(products, position, frame.emitIsMasked(visit));
    if (!map)
      return {};
    ScoreMap simple = simplifyScoreMap(map, /*canSplit=*/false, /*toProduct=*/false, frame.nest.mask,
                                       /*rowsAreKeys=*/!isOfQueries(frame.nest));
    products = simple.map.getResult(), factor = simple.factor;
  }
  Value exponentials = emitExponentials(frame, visit, position, products, factor * llvm::numbers::log2e, lse);
  if (!exponentials)
    return {};
  auto masked = frame.emitWhereMasked(visit, exponentials, [&]() -> FailureOr<SmallVector<Value>> {
    Value kept = frame.regions.emitMask(exponentials, position, 0.0);
    if (!kept)
      return failure();
    return SmallVector<Value>{kept};
  });
  return succeeded(masked) ? masked->front() : Value();
}
