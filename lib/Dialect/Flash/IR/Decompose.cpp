//===- Decompose.cpp - shared helpers of the decompositions to linalg ---------------------------------------------===//

#include "Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;

Value decompose::f32Constant(ImplicitLocOpBuilder &b, float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

Value decompose::widen(ImplicitLocOpBuilder &b, Value x) {
  return x.getType().isF32() ? x : Value(arith::ExtFOp::create(b, b.getF32Type(), x));
}

Value decompose::narrow(ImplicitLocOpBuilder &b, Value x, Type type) {
  return type.isF32() ? x : Value(arith::TruncFOp::create(b, type, x));
}

Value decompose::filledTensor(ImplicitLocOpBuilder &b, ArrayRef<OpFoldResult> sizes, float value) {
  Value empty = tensor::EmptyOp::create(b, sizes, b.getF32Type());
  return linalg::FillOp::create(b, f32Constant(b, value), empty).getResult(0);
}

Value decompose::generic(ImplicitLocOpBuilder &b, unsigned numLoops, ArrayRef<Indexed> ins, Indexed out,
                         function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body, int64_t groupSize) {
  SmallVector<utils::IteratorType> iterators(numLoops, utils::IteratorType::reduction);
  for (unsigned loop : out.second)
    if (loop != KeyHead)
      iterators[loop] = utils::IteratorType::parallel;
  auto mapOf = [&](const Indexed &operand) {
    SmallVector<AffineExpr> exprs;
    for (unsigned loop : operand.second)
      exprs.push_back(loop == KeyHead ? b.getAffineDimExpr(H).floorDiv(groupSize) : b.getAffineDimExpr(loop));
    return AffineMap::get(numLoops, 0, exprs, b.getContext());
  };
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Indexed &input : ins) {
    inputs.push_back(input.first);
    maps.push_back(mapOf(input));
  }
  maps.push_back(mapOf(out));
  auto op = linalg::GenericOp::create(b, TypeRange{out.first.getType()}, inputs, ValueRange{out.first}, maps, iterators,
                                      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
                                        ImplicitLocOpBuilder inner(loc, nested);
                                        linalg::YieldOp::create(inner, body(inner, arguments));
                                      });
  return op.getResult(0);
}

/// Emits `acc + factor * sum(a * x)`. If `isWeight`, leaves out the products in which `a` is 0, so that `x` may be NaN
/// there.
static Value addProducts(ImplicitLocOpBuilder &b, const Indexed &a, const Indexed &x, const Indexed &acc,
                         int64_t groupSize, float factor, bool isWeight) {
  Type factorType = getElementTypeOrSelf(x.first.getType());
  return generic(
      b, 5, {a, x}, acc,
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        // P arrives in f32 and is rounded to V's type here; Q already has K's type.
        Value left = args[0].getType() == factorType ? args[0] : narrow(b, args[0], factorType);
        // Creates each op in a statement of its own: the order in which C++ evaluates arguments differs between
        // compilers.
        Value wideLeft = widen(b, left);
        Value wideRight = widen(b, args[1]);
        Value product = arith::MulFOp::create(b, wideLeft, wideRight);
        if (factor != 1.0f)
          product = arith::MulFOp::create(b, product, f32Constant(b, factor));
        Value sum = arith::AddFOp::create(b, args[2], product);
        if (!isWeight)
          return sum;
        Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, wideLeft, f32Constant(b, 0.0f));
        return arith::SelectOp::create(b, isNone, args[2], sum);
      },
      groupSize);
}

Value decompose::multiplyAccumulate(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize,
                                    float factor) {
  return addProducts(b, a, x, acc, groupSize, factor, /*isWeight=*/false);
}

Value decompose::addWeighted(ImplicitLocOpBuilder &b, Indexed a, Indexed x, Indexed acc, int64_t groupSize,
                             float factor) {
  return addProducts(b, a, x, acc, groupSize, factor, /*isWeight=*/true);
}

Value decompose::emitQK(ImplicitLocOpBuilder &b, ScoresOpInterface op) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), op.getQ());
  sizes.back() = tensor::getMixedSize(b, b.getLoc(), op.getK(), 2);
  return multiplyAccumulate(b, {op.getQ(), {B, H, I, D}}, {op.getK(), {B, KeyHead, J, D}},
                            {filledTensor(b, sizes, 0.0f), {B, H, I, J}}, op.getGroup());
}

SmallVector<Value> decompose::emitPosition(ImplicitLocOpBuilder &b, ArrayRef<Value> at) {
  SmallVector<Value> position;
  for (auto [dim, offset] : llvm::enumerate(at)) {
    Value index = linalg::IndexOp::create(b, dim);
    position.push_back(offset ? b.createOrFold<arith::AddIOp>(offset, index) : index);
  }
  return position;
}

Value decompose::emitScaled(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value product) {
  return arith::MulFOp::create(b, product, f32Constant(b, op.getScale().convertToFloat()));
}

Value decompose::emitScores(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value qk, ArrayRef<Value> at) {
  return generic(b, 4, {}, {qk, {B, H, I, J}}, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
    Value s = emitScaled(b, op, args[0]);
    SmallVector<Value> position;
    if (op.hasScore() || op.hasMask())
      position = emitPosition(b, at);
    if (op.hasScore()) {
      SmallVector<Value> arguments{s};
      arguments.append(position);
      s = inlineRegion(b, op.getScore(), arguments);
    }
    if (op.hasMask())
      s = arith::SelectOp::create(b, inlineRegion(b, op.getMask(), position), s, f32Constant(b, kNegInf));
    return s;
  });
}

Value decompose::added(ImplicitLocOpBuilder &b, ValueRange args) { return arith::AddFOp::create(b, args[1], args[0]); }

Value decompose::emitWeight(ImplicitLocOpBuilder &b, Value s, Value lse) {
  Value zero = f32Constant(b, 0.0f), none = f32Constant(b, kNegInf);
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, lse, none);
  Value isHidden = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, s, none);
  isEmpty = arith::OrIOp::create(b, isEmpty, isHidden);
  Value weight = math::ExpOp::create(b, arith::SubFOp::create(b, s, lse));
  return arith::SelectOp::create(b, isEmpty, zero, weight);
}

Value decompose::emitDropped(ImplicitLocOpBuilder &b, ScoresOpInterface op, Value values, ArrayRef<Value> at) {
  std::optional<Dropout> dropout = op.getDropout();
  if (!dropout)
    return values;
  auto read = [&](int64_t index) -> Value {
    return tensor::ExtractOp::create(b, dropout->philox, arith::ConstantIndexOp::create(b, index).getResult());
  };
  Value seed = read(0), offset = read(1);
  Value empty = tensor::EmptyOp::create(b, tensor::getMixedSizes(b, b.getLoc(), values), b.getF32Type());
  return generic(
      b, 4, {{values, {B, H, I, J}}}, {empty, {B, H, I, J}}, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        Value isKept = emitIsKept(b, b.getLoc(), *dropout, seed, offset, emitPosition(b, at));
        // 256 and the divisor are exact in f32, so that code that computes in f64 gets an exact factor.
        Value divisor = f32Constant(b, static_cast<float>(256 - dropout->getThreshold()));
        Value kept = arith::DivFOp::create(b, arith::MulFOp::create(b, args[0], f32Constant(b, 256.0f)), divisor);
        return arith::SelectOp::create(b, isKept, kept, f32Constant(b, 0.0f));
      });
}

void decompose::castResults(ImplicitLocOpBuilder &b, MutableArrayRef<Value> results, Operation *op) {
  for (auto [result, type] : llvm::zip_equal(results, op->getResultTypes()))
    if (result.getType() != type)
      result = tensor::CastOp::create(b, type, result);
}

Value mlir::flash::inlineRegion(OpBuilder &b, Region &region, ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    b.clone(op, mapping);
  return mapping.lookupOrDefault(cast<YieldOp>(region.front().getTerminator()).getValue());
}

Value mlir::flash::emitGroupSums(OpBuilder &builder, Location loc, Value c, OpFoldResult keyHeads, int64_t groupSize) {
  if (groupSize == 1)
    return c;
  ImplicitLocOpBuilder b(loc, builder);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, c);
  sizes[1] = keyHeads;
  // The third loop is over j. If there is a fourth loop, it is over d.
  SmallVector<unsigned> in{0, H, 2}, out{0, KeyHead, 2};
  if (sizes.size() == 4) {
    in.push_back(3);
    out.push_back(3);
  }
  return generic(b, sizes.size(), {{c, in}}, {filledTensor(b, sizes, 0.0f), out}, added, groupSize);
}
