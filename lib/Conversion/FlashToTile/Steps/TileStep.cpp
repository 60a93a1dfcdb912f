//===- TileStep.cpp - which step an op is -------------------------------------------------------------------------===//

#include "Steps/TileStep.h"
#include "Steps/ForwardStep.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace flashc;

std::unique_ptr<TileStep> flashc::makeTileStep(KernelFrame &frame) {
  return llvm::TypeSwitch<Operation *, std::unique_ptr<TileStep>>(frame.nest.getStep())
      .Case([&](flash::OnlineAttentionOp) { return std::make_unique<ForwardStep>(frame); });
}

StepShape flashc::getStepShape(const LoopNest &nest) { return getForwardShape(nest); }

AttentionArguments flashc::getLaunchArguments(const LoopNest &nest) { return getForwardArguments(nest); }
