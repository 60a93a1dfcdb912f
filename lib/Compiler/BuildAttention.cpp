//===- BuildAttention.cpp - an attention from plain numbers -------------------------------------------------------===//

#include "flashc/Compiler/BuildAttention.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace flashc;

/// Fills in the mask j <= i + Nk - Nq. `shift` is Nk - Nq.
static void buildCausalMask(OpBuilder &b, Location loc, Region &mask, Value shift) {
  OpBuilder::InsertionGuard guard(b);
  Type index = b.getIndexType();
  Block *block = b.createBlock(&mask, mask.end(), {index, index, index, index}, {loc, loc, loc, loc});
  Value i = block->getArgument(2), j = block->getArgument(3);
  Value last = arith::AddIOp::create(b, loc, i, shift);
  flash::YieldOp::create(b, loc, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, j, last));
}

static void buildBody(OpBuilder &b, Location loc, func::FuncOp function, const AttentionSpec &spec) {
  ValueRange arguments = function.getArguments();
  Value q = arguments[0], k = arguments[1], v = arguments[2], shift;
  if (spec.mask == AttentionSpec::Mask::Causal) {
    Value queries = tensor::DimOp::create(b, loc, q, 2), keys = tensor::DimOp::create(b, loc, k, 2);
    shift = arith::SubIOp::create(b, loc, keys, queries);
  }
  auto attention = flash::AttentionOp::create(b, loc, function.getResultTypes(), q, k, v, /*outs=*/ValueRange(),
                                              b.getF32FloatAttr(spec.scale));
  if (shift)
    buildCausalMask(b, loc, attention.getMask(), shift);
  func::ReturnOp::create(b, loc, attention.getResults());
}

FailureOr<OwningOpRef<ModuleOp>> flashc::buildAttention(MLIRContext &context, const AttentionSpec &spec) {
  Location loc = UnknownLoc::get(&context);
  // A type with a negative extent cannot even be made; what else is wrong, the op's verifier says.
  for (int64_t extent : {spec.headDim, spec.valueDim, spec.queryHeads, spec.keyHeads})
    if (extent <= 0)
      return emitError(loc) << "expected head dimensions and numbers of heads to be positive, got " << extent;
  context.loadDialect<flash::FlashDialect, func::FuncDialect>();
  constexpr int64_t any = ShapedType::kDynamic;
  auto tensor = [&](Type element, ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, element); };
  Type inputs[] = {tensor(spec.dtype, {any, spec.queryHeads, any, spec.headDim}),
                   tensor(spec.dtype, {any, spec.keyHeads, any, spec.headDim}),
                   tensor(spec.dtype, {any, spec.keyHeads, any, spec.valueDim})};
  Type outputs[] = {tensor(spec.dtype, {any, spec.queryHeads, any, spec.valueDim}),
                    tensor(Float32Type::get(&context), {any, spec.queryHeads, any})};

  OpBuilder b(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(b, loc, "attention", b.getFunctionType(inputs, outputs));
  b.setInsertionPointToStart(function.addEntryBlock());
  buildBody(b, loc, function, spec);
  if (failed(verify(*module)))
    return failure();
  return module;
}
