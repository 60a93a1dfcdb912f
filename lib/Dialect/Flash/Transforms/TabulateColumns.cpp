//===- TabulateColumns.cpp - precomputes values of a mask that depend on the streamed position alone --------------===//

#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flash {
#define GEN_PASS_DEF_TABULATECOLUMNS
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

using namespace mlir;
using namespace mlir::flash;

/// `kReadCost` is the cost of a read of an array, such as a table: a load, and the operations that compute the address.
/// `kDivisionCost` is the cost of a division.
static constexpr int64_t kReadCost = 5, kDivisionCost = 5;

/// Returns roughly the number of instructions that `op` takes in a kernel.
static int64_t getCost(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return 0;
  if (isa<tensor::ExtractOp>(op))
    return kReadCost;
  bool isDivision = isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
                        arith::RemSIOp, arith::RemUIOp>(op);
  std::optional<int64_t> divisor = isDivision ? getConstantIntValue(op->getOperand(1)) : std::nullopt;
  bool isShift = divisor && *divisor > 0 && llvm::isPowerOf2_64(*divisor);
  return isDivision && !isShift ? kDivisionCost : 1;
}

static bool fitsTable(Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  return type.isIndex() || (integer && integer.getWidth() <= 32);
}

namespace {
/// The code of a mask that depends on position `column` and on no other position.
class ColumnCode {
public:
  ColumnCode(Region &mask, BlockArgument column) : mask(mask) {
    ofColumn.insert(column);
    for (Operation &op : mask.front().without_terminator())
      if (isOfColumn(op))
        ofColumn.insert_range(op.getResults());
  }

  /// Returns those values of this code that ops outside of the code read and that cost more than a read of a table. The
  /// values are in the order of the mask's ops.
  SmallVector<Value> findLong() {
    SmallVector<Value> found;
    for (Operation &op : mask.front().without_terminator())
      for (Value result : op.getResults()) {
        bool isLast = ofColumn.contains(result) &&
                      llvm::any_of(result.getUsers(), [&](Operation *user) { return !isOfColumn(*user); });
        if (isLast && fitsTable(result.getType()) && getCostOf(result) > kReadCost)
          found.push_back(result);
      }
    return found;
  }

private:
  bool isOutside(Value value) { return !mask.isAncestor(value.getParentRegion()); }

  /// Whether `op` depends on the column, and each of its operands either depends on the column or is captured or
  /// constant.
  bool isOfColumn(Operation &op) {
    if (op.getNumRegions() > 0 || op.hasTrait<OpTrait::IsTerminator>())
      return false;
    auto isConstant = [&](Value value) { return isOutside(value) || matchPattern(value, m_Constant()); };
    return llvm::any_of(op.getOperands(), [&](Value value) { return ofColumn.contains(value); }) &&
           llvm::all_of(op.getOperands(), [&](Value value) { return ofColumn.contains(value) || isConstant(value); });
  }

  int64_t getCostOf(Value value) {
    llvm::SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.filter = [&](Operation *op) { return mask.isAncestor(op->getParentRegion()); };
    (void)getBackwardSlice(value, &slice, options);
    int64_t cost = 0;
    for (Operation *op : slice)
      cost += getCost(op);
    return cost;
  }

  Region &mask;
  llvm::DenseSet<Value> ofColumn;
};

/// The tables for all steps whose loops are over the runs of one flash.tile_runs. These steps have the same mask.
class ColumnTables {
public:
  explicit ColumnTables(TileRunsOp runs) : runs(runs) {}

  /// Replaces values of the mask of `op` by reads of tables. The first call creates the tables. Returns the number of
  /// tables that the call has created.
  int64_t replace(RewriterBase &rewriter, StepOpInterface op) {
    Region &mask = op.getMask();
    BlockArgument column = mask.getArgument(static_cast<unsigned>(op.getStreamedDim()));
    SmallVector<Value> values = ColumnCode(mask, column).findLong();
    bool isFirst = !tables;
    if (isFirst) {
      tables.emplace();
      for (Value value : values)
        tables->push_back(emitTable(rewriter, value, mask, column));
    }
    assert(tables->size() == values.size() && "steps of the same runs have the same mask");
    for (auto [value, table] : llvm::zip_equal(values, *tables))
      if (table)
        emitRead(rewriter, value, table, column);
    (void)runRegionDCE(rewriter, mask);
    return isFirst ? llvm::count_if(*tables, [](Value table) { return table != nullptr; }) : 0;
  }

private:
  /// Emits the table of `value`. The table has an entry for each position of whole tiles. The last tile may have
  /// positions after the sequence's end, for which the code of the mask may run, too. Null if `value` depends on values
  /// that are not known before the loops.
  Value emitTable(OpBuilder &builder, Value value, Region &mask, BlockArgument column) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(runs);
    ImplicitLocOpBuilder b(value.getLoc(), builder);
    Value one = arith::ConstantIndexOp::create(b, 1);
    AffineExpr tiles = b.getAffineSymbolExpr(0).ceilDiv(runs.getStreamedTile());
    OpFoldResult extent = affine::makeComposedFoldedAffineApply(b, b.getLoc(), tiles * runs.getStreamedTile(),
                                                                getAsOpFoldResult(runs.getStreamed()));
    auto type =
        RankedTensorType::get({1, 1, getConstantIntValue(extent).value_or(ShapedType::kDynamic)}, b.getI32Type());
    auto table = RowTableOp::create(b, type, one, one, getValueOrCreateConstantIndexOp(b, b.getLoc(), extent));
    Block *body = b.createBlock(&table.getBody(), {}, SmallVector<Type>(3, b.getIndexType()),
                                SmallVector<Location>(3, b.getLoc()));
    IRMapping mapping;
    mapping.map(column, body->getArgument(2));
    Value copy = flashc::cloneSlice(b, value, mapping, [&](Value outside) {
      return !mask.isAncestor(outside.getParentRegion()) && isKnown(outside) ? outside : Value();
    });
    if (!copy) {
      table.erase();
      return {};
    }
    if (value.getType().isIndex())
      copy = arith::IndexCastOp::create(b, b.getI32Type(), copy);
    else if (value.getType().isInteger(1))
      copy = arith::ExtUIOp::create(b, b.getI32Type(), copy);
    else if (!value.getType().isInteger(32))
      copy = arith::ExtSIOp::create(b, b.getI32Type(), copy);
    YieldOp::create(b, copy);
    return table;
  }

  /// Whether `value` is known right after the flash.tile_runs, where the tables are emitted.
  bool isKnown(Value value) {
    if (!value.getParentRegion()->isAncestor(runs->getParentRegion()))
      return false;
    Operation *definition = value.getDefiningOp();
    return !definition || definition->getBlock() != runs->getBlock() || definition->isBeforeInBlock(runs);
  }

  void emitRead(RewriterBase &rewriter, Value value, Value table, BlockArgument column) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointAfterValue(value);
    ImplicitLocOpBuilder b(value.getLoc(), rewriter);
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value read = tensor::ExtractOp::create(b, table, ValueRange{zero, zero, column});
    if (value.getType().isIndex())
      read = arith::IndexCastOp::create(b, b.getIndexType(), read);
    else if (!value.getType().isInteger(32))
      read = arith::TruncIOp::create(b, value.getType(), read);
    rewriter.replaceAllUsesWith(value, read);
  }

  TileRunsOp runs;
  std::optional<SmallVector<Value>> tables;
};

struct TabulateColumns : flash::impl::TabulateColumnsBase<TabulateColumns> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    llvm::MapVector<Operation *, ColumnTables> tables;
    getOperation()->walk([&](StepOpInterface op) {
      auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
      tensor::ExtractOp bound = loop ? matchRunsElement(loop.getLowerBound()) : tensor::ExtractOp();
      if (!bound || !op.hasMask())
        return;
      auto runs = bound.getTensor().getDefiningOp<TileRunsOp>();
      numTables += tables.try_emplace(runs, runs).first->second.replace(rewriter, op);
    });
  }
};
} // namespace
