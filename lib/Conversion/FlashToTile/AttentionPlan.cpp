//===- AttentionPlan.cpp - reads the plan off the IR --------------------------------------------------------------===//

#include "AttentionPlan.h"
#include "Visits/RunsTable.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

static bool isSame(OpFoldResult x, OpFoldResult y) { return isEqualConstantIntOrValue(x, y); }

namespace {
class Matcher {
public:
  explicit Matcher(ModuleOp module) : module(module) {}

  FailureOr<AttentionPlan> match() {
    if (failed(matchFunction()) || failed(matchSegments()) || failed(matchRegions()) || failed(matchParallelLoop()) ||
        failed(matchInputs()) || failed(matchOutputs()))
      return failure();
    return std::move(plan);
  }

private:
  LogicalResult matchFunction();
  LogicalResult matchSegments();
  LogicalResult matchInitialState(ValueRange state);
  LogicalResult matchRegions();
  LogicalResult matchParallelLoop();
  FailureOr<ParallelDim> matchParallelDim(Value position, StringRef name);
  LogicalResult matchInputs();
  LogicalResult matchGroup();
  FailureOr<InputTile> matchInput(flash::OnlineAttentionOp op, Value operand, Value row, StringRef name);
  LogicalResult matchOutputs();
  bool isWholeSlice(Operation *slice, bool isLse);
  LogicalResult traceOutput(Value value, bool isLse);

  ModuleOp module;
  AttentionPlan plan;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The function and its loops over keys
//===--------------------------------------------------------------------------------------------------------------===//

static bool isInPtxName(char c) { return llvm::isAlnum(c) || c == '_' || c == '$'; }

LogicalResult Matcher::matchFunction() {
  for (Operation &op : *module.getBody()) {
    auto func = dyn_cast<func::FuncOp>(op);
    if (!func || func.isExternal())
      return op.emitError() << "expected the module to hold one function with a body, got another op";
    if (plan.func) {
      InFlightDiagnostic error = func.emitError() << "expected the module to hold one function, got a second one";
      error.attachNote(plan.func.getLoc()) << "the first one";
      return failure();
    }
    plan.func = func;
  }
  if (!plan.func)
    return module.emitError() << "expected the module to hold one function with a body, got none";
  StringRef name = plan.func.getName();
  if (name.empty() || llvm::isDigit(name[0]) || !llvm::all_of(name, isInPtxName))
    return plan.func.emitError() << "expected a name of letters, digits, '_' and '$', as PTX has them, got '" << name
                                 << "'";
  for (Type type : llvm::concat<const Type>(plan.func.getArgumentTypes(), plan.func.getResultTypes()))
    if (!type.isIntOrIndexOrFloat() && !isa<RankedTensorType, MemRefType>(type))
      return plan.func.emitError() << "expected scalars and ranked tensors or memrefs to pass to a kernel, got "
                                   << type;
  if (!plan.func.getBody().hasOneBlock())
    return plan.func.emitError() << "expected a function of one block";
  WalkResult result = plan.func.walk([&](Operation *op) {
    if (isa<flash::AttentionOp>(op)) {
      op->emitError() << "expected the tiled loops of the algorithm fa2, got flash.attention";
      return WalkResult::interrupt();
    }
    auto finalize = dyn_cast<flash::FinalizeOp>(op);
    if (finalize && plan.finalize) {
      InFlightDiagnostic error = finalize.emitError() << "expected one attention per module, got a second one";
      error.attachNote(plan.finalize.getLoc()) << "the first one";
      return WalkResult::interrupt();
    }
    if (finalize)
      plan.finalize = finalize;
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (!plan.finalize)
    return plan.func.emitError() << "expected an attention in the tiled loops of the algorithm fa2, got none";
  return success();
}

/// `state` of the first segment is acc = 0, m = -inf, l = 0.
LogicalResult Matcher::matchInitialState(ValueRange state) {
  for (auto [index, value] : llvm::enumerate(state)) {
    auto fill = value.getDefiningOp<linalg::FillOp>();
    FloatAttr constant;
    bool isConstant = fill && matchPattern(fill.getInputs()[0], m_Constant(&constant));
    bool isExpected = isConstant && (index == 1 ? constant.getValue().isInfinity() && constant.getValue().isNegative()
                                                : constant.getValue().isZero());
    if (!isExpected)
      return plan.finalize.emitError() << "expected the state to begin as linalg.fill with 0, -inf and 0 in a parallel "
                                          "loop over query tiles (algorithm fa2)";
  }
  return success();
}

LogicalResult Matcher::matchSegments() {
  SmallVector<Value> state(plan.finalize.getOperands().take_front(3));
  while (true) {
    Operation *def = state[0].getDefiningOp();
    auto loop = dyn_cast_or_null<scf::ForOp>(def);
    auto op = dyn_cast_or_null<flash::OnlineAttentionOp>(loop ? loop.getYieldedValues()[0].getDefiningOp() : def);
    if (!op)
      break;
    ValueRange results = loop ? ValueRange(loop.getResults()) : ValueRange(op->getResults());
    if (results != ValueRange(state))
      return def->emitError() << "expected acc, m and l, in this order, to be the results";
    int64_t tile = op.getKType().getDimSize(2);
    if (loop) {
      if (loop.getYieldedValues() != ValueRange(op->getResults()) ||
          ValueRange(op.getDpsInits()) != ValueRange(loop.getRegionIterArgs()) || op.getJ0() != loop.getInductionVar())
        return loop.emitError() << "expected a loop over keys that carries acc, m and l through one "
                                   "flash.online_attention";
      if (getConstantIntValue(loop.getStep()) != tile)
        return loop.emitError() << "expected a step of one key tile (" << tile << ")";
      plan.segments.push_back({op, getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound())});
      state.assign(loop.getInitArgs().begin(), loop.getInitArgs().end());
      continue;
    }
    // A loop of one iteration, which the canonicalizer has inlined.
    std::optional<int64_t> begin = getConstantIntValue(op.getJ0());
    if (!begin)
      return op.emitError() << "expected the key position to be a loop's induction variable or a constant";
    Builder b(op.getContext());
    plan.segments.push_back({op, b.getIndexAttr(*begin), b.getIndexAttr(*begin + tile)});
    state.assign(op.getDpsInits().begin(), op.getDpsInits().end());
  }
  if (plan.segments.empty())
    return plan.finalize.emitError()
           << "expected loops over keys (algorithm fa2), got none: an extent is 0, or the mask "
              "keeps no key";
  std::reverse(plan.segments.begin(), plan.segments.end());
  if (failed(matchRuns(plan)))
    return failure();
  return matchInitialState(state);
}

LogicalResult Matcher::matchRegions() {
  flash::OnlineAttentionOp first = plan.getOp();
  plan.qTile = first.getQType().getDimSize(2);
  plan.kvTile = first.getKType().getDimSize(2);
  plan.headDim = first.getQType().getDimSize(3);
  plan.valueDim = first.getVType().getDimSize(3);
  plan.elementType = first.getQType().getElementType();
  plan.score = first.hasScore() ? &first.getScore() : nullptr;
  if (plan.finalize.getNormalize() != flash::Normalize::Deferred)
    return plan.finalize.emitError() << "expected normalize = deferred (algorithm fa2)";
  OperationEquivalence::Flags ignoreLocations = OperationEquivalence::Flags::IgnoreLocations;
  for (KeySegment &segment : plan.segments) {
    flash::OnlineAttentionOp op = segment.op;
    if (op.getNormalize() != flash::Normalize::Deferred)
      return op.emitError() << "expected normalize = deferred (algorithm fa2)";
    bool isSameOp = op.getScaleAttr() == first.getScaleAttr() && op.getB0() == first.getB0() &&
                    op.getH0() == first.getH0() && op.getI0() == first.getI0() && op.getKType() == first.getKType() &&
                    OperationEquivalence::isRegionEquivalentTo(&op.getScore(), &first.getScore(), ignoreLocations);
    if (!isSameOp)
      return op.emitError() << "expected all loops over keys to have the same tiles, position, scale and score region";
    if (!op.hasMask())
      continue;
    if (!plan.mask)
      plan.mask = &op.getMask();
    if (!OperationEquivalence::isRegionEquivalentTo(&op.getMask(), plan.mask, ignoreLocations))
      return op.emitError() << "expected all masked loops over keys to have the same mask region";
  }
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The parallel loop
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<ParallelDim> Matcher::matchParallelDim(Value position, StringRef name) {
  Builder b(position.getContext());
  // The canonicalizer folds away a dimension of one iteration.
  if (std::optional<int64_t> constant = getConstantIntValue(position); constant && *constant == 0)
    return ParallelDim{position, b.getIndexAttr(1), 1};
  auto argument = dyn_cast<BlockArgument>(position);
  auto forall = argument ? dyn_cast<scf::ForallOp>(argument.getOwner()->getParentOp()) : scf::ForallOp();
  if (!forall)
    return plan.finalize.emitError() << "expected the " << name << " to be a position of an scf.forall over (batch, "
                                     << "head, query tile), which flash-parallelize makes (algorithm fa2)";
  if (plan.finalize->getParentOp() != forall)
    return plan.finalize.emitError() << "expected flash.finalize directly in the parallel loop";
  unsigned dim = argument.getArgNumber();
  std::optional<int64_t> step = getConstantIntValue(forall.getMixedStep()[dim]);
  if (!isConstantIntValue(forall.getMixedLowerBound()[dim], 0) || !step)
    return forall.emitError() << "expected a parallel loop from 0 in constant steps";
  return ParallelDim{position, forall.getMixedUpperBound()[dim], *step};
}

LogicalResult Matcher::matchParallelLoop() {
  flash::OnlineAttentionOp op = plan.getOp();
  FailureOr<ParallelDim> batch = matchParallelDim(op.getB0(), "batch");
  if (failed(batch))
    return failure();
  FailureOr<ParallelDim> head = matchParallelDim(op.getH0(), "head");
  if (failed(head))
    return failure();
  plan.segmentTile = op.getI0().getDefiningOp<flash::SegmentTileOp>();
  FailureOr<ParallelDim> query =
      matchParallelDim(plan.segmentTile ? plan.segmentTile.getTile() : Value(op.getI0()), "query");
  if (failed(query))
    return failure();
  plan.batch = *batch;
  plan.head = *head;
  plan.query = *query;
  if (plan.batch.step != 1 || plan.head.step != 1)
    return op.emitError() << "expected one batch and one head per tile";
  int64_t step = plan.segmentTile ? 1 : plan.qTile;
  if (isa<BlockArgument>(plan.query.position) && plan.query.step != step)
    return op.emitError() << "expected the parallel loop to step by one query tile (" << step << "), got "
                          << plan.query.step;
  if (plan.segmentTile && static_cast<int64_t>(plan.segmentTile.getTileSize()) != plan.qTile)
    return plan.segmentTile.emitError() << "expected tiles of " << plan.qTile << " queries, got "
                                        << plan.segmentTile.getTileSize();
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Inputs and outputs
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<InputTile> Matcher::matchInput(flash::OnlineAttentionOp op, Value operand, Value row, StringRef name) {
  Builder b(op.getContext());
  InputTile tile{0, b.getIndexAttr(0), b.getIndexAttr(0)};
  OpFoldResult tileRow = b.getIndexAttr(0);
  Value value = operand;
  if (auto pad = value.getDefiningOp<tensor::PadOp>()) {
    if (!llvm::all_of(pad.getMixedLowPad(), [](OpFoldResult low) { return isConstantIntValue(low, 0); }))
      return op.emitError() << "expected a tile of " << name << " to be padded at its end only";
    value = pad.getSource();
  }
  if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>()) {
    SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
    RankedTensorType source = slice.getSourceType();
    bool isWholeRows = source.getRank() == 4 && isConstantIntValue(offsets[3], 0) && slice.hasUnitStride() &&
                       source.getDimSize(3) == slice.getType().getDimSize(3);
    if (!isWholeRows)
      return op.emitError() << "expected a tile of whole rows of " << name;
    tile.batch = offsets[0];
    tile.head = offsets[1];
    tileRow = offsets[2];
    value = slice.getSource();
  }
  if (!isSame(tileRow, getAsOpFoldResult(row)))
    return op.emitError() << "expected the tile of " << name << " to begin at the position of the attention";
  BlockArgument argument = getRootArgument(value);
  if (!argument) {
    InFlightDiagnostic error = op.emitError() << "expected " << name << " to be a tile of a function argument";
    error.attachNote(value.getLoc()) << "it is a tile of this";
    return failure();
  }
  tile.argument = argument.getArgNumber();
  return tile;
}

LogicalResult Matcher::matchInputs() {
  for (KeySegment &segment : plan.segments) {
    flash::OnlineAttentionOp op = segment.op;
    FailureOr<InputTile> q = matchInput(op, op.getQ(), op.getI0(), "q");
    if (failed(q))
      return failure();
    FailureOr<InputTile> k = matchInput(op, op.getK(), op.getJ0(), "k");
    if (failed(k))
      return failure();
    FailureOr<InputTile> v = matchInput(op, op.getV(), op.getJ0(), "v");
    if (failed(v))
      return failure();
    bool isSameTile =
        &segment == plan.segments.begin() ||
        (plan.q.argument == q->argument && plan.k.argument == k->argument && plan.v.argument == v->argument);
    if (!isSameTile)
      return op.emitError() << "expected all loops over keys to read the same q, k and v";
    plan.q = *q;
    plan.k = *k;
    plan.v = *v;
  }
  if (failed(matchGroup()))
    return failure();
  if (isa<BlockArgument>(plan.query.position))
    return success();
  // One query tile, without a loop: how many rows it has is in the type.
  auto type = cast<ShapedType>(plan.func.getArgument(plan.q.argument).getType());
  if (type.isDynamicDim(2) || type.getDimSize(2) > plan.qTile)
    return plan.finalize.emitError() << "expected a parallel loop over query tiles (algorithm fa2)";
  plan.query.extent = Builder(type.getContext()).getIndexAttr(type.getDimSize(2));
  return success();
}

/// The group size, by which the key head follows from the query head: what the launcher asks of the numbers of heads.
LogicalResult Matcher::matchGroup() {
  auto getHeads = [&](const InputTile &tile) {
    return cast<ShapedType>(plan.func.getArgument(tile.argument).getType()).getDimSize(1);
  };
  int64_t hq = getHeads(plan.q), hk = getHeads(plan.k);
  if (!ShapedType::isDynamic(hq) && !ShapedType::isDynamic(hk)) {
    plan.groupSize = hk > 0 ? hq / hk : 1;
    return success();
  }
  plan.groupSize = 1;
  if (isSame(plan.k.head, getAsOpFoldResult(plan.head.position)))
    return success();
  auto value = dyn_cast<Value>(plan.k.head);
  auto apply = value ? value.getDefiningOp<affine::AffineApplyOp>() : affine::AffineApplyOp();
  auto quotient = dyn_cast_or_null<AffineBinaryOpExpr>(apply ? apply.getAffineMap().getResult(0) : AffineExpr());
  auto divisor = dyn_cast_or_null<AffineConstantExpr>(quotient ? quotient.getRHS() : AffineExpr());
  bool isGroup = divisor && quotient.getKind() == AffineExprKind::FloorDiv && divisor.getValue() > 0 &&
                 isa<AffineDimExpr, AffineSymbolExpr>(quotient.getLHS()) && apply->getNumOperands() == 1 &&
                 apply->getOperand(0) == plan.head.position;
  if (!isGroup)
    return plan.getOp().emitError() << "expected the key head to be the query head, or the query head floordiv the "
                                       "group size, where a number of heads is dynamic";
  plan.groupSize = divisor.getValue();
  return success();
}

/// Whether a slice comes from flash-tile, so that the output is whole in the end, and not from the user's program,
/// which may return only a part of the output, or the output as a part of something else.
bool Matcher::isWholeSlice(Operation *slice, bool isLse) {
  if (plan.finalize->getParentOp() != plan.func)
    return slice->getParentOp() == plan.finalize->getParentOp();
  // One tile, without a loop: the slice cuts its padding off.
  SmallVector<int64_t> whole{1, 1, *getConstantIntValue(plan.query.extent)};
  if (!isLse)
    whole.push_back(plan.valueDim);
  return cast<ShapedType>(slice->getResult(0).getType()).getShape() == ArrayRef(whole);
}

/// Follows a tile to where it is returned or written.
LogicalResult Matcher::traceOutput(Value value, bool isLse) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<func::ReturnOp>(user)) {
      unsigned result = plan.func.getNumArguments() + use.getOperandNumber();
      plan.outputs.push_back({result, isLse, getElementTypeOrSelf(value)});
      continue;
    }
    if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(user)) {
      auto dest = dyn_cast<BlockArgument>(write.getDest());
      if (!dest || !isa<func::FuncOp>(dest.getOwner()->getParentOp()))
        return write.emitError() << "expected the output to be written to a function argument";
      plan.outputs.push_back({dest.getArgNumber(), isLse, getElementTypeOrSelf(dest)});
      continue;
    }
    Value next;
    if (isa<tensor::CastOp>(user) || (isa<tensor::ExtractSliceOp>(user) && isWholeSlice(user, isLse))) {
      next = user->getResult(0);
    } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(user);
               insert && insert.getSource() == value && isWholeSlice(user, isLse)) {
      next = insert.getResult();
    } else if (auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(user); insert && insert.getSource() == value) {
      auto forall = cast<scf::ForallOp>(insert->getParentOp()->getParentOp());
      auto dest = cast<BlockArgument>(insert.getDest());
      next = forall.getTiedOpResult(forall.getTiedOpOperand(dest));
    }
    if (!next)
      return user->emitError() << "expected " << (isLse ? "lse" : "o") << " to be returned or written to an argument "
                               << "only, got another use";
    if (failed(traceOutput(next, isLse)))
      return failure();
  }
  return success();
}

/// Whether `op` may stand in a function that becomes a kernel; what it holds is looked at by itself.
static bool isPartOfAttention(Operation *op) {
  return isa<bufferization::MaterializeInDestinationOp, bufferization::ToTensorOp, tensor::ParallelInsertSliceOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>() || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
         isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
}

LogicalResult Matcher::matchOutputs() {
  if (failed(traceOutput(plan.finalize.getOOut(), /*isLse=*/false)) ||
      failed(traceOutput(plan.finalize.getLseOut(), /*isLse=*/true)))
    return failure();
  unsigned numReturned = llvm::count_if(
      plan.outputs, [&](const Output &output) { return output.argument >= plan.func.getNumArguments(); });
  if (numReturned != plan.func.getNumResults())
    return plan.func.emitError() << "expected every function result to be an output of the attention";
  if (plan.outputs.empty())
    return plan.func.emitError() << "expected the attention's outputs to be returned or written to an argument";
  WalkResult result = plan.func.getBody().walk([](Operation *op) {
    if (isPartOfAttention(op))
      return WalkResult::advance();
    op->emitError() << "expected a function that computes an attention only, got another side effect";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

FailureOr<AttentionPlan> flashc::matchAttention(ModuleOp module) { return Matcher(module).match(); }
