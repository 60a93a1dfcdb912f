//===- FlashPlainOps.cpp - constraints of the ops that surround attention -----------------------------------------===//

#include "SharedMemory.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include <map>

using namespace mlir;
using namespace mlir::flash;
using Dim = StepDim;
using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

//===--------------------------------------------------------------------------------------------------------------===//
// Constraints (numbered in FlashPlainOps.td)
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// A value, the names of its extents, and its required element type, or null if the element type is verified elsewhere.
struct NamedShape {
  StringRef name;
  ShapedType type;
  SmallVector<StringRef, 5> extents;
  Type element = {};
};

/// Verifies what holds for the values of every plain op.
class ShapeVerifier {
public:
  ShapeVerifier(Operation *op, ArrayRef<NamedShape> values) : op(op), values(values) {}

  LogicalResult verify() {
    for (const NamedShape &value : values)
      if (failed(verifyLayout(value)) || failed(verifyType(value)))
        return failure();
    for (const NamedShape &value : values)
      for (auto [extent, size] : llvm::zip_equal(value.extents, value.type.getShape()))
        if (failed(verifyExtent(value, extent, size)))
          return failure();
    return success();
  }

private:
  InFlightDiagnostic expected() { return op->emitOpError() << "expected "; }

  LogicalResult verifyLayout(const NamedShape &value) {
    const NamedShape &first = values.front();
    auto memref = dyn_cast<MemRefType>(value.type);
    if (!memref != !isa<MemRefType>(first.type))
      return expected() << "only tensors or only memrefs, got " << first.name << " of type " << first.type << " and "
                        << value.name << " of type " << value.type << " (C1)";
    if (memref && memref.getRank() > 0 && memref.getStridesAndOffset().first.back() != 1)
      return expected() << value.name << " to be contiguous in the innermost dimension, got " << memref << " (C1)";
    return success();
  }

  LogicalResult verifyType(const NamedShape &value) {
    if (value.type.getRank() != int64_t(value.extents.size()))
      return expected() << value.name << " of rank " << value.extents.size() << ", got " << value.type << " (C2)";
    Type element = value.type.getElementType();
    if (value.element && element != value.element)
      return expected() << value.name << " of element type " << value.element << ", got " << element << " (C3)";
    if (!value.element && !element.isBF16() && !element.isF16() && !element.isF32())
      return expected() << value.name << " of element type bf16, f16 or f32, got " << element << " (C3)";
    return success();
  }

  /// Verifies that depths are static and positive, and that static extents of one name are equal.
  LogicalResult verifyExtent(const NamedShape &value, StringRef extent, int64_t size) {
    bool isDepth = extent.starts_with("D") || extent.starts_with("R2");
    if (isDepth && size <= 0) // or dynamic, which is negative
      return expected() << "a static, positive " << extent << ", got " << value.name << " of type " << value.type
                        << " (C4)";
    if (ShapedType::isDynamic(size))
      return success();
    auto &[other, otherSize] = known.try_emplace(extent, value.name, size).first->second;
    if (otherSize != size)
      return expected() << other << " and " << value.name << " to agree on " << extent << ", got " << otherSize
                        << " and " << size << (isDepth ? " (C4)" : " (C6)");
    return success();
  }

  Operation *op;
  ArrayRef<NamedShape> values;
  std::map<StringRef, std::pair<StringRef, int64_t>> known; // by extent: a value that has it, and its size
};
} // namespace

static ShapedType getShape(Value value) { return cast<ShapedType>(value.getType()); }

LogicalResult MergeStatesOp::verify() {
  size_t numResults = getNumResults(), numOuts = getOuts().size();
  bool isTensor = hasTensorSemantics();
  if ((isTensor ? numResults : numOuts) != 2 || (isTensor ? numOuts : numResults) != 0)
    return emitOpError() << "expected two results on tensors, or two 'outs' and no result on memrefs, got "
                         << numResults << " results and " << numOuts << " outs (C10)";
  Type f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values{{"o_parts", getPartsType(), {"S", "B", "H", "N", "D"}},
                                 {"lse_parts", getShape(getLseParts()), {"S", "B", "H", "N"}, f32},
                                 {"o", getOutputType(0), {"B", "H", "N", "D"}},
                                 {"lse", getOutputType(1), {"B", "H", "N"}, f32}};
  if (getSinks())
    values.push_back({"sinks", getShape(getSinks()), {"H"}, f32});
  if (failed(ShapeVerifier(*this, values).verify()))
    return failure();
  return verifyOutputsAreApart(*this, getInputs(), getOutputs());
}

LogicalResult AppendKVOp::verifyScales(StringRef name, MemRefType scales) {
  if (scales.getRank() != 2 || !scales.getElementType().isF32() || scales.getStridesAndOffset().first.back() != 1)
    return emitOpError() << "expected " << name << " of rank 2 and f32, contiguous in the innermost dimension, got "
                         << scales << " (C15)";
  std::tuple<int64_t, int64_t, StringRef> extents[] = {
      {scales.getDimSize(0), getTable() ? getKCacheType().getDimSize(0) : 1, "pages, where there are pages"},
      {scales.getDimSize(1), getKType().getDimSize(2), "key heads"}};
  for (auto [extent, whole, what] : extents)
    if (extent != 1 && extent != whole && !ShapedType::isDynamic(extent) && !ShapedType::isDynamic(whole))
      return emitOpError() << "expected " << name << " of one or all " << what << ", got " << scales << " (C15)";
  return success();
}

LogicalResult AppendKVOp::verify() {
  if (getInterleaved() && !getCos())
    return emitOpError() << "expected 'interleaved' together with 'rotary' only (C13)";
  if (getLeftpad() && !getCos())
    return emitOpError() << "expected 'leftpad' together with 'rotary' only (C13)";
  Type element = getKType().getElementType(), i32 = IntegerType::get(getContext(), 32);
  Type stored = hasEightBits() ? getKCacheType().getElementType() : element;
  if (hasEightBits() && !isa<Float8E4M3FNType>(stored) && !stored.isInteger(8))
    return emitOpError() << "expected k_cache of element type f8E4M3FN or i8 where there are scales, got " << stored
                         << " (C3)";
  StringRef first = getTable() ? "P" : "B", second = getTable() ? "R" : "N";
  SmallVector<NamedShape> values{{"k", getKType(), {"B", "T", "Hk", "D"}},
                                 {"v", getVType(), {"B", "T", "Hk", "Dv"}, element},
                                 {"positions", getShape(getPositions()), {"B"}, i32},
                                 {"k_cache", getShape(getKCache()), {first, second, "Hk", "D"}, stored},
                                 {"v_cache", getShape(getVCache()), {first, second, "Hk", "Dv"}, stored}};
  if (getCounts())
    values.push_back({"counts", getShape(getCounts()), {"B"}, i32});
  if (getTable())
    values.push_back({"table", getShape(getTable()), {"B", "M"}, i32});
  if (getLeftpad())
    values.push_back({"leftpad", getShape(getLeftpad()), {"B"}, i32});
  for (auto [name, scale] : {std::pair("k_scale", getKScale()), std::pair("v_scale", getVScale())})
    if (scale && failed(verifyScales(name, cast<MemRefType>(scale.getType()))))
      return failure();
  if (getCos()) {
    Type angle = getShape(getCos()).getElementType();
    if (angle != element && !angle.isF32())
      return emitOpError() << "expected cos of element type " << element << " or f32, got " << angle << " (C3)";
    values.push_back({"cos", getShape(getCos()), {"positions", "R2 / 2"}, angle});
    values.push_back({"sin", getShape(getSin()), {"positions", "R2 / 2"}, angle});
  }
  if (failed(ShapeVerifier(*this, values).verify()))
    return failure();
  if (int64_t pairs = getNumPairs(), depth = getKType().getDimSize(3); 2 * pairs > depth)
    return emitOpError() << "expected R2 to be at most D, got " << 2 * pairs << " and " << depth << " (C4)";
  return verifyOutputsAreApart(*this, getInputs(), getOutputs());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Operands
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<StepOperand> MergeStatesOp::getInputs() {
  SmallVector<StepOperand> inputs{{"o_parts", 0, {Dim::Part, Dim::B, Dim::H, Dim::I, Dim::Whole}},
                                  {"lse_parts", 1, {Dim::Part, Dim::B, Dim::H, Dim::I}}};
  if (getSinks())
    inputs.push_back({"sinks", 2, {Dim::H}});
  return inputs;
}

SmallVector<StepOperand> MergeStatesOp::getOutputs() {
  unsigned first = getSinks() ? 3 : 2;
  return {{"o", first, {Dim::B, Dim::H, Dim::I, Dim::Whole}}, {"lse", first + 1, {Dim::B, Dim::H, Dim::I}}};
}

SmallVector<StepOperand> AppendKVOp::getInputs() {
  SmallVector<StepOperand> inputs{{"k", 0, {Dim::B, Dim::I, Dim::KeyHead, Dim::Whole}},
                                  {"v", 1, {Dim::B, Dim::I, Dim::KeyHead, Dim::Whole}},
                                  {"positions", 2, {Dim::B}}};
  auto add = [&](bool isThere, StringRef name, SmallVector<Dim, 4> dims) {
    if (isThere)
      inputs.push_back({name, static_cast<unsigned>(inputs.size()), std::move(dims)});
  };
  bool rotates = getCos() != nullptr;
  add(getCounts() != nullptr, "counts", {Dim::B});
  add(getTable() != nullptr, "table", {Dim::B, Dim::PageSlot});
  add(getLeftpad() != nullptr, "leftpad", {Dim::B});
  add(rotates, "cos", {Dim::Position, Dim::Whole});
  add(rotates, "sin", {Dim::Position, Dim::Whole});
  for (auto [name, scale] : {std::pair("k_scale", getKScale()), std::pair("v_scale", getVScale())})
    if (scale) {
      auto type = cast<MemRefType>(scale.getType());
      // A scale that all pages, or all heads, share moves with no dimension of another operand.
      add(true, name,
          {type.getDimSize(0) == 1 ? Dim::Part : Dim::Page, type.getDimSize(1) == 1 ? Dim::Part : Dim::KeyHead});
    }
  return inputs;
}

SmallVector<StepOperand> AppendKVOp::getOutputs() {
  unsigned first = getInputs().size();
  Dim outer = getTable() ? Dim::Page : Dim::B, inner = getTable() ? Dim::PageRow : Dim::J;
  return {{"k_cache", first, {outer, inner, Dim::KeyHead, Dim::Whole}},
          {"v_cache", first + 1, {outer, inner, Dim::KeyHead, Dim::Whole}}};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Effects
//===--------------------------------------------------------------------------------------------------------------===//

/// Adds the effects of an op on memrefs: inputs are read, and outputs are written.
static void addEffects(PlainOpInterface op, Effects &effects) {
  size_t numInputs = op.getInputs().size();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    bool isRead = operand.getOperandNumber() < numInputs;
    effects.emplace_back(isRead ? static_cast<MemoryEffects::Effect *>(MemoryEffects::Read::get())
                                : static_cast<MemoryEffects::Effect *>(MemoryEffects::Write::get()),
                         &operand, SideEffects::DefaultResource::get());
  }
}

void MergeStatesOp::getEffects(Effects &effects) { addEffects(*this, effects); }
void AppendKVOp::getEffects(Effects &effects) { addEffects(*this, effects); }
