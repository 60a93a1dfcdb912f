//===- TileStep.cpp - which step an op is -------------------------------------------------------------------------===//

#include "Steps/TileStep.h"
#include "Steps/ColumnSumsStep.h"
#include "Steps/ForwardStep.h"
#include "Steps/GradientStep.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flashc;

std::unique_ptr<TileStep> flashc::makeTileStep(KernelFrame &frame) {
  return llvm::TypeSwitch<Operation *, std::unique_ptr<TileStep>>(frame.nest.getStep())
      .Case([&](flash::OnlineAttentionOp) { return std::make_unique<ForwardStep>(frame); })
      .Case([&](flash::AccumulateColumnSumsOp) { return std::make_unique<ColumnSumsStep>(frame); })
      .Case([&](flash::AccumulateGradientsOp) { return std::make_unique<GradientStep>(frame); });
}

StepShape flashc::getStepShape(const LoopNest &nest) {
  return llvm::TypeSwitch<Operation *, StepShape>(nest.getStep())
      .Case([&](flash::OnlineAttentionOp) { return getForwardShape(nest); })
      .Case([&](flash::AccumulateColumnSumsOp) { return getColumnSumsShape(nest); })
      .Case([&](flash::AccumulateGradientsOp) { return getGradientShape(nest); });
}
