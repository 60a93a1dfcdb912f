//===- ScalarCloner.cpp - copies scalar code into a kernel --------------------------------------------------------===//

#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "ExpandAffine.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Leaves
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether a kernel can compute with a type. With `isStored`, also whether arrays, and parameters that the manifest
/// lists, can have the type.
static bool isSupported(Type type, bool isStored) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    unsigned width = integer.getWidth();
    return isStored ? width == 1 || width == 8 || width == 16 || width == 32 || width == 64 : width <= 64;
  }
  return type.isIndex() || type.isF16() || type.isBF16() || type.isF32() || type.isF64();
}

Value ScalarCloner::getArgument(OpBuilder &b, BlockArgument argument) {
  Operation *owner = argument.getOwner()->getParentOp();
  if (!isa<func::FuncOp>(owner) || !argument.getType().isIntOrIndexOrFloat()) {
    emitError(argument.getLoc()) << "expected a scalar that is known before the loop over keys, got an argument of "
                                 << owner->getName();
    return {};
  }
  if (!isSupported(argument.getType(), /*isStored=*/true)) {
    emitError(argument.getLoc()) << "expected a parameter of 1, 8, 16, 32 or 64 bits, f16, bf16, f32 or f64, got "
                                 << argument.getType();
    return {};
  }
  Value parameter = signature.getScalar(argument.getArgNumber());
  if (!argument.getType().isIndex())
    return parameter;
  return arith::IndexCastOp::create(b, argument.getLoc(), b.getIndexType(), parameter);
}

/// Returns the argument of the host function that `array` is. Null after an error.
static BlockArgument getArrayArgument(Operation *op, Value array) {
  BlockArgument argument = flash::getRootArgument(array);
  if (!argument) {
    InFlightDiagnostic error = op->emitError() << "expected a captured array to be a function argument";
    error.attachNote(array.getLoc()) << "it is this";
  }
  return argument;
}

Value ScalarCloner::getExtent(OpBuilder &b, Operation *op, Value source, int64_t dim) {
  if (std::optional<flash::RowDots> dots = flash::matchRowDots(source))
    source = dots->o;
  BlockArgument argument = getArrayArgument(op, source);
  if (!argument)
    return {};
  auto type = cast<ShapedType>(argument.getType());
  if (!type.isDynamicDim(dim))
    return arith::ConstantIndexOp::create(b, op->getLoc(), type.getDimSize(dim));
  return signature.getExtent(argument.getArgNumber(), dim);
}

Value ScalarCloner::getDim(OpBuilder &b, Operation *op, Value source, Value index) {
  std::optional<int64_t> dim = getConstantIntValue(index);
  int64_t rank = cast<ShapedType>(source.getType()).getRank();
  if (dim && *dim >= 0 && *dim < rank)
    return getExtent(b, op, source, *dim);
  InFlightDiagnostic error = op->emitError() << "expected a constant dimension below " << rank;
  if (dim)
    error << ", got " << *dim;
  return {};
}

/// Emits the offset of an element in an array without gaps.
static Value emitPlace(OpBuilder &b, Location loc, ValueRange extents, ValueRange positions) {
  Value place = positions.front();
  for (auto [extent, position] : llvm::zip_equal(extents.drop_front(), positions.drop_front())) {
    place = b.createOrFold<arith::MulIOp>(loc, place, extent);
    place = b.createOrFold<arith::AddIOp>(loc, place, position);
  }
  return place;
}

Value ScalarCloner::loadElement(OpBuilder &b, Operation *op, Value source, ValueRange positions) {
  if (flash::matchRowDots(source)) { // delta is in the workspace
    Value statistics = getStatistics(b, op, source);
    SmallVector<Value> place{arith::ConstantIndexOp::create(b, op->getLoc(), 1)};
    llvm::append_range(place, positions);
    return statistics ? memref::LoadOp::create(b, op->getLoc(), statistics, place).getResult() : Value();
  }
  BlockArgument argument = getArrayArgument(op, source);
  if (!argument)
    return {};
  if (auto memref = dyn_cast<MemRefType>(argument.getType()); memref && !memref.isLastDimUnitStride()) {
    op->emitError() << "expected a captured memref that is contiguous in its innermost dimension, got " << memref;
    return {};
  }
  Type type = getElementTypeOrSelf(source.getType());
  if (!isSupported(type, /*isStored=*/true)) {
    op->emitError() << "expected an array of 1, 8, 16, 32 or 64 bits an element, f16, bf16, f32 or f64, got " << type;
    return {};
  }
  Value element = memref::LoadOp::create(b, op->getLoc(), signature.getMemRef(argument.getArgNumber()), positions);
  return type.isIndex() ? arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(), element).getResult() : element;
}

Value ScalarCloner::getStatistics(OpBuilder &b, Operation *op, Value delta) {
  Location loc = op->getLoc();
  unsigned number = *signature.getTables().getNumber(delta);
  SmallVector<Value> extents;
  for (int64_t dim : {0, 1, 2})
    extents.push_back(getExtent(b, op, delta, dim));
  if (llvm::is_contained(extents, Value()))
    return {};
  int64_t bytesOfQuery = 2 * 4, tile = signature.getTables().getTables()[number].bytes / bytesOfQuery;
  Value rows = arith::ConstantIndexOp::create(b, loc, tile);
  extents[2] = b.createOrFold<arith::MulIOp>(loc, b.createOrFold<arith::CeilDivUIOp>(loc, extents[2], rows), rows);
  Value ofBatch = b.createOrFold<arith::MulIOp>(loc, extents[1], extents[2]);
  Value whole = b.createOrFold<arith::MulIOp>(loc, extents[0], ofBatch);
  SmallVector<int64_t> strides(4, ShapedType::kDynamic), shape(strides);
  shape.front() = 2, strides.back() = 1;
  auto type = MemRefType::get(shape, b.getF32Type(), StridedLayoutAttr::get(b.getContext(), /*offset=*/0, strides));
  SmallVector<OpFoldResult> sizes{b.getIndexAttr(2), extents[0], extents[1], extents[2]};
  SmallVector<OpFoldResult> steps{whole, ofBatch, extents[2], b.getIndexAttr(1)};
  return memref::ReinterpretCastOp::create(b, loc, type, signature.getTable(number), b.getIndexAttr(0), sizes, steps);
}

Value ScalarCloner::getTableArray(OpBuilder &b, Value table, ArrayRef<OpFoldResult> extents) {
  Location loc = table.getLoc();
  SmallVector<OpFoldResult> sizes;
  SmallVector<int64_t> shape;
  for (auto [dim, extent] : llvm::enumerate(extents)) {
    std::optional<int64_t> known = dim < 3 ? std::nullopt : getConstantIntValue(extent); // head dimensions stay static
    shape.push_back(known.value_or(ShapedType::kDynamic));
    Value size = known ? Value() : get(b, loc, extent);
    if (!known && !size)
      return {};
    sizes.push_back(known ? OpFoldResult(b.getIndexAttr(*known)) : OpFoldResult(size));
  }
  SmallVector<int64_t> layoutStrides(sizes.size(), ShapedType::kDynamic);
  SmallVector<OpFoldResult> strides(sizes.size(), b.getIndexAttr(1));
  for (size_t dim = sizes.size() - 1; dim-- > 0;) {
    Value extent = getValueOrCreateConstantIndexOp(b, loc, sizes[dim + 1]);
    Value inner = getValueOrCreateConstantIndexOp(b, loc, strides[dim + 1]);
    strides[dim] = b.createOrFold<arith::MulIOp>(loc, extent, inner);
  }
  layoutStrides.back() = 1;
  auto layout = StridedLayoutAttr::get(b.getContext(), /*offset=*/0, layoutStrides);
  auto type = MemRefType::get(shape, b.getF32Type(), layout);
  Value array = signature.getTable(*signature.getTables().getNumber(table));
  return memref::ReinterpretCastOp::create(b, loc, type, array, b.getIndexAttr(0), sizes, strides);
}

FailureOr<SmallVector<Value>> ScalarCloner::getAll(OpBuilder &b, ValueRange values) {
  SmallVector<Value> copies;
  for (Value value : values) {
    copies.push_back(get(b, value));
    if (!copies.back())
      return failure();
  }
  return copies;
}

Value ScalarCloner::getElement(OpBuilder &b, Operation *op, Value source, ValueRange indices) {
  if (isa_and_nonnull<flash::RowTableOp, flash::TileClassesOp>(source.getDefiningOp()))
    return loadFromTable(b, op, source, getTableRow(b, source, indices));
  FailureOr<SmallVector<Value>> positions = getAll(b, indices);
  return failed(positions) ? Value() : loadElement(b, op, source, *positions);
}

FailureOr<SmallVector<Value>> ScalarCloner::getTableExtents(OpBuilder &b, Value table) {
  Operation *op = table.getDefiningOp();
  auto countTiles = [&](Value extent, int64_t tile) {
    Value size = arith::ConstantIndexOp::create(b, op->getLoc(), tile);
    return extent ? b.createOrFold<arith::CeilDivUIOp>(op->getLoc(), extent, size) : Value();
  };
  SmallVector<Value> extents;
  if (isa<flash::RowTableOp>(op)) {
    for (Value extent : op->getOperands())
      extents.push_back(get(b, extent));
  } else if (auto classes = dyn_cast<flash::TileClassesOp>(op)) {
    extents = {get(b, classes.getBatches()), get(b, classes.getHeads()),
               countTiles(get(b, classes.getQueries()), classes.getQTile()),
               countTiles(get(b, classes.getKeys()), classes.getKvTile())};
  } else {
    auto runs = cast<flash::TileRunsOp>(op);
    extents = {get(b, runs.getBatches()), get(b, runs.getHeads()),
               countTiles(get(b, runs.getResident()), runs.getResidentTile())};
  }
  if (llvm::is_contained(extents, Value()))
    return failure();
  return extents;
}

Value ScalarCloner::getTableRow(OpBuilder &b, Value table, ValueRange indices) {
  FailureOr<SmallVector<Value>> extents = getTableExtents(b, table), positions = getAll(b, indices);
  if (failed(extents) || failed(positions))
    return {};
  return emitPlace(b, table.getLoc(), *extents, *positions);
}

Value ScalarCloner::loadFromTable(OpBuilder &b, Operation *op, Value source, Value place) {
  if (!place)
    return {};
  return memref::LoadOp::create(b, op->getLoc(), signature.getTable(*signature.getTables().getNumber(source)), place);
}

template <typename SortedReadOp> Value ScalarCloner::getSearch(OpBuilder &b, SortedReadOp op, Value argument) {
  Value value = get(b, argument);
  FailureOr<SmallVector<Value>> indices = getAll(b, op.getIndices());
  Value dim = arith::ConstantIndexOp::create(b, op.getLoc(), op.getIndices().size());
  Value extent = getDim(b, op, op.getSorted(), dim);
  if (!value || failed(indices) || !extent)
    return {};
  return flash::expandSortedRead(b, op, value, extent, [&](OpBuilder &nested, Value position) {
    SmallVector<Value> positions = *indices;
    positions.push_back(position);
    return loadElement(nested, op, op.getSorted(), positions);
  });
}

LogicalResult ScalarCloner::cloneSegmentTile(OpBuilder &b, flash::SegmentTileOp op) {
  Value tile = get(b, op.getTile()), length = get(b, op.getLength());
  FailureOr<SmallVector<Value>> indices = getAll(b, op.getIndices());
  Value extent = getExtent(b, op, op.getSorted(), op.getIndices().size());
  if (!tile || !length || failed(indices) || !extent)
    return failure();
  flash::SegmentTileOperands operands{tile, extent, length, static_cast<int64_t>(op.getTileSize())};
  SmallVector<Value> copy = flash::expandSegmentTile(b, op.getLoc(), operands, [&](OpBuilder &nested, Value position) {
    SmallVector<Value> positions = *indices;
    positions.push_back(position);
    return loadElement(nested, op, op.getSorted(), positions);
  });
  if (!copy.empty())
    mapping.map(op.getResults(), copy);
  return success(!copy.empty());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult ScalarCloner::cloneGeneric(OpBuilder &b, Operation *op) {
  if (!isMemoryEffectFree(op) && !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
    return op->emitError() << "expected scalar code without side effects";
  for (Value operand : op->getOperands())
    if (!get(b, operand))
      return failure();
  if (Value expanded = expandAffine(
          b, op, llvm::map_to_vector(op->getOperands(), [&](Value operand) { return mapping.lookup(operand); }))) {
    mapping.map(op->getResult(0), expanded);
    return success();
  }
  for (Type type : op->getResultTypes())
    if (!isSupported(type, /*isStored=*/false))
      return op->emitError() << "expected scalar code in integers of up to 64 bits, f16, bf16, f32 or f64, got "
                             << type;
  Operation *copy = op->cloneWithoutRegions(mapping);
  b.insert(copy);
  mapping.map(op->getResults(), copy->getResults());
  OpBuilder::InsertionGuard guard(b);
  for (auto [from, to] : llvm::zip(op->getRegions(), copy->getRegions()))
    for (Block &block : from) {
      Block *target = b.createBlock(&to, to.end(), block.getArgumentTypes(),
                                    SmallVector<Location>(block.getNumArguments(), op->getLoc()));
      mapping.map(block.getArguments(), target->getArguments());
      for (Operation &nested : block)
        if (failed(cloneOp(b, &nested)))
          return failure();
    }
  return success();
}

LogicalResult ScalarCloner::cloneOp(OpBuilder &b, Operation *op) {
  Value leaf;
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    leaf = getDim(b, op, dim.getSource(), dim.getIndex());
  else if (auto dim = dyn_cast<memref::DimOp>(op))
    leaf = getDim(b, op, dim.getSource(), dim.getIndex());
  else if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    leaf = getElement(b, op, extract.getTensor(), extract.getIndices());
  else if (auto load = dyn_cast<memref::LoadOp>(op))
    leaf = getElement(b, op, load.getMemRef(), load.getIndices());
  else if (auto count = dyn_cast<flash::CountLeOp>(op))
    leaf = getSearch(b, count, count.getValue());
  else if (auto nth = dyn_cast<flash::NthOp>(op))
    leaf = getSearch(b, nth, nth.getPosition());
  else if (auto tile = dyn_cast<flash::SegmentTileOp>(op))
    return cloneSegmentTile(b, tile);
  else if (isa<flash::AssumeSortedOp>(op))
    return success(); // an array is handled where it is read
  else
    return cloneGeneric(b, op);
  if (!leaf)
    return failure();
  mapping.map(op->getResult(0), leaf);
  return success();
}

Value ScalarCloner::get(OpBuilder &b, Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Value copy = getArgument(b, argument);
    if (copy)
      mapping.map(value, copy);
    return copy;
  }
  if (failed(cloneOp(b, value.getDefiningOp())))
    return {};
  return mapping.lookup(value);
}

Value ScalarCloner::get(OpBuilder &b, Location loc, OpFoldResult value) {
  if (auto dynamic = dyn_cast<Value>(value))
    return get(b, dynamic);
  return arith::ConstantIndexOp::create(b, loc, *getConstantIntValue(value));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Regions
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult ScalarCloner::cloneInvariants(OpBuilder &b, Region &region, Value batch, Value head) {
  auto isArray = [](Value value) { return isa<ShapedType>(value.getType()); }; // arrays are handled where they are read
  llvm::SetVector<Value> captures;
  getUsedValuesDefinedAbove(region, captures);
  for (Value value : captures)
    if (!isArray(value) && !get(b, value))
      return failure();
  // The arguments of both regions end with b, h, i, j.
  Block::BlockArgListType position = region.getArguments().take_back(4);
  map(position[0], batch);
  if (head)
    map(position[1], head);
  for (Operation &op : region.front().without_terminator()) {
    auto isKnown = [&](Value operand) { return isArray(operand) || mapping.contains(operand); };
    bool isLoad = flash::getElementRead(&op).has_value();
    bool canHoist = op.getNumRegions() == 0 && (isLoad || isPure(&op)) && llvm::all_of(op.getOperands(), isKnown);
    if (canHoist && failed(cloneOp(b, &op)))
      return failure();
  }
  return success();
}

/// Whether recomputing the op in the loop is cheaper than holding its result in registers.
static bool isCheap(Operation *op) {
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::RemSIOp, arith::RemUIOp>(op))
    return matchPattern(op->getOperand(1), m_Constant());
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp,
             arith::MinSIOp, arith::MaxSIOp, arith::CmpIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::SelectOp,
             arith::SIToFPOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>();
}

SmallVector<Value> ScalarCloner::findRowValues(Region &region, ValueRange rows) {
  llvm::SetVector<Value> ofRow; // in the order of the code
  llvm::DenseSet<Value> costly;
  ofRow.insert(rows.begin(), rows.end());
  auto isKnown = [&](Value operand) {
    return isa<ShapedType>(operand.getType()) || mapping.contains(operand) || ofRow.contains(operand) ||
           !region.isAncestor(operand.getParentRegion()) || operand.getDefiningOp<arith::ConstantOp>();
  };
  for (Operation &op : region.front().without_terminator()) {
    bool isOfRow = op.getNumRegions() == 0 && op.getNumResults() == 1 && !mapping.contains(op.getResult(0)) &&
                   llvm::all_of(op.getOperands(), isKnown) &&
                   (isPure(&op) || isa<tensor::ExtractOp, memref::LoadOp>(op)) &&
                   llvm::any_of(op.getOperands(), [&](Value operand) { return ofRow.contains(operand); });
    if (!isOfRow)
      continue;
    ofRow.insert(op.getResult(0));
    if (!isCheap(&op) || llvm::any_of(op.getOperands(), [&](Value operand) { return costly.contains(operand); }))
      costly.insert(op.getResult(0));
  }
  auto isRead = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return user->getNumResults() != 1 || !ofRow.contains(user->getResult(0));
    });
  };
  SmallVector<Value> result;
  llvm::copy_if(ofRow, std::back_inserter(result),
                [&](Value value) { return costly.contains(value) && isRead(value); });
  return result;
}

Value ScalarCloner::cloneRegion(OpBuilder &b, Region &region, ValueRange arguments) {
  Block &block = region.front();
  mapping.map(block.getArguments(), arguments);
  auto isKnown = [&](Value result) { return mapping.contains(result); };
  for (Operation &op : block.without_terminator())
    if (!llvm::all_of(op.getResults(), isKnown) && failed(cloneOp(b, &op)))
      return {};
  return get(b, block.getTerminator()->getOperand(0));
}
