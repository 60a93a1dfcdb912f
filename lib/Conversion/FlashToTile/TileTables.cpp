//===- TileTables.cpp - tables that kernels of their own compute --------------------------------------------------===//

#include "TileTables.h"
#include "Visits/RunsTable.h"
#include "TableKernel.h"
#include "flashc/Analysis/LaunchInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Where they lie
//===--------------------------------------------------------------------------------------------------------------===//

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
  BlockArgument argument = getRootArgument(array);
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
  BlockArgument argument = getRootArgument(op.getSource());
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

//===--------------------------------------------------------------------------------------------------------------===//
// Kernels
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<DictionaryAttr> TileTables::emitKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef suffix,
                                                 ArrayRef<Table> some) const {
  OpBuilder b(host.getContext());
  b.setInsertionPointToEnd(main->getBlock());
  std::string name = (main.getName() + suffix).str(), warps;
  SmallVector<Operation *> ops;
  for (const Table &table : some) {
    ops.push_back(table.value.getDefiningOp());
    warps = warps.empty() ? table.tiles : "add(" + warps + ", " + table.tiles + ")";
  }
  auto kernel = gpu::GPUFuncOp::create(b, main.getLoc(), name, b.getFunctionType({}, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel->setAttr("flashc.threads", b.getI32IntegerAttr(kTableThreads));
  KernelSignature signature(host, kernel, *this);
  if (failed(TableKernel(kernel, signature).emit(ops)))
    return failure();
  signature.finish();
  NamedAttrList entry;
  entry.set("kernel", b.getStringAttr(name));
  entry.set("parameters", signature.getParameters());
  entry.set("grid", b.getStrArrayAttr({ceilDiv(warps, kTableThreads / 32), "1", "1"}));
  entry.set("block", b.getI64ArrayAttr({kTableThreads, 1, 1}));
  entry.set("cluster", b.getI64ArrayAttr({1, 1, 1}));
  entry.set("dynamic_shared_memory", b.getI64IntegerAttr(0));
  return entry.getDictionary(b.getContext());
}

FailureOr<ArrayAttr> TileTables::emitKernels(func::FuncOp host, gpu::GPUFuncOp main) const {
  auto getSuffix = [](const Table &table) -> StringRef {
    Operation *op = table.value.getDefiningOp();
    return isa<flash::RowTableOp>(op) ? "_rows" : isa<flash::TileMinMaxOp>(op) ? "_minmax" : "_runs";
  };
  SmallVector<Attribute> before;
  for (StringRef suffix : {"_rows", "_minmax", "_runs"}) { // the last of which read the others
    SmallVector<Table> some;
    llvm::copy_if(tables, std::back_inserter(some), [&](const Table &table) { return getSuffix(table) == suffix; });
    if (some.empty())
      continue;
    FailureOr<DictionaryAttr> entry = emitKernel(host, main, suffix, some);
    if (failed(entry))
      return failure();
    before.push_back(*entry);
  }
  return Builder(host.getContext()).getArrayAttr(before);
}
