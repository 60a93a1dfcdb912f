//===- FoldProducts.cpp - a step without scores, from L1 to tiles -------------------------------------------------===//
//
// This file defines an op of another dialect, with its L1 tiling, its linalg form and its tile code. It shows that the
// step of a loop need not compute scores.
//===--------------------------------------------------------------------------------------------------------------===//

#include "FoldProducts.h"
#include "Decompose.h"
#include "Steps/TileStep.h"
#include "flashc/Dialect/Flash/IR/StepTiling.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace flashc;
using namespace flashc::test;
using flash::StepDim;

#include "FoldProductsDialect.h.inc"
#define GET_OP_CLASSES
#include "FoldProducts.h.inc"

#include "FoldProductsDialect.cpp.inc"
#define GET_OP_CLASSES
#include "FoldProducts.cpp.inc"

//===--------------------------------------------------------------------------------------------------------------===//
// L1
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<flash::StepOperand> FoldProductsOp::getStepInputs() {
  return {{"q", 0, {StepDim::B, StepDim::H, StepDim::I, StepDim::Whole}},
          {"k", 1, {StepDim::B, StepDim::H, StepDim::J, StepDim::Whole}},
          {"v", 2, {StepDim::B, StepDim::H, StepDim::J, StepDim::Whole}}};
}

SmallVector<flash::StepOperand> FoldProductsOp::getStepState() {
  return {{"acc", 3, {StepDim::B, StepDim::H, StepDim::I, StepDim::Whole}}};
}

FailureOr<SmallVector<Value>> FoldProductsOp::decomposeOperation(OpBuilder &builder) {
  using namespace flash::decompose;
  ImplicitLocOpBuilder b(getLoc(), builder);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, getLoc(), getQ());
  sizes.back() = tensor::getMixedSize(b, getLoc(), getK(), 2);
  Value products = multiplyAccumulate(b, {getQ(), {B, H, I, D}}, {getK(), {B, H, J, D}},
                                      {filledTensor(b, sizes, 0.0f), {B, H, I, J}}, /*groupSize=*/1);
  return SmallVector<Value>{multiplyAccumulate(b, {products, {B, H, I, J}}, {getV(), {B, H, J, D}},
                                               {getAcc(), {B, H, I, D}}, /*groupSize=*/1)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tiles
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
class FoldProducts : public TileStep {
public:
  using TileStep::TileStep;

  SmallVector<Value> emitIdentity() override {
    return {frame.splat(frame.getAccType(nest.getOperand("v").getCols()), 0.0)};
  }

  FailureOr<SmallVector<Value>> emit(Value visit, ValueRange state) override {
    Value key = frame.visits.emitPosition(b, visit);
    RankedTensorType type = frame.getAccType(nest.streamedTile);
    Value products = multiply(type, frame.getResident("q"), frame.loadStreamed("k", key), /*acc=*/{}, /*stage=*/0);
    Type operand = RankedTensorType::get(type.getShape(), nest.elementType, tile::OperandAAttr::get(b.getContext()));
    Value weights = tile::ToOperandAOp::create(b, operand, products);
    return SmallVector<Value>{
        multiply(state[0].getType(), weights, frame.loadStreamed("v", key), state[0], /*stage=*/1)};
  }

  LogicalResult emitOutputs(ValueRange state) override {
    for (const NestOutput &output : nest.outputs)
      frame.store(state[0], output.argument, /*isMatrix=*/true);
    return success();
  }

private:
  Value multiply(Type type, Value lhs, Value rhs, Value acc, int64_t stage) {
    auto token = tile::TokenType::get(b.getContext(), cast<RankedTensorType>(type));
    auto product =
        tile::MmaAsyncOp::create(b, token, lhs, rhs, acc, /*ones=*/Value(), /*transpose_b=*/stage == 0, stage);
    return tile::MmaWaitOp::create(b, type, product, /*pending=*/0);
  }
};

struct Model : TileStepOpInterface::ExternalModel<Model, FoldProductsOp> {
  std::unique_ptr<TileStep> makeTileStep(Operation *, KernelFrame &frame) const {
    return std::make_unique<FoldProducts>(frame);
  }
  StepShape getStepShape(Operation *, const LoopNest &nest) const {
    return {nest.getOperand("q").getCols(), nest.getOperand("v").getCols(),
            KernelOutputs{/*hasLse=*/false, /*hasInputType=*/false}};
  }
};
} // namespace

void test::TestDialect::initialize() {
  addOperations<FoldProductsOp>();
  FoldProductsOp::attachInterface<Model>(*getContext());
}

void test::registerTestDialect(DialectRegistry &registry) { registry.insert<TestDialect>(); }
