//===- BoundLoops.cpp - loop bounds from the mask -----------------------------------------------------------------===//

#include "KeySegments.h"
#include "LoopUtils.h"
#include "flashc/Analysis/TilePartition.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::flash {
#define GEN_PASS_DEF_BOUNDLOOPS
#define GEN_PASS_DEF_PRINTMASKBOUNDS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Emits a missed-optimisation remark that says why a loop, or the mask in a loop, stays as it is.
static void emitMissed(Operation *op, StringRef reason) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name("bound-loops").category("flash")) << reason;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Which loop, and which bounds
//===--------------------------------------------------------------------------------------------------------------===//

static StringRef getPlural(StepDim dim) { return dim == StepDim::I ? "queries" : "keys"; }

static OperandRange getInits(StepOpInterface op) { return cast<DestinationStyleOpInterface>(*op).getDpsInits(); }

/// Returns the loop around `op` over tiles of the streamed dimension. The loop must do nothing but let `op` update its
/// state. Such a loop can leave out tiles that the mask drops. Null, with a remark, for other loops.
static scf::ForOp matchStreamedLoop(StepOpInterface op) {
  auto reject = [&](const Twine &reason) {
    emitMissed(op, reason.str());
    return scf::ForOp();
  };
  StepDim streamed = op.getStreamedDim(), resident = op.getResidentDim();
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop || op.getPositionIn(streamed) != loop.getInductionVar())
    return reject("the innermost loop does not go over " + getPlural(streamed) + " (flash-swap-loops comes first)");
  if (getConstantIntValue(loop.getStep()) != op.getTileExtent(streamed))
    return reject("the loop's step is not the number of " + getPlural(streamed) + " in a tile");
  bool readsHead = op.hasMask() && !op.getMask().getArgument(1).use_empty();
  if (op.getTileExtent(StepDim::B) != 1 || (op.getTileExtent(StepDim::H) != 1 && readsHead))
    return reject("a tile spans several heads, for which the mask differs");
  if (ShapedType::isDynamic(op.getTileExtent(resident)))
    return reject("the number of " + getPlural(resident) + " in a tile is not known");
  if (getFoldingLoop(op) != loop)
    return reject("the loop carries more than the state");
  for (Operation &nested : loop.getBody()->without_terminator())
    if (&nested != op && !isMemoryEffectFree(&nested) && !hasSingleEffect<MemoryEffects::Read>(&nested))
      return reject("the loop has side effects");
  for (StepDim dim : {StepDim::B, StepDim::H, resident})
    if (!loop.isDefinedOutsideOfLoop(op.getPositionIn(dim)))
      return reject("the position of the tile of " + getPlural(resident) + " changes inside the loop");
  return loop;
}

/// Returns the number of positions of the resident tile that exist. If the tile is a padded slice (or a padded array
/// that is smaller than a tile), this is the size before the padding, if that size is known before `loop`. Otherwise it
/// is the tile's size. It is also the tile's size if the step adds to streamed tiles, since the mask of such a step
/// drops the positions that do not exist.
static OpFoldResult getNumResident(StepOpInterface op, scf::ForOp loop) {
  StepDim resident = op.getResidentDim();
  OpFoldResult all = OpBuilder(op).getIndexAttr(op.getTileExtent(resident));
  auto pad = op.getMoving(resident).first.getDefiningOp<tensor::PadOp>();
  if (op.addsToStreamed() || !pad || pad.getSourceType().getRank() != 4 ||
      !isConstantIntValue(pad.getMixedLowPad()[2], 0))
    return all;
  OpFoldResult size;
  if (auto slice = pad.getSource().getDefiningOp<tensor::ExtractSliceOp>()) {
    if (slice.getMixedSizes().size() == 4)
      size = slice.getMixedSizes()[2];
  } else if (!pad.getSourceType().isDynamicDim(2)) {
    size = OpBuilder(op).getIndexAttr(pad.getSourceType().getDimSize(2));
  }
  bool isKnown = size && (isa<Attribute>(size) || loop.isDefinedOutsideOfLoop(cast<Value>(size)));
  return isKnown ? size : all;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Rewriting
//===--------------------------------------------------------------------------------------------------------------===//

/// Replaces clamped sizes of slices by `tile`. These sizes are clamped at `originalEnd`, the end of the loop before the
/// loop was split. `loop` must visit whole tiles only.
static void unclampSlices(scf::ForOp loop, Value originalEnd, int64_t tile) {
  LinearExpr rest = LinearExpr::get(originalEnd) - LinearExpr::symbol(loop.getInductionVar());
  SmallVector<affine::AffineMinOp> clamps(loop.getOps<affine::AffineMinOp>());
  for (affine::AffineMinOp min : clamps) {
    if (!isClamped(min, tile, rest))
      continue;
    OpBuilder b(min);
    min.replaceAllUsesWith(arith::ConstantIndexOp::create(b, min.getLoc(), tile).getResult());
    min.erase();
  }
}

static bool isEmpty(const KeySegment &segment) {
  auto begin = getConstantIntValue(segment.begin), end = getConstantIntValue(segment.end);
  return isEqualConstantIntOrValue(segment.begin, segment.end) || (begin && end && *begin >= *end);
}

/// Makes a segment without iterations, for a mask that keeps no pair: a kernel needs a loop even then. The segment's
/// end is its begin plus min(position, 0). The two are equal, since no position is negative, but folding does not know
/// this and keeps the loop.
static KeySegment makeEmptySegment(OpBuilder &b, scf::ForOp loop) {
  auto op = *loop.getOps<StepOpInterface>().begin();
  Location loc = loop.getLoc();
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  Value none = arith::MinSIOp::create(b, loc, op.getPositionIn(op.getResidentDim()), zero);
  Value end = b.createOrFold<arith::AddIOp>(loc, loop.getLowerBound(), none);
  return {loop.getLowerBound(), end, /*isFull=*/false};
}

/// Replaces `loop` by one loop for each segment. Each loop passes the state on to the next one. Returns the loops
/// without a mask.
static SmallVector<scf::ForOp> splitLoop(scf::ForOp loop, SmallVector<KeySegment> segments, int64_t tile) {
  OpBuilder b(loop);
  SmallVector<Value> state(loop.getInitArgs());
  SmallVector<scf::ForOp> fullLoops;
  llvm::erase_if(segments, isEmpty);
  if (segments.empty())
    segments.push_back(makeEmptySegment(b, loop));
  for (const KeySegment &segment : segments) {
    Value lower = getValueOrCreateConstantIndexOp(b, loop.getLoc(), segment.begin);
    Value upper = getValueOrCreateConstantIndexOp(b, loop.getLoc(), segment.end);
    auto part = cast<scf::ForOp>(b.clone(*loop));
    part.setLowerBound(lower);
    part.setUpperBound(upper);
    part.getInitArgsMutable().assign(state);
    state.assign(part.result_begin(), part.result_end());
    if (!segment.isFull)
      continue;
    for (StepOpInterface op : part.getOps<StepOpInterface>())
      op.getMask().getBlocks().clear();
    unclampSlices(part, loop.getUpperBound(), tile);
    fullLoops.push_back(part);
  }
  loop->replaceAllUsesWith(state);
  loop->erase();
  return fullLoops;
}

/// Describes the loop over the streamed dimension to the analysis of masks.
static MaskLoop describe(StepOpInterface op, scf::ForOp loop, OpFoldResult numResident) {
  MaskLoop result;
  result.view = op.getMaskView();
  result.tileSize = op.getTileExtent(op.getStreamedDim());
  result.otherTileSize = op.getTileExtent(op.getResidentDim());
  result.begin = LinearExpr::get(loop.getLowerBound());
  result.end = LinearExpr::get(loop.getUpperBound());
  result.count = LinearExpr::get(numResident);
  // flash-swap-loops has put the loop over resident tiles around this one.
  scf::ForOp outer = scf::getForInductionVarOwner(op.getPositionIn(op.getResidentDim()));
  if (outer && getConstantIntValue(outer.getStep()) == result.otherTileSize) {
    result.from = LinearExpr::get(outer.getLowerBound());
    result.to = LinearExpr::get(outer.getUpperBound());
  }
  return result;
}

/// Whether the last tile of the loop may exceed the sequence. If so, tiles may begin at any position. The tile may
/// exceed the sequence if the sequence is not known to be a multiple of the tile: flash-tile has then clamped the
/// slices and has added the sequence's end to the mask.
static bool mayEndAnywhere(const MaskLoop &loop) {
  std::optional<int64_t> length = (*loop.end - *loop.begin).getConstantValue();
  return !length || *length % loop.tileSize != 0;
}

/// Whether the keys of `op` are in the pages of a cache. Tiles of such keys have to stay on the grid.
static bool liesInPages(StepOpInterface op) {
  Value keys = op.getScores().getK();
  if (auto pad = keys.getDefiningOp<tensor::PadOp>())
    keys = pad.getSource();
  if (auto tile = keys.getDefiningOp<CacheTileOp>())
    return static_cast<bool>(tile.getTable());
  if (auto slice = keys.getDefiningOp<tensor::ExtractSliceOp>())
    keys = slice.getSource();
  auto view = keys.getDefiningOp<CacheViewOp>();
  return view && view.getTable();
}

/// Whether the mask reads an array at an index that depends on the query or the key.
static bool readsArrays(Region &mask) {
  llvm::SetVector<Operation *> ofPair;
  for (BlockArgument position : mask.getArguments().drop_front(2))
    getForwardSlice(position, &ofPair);
  return llvm::any_of(
      ofPair, [](Operation *inner) { return llvm::any_of(inner->getOperandTypes(), llvm::IsaPred<ShapedType>); });
}

/// Creates the runs of tiles by evaluating the mask at run time. Returns null if the runs are not worth the two kernels
/// that compute them. This is so if the bounds are exact. It is also so if the analysis understands the whole mask and
/// the mask reads sorted arrays: a loop with the bounds of such a mask visits only few tiles that it could skip.
static std::unique_ptr<RangedMask> createRanged(StepOpInterface op, Region &original, const MaskSet &mask,
                                                const LoopBounds &bounds) {
  bool isWorthIt = !mask.opaque.empty() || (classify(mask, bounds).kind != MaskClass::Exact && !readsArrays(original));
  return isWorthIt ? RangedMask::create(op, original) : nullptr;
}

std::optional<KeyBounds> mlir::flash::computeKeyBounds(StepOpInterface op, bool mayRunMask) {
  scf::ForOp loop = matchStreamedLoop(op);
  if (!loop)
    return std::nullopt;
  auto searched = std::make_unique<SearchedMask>(op, op.getMaskView());
  // Values that the loop computes are not known before it.
  MaskSet mask = readMask(op.getMask(), [&](Value value) {
    return loop.isDefinedOutsideOfLoop(value) || op.getMask().isAncestor(value.getParentRegion());
  });
  MaskLoop described = describe(op, loop, getNumResident(op, loop));
  // Tiles stay on the loop's grid in three cases: with dropout, which counts positions in blocks; with keys in pages;
  // and in a gradient step that streams queries. (Such a step may add to tiles of dq, and it reads and writes whole
  // tiles of arrays.) Runs of tiles are also on the grid.
  bool isOnGrid = op.getScores().getDropout() || liesInPages(op) ||
                  (isa<AccumulateGradientsOp>(op.getOperation()) && op.getStreamedDim() == StepDim::I);
  described.isMoved = !isOnGrid && mayEndAnywhere(described) && mayMoveTiles(mask, described, op.getContext());
  LoopBounds bounds = computeLoopBounds(mask, described, op.getContext());
  std::unique_ptr<RangedMask> ranged = mayRunMask ? createRanged(op, searched->getOriginal(), mask, bounds) : nullptr;
  if (ranged && described.isMoved) {
    described.isMoved = false;
    bounds = computeLoopBounds(mask, described, op.getContext());
  }
  return KeyBounds{std::move(searched), std::move(mask), std::move(bounds), std::move(ranged)};
}

bool mlir::flash::beginsAnywhere(OnlineAttentionOp op) {
  scf::ForOp loop = matchStreamedLoop(op);
  if (!loop || liesInPages(op))
    return false;
  SearchedMask searched(op);
  MaskSet mask = readMask(op.getMask());
  MaskLoop described = describe(op, loop, getNumResident(op, loop));
  described.from = described.to = std::nullopt;
  return mask.opaque.empty() && mayEndAnywhere(described) && mayMoveTiles(mask, described, op.getContext());
}

/// Returns e.g. "by running the mask, where the range of %x and %y in each tile leaves it open".
static std::string describeRanges(const RangedMask &ranged, llvm::function_ref<std::string(Value)> getName) {
  if (ranged.getArrays().empty())
    return "by running the mask";
  return "by running the mask, where the range of " +
         llvm::join(llvm::map_range(ranged.getArrays(), getName), " and ") + " in each tile leaves it open";
}

MaskClass mlir::flash::classify(const MaskSet &mask, const LoopBounds &bounds, const RangedMask *ranged,
                                llvm::function_ref<std::string(Value)> getName) {
  if (ranged)
    return {MaskClass::Mapped, "tiles are visited " + describeRanges(*ranged, getName)};
  return classify(mask, bounds);
}

namespace {
/// Prints the names of values as the function's IR has them.
class Names {
public:
  explicit Names(Operation *op) : state(op->getParentOfType<FunctionOpInterface>()) {}

  /// Prints `%x`, `%x[first]` or `%x[last]`.
  void operator()(raw_ostream &os, Value value, MaskSpace::At at) {
    value.printAsOperand(os, state);
    os << (at == MaskSpace::At::FirstRow ? "[first]" : at == MaskSpace::At::LastRow ? "[last]" : "");
  }
  std::string operator()(Value value) {
    return print([&](raw_ostream &os) { value.printAsOperand(os, state); });
  }

  static std::string print(function_ref<void(raw_ostream &)> printTo) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printTo(os);
    return text;
  }

  AsmState state;
};
} // namespace

/// Marks the flash.finalize that uses the results of `loop`. The mark says that each row of the tile has seen a key.
static void markRows(scf::ForOp loop) {
  for (Operation *user : loop->getUsers())
    if (auto finalize = dyn_cast<FinalizeOp>(user))
      finalize.setNoEmptyRows(true);
}

/// Whether the bounds exclude nothing: all tiles are in one kept interval, and all are in one cut interval.
static bool isTrivial(const LoopBounds &bounds) {
  auto isEverything = [](const TileInterval &interval) {
    return interval.isPrefix() && interval.isSuffix() && interval.conditions.empty();
  };
  return llvm::any_of(bounds.kept, isEverything) && llvm::any_of(bounds.cut, isEverything);
}

namespace {
struct BoundLoops : flash::impl::BoundLoopsBase<BoundLoops> {
  using BoundLoopsBase::BoundLoopsBase;

  void runOnOperation() override {
    SmallVector<StepOpInterface> ops;
    getOperation()->walk([&](StepOpInterface op) {
      if (op.hasMask())
        ops.push_back(op);
      else
        markUnmasked(op);
    });
    for (StepOpInterface op : ops)
      if (std::optional<KeyBounds> found = computeKeyBounds(op, maps))
        boundLoop(op, cast<scf::ForOp>(op->getParentOp()), *found);
  }

  /// Marks the flash.finalize of `op`, a step without a mask, if the loop is known to visit a key. Each row then sees
  /// all keys.
  void markUnmasked(StepOpInterface op) {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!op.needsFinalize() || !loop || op.getPositionIn(op.getStreamedDim()) != loop.getInductionVar() ||
        ValueRange(getInits(op)) != loop.getRegionIterArgs())
      return;
    auto begin = getConstantIntValue(loop.getLowerBound()), end = getConstantIntValue(loop.getUpperBound());
    if (begin && end && *begin < *end)
      markRows(loop);
  }

  void boundLoop(StepOpInterface op, scf::ForOp loop, KeyBounds &found) {
    auto &[searched, mask, bounds, ranged] = found;
    if (op.needsFinalize() && keepsEveryRow(mask, bounds))
      markRows(loop);
    if (ranged)
      return boundByRuns(op, loop, found);
    for (Operation *part : mask.opaque) {
      ++numOpaque;
      std::string reason = Names::print([&](raw_ostream &os) { MaskSet::printOpaque(os, part); });
      emitMissed(part, reason + ", opaque to the analysis of masks: it bounds no loop");
    }
    if (isTrivial(bounds))
      return;
    if (op.getContext()->getRemarkEngine()) {
      Names names(op);
      remark::passed(op.getLoc(), remark::RemarkOpts::name("bound-loops").category("flash"))
          << Names::print([&](raw_ostream &os) { found.bounds.print(os, names); });
    }
    KeyRange range = KeyRange::of(op, loop, getNumResident(op, loop));
    SmallVector<KeySegment> segments = emitKeySegments(op, range, bounds, mask.space);
    // In the dual view keys are resident. A read at the query's position would run again for each column of every
    // masked tile. A search depends on the key alone, so the region with searches stays in the op.
    if (isa<AccumulateGradientsOp>(op.getOperation()) && op.getMaskView() == MaskView::Dual)
      searched->keepSearches();
    else
      searched->restore();
    numUnmasked += splitLoop(loop, segments, bounds.tileSize).size();
    ++numBounded;
  }

  /// Replaces `loop` by three loops for each run of tiles of a table: one over masked tiles, one over full tiles and
  /// one over masked tiles.
  void boundByRuns(StepOpInterface op, scf::ForOp loop, KeyBounds &found) {
    if (op.getContext()->getRemarkEngine()) {
      Names names(op);
      remark::passed(op.getLoc(), remark::RemarkOpts::name("bound-loops").category("flash"))
          << describeRanges(*found.ranged, names);
    }
    SmallVector<std::pair<OpFoldResult, OpFoldResult>> stretches;
    KeyRange range = KeyRange::of(op, loop, getNumResident(op, loop));
    if (!isTrivial(found.bounds)) // the known bounds limit the runs as they would limit the loops
      for (KeySegment &kept : emitKeySegments(op, range, found.bounds, found.mask.space))
        stretches.emplace_back(kept.begin, kept.end);
    found.searched->restore();
    found.ranged->restrictTo(stretches);
    SmallVector<OpFoldResult> keys = found.ranged->emitRuns();
    SmallVector<KeySegment> segments;
    for (auto run = ArrayRef<OpFoldResult>(keys); !run.empty(); run = run.drop_front(4))
      for (unsigned part = 0; part < 3; ++part)
        segments.push_back({run[part], run[part + 1], /*isFull=*/part == 1});
    numUnmasked += splitLoop(loop, segments, found.bounds.tileSize).size();
    ++numRanged;
  }
};

struct PrintMaskBounds : flash::impl::PrintMaskBoundsBase<PrintMaskBounds> {
  using PrintMaskBoundsBase::PrintMaskBoundsBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](StepOpInterface op) {
      if (!op.hasMask() || !op->getParentOfType<FunctionOpInterface>())
        return WalkResult::advance();
      if (ShapedType::isDynamic(op.getTileExtent(StepDim::I)) || ShapedType::isDynamic(op.getTileExtent(StepDim::J))) {
        op->emitOpError() << "expected tiles of static sizes (flash-tile comes first)";
        return WalkResult::interrupt();
      }
      print(op, dual ? MaskView::Dual : op.getMaskView());
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  void print(StepOpInterface op, MaskView view) {
    auto function = op->getParentOfType<FunctionOpInterface>();
    bool isMoved = view == op.getMaskView() && areTilesMoved(op);
    SearchedMask searched(op, view);
    Names names(op);
    MaskSet mask = readMask(op.getMask());
    MaskLoop loop;
    loop.view = view;
    loop.tileSize = op.getTileExtent(StepDim::J);
    loop.otherTileSize = op.getTileExtent(StepDim::I);
    if (view == MaskView::Dual)
      std::swap(loop.tileSize, loop.otherTileSize);
    loop.isMoved = isMoved;
    LoopBounds bounds = computeLoopBounds(mask, loop, &getContext());
    llvm::outs() << (view == MaskView::Dual ? "dual of the mask in @" : "mask in @") << function.getName() << ":\n";
    if (view == MaskView::Primal)
      mask.print(llvm::outs(), names);
    bounds.print(llvm::outs(), names);
    printSearches(op.getMask(), bounds, names.state);
    std::unique_ptr<RangedMask> ranged;
    if (view == op.getMaskView() && isa<scf::ForOp>(op->getParentOp()))
      ranged = createRanged(op, searched.getOriginal(), mask, bounds);
    MaskClass maskClass = classify(mask, bounds, ranged.get(), names);
    llvm::outs() << "\nclass " << MaskClass::getName(maskClass.kind) << (maskClass.reason.empty() ? "" : ": ")
                 << maskClass.reason << '\n';
  }

  /// Whether the tiles of the loop around `op` are moved (`LoopBounds::isMoved`).
  static bool areTilesMoved(StepOpInterface op) {
    std::optional<KeyBounds> found = computeKeyBounds(op);
    return found && found->bounds.isMoved;
  }

  /// Prints the ops of the mask that compute the values that the bounds use.
  static void printSearches(Region &mask, const LoopBounds &bounds, AsmState &state) {
    llvm::SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.filter = [&](Operation *op) { return mask.isAncestor(op->getParentRegion()); };
    for (const CapturedValue &captured : bounds.captured)
      (void)getBackwardSlice(captured.value, &slice, options);
    for (Operation &op : mask.front())
      if (slice.contains(&op))
        op.print(llvm::outs() << "\nwhere ", state);
  }
};
} // namespace
