//===- FoldProducts.td - a step without scores --------------------------------------------------------------------===//
#ifndef FLASHC_TEST_FOLD_PRODUCTS_TD
#define FLASHC_TEST_FOLD_PRODUCTS_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "flashc/Dialect/Flash/IR/FlashStep.td"

def Test_Dialect : Dialect {
  let name = "test";
  let cppNamespace = "::flashc::test";
  let dependentDialects = ["::mlir::flash::FlashDialect"];
}

def Test_FoldProductsOp : Op<Test_Dialect, "fold_products", Flash_Step.traits # [Pure]> {
  let summary = "acc + (Q K^T) V over a block of keys: attention without scale, mask and softmax";
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, AnyRankedTensor:$acc,
                       Index:$b0, Index:$h0, Index:$i0, Index:$j0);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    mlir::MutableOperandRange getDpsInitsMutable() { return getAccMutable(); }
    mlir::flash::StepDim getStreamedDim() { return mlir::flash::StepDim::J; }
    mlir::SmallVector<mlir::flash::StepOperand> getStepInputs();
    mlir::SmallVector<mlir::flash::StepOperand> getStepState();
    mlir::OperandRange getPosition() { return getOperands().take_back(4); }
    int64_t getGroup() { return 1; }
  }];
  let extraClassDefinition = Flash_Step.definition;
}

#endif // FLASHC_TEST_FOLD_PRODUCTS_TD
