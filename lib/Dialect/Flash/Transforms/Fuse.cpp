//===- Fuse.cpp - the code that computes a captured tensor moves into the score or the mask -----------------------===//

#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::flash {
#define GEN_PASS_DEF_FUSE
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Which tensors can move
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether all uses of `tensor` are reads in scores and masks. If so, the tensor is unused once its code has moved to
/// these reads.
static bool isOnlyRead(Value tensor) {
  return llvm::all_of(tensor.getUsers(), [](Operation *user) {
    return isa<tensor::ExtractOp>(user) && user->getParentOfType<ScoresOpInterface>();
  });
}

static bool hasEffects(Region &region) {
  return region
      .walk([](Operation *op) {
        bool isFree = isMemoryEffectFree(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>();
        return isFree ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Returns why a structured op cannot become scalar code for one element of `result`. Empty if it can.
static StringRef findObstacle(linalg::LinalgOp op, OpResult result) {
  if (op.getNumParallelLoops() != op.getNumLoops())
    return "its loops are not all parallel";
  if (!op.getIndexingMapMatchingResult(result).isPermutation())
    return "the indexing map of its result is not a permutation";
  if (hasEffects(op->getRegion(0)))
    return "its body has side effects";
  return "";
}

/// Whether each group of dimensions of `type` has at most one dimension with an extent other than 1. A reshape by these
/// groups only adds or drops dimensions of extent 1.
static bool addsUnitDimsOnly(RankedTensorType type, ArrayRef<ReassociationIndices> groups) {
  return llvm::all_of(groups, [&](const ReassociationIndices &group) {
    return llvm::count_if(group, [&](int64_t dim) { return type.getDimSize(dim) != 1; }) <= 1;
  });
}

/// Returns why the code of `tensor` cannot move to the reads of the tensor. Empty if it can.
static StringRef findObstacle(OpResult tensor) {
  Operation *op = tensor.getOwner();
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return findObstacle(structured, tensor);
  if (matchPattern(op, m_Constant()))
    return matchPattern(op, m_Constant<SplatElementsAttr>(nullptr)) ? "" : "its elements differ";
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return addsUnitDimsOnly(expand.getResultType(), expand.getReassociationIndices()) ? "" : "it splits a dimension";
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return addsUnitDimsOnly(collapse.getSrcType(), collapse.getReassociationIndices()) ? "" : "it joins dimensions";
  if (auto generate = dyn_cast<tensor::GenerateOp>(op))
    return hasEffects(generate.getBody()) ? "its body has side effects" : "";
  if (isa<tensor::CastOp, tensor::SplatOp, tensor::ExtractSliceOp>(op))
    return "";
  bool isElementwise = OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1 && isPure(op);
  return isElementwise ? "" : "it is not elementwise";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Moving a tensor's code
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Emits the code of one element of a tensor at the insertion point of `b`. The code reads the operands of the op that
/// computes the tensor.
class ElementBuilder {
public:
  ElementBuilder(OpBuilder &b, Location loc, ValueRange indices) : b(b), loc(loc), indices(indices) {}

  /// Emits the element of `tensor` at `indices`. findObstacle(tensor) must be empty.
  Value build(OpResult tensor) {
    Operation *op = tensor.getOwner();
    if (auto structured = dyn_cast<linalg::LinalgOp>(op))
      return buildStructured(structured, tensor);
    if (auto generate = dyn_cast<tensor::GenerateOp>(op))
      return inlineBody(*generate.getBody().begin(), indices, {}, 0);
    if (auto splat = dyn_cast<tensor::SplatOp>(op))
      return splat.getInput();
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      return read(slice.getSource(), getSourceIndices(slice));
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
      return read(expand.getSrc(), dropUnitDims(expand.getResultType(), expand.getReassociationIndices()));
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
      return read(collapse.getSrc(), addUnitDims(collapse));
    if (auto cast = dyn_cast<tensor::CastOp>(op))
      return read(cast.getSource(), indices);
    return buildElementwise(op);
  }

private:
  Value read(Value tensor, ValueRange at) { return tensor::ExtractOp::create(b, loc, tensor, at); }

  Value buildElementwise(Operation *op) {
    Type element = getElementTypeOrSelf(op->getResult(0));
    if (SplatElementsAttr splat; matchPattern(op, m_Constant(&splat)))
      return arith::ConstantOp::create(b, loc, splat.getSplatValue<TypedAttr>());
    OperationState state(loc, op->getName());
    for (Value operand : op->getOperands())
      state.addOperands(isa<RankedTensorType>(operand.getType()) ? read(operand, indices) : operand);
    state.addTypes(element);
    state.addAttributes(op->getAttrs());
    return b.create(state)->getResult(0);
  }

  Value buildStructured(linalg::LinalgOp op, OpResult result) {
    AffineMap map = op.getIndexingMapMatchingResult(result);
    SmallVector<Value> loops(op.getNumLoops());
    for (auto [place, index] : llvm::enumerate(indices))
      loops[map.getDimPosition(place)] = index;
    IRMapping mapping;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!op.payloadUsesValueFromOperand(&operand))
        continue;
      Value element = operand.get();
      if (isa<RankedTensorType>(element.getType())) {
        SmallVector<Value> at;
        for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults())
          at.push_back(affine::expandAffineExpr(b, loc, expr, loops, {}));
        element = read(element, at);
      }
      mapping.map(op.getMatchingBlockArgument(&operand), element);
    }
    return inlineBody(*op.getBlock(), loops, mapping, result.getResultNumber());
  }

  /// Copies a body of scalar code. Returns the copy of the value that the body yields as number `number`. `loops` are
  /// the values of linalg.index if the body is that of a structured op, and of the body's arguments if it is that of a
  /// tensor.generate.
  Value inlineBody(Block &body, ValueRange loops, IRMapping mapping, unsigned number) {
    if (isa<tensor::GenerateOp>(body.getParentOp()))
      mapping.map(body.getArguments(), loops);
    for (Operation &nested : body.without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(nested)) {
        mapping.map(index.getResult(), loops[index.getDim()]);
        continue;
      }
      Operation *copy = b.clone(nested, mapping);
      copy->walk([&](linalg::IndexOp index) {
        index.replaceAllUsesWith(loops[index.getDim()]);
        index.erase();
      });
    }
    return mapping.lookupOrDefault(body.getTerminator()->getOperand(number));
  }

  /// Returns offset + index * stride for each dimension of the source, with index 0 for dimensions that the slice
  /// drops.
  SmallVector<Value> getSourceIndices(tensor::ExtractSliceOp slice) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<Value> at;
    size_t next = 0;
    for (auto [dim, offset] : llvm::enumerate(slice.getMixedOffsets())) {
      Value place = getValueOrCreateConstantIndexOp(b, loc, offset);
      if (!dropped[dim]) {
        Value stride = getValueOrCreateConstantIndexOp(b, loc, slice.getMixedStrides()[dim]);
        Value scaled = b.createOrFold<arith::MulIOp>(loc, indices[next++], stride);
        place = b.createOrFold<arith::AddIOp>(loc, scaled, place);
      }
      at.push_back(place);
    }
    return at;
  }

  SmallVector<Value> dropUnitDims(RankedTensorType type, ArrayRef<ReassociationIndices> groups) {
    SmallVector<Value> at;
    for (const ReassociationIndices &group : groups) {
      const int64_t *dim = llvm::find_if(group, [&](int64_t dim) { return type.getDimSize(dim) != 1; });
      at.push_back(indices[dim == group.end() ? group.front() : *dim]);
    }
    return at;
  }

  SmallVector<Value> addUnitDims(tensor::CollapseShapeOp collapse) {
    SmallVector<Value> at(collapse.getSrcType().getRank());
    for (auto [index, group] : llvm::zip(indices, collapse.getReassociationIndices())) {
      bool isUsed = false;
      for (int64_t dim : group) {
        bool isLast = dim == group.back();
        bool carries = !isUsed && (collapse.getSrcType().getDimSize(dim) != 1 || isLast);
        at[dim] = carries ? index : Value(arith::ConstantIndexOp::create(b, loc, 0));
        isUsed |= carries;
      }
    }
    return at;
  }

  OpBuilder &b;
  Location loc;
  ValueRange indices;
};
} // namespace

/// Erases `op` if it is dead, and then the ops of its operands that become dead.
static void eraseIfDead(RewriterBase &rewriter, Operation *op) {
  if (!op || !isOpTriviallyDead(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  rewriter.eraseOp(op);
  for (Value operand : llvm::SmallSetVector<Value, 4>(operands.begin(), operands.end()))
    eraseIfDead(rewriter, operand.getDefiningOp());
}

/// Finds the reads in scores and masks whose tensor is computed outside of the op that has the score or the mask.
static SmallVector<tensor::ExtractOp> findReads(Operation *root) {
  SmallVector<tensor::ExtractOp> reads;
  root->walk([&](tensor::ExtractOp read) {
    auto attention = read->getParentOfType<ScoresOpInterface>();
    Operation *producer = read.getTensor().getDefiningOp();
    bool isLeaf = !producer || isa<bufferization::ToTensorOp, AssumeSortedOp>(producer);
    if (attention && !isLeaf && !attention->isProperAncestor(producer))
      reads.push_back(read);
  });
  return reads;
}

static void emitMissed(tensor::ExtractOp read, StringRef reason) {
  std::string text =
      ("'" + read.getTensor().getDefiningOp()->getName().getStringRef() + "' stays in memory: " + reason).str();
  remark::missed(read.getLoc(), remark::RemarkOpts::name("fuse").category("flash")) << text;
}

int64_t mlir::flash::fuseProducers(RewriterBase &rewriter, Operation *root) {
  OpBuilder::InsertionGuard guard(rewriter);
  int64_t fused = 0;
  // Goes through all reads again after each change: a tensor that two other tensors read can move only after both of
  // these have moved.
  for (bool hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (tensor::ExtractOp read : findReads(root)) {
      auto tensor = cast<OpResult>(read.getTensor());
      if (!isOnlyRead(tensor) || !findObstacle(tensor).empty())
        continue;
      rewriter.setInsertionPoint(read);
      SmallVector<Value> indices(read.getIndices());
      rewriter.replaceOp(read, ElementBuilder(rewriter, read.getLoc(), indices).build(tensor));
      eraseIfDead(rewriter, tensor.getOwner());
      hasChanged = true;
      ++fused;
    }
  }
  for (tensor::ExtractOp read : findReads(root)) {
    StringRef obstacle = findObstacle(cast<OpResult>(read.getTensor()));
    emitMissed(read, obstacle.empty() ? "it is used by more than scores and masks" : obstacle);
  }
  return fused;
}

namespace {
struct Fuse : flash::impl::FuseBase<Fuse> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    numFused += fuseProducers(rewriter, getOperation());
  }
};
} // namespace
