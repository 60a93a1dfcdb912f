//===- StepOperands.cpp - what operands and results are to the flash ops ------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include <limits>

using namespace mlir;
using namespace mlir::flash;

std::string StepOpInterface::getStateNames() {
  std::string names;
  SmallVector<StepOperand> state = getStepState();
  for (auto [number, carried] : llvm::enumerate(state))
    names += (number == 0 ? "" : number + 1 == state.size() ? " and " : ", ") + carried.name.str();
  return names;
}

using Dim = StepDim;

SmallVector<StepOperand> AttentionOp::getInputs() {
  SmallVector<StepOperand> inputs = OnlineAttentionOp::getStepInputs();
  if (getSinks())
    inputs.push_back({"sinks", 3, {Dim::H}});
  if (getPhilox())
    inputs.push_back({"philox", static_cast<unsigned>(inputs.size()), {Dim::Whole}});
  return inputs;
}

SmallVector<StepOperand> OnlineAttentionOp::getStepInputs() {
  return {{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
          {"v", 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}}};
}

/// The outputs of attention, as operands `first` and the next.
static SmallVector<StepOperand> getAttentionOutputs(unsigned first) {
  return {{"o", first, {Dim::B, Dim::H, Dim::I, Dim::Whole}}, {"lse", first + 1, {Dim::B, Dim::H, Dim::I}}};
}

SmallVector<StepOperand> AttentionOp::getOutputs() { return getAttentionOutputs(getInputs().size()); }

SmallVector<StepOperand> FinalizeOp::getEpilogueInputs() {
  SmallVector<StepOperand> inputs;
  if (getSinks())
    inputs.push_back({"sinks", 5, {Dim::H}});
  return inputs;
}

SmallVector<StepOperand> FinalizeOp::getEpilogueResults() { return getAttentionOutputs(3); }

SmallVector<StepOperand> OnlineAttentionOp::getStepState() {
  constexpr float kNegInf = -std::numeric_limits<float>::infinity();
  return {{"acc", 3, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"m", 4, {Dim::B, Dim::H, Dim::I}, kNegInf},
          {"l", 5, {Dim::B, Dim::H, Dim::I}}};
}

SmallVector<StepOperand> ColumnSumsOp::getInputs() { return AccumulateColumnSumsOp::getStepInputs(); }

SmallVector<StepOperand> AccumulateColumnSumsOp::getStepInputs() {
  return {{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
          {"lse", 2, {Dim::B, Dim::H, Dim::I}}};
}

SmallVector<StepOperand> ColumnSumsOp::getOutputs() {
  return {{"c", 3, {Dim::B, getSumGroups() ? Dim::KeyHead : Dim::H, Dim::J}}};
}

SmallVector<StepOperand> AccumulateColumnSumsOp::getStepState() { return {{"c", 3, {Dim::B, Dim::H, Dim::J}}}; }

SmallVector<StepOperand> AttentionBackwardOp::getInputs() {
  SmallVector<StepOperand> inputs{{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                  {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
                                  {"v", 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
                                  {"o", 3, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                  {"lse", 4, {Dim::B, Dim::H, Dim::I}},
                                  {"do", 5, {Dim::B, Dim::H, Dim::I, Dim::Whole}}};
  if (getDlse())
    inputs.push_back({"dlse", 6, {Dim::B, Dim::H, Dim::I}});
  if (getSinks())
    inputs.push_back({"sinks", static_cast<unsigned>(inputs.size()), {Dim::H}});
  if (getPhilox())
    inputs.push_back({"philox", static_cast<unsigned>(inputs.size()), {Dim::Whole}});
  return inputs;
}

SmallVector<StepOperand> AttentionBackwardOp::getOutputs() {
  unsigned first = getInputs().size();
  SmallVector<StepOperand> outputs{{"dq", first, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                   {"dk", first + 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
                                   {"dv", first + 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}}};
  if (getSinks())
    outputs.push_back({"dsinks", first + 3, {Dim::H}});
  return outputs;
}

SmallVector<StepOperand> AccumulateGradientsOp::getStepInputs() {
  return {{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
          {"v", 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
          {"do", 3, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"lse", 4, {Dim::B, Dim::H, Dim::I}},
          {"delta", 5, {Dim::B, Dim::H, Dim::I}}};
}

SmallVector<StepOperand> AccumulateGradientsOp::getStepState() {
  SmallVector<StepOperand> state;
  auto add = [&](Gradients gradient, StringRef name, Dim rows) {
    if (has(gradient))
      state.push_back({name, 6 + unsigned(state.size()), {Dim::B, Dim::H, rows, Dim::Whole}});
  };
  add(Gradients::DQ, "dq", Dim::I);
  add(Gradients::DK, "dk", Dim::J);
  add(Gradients::DV, "dv", Dim::J);
  return state;
}
