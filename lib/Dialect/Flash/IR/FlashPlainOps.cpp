//===- FlashPlainOps.cpp - constraints of the ops that surround attention -----------------------------------------===//

#include "NamedShape.h"
#include "SharedMemory.h"
#include "flashc/Dialect/Flash/IR/Flash.h"

using namespace mlir;
using namespace mlir::flash;
using Dim = StepDim;

//===--------------------------------------------------------------------------------------------------------------===//
// Constraints (numbered in FlashPlainOps.td)
//===--------------------------------------------------------------------------------------------------------------===//

static bool isDepth(StringRef extent) { return extent.starts_with("D") || extent.starts_with("R2"); }

/// Verifies what holds for the values of every plain op.
static LogicalResult verifyShapes(Operation *op, ArrayRef<NamedShape> values) {
  if (failed(verifyBuffers(op, values)))
    return failure();
  for (const NamedShape &value : values) {
    if (failed(verifyRank(op, value)) || failed(verifyElement(op, value)))
      return failure();
    Type element = value.type.getElementType();
    if (!value.element && !isAttentionElement(element))
      return op->emitOpError() << "expected " << value.name << " of element type bf16, f16 or f32, got " << element
                               << " (C3)";
  }
  for (const NamedShape &value : values)
    for (auto [extent, size] : llvm::zip_equal(value.extents, value.type.getShape()))
      if (isDepth(extent) && size <= 0) // a dynamic size is negative, too
        return op->emitOpError() << "expected a static, positive " << extent << ", got " << value.name << " of type "
                                 << value.type << " (C4)";
  return verifyExtents(op, values, [](StringRef extent) { return isDepth(extent) ? "C4" : "C6"; });
}

static ShapedType getShape(Value value) { return cast<ShapedType>(value.getType()); }

LogicalResult MergeStatesOp::verify() {
  if (failed(verifyNumOutputs(*this, getInputs().size(), /*numOutputs=*/2)))
    return failure();
  Type f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values{{"o_parts", getPartsType(), {"S", "B", "H", "N", "D"}},
                                 {"lse_parts", getShape(getLseParts()), {"S", "B", "H", "N"}, f32},
                                 {"o", getOutputType(0), {"B", "H", "N", "D"}},
                                 {"lse", getOutputType(1), {"B", "H", "N"}, f32}};
  if (getSinks())
    values.push_back({"sinks", getShape(getSinks()), {"H"}, f32});
  if (failed(verifyShapes(*this, values)))
    return failure();
  return verifyOutputsAreApart(*this, getInputs(), getOutputs());
}

LogicalResult AppendKVOp::verifyScales(StringRef name, MemRefType scales) {
  if (scales.getRank() != 2 || !scales.getElementType().isF32() || scales.getStridesAndOffset().first.back() != 1)
    return emitOpError() << "expected " << name << " of rank 2 and f32, contiguous in the innermost dimension, got "
                         << scales << " (C15)";
  std::tuple<int64_t, int64_t, StringRef> extents[] = {
      {scales.getDimSize(0), getTable() ? getKCacheType().getDimSize(0) : 1, "pages, where there are pages"},
      {scales.getDimSize(1), getKType().getDimSize(getTokenDim() + 1), "key heads"}};
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
  if (getOffsets() && getCounts())
    return emitOpError() << "expected no 'counts' together with 'offsets', which give each sequence its tokens (C13)";
  Type element = getKType().getElementType(), i32 = IntegerType::get(getContext(), 32);
  Type stored = hasEightBits() ? getKCacheType().getElementType() : element;
  if (hasEightBits() && !isa<Float8E4M3FNType>(stored) && !stored.isInteger(8))
    return emitOpError() << "expected k_cache of element type f8E4M3FN or i8 where there are scales, got " << stored
                         << " (C3)";
  StringRef first = getTable() ? "P" : "B", second = getTable() ? "R" : "N";
  auto rows = [&](StringRef depth) {
    return getOffsets() ? SmallVector<StringRef>{"total", "Hk", depth} : SmallVector<StringRef>{"B", "T", "Hk", depth};
  };
  SmallVector<NamedShape> values{{"k", getKType(), rows("D")},
                                 {"v", getVType(), rows("Dv"), element},
                                 {"positions", getShape(getPositions()), {"B"}, i32},
                                 {"k_cache", getShape(getKCache()), {first, second, "Hk", "D"}, stored},
                                 {"v_cache", getShape(getVCache()), {first, second, "Hk", "Dv"}, stored}};
  if (getOffsets())
    values.push_back({"offsets", getShape(getOffsets()), {"B + 1"}, i32});
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
  if (failed(verifyShapes(*this, values)))
    return failure();
  if (int64_t pairs = getNumPairs(), depth = getKType().getShape().back(); 2 * pairs > depth)
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
  SmallVector<Dim, 4> rows{Dim::B, Dim::I, Dim::KeyHead, Dim::Whole};
  if (getOffsets())
    rows.erase(rows.begin());
  SmallVector<StepOperand> inputs{{"k", 0, rows}, {"v", 1, rows}, {"positions", 2, {Dim::B}}};
  auto add = [&](bool isThere, StringRef name, SmallVector<Dim, 4> dims) {
    if (isThere)
      inputs.push_back({name, static_cast<unsigned>(inputs.size()), std::move(dims)});
  };
  bool rotates = getCos() != nullptr;
  add(getOffsets() != nullptr, "offsets", {Dim::Whole});
  add(getCounts() != nullptr, "counts", {Dim::B});
  add(getTable() != nullptr, "table", {Dim::B, Dim::PageSlot});
  add(getLeftpad() != nullptr, "leftpad", {Dim::B});
  add(rotates, "cos", {Dim::Position, Dim::Whole});
  add(rotates, "sin", {Dim::Position, Dim::Whole});
  for (auto [name, scale] : {std::pair("k_scale", getKScale()), std::pair("v_scale", getVScale())})
    if (scale) {
      auto type = cast<MemRefType>(scale.getType());
      // If all pages share a scale, the dimension of pages has extent 1. The dimension then gets Dim::Part, which no
      // other operand has. The same holds for heads.
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

void MergeStatesOp::getEffects(Effects &effects) { addEffects(*this, effects); }
void AppendKVOp::getEffects(Effects &effects) { addEffects(*this, effects); }
