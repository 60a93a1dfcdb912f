//===- TileTables.cpp - where tables that kernels of their own compute lie ----------------------------------------===//

#include "flashc/Launch/TileTables.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

/// A formula. None if it has a part that is not known.
using Formula = std::optional<GridFormula>;

/// Returns `expr`, an expression of `op`, as a formula. None if `expr` has other parts than constants, extents, sums,
/// products and quotients that are rounded up.
static Formula evaluate(AffineExpr expr, affine::AffineApplyOp op) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue() < 0 ? Formula() : Formula(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return getFormula(OpFoldResult(op.getDimOperands()[dim.getPosition()]));
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return getFormula(OpFoldResult(op.getSymbolOperands()[symbol.getPosition()]));
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Formula x = evaluate(binary.getLHS(), op), y = evaluate(binary.getRHS(), op);
  if (!x || !y)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return *x + *y;
  case AffineExprKind::Mul:
    return *x * *y;
  case AffineExprKind::CeilDiv:
    return ceilDiv(*x, *y);
  default:
    return std::nullopt;
  }
}

Formula flashc::getFormula(OpFoldResult extent) {
  if (std::optional<int64_t> constant = getConstantIntValue(extent))
    return *constant;
  Operation *def = cast<Value>(extent).getDefiningOp();
  if (auto apply = dyn_cast_or_null<affine::AffineApplyOp>(def))
    return evaluate(apply.getAffineMap().getResult(0), apply);
  if (!isa_and_nonnull<tensor::DimOp, memref::DimOp>(def))
    return std::nullopt;
  std::optional<int64_t> dim = getConstantIntValue(def->getOperand(1));
  bool isKnown = dim && *dim >= 0 && *dim < cast<ShapedType>(def->getOperand(0).getType()).getRank();
  return isKnown ? getFormula(def->getOperand(0), *dim) : std::nullopt;
}

Formula flashc::getFormula(Value array, int64_t dim) {
  auto type = cast<ShapedType>(array.getType());
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  BlockArgument argument = flash::getRootArgument(array);
  return argument ? Formula(GridFormula::extent(argument.getArgNumber(), dim)) : std::nullopt;
}

static Formula countTiles(const Formula &extent, int64_t tile) {
  return extent ? Formula(ceilDiv(*extent, tile)) : std::nullopt;
}

static Formula multiply(ArrayRef<Formula> formulas) {
  Formula product = formulas.front();
  for (const Formula &factor : formulas.drop_front())
    product = product && factor ? Formula(*product * *factor) : std::nullopt;
  return product;
}

static Formula countTiles(flash::TileRunsOp op) {
  return multiply({getFormula(op.getBatches()), getFormula(op.getHeads()),
                   countTiles(getFormula(op.getResident()), op.getResidentTile())});
}

static Formula countTiles(flash::TileClassesOp op) {
  return multiply({getFormula(op.getBatches()), getFormula(op.getHeads()),
                   countTiles(getFormula(op.getQueries()), op.getQTile()),
                   countTiles(getFormula(op.getKeys()), op.getKvTile())});
}

static Formula countTiles(flash::RowTableOp op) {
  Formula rows = multiply({getFormula(op.getBatches()), getFormula(op.getHeads()), getFormula(op.getQueries())});
  return countTiles(rows, kTableRows);
}

/// Returns the number of i32 elements in the table of classes.
static Formula countElements(flash::TileClassesOp op) { return countTiles(op); }

/// Returns the number of i32 elements in the table of visits (VisitsRow).
static Formula countElements(flash::TileRunsOp op) {
  Formula rows = countTiles(op), tiles = countTiles(getFormula(op.getStreamed()), op.getStreamedTile());
  return rows && tiles ? Formula(*rows * (*tiles + VisitsRow::kMoreElements)) : std::nullopt;
}

FailureOr<TileTables> TileTables::get(func::FuncOp host) {
  TileTables result;
  WalkResult walk = host.walk([&](Operation *op) {
    Formula tiles, warps;
    int64_t bytes = 0;
    constexpr int64_t kElements = 4;
    auto addElements = [&](auto op) {
      tiles = countTiles(countElements(op), kElements), bytes = 4 * kElements, warps = countTiles(op);
    };
    if (auto rows = dyn_cast<flash::RowTableOp>(op))
      tiles = countTiles(rows), bytes = 4 * kTableRows;
    else if (auto classes = dyn_cast<flash::TileClassesOp>(op))
      addElements(classes);
    else if (auto runs = dyn_cast<flash::TileRunsOp>(op))
      addElements(runs);
    else
      return WalkResult::advance();
    if (!tiles) {
      op->emitOpError() << "expected extents that are constants or those of arguments";
      return WalkResult::interrupt();
    }
    result.tables.push_back({op->getResult(0), *tiles, bytes, warps});
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return result;
}

std::optional<unsigned> TileTables::getNumber(Value value) const {
  const Table *found = llvm::find_if(tables, [&](const Table &table) { return table.value == value; });
  return found == tables.end() ? std::nullopt : std::optional<unsigned>(found - tables.begin());
}

Type TileTables::getElementType(unsigned number) const { return getElementTypeOrSelf(tables[number].value); }

bool TileTables::isInMaskMap(unsigned number) const {
  return isa_and_nonnull<flash::RowTableOp, flash::TileClassesOp, flash::TileRunsOp>(
      tables[number].value.getDefiningOp());
}

Formula TileTables::getBytes(bool ofMaskMap, unsigned count) const {
  Formula total;
  for (unsigned number = 0; number < count; ++number) {
    if (isInMaskMap(number) != ofMaskMap)
      continue;
    GridFormula bytes = mul64(tables[number].bytes, tables[number].tiles);
    total = total ? add64(*total, bytes) : bytes;
  }
  return total;
}
