//===- Reference.cpp - Algorithm 0 in double precision ------------------------------------------------------------===//

#include "flashc/Execution/Reference.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

static llvm::APFloat widen(llvm::APFloat value) {
  bool losesInfo;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return value;
}

static void widenFloats(ModuleOp module) {
  Type wide = Float64Type::get(module.getContext());
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FloatType) -> std::optional<Type> { return wide; });
  replacer.addReplacement(
      [&](FloatAttr attr) -> std::optional<Attribute> { return FloatAttr::get(wide, widen(attr.getValue())); });
  replacer.addReplacement([&](DenseFPElementsAttr attr) -> std::optional<Attribute> {
    return attr.mapValues(wide, [](const llvm::APFloat &value) { return widen(value).bitcastToAPInt(); });
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);

  // Removes the conversions between float types, which would now convert f64 to f64.
  module.walk([](Operation *op) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

FailureOr<OwningOpRef<ModuleOp>> flashc::makeReference(ModuleOp module) {
  OwningOpRef<ModuleOp> reference = module.clone();
  PassManager pm(module.getContext());
  pm.addPass(flash::createDifferentiateCaptures());
  pm.addPass(flash::createDecompose());
  if (failed(pm.run(*reference)))
    return failure();
  widenFloats(*reference);
  if (failed(verify(*reference)))
    return module.emitError("expected a function whose floats can be widened to f64 for the reference");
  return reference;
}
