//===- TiledNest.cpp - the nest of a tiled step, read off the IR --------------------------------------------------===//

#include "TiledNest.h"
#include "Visits/RunsTable.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace flashc;

static bool isSame(OpFoldResult x, OpFoldResult y) { return isEqualConstantIntOrValue(x, y); }

/// The words for one position and for several positions of dimension `dim`.
static StringRef getName(flash::StepDim dim) { return dim == flash::StepDim::I ? "query" : "key"; }
static StringRef getPlural(flash::StepDim dim) { return dim == flash::StepDim::I ? "queries" : "keys"; }

namespace {
class Matcher {
public:
  /// Matches the nest that ends with `last`, or with the epilogue that takes its state.
  Matcher(func::FuncOp func, flash::StepOpInterface last, flash::EpilogueOpInterface epilogue) : lastStep(last) {
    nest.func = func;
    findEnd(epilogue);
  }

  FailureOr<LoopNest> match() {
    if (failed(matchSegments()) || failed(matchRegions()) || failed(matchParallelLoop()) || failed(matchOperands()))
      return failure();
    setExtents();
    return std::move(nest);
  }

private:
  void findEnd(flash::EpilogueOpInterface epilogue);
  LogicalResult matchSegments();
  LogicalResult addSegment(Operation *def, scf::ForOp loop, flash::StepOpInterface op);
  LogicalResult matchInitialState(ValueRange state);
  LogicalResult matchRegions();
  LogicalResult matchParallelLoop();
  FailureOr<ParallelDim> matchParallelDim(Value position, StringRef name);
  Value matchSequence();
  void matchParts();
  void matchPackedRows();
  LogicalResult matchOperands();
  LogicalResult matchGroup();
  FailureOr<NestOperand> matchOperand(flash::StepOpInterface op, const flash::StepOperand &info);
  void setExtents();
  /// Emits an error on the op at the nest's end, for faults of the nest as a whole.
  InFlightDiagnostic emitError() { return nest.end->emitError(); }
  StringRef getResidentName() { return getName(nest.getStep().getResidentDim()); }

  LoopNest nest;
  /// The state that enters the loop that was matched last. Loops are matched backwards, from the last one to the first.
  /// Before any loop is matched, this is the state after all loops.
  SmallVector<Value> state;
  flash::StepOpInterface lastStep;
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// The loops over the streamed dimension
//===--------------------------------------------------------------------------------------------------------------===//

/// Return the value of state `number` before `step`, and after it. State that moves with the streamed tile is a slice
/// of an array, which the loop inserts into the array again; the value is then the array. With only one tile there is
/// no slice.
static Value getStateBefore(flash::StepOpInterface step, unsigned number) {
  Value init = cast<DestinationStyleOpInterface>(step.getOperation()).getDpsInits()[number];
  if (!step.getStepState()[number].movesWith(step.getStreamedDim()))
    return init;
  if (auto pad = init.getDefiningOp<tensor::PadOp>())
    init = pad.getSource();
  auto slice = init.getDefiningOp<tensor::ExtractSliceOp>();
  return slice ? slice.getSource() : init;
}
static Value getStateAfter(flash::StepOpInterface step, unsigned number) {
  Value result = step->getResult(number);
  if (!step.getStepState()[number].movesWith(step.getStreamedDim()))
    return result;
  if (auto slice = result.hasOneUse() ? dyn_cast<tensor::ExtractSliceOp>(*result.user_begin()) : nullptr)
    result = slice.getResult();
  auto insert = result.hasOneUse() ? dyn_cast<tensor::InsertSliceOp>(*result.user_begin()) : nullptr;
  if (!insert)
    return result;
  bool isPutBack = insert.getSource() == result && insert.getDest() == getStateBefore(step, number) &&
                   isSame(insert.getMixedOffsets()[2], getAsOpFoldResult(step.getPositionIn(step.getStreamedDim())));
  return isPutBack ? insert.getResult() : Value();
}

/// Returns the values of all states of `step`, each as `get` gives it: before the step, or after it.
static SmallVector<Value> getState(flash::StepOpInterface step, Value (*get)(flash::StepOpInterface, unsigned)) {
  return llvm::map_to_vector(llvm::seq(step->getNumResults()), [&](unsigned number) { return get(step, number); });
}

/// Returns the number of a state that the loops carry as a whole, and not as a slice of an array.
static unsigned getCarried(flash::StepOpInterface step) {
  SmallVector<flash::StepOperand> infos = step.getStepState();
  return llvm::find_if(infos, [&](const flash::StepOperand &info) { return !info.movesWith(step.getStreamedDim()); }) -
         infos.begin();
}

void Matcher::findEnd(flash::EpilogueOpInterface epilogue) {
  if (epilogue) {
    nest.epilogue = nest.end = epilogue;
    llvm::append_range(state, epilogue.getState());
    for (auto [value, info] : llvm::zip_equal(epilogue->getResults(), epilogue.getEpilogueResults()))
      nest.results.push_back({value, info});
    return;
  }
  auto loop = dyn_cast<scf::ForOp>(lastStep->getParentOp());
  SmallVector<Value> after = getState(lastStep, getStateAfter);
  bool isCarried = loop && loop.getYieldedValues() == ValueRange(after);
  state = isCarried ? SmallVector<Value>(loop->getResults()) : after;
  for (auto [value, info] : llvm::zip_equal(state, lastStep.getStepState()))
    nest.results.push_back({value, info, {}, /*isAddedUp=*/info.movesWith(lastStep.getStreamedDim())});
  nest.end = state.back().getDefiningOp()->getBlock()->getTerminator();
}

/// Checks that `state`, which enters the first segment, is the state that a step begins with: each value is filled with
/// its padding (StepState).
LogicalResult Matcher::matchInitialState(ValueRange state) {
  std::string expected;
  bool isExpected = true;
  for (auto [value, info] : llvm::zip_equal(state, nest.getStep().getStepState())) {
    auto fill = value.getDefiningOp<linalg::FillOp>();
    FloatAttr constant;
    isExpected &=
        fill && matchPattern(fill.getInputs()[0], m_Constant(&constant)) && constant.getValueAsDouble() == info.padding;
    expected += (expected.empty() ? "" : ", ") + (std::isinf(info.padding) ? "-inf" : Twine(int(info.padding)).str());
  }
  if (size_t last = expected.rfind(", "); last != std::string::npos)
    expected.replace(last, 2, " and ");
  if (isExpected)
    return success();
  return emitError() << "expected the state to begin as linalg.fill with " << expected << " in a parallel loop over "
                     << getResidentName() << " tiles (algorithm fa2)";
}

/// Adds the segment that `def` computes: a loop over streamed tiles, or a single step.
LogicalResult Matcher::addSegment(Operation *def, scf::ForOp loop, flash::StepOpInterface op) {
  flash::StepDim streamed = op.getStreamedDim();
  int64_t tile = op.getTileExtent(streamed);
  Value position = op.getPositionIn(streamed);
  SmallVector<Value> inits = getState(op, getStateBefore), after = getState(op, getStateAfter);
  if (!loop) { // the canonicalizer has inlined a loop of one iteration
    std::optional<int64_t> begin = getConstantIntValue(position);
    if (!begin)
      return op.emitError() << "expected the " << getName(streamed)
                            << " position to be a loop's induction variable or a constant";
    Builder b(op.getContext());
    nest.segments.push_back({op, b.getIndexAttr(*begin), b.getIndexAttr(*begin + tile)});
    state = std::move(inits);
    return success();
  }
  if (loop.getYieldedValues() != ValueRange(after) || ValueRange(inits) != loop.getRegionIterArgs() ||
      position != loop.getInductionVar())
    return loop.emitError() << "expected a loop over " << getPlural(streamed) << " that carries " << op.getStateNames()
                            << " through one " << op->getName();
  if (getConstantIntValue(loop.getStep()) != tile)
    return loop.emitError() << "expected a step of one " << getName(streamed) << " tile (" << tile << ")";
  nest.segments.push_back({op, getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound())});
  state.assign(loop.getInitArgs().begin(), loop.getInitArgs().end());
  return success();
}

LogicalResult Matcher::matchSegments() {
  if (llvm::is_contained(state, Value()))
    return lastStep.emitError() << "expected the tiles that it adds to to be put back where they come from";
  unsigned carried = lastStep ? getCarried(lastStep) : 0;
  while (Operation *def = state[carried].getDefiningOp()) {
    auto loop = dyn_cast<scf::ForOp>(def);
    auto op = dyn_cast_or_null<flash::StepOpInterface>(loop ? loop.getYieldedValues()[carried].getDefiningOp() : def);
    if (!op)
      break;
    if (loop ? loop->getResults() != ValueRange(state) : getState(op, getStateAfter) != state)
      return def->emitError() << "expected " << op.getStateNames() << ", in this order, to be the results";
    if (failed(addSegment(def, loop, op)))
      return failure();
  }
  if (nest.segments.empty())
    return emitError() << "expected loops over " << (lastStep ? getPlural(lastStep.getStreamedDim()) : "keys")
                       << " (algorithm fa2), got none: an extent is 0, or the mask keeps no key";
  std::reverse(nest.segments.begin(), nest.segments.end());
  if (failed(matchRuns(nest)))
    return failure();
  return matchInitialState(state);
}

LogicalResult Matcher::matchRegions() {
  flash::StepOpInterface first = nest.getStep();
  flash::StepDim streamed = first.getStreamedDim(), resident = first.getResidentDim();
  nest.residentTile = first.getTileExtent(resident);
  nest.streamedTile = first.getTileExtent(streamed);
  flash::ScoresOpInterface scores = first.getScores();
  nest.score = first.hasScore() ? &scores.getScore() : nullptr;
  if (Region *derivative = scores ? scores.getDerivativeRegion() : nullptr; derivative && !derivative->empty())
    nest.derivative = derivative;
  OperationEquivalence::Flags ignoreLocations = OperationEquivalence::Flags::IgnoreLocations;
  for (Segment &segment : nest.segments) {
    flash::StepOpInterface op = segment.op;
    auto isSamePosition = [&](flash::StepDim dim) { return op.getPositionIn(dim) == first.getPositionIn(dim); };
    bool isSameOp = op->getName() == first->getName() && (!scores || op.getScores().getScale() == scores.getScale()) &&
                    isSamePosition(flash::StepDim::B) && isSamePosition(flash::StepDim::H) &&
                    isSamePosition(resident) && op.getTileExtent(streamed) == nest.streamedTile &&
                    llvm::all_of(llvm::zip_equal(op->getRegions(), first->getRegions()), [&](auto pair) {
                      auto &[region, other] = pair;
                      return (scores && &region == &op.getMask()) ||
                             OperationEquivalence::isRegionEquivalentTo(&region, &other, ignoreLocations);
                    });
    if (!isSameOp)
      return op.emitError() << "expected all loops over " << getPlural(streamed)
                            << " to have the same tiles, position, scale and score region";
    if (!op.hasMask())
      continue;
    if (!nest.mask)
      nest.mask = &op.getMask();
    if (!OperationEquivalence::isRegionEquivalentTo(&op.getMask(), nest.mask, ignoreLocations))
      return op.emitError() << "expected all masked loops over " << getPlural(streamed)
                            << " to have the same mask region";
  }
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The parallel loop
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<ParallelDim> Matcher::matchParallelDim(Value position, StringRef name) {
  Builder b(position.getContext());
  // The canonicalizer has removed a dimension of one iteration.
  if (std::optional<int64_t> constant = getConstantIntValue(position); constant && *constant == 0)
    return ParallelDim{position, b.getIndexAttr(1), 1};
  auto argument = dyn_cast<BlockArgument>(position);
  auto forall = argument ? dyn_cast<scf::ForallOp>(argument.getOwner()->getParentOp()) : scf::ForallOp();
  if (!forall)
    return emitError() << "expected the " << name << " to be a position of an scf.forall over (batch, head, "
                       << getResidentName() << " tile), which flash-parallelize makes (algorithm fa2)";
  if (nest.epilogue && nest.epilogue->getParentOp() != forall)
    return emitError() << "expected " << nest.epilogue->getName() << " directly in the parallel loop";
  unsigned dim = argument.getArgNumber();
  std::optional<int64_t> step = getConstantIntValue(forall.getMixedStep()[dim]);
  if (!isConstantIntValue(forall.getMixedLowerBound()[dim], 0) || !step)
    return forall.emitError() << "expected a parallel loop from 0 in constant steps";
  return ParallelDim{position, forall.getMixedUpperBound()[dim], *step};
}

/// Returns the batch that keys and regions have, if it is the sequence of a tile's rows (flash-pack-rows). Null
/// otherwise.
Value Matcher::matchSequence() {
  Value batch = nest.getStep().getPositionIn(flash::StepDim::B);
  llvm::SetVector<Operation *> slice;
  if (nest.segmentTile && batch.getDefiningOp())
    (void)getBackwardSlice(batch, &slice);
  return slice.contains(nest.segmentTile) ? batch : Value();
}

/// Finds the dimension of an attention's parallel loop that counts parts of the keys: the one that is neither batch,
/// head nor row.
void Matcher::matchParts() {
  nest.parts.dim = {Value(), Builder(nest.end->getContext()).getIndexAttr(1), 1};
  auto forall = nest.epilogue ? dyn_cast<scf::ForallOp>(nest.epilogue->getParentOp()) : scf::ForallOp();
  if (!forall)
    return;
  for (auto [position, extent] : llvm::zip_equal(forall.getInductionVars(), forall.getMixedUpperBound()))
    if (!llvm::is_contained({nest.batch.position, nest.head.position, nest.resident.position}, position))
      nest.parts.dim = {position, extent, 1};
  for (auto size : forall.getOps<flash::PartSizeOp>())
    nest.parts.size = size;
}

/// Recognises tiles of several heads, and the tiles that flash-split-kv makes, which have at most kWarpRows rows.
void Matcher::matchPackedRows() {
  auto op = dyn_cast<flash::OnlineAttentionOp>(nest.getStep().getOperation());
  if (!op)
    return;
  ArrayRef<int64_t> tile = op.getQ().getType().getShape();
  if (tile[1] == 1 && tile[2] > tile::kWarpRows)
    return;
  Builder b(op.getContext());
  nest.packed = PackedShape{tile[1], tile[2]};
  if (std::optional<int64_t> head = getConstantIntValue(nest.head.position); head && nest.head.step == 1)
    nest.head.step = tile[1], nest.head.extent = b.getIndexAttr(tile[1]); // a loop of one iteration was removed
}

LogicalResult Matcher::matchParallelLoop() {
  flash::StepOpInterface op = nest.getStep();
  Value position = op.getPositionIn(op.getResidentDim());
  nest.segmentTile = position.getDefiningOp<flash::SegmentTileOp>();
  nest.sequence = matchSequence();
  FailureOr<ParallelDim> batch = ParallelDim{nest.sequence, Builder(op.getContext()).getIndexAttr(1), 1};
  if (!nest.sequence)
    batch = matchParallelDim(op.getPositionIn(flash::StepDim::B), "batch");
  if (failed(batch))
    return failure();
  FailureOr<ParallelDim> head = matchParallelDim(op.getPositionIn(flash::StepDim::H), "head");
  if (failed(head))
    return failure();
  FailureOr<ParallelDim> resident =
      matchParallelDim(nest.segmentTile ? nest.segmentTile.getTile() : position, getResidentName());
  if (failed(resident))
    return failure();
  nest.batch = *batch;
  nest.head = *head;
  nest.resident = *resident;
  matchParts();
  matchPackedRows();
  if (nest.batch.step != 1 || nest.head.step != (nest.packed ? nest.packed->heads : 1))
    return op.emitError() << "expected one batch and one head per tile";
  int64_t step = nest.segmentTile ? 1 : nest.residentTile;
  if (isa<BlockArgument>(nest.resident.position) && nest.resident.step != step)
    return op.emitError() << "expected the parallel loop to step by one " << getResidentName() << " tile (" << step
                          << "), got " << nest.resident.step;
  if (nest.segmentTile && static_cast<int64_t>(nest.segmentTile.getTileSize()) != nest.residentTile)
    return nest.segmentTile.emitError() << "expected tiles of " << nest.residentTile << " queries, got "
                                        << nest.segmentTile.getTileSize();
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Operands
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<NestOperand> Matcher::matchOperand(flash::StepOpInterface op, const flash::StepOperand &info) {
  Builder b(op.getContext());
  flash::StepDim streamed = op.getStreamedDim();
  Value value = op->getOperand(info.number);
  auto type = cast<RankedTensorType>(value.getType());
  bool isStreamed = info.movesWith(streamed);
  NestOperand result{info, Value(), b.getIndexAttr(0), b.getIndexAttr(0), type, isStreamed};
  OpFoldResult row = b.getIndexAttr(0);
  if (auto pad = value.getDefiningOp<tensor::PadOp>()) {
    if (!llvm::all_of(pad.getMixedLowPad(), [](OpFoldResult low) { return isConstantIntValue(low, 0); }))
      return op.emitError() << "expected a tile of " << info.name << " to be padded at its end only";
    value = pad.getSource();
  }
  if (auto cache = value.getDefiningOp<flash::CacheTileOp>()) {
    result.cache = cache;
    result.batch = getAsOpFoldResult(cache.getB()), result.head = getAsOpFoldResult(cache.getH());
    row = getAsOpFoldResult(cache.getJ());
    value = cache.getCache();
  } else if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>()) {
    SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
    RankedTensorType source = slice.getSourceType();
    bool isWholeRows = source.getRank() == type.getRank() && slice.hasUnitStride();
    if (result.isMatrix())
      isWholeRows = isWholeRows && isConstantIntValue(offsets.back(), 0) &&
                    source.getShape().back() == slice.getType().getShape().back();
    if (!isWholeRows)
      return op.emitError() << "expected a tile of whole rows of " << info.name;
    result.batch = offsets[0];
    result.head = offsets[1];
    row = offsets[2];
    value = slice.getSource();
  }
  if (!isSame(row, getAsOpFoldResult(op.getPositionIn(isStreamed ? streamed : op.getResidentDim()))))
    return op.emitError() << "expected the tile of " << info.name << " to begin at the position of the attention";
  result.array = flash::getRootArgument(value);
  if (flash::matchRowDots(value))
    result.array = value;
  if (!result.array && value.getDefiningOp<flash::UnpackRowsOp>())
    return op.emitError() << "expected the batch and the number of queries of packed queries to be known at the launch "
                             "only, and the algorithm fa2: flash-pack-rows has left flash.unpack_rows";
  if (!result.array) {
    InFlightDiagnostic error = op.emitError() << "expected " << info.name << " to be a tile of a function argument";
    error.attachNote(value.getLoc()) << "it is a tile of this";
    return failure();
  }
  return result;
}

LogicalResult Matcher::matchOperands() {
  SmallVector<flash::StepOperand> infos = nest.getStep().getStepInputs();
  for (Segment &segment : nest.segments) {
    SmallVector<NestOperand, 3> operands;
    for (const flash::StepOperand &info : infos) {
      FailureOr<NestOperand> operand = matchOperand(segment.op, info);
      if (failed(operand))
        return failure();
      operands.push_back(*operand);
    }
    auto isSameArray = [](auto pair) {
      auto &[x, y] = pair;
      return x.array == y.array && x.tile == y.tile;
    };
    if (!nest.operands.empty() && !llvm::all_of(llvm::zip_equal(nest.operands, operands), isSameArray))
      return segment.op.emitError() << "expected all loops over " << getPlural(segment.op.getStreamedDim())
                                    << " to read the same arrays";
    nest.operands = std::move(operands);
  }
  nest.elementType = nest.operands.front().tile.getElementType();
  if (failed(matchGroup()))
    return failure();
  if (isa<BlockArgument>(nest.resident.position))
    return success();
  // Without a loop there is one resident tile, whose rows are those of the array. The array's type says how many.
  auto *operand = llvm::find_if(nest.operands, [](const NestOperand &operand) { return !operand.isStreamed; });
  auto type = cast<ShapedType>(operand->array.getType());
  if (type.isDynamicDim(2) || type.getDimSize(2) > nest.residentTile)
    return emitError() << "expected a parallel loop over " << getResidentName() << " tiles (algorithm fa2)";
  nest.resident.extent = Builder(type.getContext()).getIndexAttr(type.getDimSize(2));
  return success();
}

/// Finds the group size, from which the key head of a query head is computed. The launcher checks the group size
/// against the numbers of heads.
LogicalResult Matcher::matchGroup() {
  auto find = [&](flash::StepDim dim) {
    return llvm::find_if(nest.operands, [&](const NestOperand &operand) { return operand.info.movesWith(dim); });
  };
  auto getHeads = [&](const NestOperand &operand) { return cast<ShapedType>(operand.array.getType()).getDimSize(1); };
  const NestOperand *ofQueryHeads = find(flash::StepDim::H), *ofKeyHeads = find(flash::StepDim::KeyHead);
  nest.groupSize = 1;
  if (ofKeyHeads == nest.operands.end())
    return success();
  int64_t hq = getHeads(*ofQueryHeads), hk = getHeads(*ofKeyHeads);
  if (!ShapedType::isDynamic(hq) && !ShapedType::isDynamic(hk)) {
    nest.groupSize = hk > 0 ? hq / hk : 1;
    return success();
  }
  if (isSame(ofKeyHeads->head, getAsOpFoldResult(nest.head.position)))
    return success();
  nest.groupSize = flash::getGroupOfKeyHead(ofKeyHeads->head, nest.head.position);
  if (nest.groupSize == 0)
    return nest.getStep().emitError() << "expected the key head to be the query head, or the query head floordiv the "
                                         "group size, where a number of heads is dynamic";
  return success();
}

/// Returns the number of rows of `result`, an array to which the iterations of the parallel loop add slices.
static OpFoldResult getAddedRows(Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  if (type.isDynamicDim(2))
    for (Operation *user : result.getUsers())
      if (auto add = dyn_cast<flash::ParallelAddSliceOp>(user))
        return add.getMixedSizes()[2];
  return Builder(type.getContext()).getIndexAttr(type.getDimSize(2));
}

void Matcher::setExtents() {
  // Tiles of packed sequences are counted; their rows are those of the arrays.
  OpFoldResult rows = nest.segmentTile ? OpFoldResult(nest.segmentTile.getLength()) : nest.resident.extent;
  for (NestResult &result : nest.results) {
    auto type = cast<ShapedType>(result.value.getType());
    result.extents = {nest.batch.extent, nest.head.extent, result.isAddedUp ? getAddedRows(result.value) : rows};
    if (type.getRank() == 4)
      result.extents.push_back(Builder(type.getContext()).getIndexAttr(type.getDimSize(3)));
  }
}

FailureOr<LoopNest> flashc::matchTiledNest(func::FuncOp func, flash::StepOpInterface last,
                                           flash::EpilogueOpInterface epilogue) {
  return Matcher(func, last, epilogue).match();
}
