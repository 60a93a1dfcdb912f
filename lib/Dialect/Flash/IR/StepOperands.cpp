//===- StepOperands.cpp - the operands and results of the flash ops, and their dimensions -------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
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

std::pair<Value, unsigned> StepOpInterface::getMoving(StepDim dim) {
  for (const StepOperand &input : getStepInputs())
    if (std::optional<unsigned> place = input.find(dim))
      return {getOperation()->getOperand(input.number), *place};
  return {};
}

int64_t StepOpInterface::getTileExtent(StepDim dim) {
  auto [operand, place] = getMoving(dim);
  return cast<ShapedType>(operand.getType()).getDimSize(place);
}

int64_t mlir::flash::getGroupOfKeyHead(OpFoldResult keyHead, Value head) {
  auto value = dyn_cast<Value>(keyHead);
  auto apply = value ? value.getDefiningOp<affine::AffineApplyOp>() : affine::AffineApplyOp();
  auto quotient = dyn_cast_or_null<AffineBinaryOpExpr>(apply ? apply.getAffineMap().getResult(0) : AffineExpr());
  auto divisor = dyn_cast_or_null<AffineConstantExpr>(quotient ? quotient.getRHS() : AffineExpr());
  bool isGroup = divisor && quotient.getKind() == AffineExprKind::FloorDiv && divisor.getValue() > 0 &&
                 isa<AffineDimExpr, AffineSymbolExpr>(quotient.getLHS()) && apply->getNumOperands() == 1 &&
                 apply->getOperand(0) == head;
  return isGroup ? divisor.getValue() : 0;
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

/// Returns the outputs o and lse of attention. Their operands have the numbers `first` and `first + 1`.
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

/// Returns the inputs that ops for attention's gradients share.
static SmallVector<StepOperand> getBackwardInputs(bool hasDlse) {
  SmallVector<StepOperand> inputs{{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                  {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
                                  {"v", 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
                                  {"o", 3, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                  {"lse", 4, {Dim::B, Dim::H, Dim::I}},
                                  {"do", 5, {Dim::B, Dim::H, Dim::I, Dim::Whole}}};
  if (hasDlse)
    inputs.push_back({"dlse", 6, {Dim::B, Dim::H, Dim::I}});
  return inputs;
}

SmallVector<StepOperand> CapturedGradientOp::getInputs() {
  SmallVector<StepOperand> inputs = getBackwardInputs(getDlse() != nullptr);
  inputs.push_back({"captured", static_cast<unsigned>(inputs.size()), {}});
  if (getPhilox())
    inputs.push_back({"philox", static_cast<unsigned>(inputs.size()), {Dim::Whole}});
  return inputs;
}

SmallVector<StepOperand> CapturedGradientOp::getOutputs() {
  return {{"gradient", static_cast<unsigned>(getInputs().size()), {}}};
}

SmallVector<StepOperand> AttentionBackwardOp::getInputs() {
  SmallVector<StepOperand> inputs = getBackwardInputs(getDlse() != nullptr);
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
  auto add = [&](Gradients gradient, StringRef name, SmallVector<Dim, 4> dims) {
    if (has(gradient))
      state.push_back({name, 6 + unsigned(state.size()), std::move(dims)});
  };
  add(Gradients::DQ, "dq", {Dim::B, Dim::H, Dim::I, Dim::Whole});
  add(Gradients::DK, "dk", {Dim::B, Dim::H, Dim::J, Dim::Whole});
  add(Gradients::DV, "dv", {Dim::B, Dim::H, Dim::J, Dim::Whole});
  add(Gradients::Rows, "rows", {Dim::B, Dim::H, Dim::I});
  add(Gradients::Columns, "columns", {Dim::B, Dim::H, Dim::J});
  add(Gradients::Pairs, "pairs", {Dim::B, Dim::H, Dim::I, Dim::J});
  add(Gradients::Diagonals, "diagonals", {Dim::B, Dim::H, Dim::Whole});
  return state;
}
