//===- WrapIndices.cpp - indices that count from the end become selects -------------------------------------------===//

#include "flashc/Analysis/MaskProver.h"
#include "flashc/Dialect/Flash/IR/FlashIndex.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::flash {
#define GEN_PASS_DEF_WRAPINDICES
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;
using Predicate = arith::CmpIPredicate;

namespace {
/// Proves with the mask analysis that an index of one op is never negative.
class SignProver {
public:
  explicit SignProver(ScoresOpInterface op) : op(op) {}

  bool isNatural(WrapIndexOp wrap) {
    if (wrap.getNatural())
      return true;
    Region *region = wrap->getParentRegion();
    if (region->getParentOp() != op || region->getNumArguments() < 4)
      return false;
    // The mask of the clone keeps a pair if the pair exists and its index is negative. For an index of a score, the
    // mask of `op` has to keep the pair, too. If the mask of the clone keeps no pair, the index is never negative.
    OwningOpRef<Operation *> clone = op->clone();
    Region &mask = cast<ScoresOpInterface>(*clone).getMask();
    bool isOfScore = region != &op.getMask();
    Block *block = &mask.emplaceBlock();
    block->addArguments(SmallVector<Type>(4, IndexType::get(op.getContext())), SmallVector<Location>(4, op.getLoc()));
    OpBuilder b = OpBuilder::atBlockEnd(block);
    Value isNegative = emitIsNegative(b, wrap, *block);
    if (!isNegative)
      return false;
    SmallVector<Value> conditions = emitExistence(b, *block);
    conditions.push_back(isNegative);
    if (isOfScore && op.hasMask())
      conditions.push_back(inlineRegion(b, op.getMask(), block->getArguments()));
    Value keep = conditions.front();
    for (Value condition : ArrayRef(conditions).drop_front())
      keep = arith::AndIOp::create(b, op.getLoc(), keep, condition);
    YieldOp::create(b, op.getLoc(), keep);
    while (&mask.front() != block)
      mask.front().erase();
    return isEmpty(readMask(mask));
  }

private:
  static bool isEmpty(const MaskSet &set) {
    MaskProver prover(set.space);
    return llvm::all_of(set.kept, [&](const MaskConjunct &conjunct) { return prover.isEmpty(conjunct.constraints); });
  }

  /// Emits whether the index is negative; null if the index depends on the score.
  Value emitIsNegative(OpBuilder &b, WrapIndexOp wrap, Block &block) {
    Region &region = *wrap->getParentRegion();
    IRMapping mapping;
    mapping.map(region.getArguments().take_back(4), block.getArguments());
    Value index = flashc::cloneSlice(b, wrap.getIndex(), mapping, [&](Value value) {
      return region.isAncestor(value.getParentRegion()) ? Value() : value;
    });
    return index ? compare(b, Predicate::slt, index, arith::ConstantIndexOp::create(b, op.getLoc(), 0)) : Value();
  }

  SmallVector<Value> emitExistence(OpBuilder &b, Block &block) {
    auto isBelow = [&](unsigned position, Value array) {
      Value extent = linalg::createOrFoldDimOp(b, op.getLoc(), array, 2);
      return compare(b, Predicate::slt, block.getArgument(position), extent);
    };
    if (isa<StepOpInterface>(op.getOperation())) // a step has the extents of a tile, and not those of the sequences
      return {};
    return {isBelow(2, op.getQ()), isBelow(3, op.getK())};
  }

  Value compare(OpBuilder &b, Predicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, op.getLoc(), predicate, x, y);
  }

  ScoresOpInterface op;
};
} // namespace

std::pair<int64_t, int64_t> mlir::flash::wrapIndices(Operation *root) {
  SmallVector<WrapIndexOp> wraps;
  root->walk([&](WrapIndexOp wrap) { wraps.push_back(wrap); });
  IRRewriter rewriter(root->getContext());
  int64_t numNatural = 0;
  for (WrapIndexOp wrap : wraps) {
    auto op = wrap->getParentOfType<ScoresOpInterface>();
    bool isNatural = wrap.getNatural() || (op && SignProver(op).isNatural(wrap));
    numNatural += isNatural;
    expandWrapIndex(rewriter, wrap, isNatural);
  }
  return {numNatural, int64_t(wraps.size()) - numNatural};
}

namespace {
struct WrapIndices : flash::impl::WrapIndicesBase<WrapIndices> {
  void runOnOperation() override {
    auto [natural, selects] = wrapIndices(getOperation());
    numNatural += natural;
    numSelects += selects;
  }
};
} // namespace
