//===- TabulateRows.cpp - precomputes the searches of a mask for each query ---------------------------------------===//

#include "flashc/Analysis/RowFunctions.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::flash {
#define GEN_PASS_DEF_TABULATEROWS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

Operation *mlir::flash::findReadForKeys(Region &region) {
  llvm::SetVector<Operation *> ofKey;
  if (!region.empty())
    getForwardSlice(region.getArguments().back(), &ofKey);
  auto *read = llvm::find_if(ofKey, [](Operation *op) { return getElementRead(op).has_value(); });
  return read == ofKey.end() ? nullptr : *read;
}

/// Makes the mask compare the key's position with results of searches, where it compared elements at the key's position
/// (`searchKeys`). Returns the searches. In two cases the mask stays as it was, and no search is returned: the mask
/// would still read an array for a key, or the result of a search does not ascend with the query. In the second case
/// loops would lose their bounds.
static SmallVector<CountLeOp> replaceReads(RewriterBase &rewriter, Region &mask) {
  Region original;
  original.takeBody(mask);
  IRMapping mapping;
  original.cloneInto(&mask, mapping);
  SmallVector<CountLeOp> searches = searchKeys(mask);
  llvm::SmallDenseSet<Operation *> created(searches.begin(), searches.end());
  (void)runRegionDCE(rewriter, mask);
  searches.clear();
  for (auto search : mask.getOps<CountLeOp>())
    if (created.contains(search))
      searches.push_back(search);
  RowFunctions rows(mask);
  auto isKnown = [&](CountLeOp search) {
    Trend trend = rows.get(search);
    return trend == Trend::Constant || trend == Trend::Ascending;
  };
  if (!searches.empty() && !findReadForKeys(mask) && llvm::all_of(searches, isKnown))
    return searches;
  mask.takeBody(original);
  return {};
}

/// Emits, before `op`, a table of the results of `search` for all queries, and replaces `search` by a read of the
/// table.
static void tabulate(RewriterBase &rewriter, AttentionOp op, CountLeOp search) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ImplicitLocOpBuilder b(search.getLoc(), rewriter);
  Region &mask = op.getMask();
  SmallVector<Value> extents, position;
  SmallVector<int64_t> shape;
  Value zero = arith::ConstantIndexOp::create(b, 0);
  for (int64_t dim = 0; dim < 3; ++dim) {
    BlockArgument argument = mask.getArgument(dim);
    bool isUsed = dependsOn(search, argument, mask);
    extents.push_back(isUsed ? linalg::createOrFoldDimOp(b, b.getLoc(), op.getQ(), dim)
                             : arith::ConstantIndexOp::create(b, 1).getResult());
    position.push_back(isUsed ? argument : zero);
    shape.push_back(getConstantIntValue(extents.back()).value_or(ShapedType::kDynamic));
  }
  auto table = RowTableOp::create(b, RankedTensorType::get(shape, b.getI32Type()), extents[0], extents[1], extents[2]);
  Block *body =
      b.createBlock(&table.getBody(), {}, SmallVector<Type>(3, b.getIndexType()), SmallVector<Location>(3, b.getLoc()));
  IRMapping mapping;
  mapping.map(mask.getArguments().take_front(3), body->getArguments());
  Value copy = flashc::cloneSlice(b, search, mapping, [&](Value outside) {
    return mask.isAncestor(outside.getParentRegion()) ? Value() : outside;
  });
  Value found = arith::IndexCastOp::create(b, b.getI32Type(), copy);
  YieldOp::create(b, found);

  b.setInsertionPoint(search);
  Value row = tensor::ExtractOp::create(b, table.getResult(), position);
  rewriter.replaceOp(search, arith::IndexCastOp::create(b, b.getIndexType(), row));
}

int64_t mlir::flash::tabulateRows(RewriterBase &rewriter, AttentionOp op) {
  Region &mask = op.getMask();
  if (!findReadForKeys(mask))
    return 0;
  SmallVector<CountLeOp> searches = replaceReads(rewriter, mask);
  for (CountLeOp search : searches)
    tabulate(rewriter, op, search);
  (void)runRegionDCE(rewriter, mask);
  return searches.size();
}

namespace {
struct TabulateRows : flash::impl::TabulateRowsBase<TabulateRows> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AttentionOp op) { numTables += tabulateRows(rewriter, op); });
  }
};
} // namespace
