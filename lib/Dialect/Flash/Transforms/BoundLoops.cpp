//===- BoundLoops.cpp - the mask as loop bounds -------------------------------------------------------------------===//

#include "flashc/Analysis/MaskBounds.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::flash {
#define GEN_PASS_DEF_BOUNDLOOPS
#define GEN_PASS_DEF_PRINTMASKBOUNDS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// Says in an optimisation remark why a loop stays as it is, or masked.
static void emitMissed(Operation *op, StringRef reason) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name("bound-loops").category("flash")) << reason;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Which loop, and which bounds
//===--------------------------------------------------------------------------------------------------------------===//

/// The loop over key tiles that does nothing but fold `op` into its state, so that an iteration that the mask leaves
/// empty may be skipped.
static scf::ForOp matchKeyLoop(OnlineAttentionOp op) {
  auto reject = [&](StringRef reason) {
    emitMissed(op, reason);
    return scf::ForOp();
  };
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop || op.getJ0() != loop.getInductionVar())
    return reject("the innermost loop does not go over keys (flash-swap-loops comes first)");
  if (getConstantIntValue(loop.getStep()) != op.getKType().getDimSize(2))
    return reject("the loop's step is not the number of keys in a tile");
  if (op.getQType().getDimSize(0) != 1 || op.getQType().getDimSize(1) != 1)
    return reject("a tile spans several heads");
  if (ValueRange(op.getDpsInits()) != ValueRange(loop.getRegionIterArgs()) ||
      loop.getYieldedValues() != ValueRange(op->getResults()))
    return reject("the loop carries more than the attention's state");
  for (Operation &nested : loop.getBody()->without_terminator())
    if (&nested != op && !isMemoryEffectFree(&nested) && !hasSingleEffect<MemoryEffects::Read>(&nested))
      return reject("the loop has side effects");
  for (Value position : {op.getB0(), op.getH0(), op.getI0()})
    if (!loop.isDefinedOutsideOfLoop(position))
      return reject("the tile's query position changes inside the loop");
  return loop;
}

/// Moves constraints on values that are not known before the loop to the opaque ones.
static void dropUnavailable(MaskBounds &mask, OnlineAttentionOp op, scf::ForOp loop) {
  auto isUnavailable = [&](const MaskConstraint &constraint) {
    return llvm::any_of(constraint.rest.getTerms(), [&](const LinearExpr::Term &term) {
      Value value = term.value;
      return !loop.isDefinedOutsideOfLoop(value) && !op.getMask().isAncestor(value.getParentRegion());
    });
  };
  size_t before = mask.constraints.size();
  llvm::erase_if(mask.constraints, isUnavailable);
  if (mask.constraints.size() != before)
    mask.opaque.push_back(op);
}

/// How many queries of the tile exist: all of them, or those that a padded tile was made from.
static OpFoldResult getNumQueries(OnlineAttentionOp op, scf::ForOp loop) {
  if (auto pad = op.getQ().getDefiningOp<tensor::PadOp>())
    if (auto slice = pad.getSource().getDefiningOp<tensor::ExtractSliceOp>()) {
      OpFoldResult size = slice.getMixedSizes()[2];
      bool isPlain = slice.getMixedSizes().size() == 4 && isConstantIntValue(pad.getMixedLowPad()[2], 0);
      if (isPlain && (isa<Attribute>(size) || loop.isDefinedOutsideOfLoop(cast<Value>(size))))
        return size;
    }
  return OpBuilder(op).getIndexAttr(op.getQType().getDimSize(2));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Rewriting
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The bounds of the consecutive loops, as values or constants: [kept, full) masked, [full, fullEnd) unmasked,
/// [fullEnd, keptEnd) masked.
struct SplitPoints {
  OpFoldResult keptBegin, fullBegin, fullEnd, keptEnd;
};

/// Turns LoopBounds into IR in front of a loop.
class BoundsEmitter {
public:
  BoundsEmitter(OnlineAttentionOp op, scf::ForOp loop, const LoopBounds &bounds)
      : op(op), bounds(bounds), b(loop), loc(loop.getLoc()) {
    hoisted.map(op.getMask().getArgument(0), op.getB0());
    hoisted.map(op.getMask().getArgument(1), op.getH0());
    symbols = {getAsOpFoldResult(loop.getLowerBound()), getAsOpFoldResult(loop.getUpperBound()),
               getAsOpFoldResult(op.getI0()), getNumQueries(op, loop)};
    for (Value value : bounds.captured)
      symbols.push_back(getAsOpFoldResult(makeIndex(hoist(value))));
  }

  SplitPoints emit() {
    SplitPoints points;
    OpFoldResult end = reduce(bounds.keptEnd, /*isMin=*/true);
    points.keptBegin = reduce(bounds.keptBegin, /*isMin=*/false);
    if (bounds.keptBegin.size() > 1)
      points.keptBegin = clamp(points.keptBegin, end, /*isMin=*/true);
    if (!isSame(points.keptBegin, symbols[LoopBounds::Begin]) || bounds.keptEnd.size() > 1)
      end = clamp(end, points.keptBegin, /*isMin=*/false);
    points.keptEnd = unless(bounds.keptIf, end, points.keptBegin);
    points.fullBegin = points.fullEnd = points.keptEnd;
    if (!bounds.hasFull)
      return points;
    points.fullBegin = points.keptBegin;
    if (!bounds.fullBegin.empty())
      points.fullBegin = clamp(clamp(reduce(bounds.fullBegin, /*isMin=*/false), points.keptBegin, /*isMin=*/false),
                               points.keptEnd, /*isMin=*/true);
    OpFoldResult fullEnd = clamp(reduce(bounds.fullEnd, /*isMin=*/true), points.keptEnd, /*isMin=*/true);
    points.fullEnd = unless(bounds.fullIf, clamp(fullEnd, points.fullBegin, /*isMin=*/false), points.fullBegin);
    return points;
  }

private:
  static bool isSame(OpFoldResult x, OpFoldResult y) { return isEqualConstantIntOrValue(x, y); }

  /// Copies what computes a value inside the mask region to the front of the loop.
  Value hoist(Value value) {
    if (Value known = hoisted.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (!def || !op.getMask().isAncestor(def->getParentRegion()))
      return value;
    for (Value operand : def->getOperands())
      hoisted.map(operand, hoist(operand));
    b.clone(*def, hoisted);
    return hoisted.lookup(value);
  }

  Value makeIndex(Value value) { return getValueOrCreateCastToIndexLike(b, loc, b.getIndexType(), value); }

  OpFoldResult reduce(ArrayRef<AffineExpr> exprs, bool isMin) {
    AffineMap map = AffineMap::get(0, symbols.size(), exprs, b.getContext());
    if (exprs.size() == 1)
      return affine::makeComposedFoldedAffineApply(b, loc, map, symbols);
    return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, symbols)
                 : affine::makeComposedFoldedAffineMax(b, loc, map, symbols);
  }

  OpFoldResult clamp(OpFoldResult value, OpFoldResult limit, bool isMin) {
    if (isSame(value, limit))
      return value;
    AffineMap map = AffineMap::getMultiDimIdentityMap(2, b.getContext());
    return isMin ? affine::makeComposedFoldedAffineMin(b, loc, map, {value, limit})
                 : affine::makeComposedFoldedAffineMax(b, loc, map, {value, limit});
  }

  /// `value` if all conditions are >= 0, else `otherwise`.
  OpFoldResult unless(ArrayRef<AffineExpr> conditions, OpFoldResult value, OpFoldResult otherwise) {
    for (AffineExpr condition : conditions) {
      OpFoldResult least = reduce(condition, /*isMin=*/true);
      if (std::optional<int64_t> constant = getConstantIntValue(least)) {
        value = *constant >= 0 ? value : otherwise;
        continue;
      }
      // One statement each: the order in which arguments are evaluated depends on the compiler.
      Value zero = arith::ConstantIndexOp::create(b, loc, 0);
      Value bound = getValueOrCreateConstantIndexOp(b, loc, least);
      Value holds = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, bound, zero);
      Value chosen = getValueOrCreateConstantIndexOp(b, loc, value);
      Value rejected = getValueOrCreateConstantIndexOp(b, loc, otherwise);
      value = arith::SelectOp::create(b, loc, holds, chosen, rejected).getResult();
    }
    return value;
  }

  OnlineAttentionOp op;
  const LoopBounds &bounds;
  OpBuilder b;
  Location loc;
  IRMapping hoisted;
  SmallVector<OpFoldResult> symbols;
};
} // namespace

/// In a loop that visits whole tiles only, the size of a slice clamped at the loop's original end is the tile's.
static void unclampSlices(scf::ForOp loop, Value originalEnd, int64_t tile) {
  LinearExpr rest = LinearExpr::get(originalEnd) - LinearExpr::symbol(loop.getInductionVar());
  SmallVector<affine::AffineMinOp> clamps(loop.getOps<affine::AffineMinOp>());
  for (affine::AffineMinOp min : clamps) {
    AffineMap map = min.getMap();
    bool isClamp = llvm::all_of(map.getResults(), [&](AffineExpr expr) {
      auto linear = LinearExpr::get(expr, map.getNumDims(), min.getOperands());
      return linear && (linear->isConstant(tile) || *linear == rest);
    });
    bool hasTile = llvm::is_contained(map.getResults(), getAffineConstantExpr(tile, loop.getContext()));
    if (!isClamp || !hasTile)
      continue;
    OpBuilder b(min);
    min.replaceAllUsesWith(arith::ConstantIndexOp::create(b, min.getLoc(), tile).getResult());
    min.erase();
  }
}

/// Replaces `loop` by up to three consecutive loops that thread its state; returns those without a mask.
static SmallVector<scf::ForOp> splitLoop(scf::ForOp loop, const SplitPoints &points, int64_t tile) {
  struct Segment {
    OpFoldResult begin, end;
    bool isFull;
  };
  Segment segments[] = {{points.keptBegin, points.fullBegin, false},
                        {points.fullBegin, points.fullEnd, true},
                        {points.fullEnd, points.keptEnd, false}};
  OpBuilder b(loop);
  SmallVector<Value> state(loop.getInitArgs());
  SmallVector<scf::ForOp> fullLoops;
  for (const Segment &segment : segments) {
    auto begin = getConstantIntValue(segment.begin), end = getConstantIntValue(segment.end);
    if (isEqualConstantIntOrValue(segment.begin, segment.end) || (begin && end && *begin >= *end))
      continue;
    Value lower = getValueOrCreateConstantIndexOp(b, loop.getLoc(), segment.begin);
    Value upper = getValueOrCreateConstantIndexOp(b, loop.getLoc(), segment.end);
    auto part = cast<scf::ForOp>(b.clone(*loop));
    part.setLowerBound(lower);
    part.setUpperBound(upper);
    part.getInitArgsMutable().assign(state);
    state.assign(part.result_begin(), part.result_end());
    if (!segment.isFull)
      continue;
    for (OnlineAttentionOp op : part.getOps<OnlineAttentionOp>())
      op.getMask().getBlocks().clear();
    unclampSlices(part, loop.getUpperBound(), tile);
    fullLoops.push_back(part);
  }
  loop->replaceAllUsesWith(state);
  loop->erase();
  return fullLoops;
}

static std::string toString(const LoopBounds &bounds, Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  AsmState state(op->getParentOfType<FunctionOpInterface>());
  bounds.print(os, state);
  return text;
}

namespace {
struct BoundLoops : flash::impl::BoundLoopsBase<BoundLoops> {
  using BoundLoopsBase::BoundLoopsBase;

  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (op.hasMask())
        ops.push_back(op);
    });
    for (OnlineAttentionOp op : ops)
      if (scf::ForOp loop = matchKeyLoop(op))
        boundLoop(op, loop);
  }

  void boundLoop(OnlineAttentionOp op, scf::ForOp loop) {
    MaskBounds mask = analyzeMask(op.getMask());
    dropUnavailable(mask, op, loop);
    for (Operation *conjunct : mask.opaque) {
      ++numOpaque;
      emitMissed(conjunct, "opaque to the analysis of masks: every tile keeps its mask");
    }
    if (mask.constraints.empty() && !mask.opaque.empty())
      return;
    int64_t tile = op.getKType().getDimSize(2);
    LoopBounds bounds = computeLoopBounds(mask, tile, op.getContext());
    if (op.getContext()->getRemarkEngine())
      remark::passed(op.getLoc(), remark::RemarkOpts::name("bound-loops").category("flash")) << toString(bounds, op);
    SplitPoints points = BoundsEmitter(op, loop, bounds).emit();
    numUnmasked += splitLoop(loop, points, tile).size();
    ++numBounded;
  }
};

struct PrintMaskBounds : flash::impl::PrintMaskBoundsBase<PrintMaskBounds> {
  using PrintMaskBoundsBase::PrintMaskBoundsBase;

  void runOnOperation() override {
    getOperation()->walk([&](OnlineAttentionOp op) {
      auto function = op->getParentOfType<FunctionOpInterface>();
      if (!function || !op.hasMask())
        return;
      AsmState state(function);
      MaskBounds mask = analyzeMask(op.getMask());
      llvm::outs() << "mask in @" << function.getName() << ":\n";
      mask.print(llvm::outs(), state);
      computeLoopBounds(mask, op.getKType().getDimSize(2), &getContext()).print(llvm::outs(), state);
      llvm::outs() << "\n";
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
