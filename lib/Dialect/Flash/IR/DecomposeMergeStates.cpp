//===- DecomposeMergeStates.cpp - the merge of partial results as linalg ------------------------------------------===//
//
//   flash.merge_states   m = max(lse), l = sum(exp(lse - m)), o = sum(exp(lse - m) o) / l, lse = m + log(l)
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Decompose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;

static Value isNegInf(ImplicitLocOpBuilder &b, Value x) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, f32Constant(b, kNegInf));
}

/// Emits exp(lse - m), which is 0 where lse is -inf, even if m is -inf too.
static Value emitPartWeight(ImplicitLocOpBuilder &b, Value lse, Value m) {
  Value isEmpty = isNegInf(b, m), zero = f32Constant(b, 0.0f);
  Value shift = arith::SelectOp::create(b, isEmpty, zero, m);
  return math::ExpOp::create(b, arith::SubFOp::create(b, lse, shift));
}

namespace {
/// The merge on tensors. The fourth loop is over parts.
class StateMerger {
public:
  StateMerger(ImplicitLocOpBuilder &b, Value o, Value lse, Value sinks) : b(b), o(o), lse(lse), sinks(sinks) {
    sizes = tensor::getMixedSizes(b, b.getLoc(), o);
    sizes.erase(sizes.begin());
  }

  SmallVector<Value> merge(Type outputType) {
    m = emitMax(), l = emitSum();
    return {emitOutput(emitWeightedSum(), outputType), emitLse()};
  }

private:
  Value filledRows(float value) { return filledTensor(b, ArrayRef(sizes).drop_back(), value); }

  Value emitMax() {
    Value first = filledRows(kNegInf);
    if (sinks)
      first =
          generic(b, 3, {{sinks, {H}}}, {first, rows}, [](ImplicitLocOpBuilder &, ValueRange args) { return args[0]; });
    return generic(b, 4, {{lse, partRows}}, {first, rows}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::MaximumFOp::create(b, args[1], args[0]);
    });
  }

  Value emitSum() {
    auto add = [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::AddFOp::create(b, args[2], emitPartWeight(b, args[0], args[1]));
    };
    Value first = filledRows(0.0f);
    if (sinks)
      first = generic(b, 3, {{sinks, {H}}, {m, rows}}, {first, rows}, add);
    return generic(b, 4, {{lse, partRows}, {m, rows}}, {first, rows}, add);
  }

  Value emitWeightedSum() {
    return generic(b, 5, {{o, {J, B, H, I, D}}, {lse, partRows}, {m, rows}},
                   {filledTensor(b, sizes, 0.0f), {B, H, I, D}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                     Value element = widen(b, args[0]), weight = emitPartWeight(b, args[1], args[2]);
                     Value product = arith::MulFOp::create(b, element, weight);
                     // The output of a part may be NaN if the part has no weight.
                     Value isEmpty = isNegInf(b, args[1]), zero = f32Constant(b, 0.0f);
                     product = arith::SelectOp::create(b, isEmpty, zero, product);
                     return arith::AddFOp::create(b, args[3], product);
                   });
  }

  /// Emits `acc` / l, rounded to `type`. The fourth of these loops is over columns.
  Value emitOutput(Value acc, Type type) {
    SmallVector<unsigned> all{0, 1, 2, 3};
    Value empty = tensor::EmptyOp::create(b, sizes, type);
    return generic(b, 4, {{acc, all}, {l, rows}}, {empty, all}, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, args[1], f32Constant(b, 0.0f));
      Value divisor = arith::SelectOp::create(b, isEmpty, f32Constant(b, 1.0f), args[1]);
      return narrow(b, arith::DivFOp::create(b, args[0], divisor), type);
    });
  }

  Value emitLse() {
    return generic(b, 3, {{l, rows}}, {m, rows}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::AddFOp::create(b, args[1], math::LogOp::create(b, args[0]));
    });
  }

  ImplicitLocOpBuilder &b;
  Value o, lse, sinks, m, l;
  SmallVector<OpFoldResult> sizes; // of the output
  const SmallVector<unsigned> rows{B, H, I}, partRows{J, B, H, I};
};
} // namespace

static Value getTensor(ImplicitLocOpBuilder &b, Value buffer) {
  auto type = buffer ? dyn_cast<MemRefType>(buffer.getType()) : MemRefType();
  if (!type)
    return buffer;
  return bufferization::ToTensorOp::create(b, RankedTensorType::get(type.getShape(), type.getElementType()), buffer,
                                           /*restrict=*/true);
}

FailureOr<SmallVector<Value>> MergeStatesOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value o = getTensor(b, getOParts()), lse = getTensor(b, getLseParts()), sinks = getTensor(b, getSinks());
  SmallVector<Value> results = StateMerger(b, o, lse, sinks).merge(getOutputType(0).getElementType());
  if (hasTensorSemantics()) {
    castResults(b, results, *this);
    return results;
  }
  for (auto [result, out] : llvm::zip_equal(results, getOuts())) {
    auto write = bufferization::MaterializeInDestinationOp::create(b, result, out);
    write.setRestrict(true);
    write.setWritable(true);
  }
  return SmallVector<Value>();
}
