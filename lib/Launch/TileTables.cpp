//===- TileTables.cpp - where tables that kernels of their own compute lie in the workspace -----------------------===//

#include "flashc/Launch/TileTables.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

std::string flashc::getFormula(OpFoldResult extent) {
  if (std::optional<int64_t> constant = getConstantIntValue(extent))
    return std::to_string(*constant);
  Operation *def = cast<Value>(extent).getDefiningOp();
  if (!isa_and_nonnull<tensor::DimOp, memref::DimOp>(def))
    return "";
  std::optional<int64_t> dim = getConstantIntValue(def->getOperand(1));
  bool isKnown = dim && *dim >= 0 && *dim < cast<ShapedType>(def->getOperand(0).getType()).getRank();
  return isKnown ? getFormula(def->getOperand(0), *dim) : "";
}

std::string flashc::getFormula(Value array, int64_t dim) {
  auto type = cast<ShapedType>(array.getType());
  if (!type.isDynamicDim(dim))
    return std::to_string(type.getDimSize(dim));
  BlockArgument argument = flash::getRootArgument(array);
  return argument ? ("arg" + Twine(argument.getArgNumber()) + ".dim" + Twine(dim)).str() : "";
}

static std::string ceilDiv(const std::string &formula, int64_t divisor) {
  return formula.empty() ? "" : "ceildiv(" + formula + ", " + std::to_string(divisor) + ")";
}

/// The product, or an empty string if a factor is one.
static std::string multiply(ArrayRef<std::string> formulas) {
  std::string product = formulas.front();
  for (const std::string &factor : formulas.drop_front())
    product = product.empty() || factor.empty() ? "" : "mul(" + product + ", " + factor + ")";
  return product;
}

static std::string countTiles(flash::TileRunsOp op) {
  return multiply({getFormula(op.getBatches()), getFormula(op.getHeads()), ceilDiv(getFormula(op.getQueries()),
                                                                                   op.getQTile())});
}

static std::string countTiles(flash::RowTableOp op) {
  std::string rows = multiply({getFormula(op.getBatches()), getFormula(op.getHeads()), getFormula(op.getQueries())});
  return ceilDiv(rows, kTableRows);
}

static std::string countTiles(flash::TileMinMaxOp op) {
  BlockArgument argument = flash::getRootArgument(op.getSource());
  auto type = cast<ShapedType>(op.getSource().getType());
  SmallVector<std::string> extents;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    if (!ShapedType::isDynamic(extent))
      extents.push_back(std::to_string(extent));
    else if (argument)
      extents.push_back(("arg" + Twine(argument.getArgNumber()) + ".dim" + Twine(dim)).str());
    else
      return "";
  }
  extents[op.getDim()] = ceilDiv(extents[op.getDim()], op.getTile());
  return multiply(extents);
}

FailureOr<TileTables> TileTables::get(func::FuncOp host) {
  TileTables result;
  WalkResult walk = host.walk([&](Operation *op) {
    Table table;
    if (auto rows = dyn_cast<flash::RowTableOp>(op))
      table = {rows.getResult(), countTiles(rows), 4 * kTableRows};
    else if (auto minMax = dyn_cast<flash::TileMinMaxOp>(op))
      table = {minMax.getResult(), countTiles(minMax), 16};
    else if (auto runs = dyn_cast<flash::TileRunsOp>(op))
      table = {runs.getResult(), countTiles(runs), 4 * RunsRow{runs.getNumRuns()}.size()};
    else
      return WalkResult::advance();
    if (table.tiles.empty()) {
      op->emitOpError() << "expected extents that are constants or those of arguments";
      return WalkResult::interrupt();
    }
    result.tables.push_back(std::move(table));
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

std::string TileTables::getOffset(unsigned number) const {
  std::string offset;
  for (const Table &table : ArrayRef(tables).take_front(number)) {
    std::string bytes = multiply({std::to_string(table.bytes), table.tiles});
    offset = offset.empty() ? bytes : "add(" + offset + ", " + bytes + ")";
  }
  return offset.empty() ? "0" : offset;
}
