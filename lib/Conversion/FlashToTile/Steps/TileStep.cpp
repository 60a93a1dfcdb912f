//===- TileStep.cpp - the step class of each op -------------------------------------------------------------------===//

#include "Steps/TileStep.h"
#include "Steps/ColumnSumsStep.h"
#include "Steps/ForwardStep.h"
#include "Steps/GradientStep.h"
#include "flashc/Conversion/Passes.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;
using namespace flashc;

#include "Steps/TileStepInterface.cpp.inc"

namespace {
/// Implements the interface of ops whose step is of class `StepTy`.
template <typename OpTy, typename StepTy, StepShape (*getShape)(const LoopNest &)>
struct Model : TileStepOpInterface::ExternalModel<Model<OpTy, StepTy, getShape>, OpTy> {
  std::unique_ptr<TileStep> makeTileStep(Operation *, KernelFrame &frame) const {
    return std::make_unique<StepTy>(frame);
  }
  StepShape getStepShape(Operation *, const LoopNest &nest) const { return getShape(nest); }
};
} // namespace

void flashc::registerTileSteps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, flash::FlashDialect *) {
    using namespace flash;
    OnlineAttentionOp::attachInterface<Model<OnlineAttentionOp, ForwardStep, getForwardShape>>(*context);
    AccumulateColumnSumsOp::attachInterface<Model<AccumulateColumnSumsOp, ColumnSumsStep, getColumnSumsShape>>(
        *context);
    AccumulateGradientsOp::attachInterface<Model<AccumulateGradientsOp, GradientStep, getGradientShape>>(*context);
  });
}
