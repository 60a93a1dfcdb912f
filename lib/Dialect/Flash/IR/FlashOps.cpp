//===- FlashOps.cpp - syntax and constraints of the flash ops -----------------------------------------------------===//

#include "NamedShape.h"
#include "SharedMemory.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/IR/StepTiling.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Syntax
//===--------------------------------------------------------------------------------------------------------------===//

/// Parses `(%a: type, ...) { ... }` after the region's keyword.
static ParseResult parseScoresRegion(OpAsmParser &parser, Region &region) {
  SmallVector<OpAsmParser::Argument> arguments;
  return failure(parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true) ||
                 parser.parseRegion(region, arguments));
}

static void printScoresRegion(OpAsmPrinter &printer, Operation *, Region &region) {
  printer << '(';
  llvm::interleaveComma(region.getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ") ";
  printer.printRegion(region, /*printEntryBlockArgs=*/false);
}

/// Parses `score (...) { ... } mask (...) { ... }`. Each region may occur once or not at all, in either order.
static ParseResult parseScoreAndMask(OpAsmParser &parser, Region &score, Region &mask) {
  while (true) {
    SMLoc place = parser.getCurrentLocation();
    StringRef keyword;
    if (failed(parser.parseOptionalKeyword(&keyword, {"score", "mask"})))
      return success();
    Region &region = keyword == "score" ? score : mask;
    if (!region.empty())
      return parser.emitError(place) << "expected one " << keyword << ", got another one";
    if (parseScoresRegion(parser, region))
      return failure();
  }
}

static void printScoreAndMask(OpAsmPrinter &printer, Operation *op, Region &score, Region &mask) {
  for (auto [keyword, region] : {std::pair("score", &score), std::pair("mask", &mask)}) {
    if (region->empty())
      continue;
    printer << ' ' << keyword << ' ';
    printScoresRegion(printer, op, *region);
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Constraints (numbered in FlashOps.td)
//===--------------------------------------------------------------------------------------------------------------===//

static NamedShape getShape(StringRef name, Value value, ArrayRef<StringRef> extents, Type element) {
  return {name, cast<ShapedType>(value.getType()), SmallVector<StringRef, 4>(extents), element};
}

static StringRef getConstraint(StringRef extent) { return extent[0] == 'D' ? "C4" : extent[0] == 'H' ? "C5" : "C6"; }

static LogicalResult verifyHeadDim(Operation *op, const NamedShape &value) {
  StringRef extent = value.extents.back();
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

static LogicalResult verifyHeads(Operation *op, const NamedShape &q, const NamedShape &k,
                                 std::optional<int64_t> groupSize) {
  int64_t hq = q.type.getDimSize(1), hk = k.type.getDimSize(1);
  bool hasDynamic = ShapedType::isDynamic(hq) || ShapedType::isDynamic(hk);
  if (hq == 0 || hk == 0)
    return op->emitOpError() << "expected positive head counts, got " << q.type << " and " << k.type << " (C5)";
  if (groupSize && *groupSize <= 0)
    return op->emitOpError() << "expected group_size to be positive, got " << *groupSize << " (C5)";
  if (hasDynamic && !groupSize)
    return op->emitOpError() << "expected group_size together with a dynamic number of heads, got " << q.type << " and "
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

/// Verifies the argument types, the yield and the side effects of a region. If `isScore`, the region must take a score
/// and yield a score.
static LogicalResult verifyRegion(Operation *op, StringRef name, Region &region, bool isScore) {
  if (region.empty())
    return success();
  Builder b(op->getContext());
  SmallVector<Type> expected(isScore ? 5 : 4, b.getIndexType());
  Type yielded = isScore ? Type(b.getF32Type()) : Type(b.getI1Type());
  if (isScore)
    expected.front() = b.getF32Type();
  if (!region.hasOneBlock())
    return op->emitOpError() << "expected the " << name << " region to be one block, got " << region.getBlocks().size()
                             << " (C8)";
  if (region.front().getArgumentTypes() != TypeRange(expected))
    return op->emitOpError() << "expected the " << name << " region to take (" << expected << "), got ("
                             << region.front().getArgumentTypes() << ") (C8)";
  auto yield = region.front().empty() ? YieldOp() : dyn_cast<YieldOp>(region.front().back());
  if (!yield || yield.getValue().getType() != yielded)
    return op->emitOpError() << "expected the " << name << " region to yield " << yielded << ", got "
                             << (yield ? yield.getValue().getType() : Type(b.getNoneType())) << " (C8)";
  WalkResult walk = region.walk([&](Operation *nested) {
    // Divisions are allowed, since isMemoryEffectFree does not consider the undefined behaviour of a division by 0.
    if (nested->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(nested) ||
        nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || hasSingleEffect<MemoryEffects::Read>(nested))
      return WalkResult::advance();
    InFlightDiagnostic diag = op->emitOpError() << "expected the " << name << " region to be free of side effects (C9)";
    diag.attachNote(nested->getLoc()) << "'" << nested->getName() << "' has some";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// Verifies dropout_p and the array `philox` (C1, C11).
static LogicalResult verifyDropout(ScoresOpInterface op) {
  std::optional<Dropout> dropout = op.getDropout();
  auto p = op->getAttrOfType<FloatAttr>("dropout_p");
  if (dropout.has_value() != (p != nullptr))
    return op->emitOpError() << "expected dropout_p together with 'dropout' only (C11)";
  if (!dropout)
    return success();
  NamedShape philox = getShape("philox", dropout->philox, {"2"}, IntegerType::get(op.getContext(), 64));
  if (failed(verifyRank(op, philox)) || failed(verifyElement(op, philox)))
    return failure();
  if (isa<RankedTensorType>(philox.type) != isa<RankedTensorType>(op.getQType()))
    return op->emitOpError() << "expected only tensors or only memrefs, got q of type " << op.getQType()
                             << " and philox of type " << philox.type << " (C1)";
  if (philox.type.getDimSize(0) != 2)
    return op->emitOpError() << "expected philox to hold two numbers, got " << philox.type << " (C11)";
  if (int64_t threshold = dropout->getThreshold(); threshold < 1 || threshold > 255)
    return op->emitOpError() << "expected dropout_p to be nearest to one of 1/256 to 255/256, got " << dropout->p
                             << " (C11)";
  return success();
}

/// Verifies what holds for every op with scores. The first two `values` are q and k.
static LogicalResult verifyScores(ScoresOpInterface op, ArrayRef<NamedShape> values) {
  const NamedShape &q = values[0], &k = values[1];
  for (const NamedShape &value : values)
    if (failed(verifyRank(op, value)))
      return failure();
  Type element = q.type.getElementType();
  if (!isAttentionElement(element))
    return op->emitOpError() << "expected element type bf16, f16 or f32, got " << element << " (C3)";
  for (const NamedShape &value : values)
    if (failed(verifyElement(op, value)))
      return failure();
  for (const NamedShape &value : values)
    if (value.name == "q" || value.name == "v")
      if (failed(verifyHeadDim(op, value)))
        return failure();
  std::optional<int64_t> groupSize;
  if (std::optional<uint64_t> size = op.getGroupSize())
    groupSize = *size;
  if (failed(verifyHeads(op, q, k, groupSize)) || failed(verifyExtents(op, values, getConstraint)))
    return failure();
  if (failed(verifyDropout(op)))
    return failure();
  if (!op.getScale().isFinite())
    return op->emitOpError() << "expected a finite scale, got " << op.getScale().convertToFloat() << " (C7)";
  if (failed(verifyRegion(op, "score", op.getScore(), /*isScore=*/true)) ||
      failed(verifyRegion(op, "mask", op.getMask(), /*isScore=*/false)))
    return failure();
  Region *derivative = op.getDerivativeRegion();
  if (derivative && !derivative->empty() && !op.hasScore())
    return op->emitOpError() << "expected a derivative together with a score only (C8)";
  return derivative ? verifyRegion(op, "derivative", *derivative, /*isScore=*/true) : success();
}

/// Verifies what holds for every op of L0 that may be on memrefs. The first two `values` are q and k.
static LogicalResult verifyWhole(WholeOpInterface op, ArrayRef<NamedShape> values) {
  if (failed(verifyScores(op, values)))
    return failure();
  return verifyOutputsAreApart(op, op.getInputs(), op.getOutputs());
}

/// The shapes of q and k of an op.
static SmallVector<NamedShape> getFactors(ScoresOpInterface op) {
  Type element = op.getQType().getElementType();
  return {getShape("q", op.getQ(), {"B", "Hq", "Nq", "D"}, element),
          getShape("k", op.getK(), {"B", "Hk", "Nk", "D"}, element)};
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyNumOutputs(*this, getInputs().size(), getOutputs().size())))
    return failure();
  Type element = getQType().getElementType(), f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values = getFactors(*this);
  values.push_back(getShape("v", getV(), {"B", "Hk", "Nk", "Dv"}, element));
  values.push_back({"o", getOutputType(0), {"B", "Hq", "Nq", "Dv"}});
  values.push_back({"lse", getOutputType(1), {"B", "Hq", "Nq"}, f32});
  if (Value sinks = getSinks())
    values.push_back(getShape("sinks", sinks, {"Hq"}, f32));
  if (failed(verifyBuffers(*this, values)))
    return failure();
  Type output = getOutputType(0).getElementType();
  if (output != element && !output.isF32())
    return emitOpError() << "expected o of element type " << element << " or f32, got " << output << " (C3)";
  return verifyWhole(*this, values);
}

LogicalResult ColumnSumsOp::verify() {
  if (failed(verifyNumOutputs(*this, getInputs().size(), getOutputs().size())))
    return failure();
  Type f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values = getFactors(*this);
  values.push_back(getShape("lse", getLse(), {"B", "Hq", "Nq"}, f32));
  values.push_back({"c", getOutputType(0), {"B", getSumGroups() ? "Hk" : "Hq", "Nk"}, f32});
  return failure(failed(verifyBuffers(*this, values)) || failed(verifyWhole(*this, values)));
}

/// The shapes of q, k, v, do and lse, which both gradient ops read.
static SmallVector<NamedShape> getBackwardInputs(ScoresOpInterface op, Value v, Value dout, Value lse) {
  SmallVector<NamedShape> values = getFactors(op);
  Type element = values[0].element;
  values.push_back(getShape("v", v, {"B", "Hk", "Nk", "Dv"}, element));
  values.push_back(getShape("do", dout, {"B", "Hq", "Nq", "Dv"}, element));
  values.push_back(getShape("lse", lse, {"B", "Hq", "Nq"}, Float32Type::get(op.getContext())));
  return values;
}

/// Adds the shape of o, and the shape of dlse (the gradient of the log-sum-exp) if it is not null. Gradient ops at L0
/// read these arrays.
static void addForwardResults(SmallVectorImpl<NamedShape> &values, Value o, Value dlse) {
  values.push_back(getShape("o", o, {"B", "Hq", "Nq", "Dv"}, {}));
  if (dlse)
    values.push_back(getShape("dlse", dlse, {"B", "Hq", "Nq"}, Float32Type::get(dlse.getContext())));
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyNumOutputs(*this, getInputs().size(), getOutputs().size())))
    return failure();
  SmallVector<NamedShape> values = getBackwardInputs(*this, getV(), getDout(), getLse());
  addForwardResults(values, getO(), getDlse());
  values.push_back({"dq", getOutputType(0), {"B", "Hq", "Nq", "D"}});
  values.push_back({"dk", getOutputType(1), {"B", "Hk", "Nk", "D"}});
  values.push_back({"dv", getOutputType(2), {"B", "Hk", "Nk", "Dv"}});
  if (Value sinks = getSinks()) {
    values.push_back(getShape("sinks", sinks, {"Hq"}, Float32Type::get(getContext())));
    values.push_back({"dsinks", getOutputType(3), {"Hq"}, Float32Type::get(getContext())});
  }
  if (failed(verifyBuffers(*this, values)))
    return failure();
  Type element = values[0].element;
  for (const NamedShape &value : values)
    if (Type type = value.type.getElementType(); !value.element && type != element && !type.isF32())
      return emitOpError() << "expected " << value.name << " of element type " << element << " or f32, got " << type
                           << " (C3)";
  return verifyWhole(*this, values);
}

LogicalResult CapturedGradientOp::verify() {
  if (!hasTensorSemantics())
    return emitOpError() << "expected tensors, got q of type " << getQType() << " (C1)";
  if (failed(verifyNumOutputs(*this, getInputs().size(), getOutputs().size())))
    return failure();
  SmallVector<NamedShape> values = getBackwardInputs(*this, getV(), getDout(), getLse());
  addForwardResults(values, getO(), getDlse());
  if (failed(verifyBuffers(*this, values)))
    return failure();
  RankedTensorType captured = getCaptured().getType(), result = cast<RankedTensorType>(getResult(0).getType());
  if (!isAttentionElement(captured.getElementType()) && !captured.getElementType().isF64())
    return emitOpError() << "expected a captured tensor of bf16, f16, f32 or f64, got " << captured << " (C3)";
  if (!result.getElementType().isF32() || failed(verifyCompatibleShape(captured, result)))
    return emitOpError() << "expected a result of f32 and of the shape of " << captured << ", got " << result
                         << " (C12)";
  return verifyScores(*this, values);
}

LogicalResult ScatterSumOp::verify() {
  SmallVector<Type> expected(4, IndexType::get(getContext()));
  if (!getIndex().hasOneBlock() || getIndex().front().getArgumentTypes() != TypeRange(expected) ||
      getIndex().front().empty() || !isa<YieldIndexOp>(getIndex().front().back()))
    return emitOpError() << "expected a region of one block that takes (" << expected << ") and yields indices";
  if (int64_t(getIndices().size()) != getInit().getType().getRank())
    return emitOpError() << "expected an index for each dimension of " << getInit().getType() << ", got "
                         << getIndices().size();
  if (failed(verifyCompatibleShape(getInit().getType(), getCaptured().getType())))
    return emitOpError() << "expected 'outs' of the shape of " << getCaptured().getType() << ", got "
                         << getInit().getType();
  unsigned rank = 3;
  switch (getGradients()) {
  case Gradients::Pairs:
    rank = 4;
    [[fallthrough]];
  case Gradients::Rows:
  case Gradients::Columns:
  case Gradients::Diagonals:
    if (getSums().getType().getRank() == rank)
      return success();
    return emitOpError() << "expected " << stringifyGradients(getGradients()) << " of rank " << rank << ", got "
                         << getSums().getType();
  default:
    return emitOpError() << "expected sums of rows, columns, pairs or diagonals, got <"
                         << stringifyGradients(getGradients()) << ">";
  }
}

LogicalResult AccumulateGradientsOp::verify() {
  if (getResultTypes() != TypeRange(getState()))
    return emitOpError() << "expected results typed like outs, got " << getResultTypes();
  size_t expected = llvm::popcount(static_cast<uint32_t>(getGradients()));
  if (getState().size() != expected || (has(Gradients::DQ) && expected == 2) || (sumsScoreGradients() && expected > 1))
    return emitOpError()
           << "expected dq, dk and dv, dk and dv, one of them, or sums of one kind, each with a tensor of "
              "'outs', got <"
           << stringifyGradients(getGradients()) << "> and " << getState().size() << " outs";
  if (lacksDerivative())
    return emitOpError() << "expected the score's derivative (flash-differentiate-scores comes first)";
  SmallVector<NamedShape> values = getBackwardInputs(*this, getV(), getDout(), getLse());
  Type f32 = Float32Type::get(getContext());
  values.push_back(getShape("delta", getDelta(), {"B", "Hq", "Nq"}, f32));
  for (const StepOperand &carried : getStepState()) {
    SmallVector<StringRef, 4> extents;
    for (StepDim dim : carried.dims)
      extents.push_back(
          ArrayRef<StringRef>{"B", "Hq", "Nq", "Nk", "Hk", carried.name == "dv" ? "Dv" : "D"}[unsigned(dim)]);
    if (isOfPairs()) // each extent is that of another operand, or 1
      extents = {"state 0", "state 1", "state 2", "state 3"};
    extents.resize(carried.dims.size());
    values.push_back(getShape(carried.name, getOperand(carried.number), extents, f32));
  }
  return verifyScores(*this, values);
}

LogicalResult OnlineAttentionOp::verify() {
  Type f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values = getFactors(*this);
  values.push_back(getShape("v", getV(), {"B", "Hk", "Nk", "Dv"}, values[0].element));
  values.push_back(getShape("acc", getAcc(), {"B", "Hq", "Nq", "Dv"}, f32));
  values.push_back(getShape("m", getM(), {"B", "Hq", "Nq"}, f32));
  return verifyScores(*this, values);
}

LogicalResult AccumulateColumnSumsOp::verify() {
  Type f32 = Float32Type::get(getContext());
  SmallVector<NamedShape> values = getFactors(*this);
  values.push_back(getShape("lse", getLse(), {"B", "Hq", "Nq"}, f32));
  values.push_back(getShape("c", getC(), {"B", "Hq", "Nk"}, f32));
  return verifyScores(*this, values);
}

LogicalResult FinalizeOp::verify() {
  ShapedType acc = getAcc().getType(), m = getM().getType();
  if (acc.getShape().drop_back() != m.getShape())
    return emitOpError() << "expected acc and m to agree on B, Hq and Nq, got " << acc << " and " << m;
  if (Value sinks = getSinks(); sinks && cast<ShapedType>(sinks.getType()).getDimSize(0) != m.getDimSize(1))
    return emitOpError() << "expected m and sinks to agree on Hq, got " << m << " and " << sinks.getType();
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Effects
//===--------------------------------------------------------------------------------------------------------------===//

/// Adds a read of `array` if it is a memref.
static void addRead(OpOperand &array, Effects &effects) {
  if (isa<MemRefType>(array.get().getType()))
    effects.emplace_back(MemoryEffects::Read::get(), &array, SideEffects::DefaultResource::get());
}

#include "flashc/Dialect/Flash/IR/FlashInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOps.cpp.inc"
