//===- FlashOps.cpp - syntax and constraints of the flash ops -----------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Syntax
//===--------------------------------------------------------------------------------------------------------------===//

/// `keyword (%a: type, ...) { ... }`, or nothing.
static ParseResult parseOptionalRegion(OpAsmParser &parser, StringRef keyword, Region &region) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  SmallVector<OpAsmParser::Argument> arguments;
  return failure(parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true) ||
                 parser.parseRegion(region, arguments));
}

static void printOptionalRegion(OpAsmPrinter &printer, StringRef keyword, Region &region) {
  if (region.empty())
    return;
  printer << ' ' << keyword << " (";
  llvm::interleaveComma(region.getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ") ";
  printer.printRegion(region, /*printEntryBlockArgs=*/false);
}

/// `keyword(%a, %b : type, type)`.
static ParseResult parseOperandGroup(OpAsmParser &parser, StringRef keyword, SmallVectorImpl<Value> &operands,
                                     unsigned expected) {
  SmallVector<OpAsmParser::UnresolvedOperand> names;
  SmallVector<Type> types;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(keyword) || parser.parseLParen() || parser.parseOperandList(names) ||
      parser.parseColonTypeList(types) || parser.parseRParen())
    return failure();
  if (names.size() != expected)
    return parser.emitError(loc) << "expected " << expected << " operands in '" << keyword << "', got "
                                 << names.size();
  return parser.resolveOperands(names, types, loc, operands);
}

static void printOperandGroup(OpAsmPrinter &printer, StringRef keyword, ValueRange operands) {
  printer << ' ' << keyword << '(' << operands << " : " << operands.getTypes() << ')';
}

/// `-> type, type`, without parentheses.
static ParseResult parseOptionalResults(OpAsmParser &parser, OperationState &result) {
  return failure(succeeded(parser.parseOptionalArrow()) && parser.parseTypeList(result.types));
}

ParseResult AttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  Region *score = result.addRegion(), *mask = result.addRegion();
  if (parseOperandGroup(parser, "ins", result.operands, 3))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("outs"))) {
    SmallVector<OpAsmParser::UnresolvedOperand> names;
    SmallVector<Type> outTypes;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseOperandList(names) || parser.parseColonTypeList(outTypes) ||
        parser.parseRParen() || parser.resolveOperands(names, outTypes, loc, result.operands))
      return failure();
  }
  if (parser.parseOptionalAttrDict(result.attributes) || parseOptionalRegion(parser, "score", *score) ||
      parseOptionalRegion(parser, "mask", *mask) || parseOptionalResults(parser, result))
    return failure();
  return success();
}

void AttentionOp::print(OpAsmPrinter &printer) {
  printOperandGroup(printer, "ins", getOperands().take_front(3));
  if (!getOuts().empty())
    printOperandGroup(printer, "outs", getOuts());
  printer.printOptionalAttrDict((*this)->getAttrs());
  printOptionalRegion(printer, "score", getScore());
  printOptionalRegion(printer, "mask", getMask());
  if (!getResults().empty())
    printer << " -> " << getResultTypes();
}

ParseResult OnlineAttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  Region *score = result.addRegion(), *mask = result.addRegion();
  SmallVector<OpAsmParser::UnresolvedOperand> offsets;
  SMLoc offsetsLoc;
  if (parseOperandGroup(parser, "ins", result.operands, 3) || parseOperandGroup(parser, "outs", result.operands, 3) ||
      parser.parseKeyword("at") || parser.getCurrentLocation(&offsetsLoc) ||
      parser.parseOperandList(offsets, /*requiredOperandCount=*/4, OpAsmParser::Delimiter::Paren) ||
      parser.resolveOperands(offsets, parser.getBuilder().getIndexType(), result.operands) ||
      parser.parseOptionalAttrDict(result.attributes) || parseOptionalRegion(parser, "score", *score) ||
      parseOptionalRegion(parser, "mask", *mask) || parseOptionalResults(parser, result))
    return failure();
  return success();
}

void OnlineAttentionOp::print(OpAsmPrinter &printer) {
  printOperandGroup(printer, "ins", getOperands().take_front(3));
  printOperandGroup(printer, "outs", getOperands().slice(3, 3));
  printer << " at(" << getOperands().drop_front(6) << ')';
  printer.printOptionalAttrDict((*this)->getAttrs());
  printOptionalRegion(printer, "score", getScore());
  printOptionalRegion(printer, "mask", getMask());
  printer << " -> " << getResultTypes();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Constraints (numbered in FlashOps.td)
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
struct NamedShape {
  StringRef name;
  ShapedType type;
};
} // namespace

static bool isAttentionElement(Type type) {
  return type.isBF16() || type.isF16() || type.isF32();
}

static LogicalResult verifyRank(Operation *op, NamedShape value, int64_t rank) {
  if (value.type.getRank() != rank)
    return op->emitOpError() << "expected " << value.name << " of rank " << rank << ", got " << value.type << " (C2)";
  return success();
}

/// Both extents of dimension `dim`, when both are static, must be the same.
static LogicalResult verifySameExtent(Operation *op, NamedShape a, unsigned dimA, NamedShape b, unsigned dimB,
                                      StringRef extent, StringRef constraint) {
  int64_t x = a.type.getDimSize(dimA), y = b.type.getDimSize(dimB);
  if (ShapedType::isDynamic(x) || ShapedType::isDynamic(y) || x == y)
    return success();
  return op->emitOpError() << "expected " << a.name << " and " << b.name << " to agree on " << extent << ", got " << x
                           << " and " << y << " (" << constraint << ")";
}

static LogicalResult verifyHeadDim(Operation *op, NamedShape value, StringRef extent) {
  int64_t d = value.type.getDimSize(3);
  bool isF32 = value.type.getElementType().isF32();
  if (ShapedType::isDynamic(d))
    return op->emitOpError() << "expected a static " << extent << ", got " << value.name << " of type " << value.type
                             << " (C4)";
  if (isF32 ? (d < 1 || d > 256) : (d < 8 || d > 256 || d % 8 != 0))
    return op->emitOpError() << "expected " << extent
                             << (isF32 ? " from 1 to 256" : " to be a multiple of 8 from 8 to 256") << ", got " << d
                             << " (C4)";
  return success();
}

static LogicalResult verifyHeads(Operation *op, NamedShape q, NamedShape k, std::optional<int64_t> groupSize) {
  int64_t hq = q.type.getDimSize(1), hk = k.type.getDimSize(1);
  bool hasDynamic = ShapedType::isDynamic(hq) || ShapedType::isDynamic(hk);
  if (hq == 0 || hk == 0)
    return op->emitOpError() << "expected positive head counts, got " << q.type << " and " << k.type << " (C5)";
  if (groupSize && *groupSize <= 0)
    return op->emitOpError() << "expected group_size to be positive, got " << *groupSize << " (C5)";
  if (hasDynamic && !groupSize)
    return op->emitOpError() << "expected group_size beside a dynamic number of heads, got " << q.type << " and "
                             << k.type << " (C5)";
  if (!hasDynamic && hq % hk != 0)
    return op->emitOpError() << "expected the number of query heads to be a multiple of the number of key heads, got "
                             << hq << " and " << hk << " (C5)";
  if (!hasDynamic && groupSize && *groupSize != hq / hk)
    return op->emitOpError() << "expected group_size to be " << hq / hk << ", the number of query heads (" << hq
                             << ") by that of key heads (" << hk << "), got " << *groupSize << " (C5)";
  if (hasDynamic && !ShapedType::isDynamic(hq) && hq % *groupSize != 0)
    return op->emitOpError() << "expected the number of query heads to be a multiple of group_size, got " << hq
                             << " and " << *groupSize << " (C5)";
  return success();
}

/// One region: its argument types, its yield, and no writes.
static LogicalResult verifyRegion(Operation *op, StringRef name, Region &region, bool isScore) {
  if (region.empty())
    return success();
  Builder b(op->getContext());
  SmallVector<Type> expected(isScore ? 5 : 4, b.getIndexType());
  Type yielded = isScore ? Type(b.getF32Type()) : Type(b.getI1Type());
  if (isScore)
    expected.front() = b.getF32Type();
  if (!region.hasOneBlock())
    return op->emitOpError() << "expected the " << name << " region to be one block, got "
                             << region.getBlocks().size() << " (C8)";
  if (region.front().getArgumentTypes() != TypeRange(expected))
    return op->emitOpError() << "expected the " << name << " region to take (" << expected << "), got ("
                             << region.front().getArgumentTypes() << ") (C8)";
  auto yield = region.front().empty() ? YieldOp() : dyn_cast<YieldOp>(region.front().back());
  if (!yield || yield.getValue().getType() != yielded)
    return op->emitOpError() << "expected the " << name << " region to yield " << yielded << ", got "
                             << (yield ? yield.getValue().getType() : Type(b.getNoneType())) << " (C8)";
  WalkResult walk = region.walk([&](Operation *nested) {
    // A division is free of them, though it must not be by 0.
    if (nested->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(nested) ||
        nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || hasSingleEffect<MemoryEffects::Read>(nested))
      return WalkResult::advance();
    InFlightDiagnostic diag = op->emitOpError()
                              << "expected the " << name << " region to be free of side effects (C9)";
    diag.attachNote(nested->getLoc()) << "'" << nested->getName() << "' has some";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult verifyCommon(Operation *op, NamedShape q, NamedShape k, NamedShape v, NamedShape o, NamedShape lse,
                                  float scale, std::optional<int64_t> groupSize, Region &score, Region &mask) {
  for (NamedShape value : {q, k, v, o})
    if (failed(verifyRank(op, value, 4)))
      return failure();
  if (failed(verifyRank(op, lse, 3)))
    return failure();
  Type element = q.type.getElementType();
  if (!isAttentionElement(element))
    return op->emitOpError() << "expected element type bf16, f16 or f32, got " << element << " (C3)";
  for (NamedShape value : {k, v})
    if (value.type.getElementType() != element)
      return op->emitOpError() << "expected " << value.name << " of element type " << element << ", got "
                               << value.type.getElementType() << " (C3)";
  if (!lse.type.getElementType().isF32())
    return op->emitOpError() << "expected " << lse.name << " of element type f32, got " << lse.type.getElementType()
                             << " (C3)";
  if (failed(verifyHeadDim(op, q, "D")) || failed(verifyHeadDim(op, v, "Dv")) ||
      failed(verifySameExtent(op, q, 3, k, 3, "D", "C4")) || failed(verifySameExtent(op, v, 3, o, 3, "Dv", "C4")) ||
      failed(verifyHeads(op, q, k, groupSize)) || failed(verifySameExtent(op, k, 1, v, 1, "Hk", "C5")) ||
      failed(verifySameExtent(op, q, 1, o, 1, "Hq", "C5")) || failed(verifySameExtent(op, q, 1, lse, 1, "Hq", "C5")))
    return failure();
  for (NamedShape value : {k, v, o, lse})
    if (failed(verifySameExtent(op, q, 0, value, 0, "B", "C6")))
      return failure();
  for (NamedShape value : {o, lse})
    if (failed(verifySameExtent(op, q, 2, value, 2, "Nq", "C6")))
      return failure();
  if (failed(verifySameExtent(op, k, 2, v, 2, "Nk", "C6")))
    return failure();
  if (!std::isfinite(scale))
    return op->emitOpError() << "expected a finite scale, got " << scale << " (C7)";
  return success(succeeded(verifyRegion(op, "score", score, /*isScore=*/true)) &&
                 succeeded(verifyRegion(op, "mask", mask, /*isScore=*/false)));
}

static LogicalResult verifyInnermostContiguous(Operation *op, NamedShape value) {
  auto memref = dyn_cast<MemRefType>(value.type);
  if (!memref || memref.getRank() == 0)
    return success();
  auto [strides, offset] = memref.getStridesAndOffset();
  if (strides.back() != 1)
    return op->emitOpError() << "expected " << value.name << " to be contiguous in the innermost dimension, got "
                             << memref << " (C1)";
  return success();
}

LogicalResult AttentionOp::verify() {
  bool isTensor = hasTensorSemantics();
  size_t numOutputs = isTensor ? getNumResults() : getOuts().size();
  if (numOutputs != 2 || (isTensor ? getOuts().size() : getNumResults()) != 0)
    return emitOpError() << "expected two results on tensors, or two 'outs' and no result on memrefs, got "
                         << getNumResults() << " results and " << getOuts().size() << " outs (C10)";
  NamedShape named[] = {{"q", getQType()},
                        {"k", getKType()},
                        {"v", getVType()},
                        {"o", getOutputType(0)},
                        {"lse", getOutputType(1)}};
  for (NamedShape value : named) {
    if (isa<RankedTensorType>(value.type) != isTensor)
      return emitOpError() << "expected only tensors or only memrefs, got q of type " << getQ().getType() << " and "
                           << value.name << " of type " << value.type << " (C1)";
    if (failed(verifyInnermostContiguous(*this, value)))
      return failure();
  }
  Type output = named[3].type.getElementType();
  if (output != named[0].type.getElementType() && !output.isF32())
    return emitOpError() << "expected o of element type " << named[0].type.getElementType() << " or f32, got " << output
                         << " (C3)";
  return verifyCommon(*this, named[0], named[1], named[2], named[3], named[4], getScale().convertToFloat(),
                      getGroupSize(), getScore(), getMask());
}

LogicalResult OnlineAttentionOp::verify() {
  auto acc = cast<RankedTensorType>(getAcc().getType());
  NamedShape m{"m", cast<RankedTensorType>(getM().getType())}, l{"l", cast<RankedTensorType>(getL().getType())};
  if (!acc.getElementType().isF32())
    return emitOpError() << "expected acc of element type f32, got " << acc.getElementType() << " (C3)";
  if (getResultTypes() != TypeRange(getDpsInits()))
    return emitOpError() << "expected results typed like outs, got " << getResultTypes();
  if (l.type != m.type)
    return emitOpError() << "expected m and l of one type, got " << m.type << " and " << l.type;
  return verifyCommon(*this, {"q", getQType()}, {"k", getKType()}, {"v", getVType()}, {"acc", acc}, m,
                      getScale().convertToFloat(), getGroupSize(), getScore(), getMask());
}

LogicalResult FinalizeOp::verify() {
  auto acc = cast<RankedTensorType>(getAcc().getType()), m = cast<RankedTensorType>(getM().getType());
  auto o = cast<RankedTensorType>(getO().getType()), lse = cast<RankedTensorType>(getLse().getType());
  if (acc.getRank() != 4 || m.getRank() != 3)
    return emitOpError() << "expected acc of rank 4 and m of rank 3, got " << acc << " and " << m << " (C2)";
  if (getL().getType() != m || lse != m)
    return emitOpError() << "expected m, l and lse of one type, got " << m << ", " << getL().getType() << " and "
                         << lse;
  if (o.getShape() != acc.getShape())
    return emitOpError() << "expected o shaped like acc, got " << o << " and " << acc;
  if (acc.getShape().drop_back() != m.getShape())
    return emitOpError() << "expected acc and m to agree on B, Hq and Nq, got " << acc << " and " << m;
  if (!acc.getElementType().isF32() || !m.getElementType().isF32())
    return emitOpError() << "expected acc and m of element type f32, got " << acc.getElementType() << " and "
                         << m.getElementType() << " (C3)";
  if (!isAttentionElement(o.getElementType()))
    return emitOpError() << "expected o of element type bf16, f16 or f32, got " << o.getElementType() << " (C3)";
  if (getResultTypes() != TypeRange(getDpsInits()))
    return emitOpError() << "expected results typed like outs, got " << getResultTypes();
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// StepOpInterface
//===--------------------------------------------------------------------------------------------------------------===//

using Dim = StepDim;

SmallVector<StepOperand> OnlineAttentionOp::getStepInputs() {
  return {{"q", 0, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"k", 1, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}},
          {"v", 2, {Dim::B, Dim::KeyHead, Dim::J, Dim::Whole}}};
}

SmallVector<StepOperand> OnlineAttentionOp::getStepState() {
  constexpr float kNegInf = -std::numeric_limits<float>::infinity();
  return {{"acc", 3, {Dim::B, Dim::H, Dim::I, Dim::Whole}},
          {"m", 4, {Dim::B, Dim::H, Dim::I}, kNegInf},
          {"l", 5, {Dim::B, Dim::H, Dim::I}}};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Effects
//===--------------------------------------------------------------------------------------------------------------===//

void AttentionOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (hasTensorSemantics())
    return;
  for (OpOperand &operand : (*this)->getOpOperands())
    effects.emplace_back(operand.getOperandNumber() < 3
                             ? static_cast<MemoryEffects::Effect *>(MemoryEffects::Read::get())
                             : static_cast<MemoryEffects::Effect *>(MemoryEffects::Write::get()),
                         &operand, SideEffects::DefaultResource::get());
}

#include "flashc/Dialect/Flash/IR/FlashInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOps.cpp.inc"
