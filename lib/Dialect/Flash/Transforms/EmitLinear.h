//===- EmitLinear.h - linear combinations as IR -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_EMITLINEAR_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_EMITLINEAR_H

#include "flashc/Analysis/LinearExpr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {

/// Emits the value of `expr` as an index.
inline Value emitLinear(ImplicitLocOpBuilder &b, const LinearExpr &expr) {
  Value sum = arith::ConstantIndexOp::create(b, expr.getConstant());
  for (const LinearExpr::Term &term : expr.getTerms()) {
    Value value = term.value;
    if (!value.getType().isIndex())
      value = arith::IndexCastOp::create(b, b.getIndexType(), value);
    value = b.createOrFold<arith::MulIOp>(value, arith::ConstantIndexOp::create(b, term.coefficient));
    sum = b.createOrFold<arith::AddIOp>(value, sum);
  }
  return sum;
}

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_EMITLINEAR_H
