//===- IndexEvaluator.cpp - index arithmetic with numbers ---------------------------------------------------------===//

#include "IndexEvaluator.h"
#include "KeyRanges.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/bit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace flashc;

Value flashc::getTiedValue(Value tensor) {
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      if (OpOperand *init = loop.getTiedLoopInit(argument))
        return init->get();
    if (auto forall = dyn_cast<scf::ForallOp>(parent); forall && argument.getArgNumber() >= forall.getRank())
      return forall.getOutputs()[argument.getArgNumber() - forall.getRank()];
    return nullptr;
  }
  auto result = cast<OpResult>(tensor);
  return TypeSwitch<Operation *, Value>(result.getOwner())
      .Case<scf::ForOp>([&](auto loop) { return loop.getInitArgs()[result.getResultNumber()]; })
      .Case<scf::ForallOp>([&](auto forall) { return forall.getOutputs()[result.getResultNumber()]; })
      .Case<DestinationStyleOpInterface>([&](auto op) { return op.getTiedOpOperand(result)->get(); })
      .Case<tensor::CastOp, flash::AssumeSortedOp>([](auto op) { return op.getSource(); })
      .Case<bufferization::ToTensorOp>([](auto op) { return op.getBuffer(); })
      .Default(nullptr);
}

std::optional<int64_t> IndexEvaluator::get(OpFoldResult value) const {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return constant;
  return get(cast<Value>(value));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Constants of any type
//===--------------------------------------------------------------------------------------------------------------===//

static unsigned getBitWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

/// The constant of a scalar type whose bytes, lowest first, are those of `bits`; null for other types.
static Attribute makeConstant(Type type, uint64_t bits) {
  if (!type.isIntOrIndexOrFloat() || getBitWidth(type) > 64)
    return nullptr;
  APInt value(getBitWidth(type), bits, /*isSigned=*/false, /*implicitTrunc=*/true);
  if (auto floatType = dyn_cast<FloatType>(type))
    return FloatAttr::get(type, APFloat(floatType.getFloatSemantics(), value));
  return IntegerAttr::get(type, value);
}

static std::optional<int64_t> getInteger(Attribute constant) {
  auto integer = dyn_cast_or_null<IntegerAttr>(constant);
  return integer && integer.getValue().getBitWidth() <= 64 ? std::optional(integer.getValue().getSExtValue())
                                                           : std::nullopt;
}

void IndexEvaluator::setScalar(Value argument, uint64_t bits) {
  if (Attribute constant = makeConstant(argument.getType(), bits))
    scalars[argument] = constant;
}

std::optional<int64_t> IndexEvaluator::get(Value value) const {
  if (auto found = counters.find(value); found != counters.end())
    return found->second;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<int64_t> number = getInteger(getConstant(value));
  if (number)
    known[value] = *number;
  return number;
}

Attribute IndexEvaluator::getConstant(Value value) const {
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant;
  if (Attribute scalar = scalars.lookup(value))
    return scalar;
  if (auto counter = counters.find(value); counter != counters.end())
    return makeConstant(value.getType(), counter->second);
  if (auto result = dyn_cast<OpResult>(value))
    return evaluate(result);
  unknown = value;
  return nullptr;
}

/// Ops that are so frequent that they are computed without constants in between; folding does all others.
static bool isIndexArithmetic(Operation *op) {
  return isa<affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp, tensor::DimOp, memref::DimOp>(op) ||
         (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) && op->getResult(0).getType().isIndex());
}

Attribute IndexEvaluator::evaluate(OpResult result) const {
  Operation *op = result.getOwner();
  if (isIndexArithmetic(op)) {
    std::optional<int64_t> number = evaluateInteger(op);
    return number ? makeConstant(result.getType(), *number) : nullptr;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return load(extract.getTensor(), extract.getIndices());
  if (auto loadOp = dyn_cast<memref::LoadOp>(op))
    return load(loadOp.getMemRef(), loadOp.getIndices());
  if (isa<flash::CountLeOp, flash::NthOp>(op)) {
    auto count = dyn_cast<flash::CountLeOp>(op);
    std::optional<int64_t> number = count ? evaluateSearch(count) : evaluateSearch(cast<flash::NthOp>(op));
    return number ? makeConstant(result.getType(), *number) : nullptr;
  }
  if (auto tile = dyn_cast<flash::SegmentTileOp>(op)) {
    std::optional<std::array<int64_t, 3>> found = evaluateSegmentTile(tile);
    return found ? makeConstant(result.getType(), (*found)[result.getResultNumber()]) : nullptr;
  }
  return fold(result);
}

std::optional<SmallVector<int64_t, 4>> IndexEvaluator::getAll(ValueRange values) const {
  SmallVector<int64_t, 4> numbers;
  for (Value value : values) {
    std::optional<int64_t> number = get(value);
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

Attribute IndexEvaluator::load(Value array, ValueRange indices) const {
  auto positions = getAll(indices);
  Operation *table = array.getDefiningOp();
  if (!positions || !isa_and_nonnull<flash::RowTableOp, flash::TileMinMaxOp, flash::TileRunsOp>(table))
    return positions ? read(array, *positions) : nullptr;
  std::optional<int64_t> number =
      TypeSwitch<Operation *, std::optional<int64_t>>(table)
          .Case([&](flash::RowTableOp op) { return evaluateRow(op, *positions); })
          .Case([&](flash::TileMinMaxOp op) { return evaluateMinMax(op, *positions); })
          .Case([&](flash::TileRunsOp op) { return evaluateRuns(op, *positions); });
  return number ? makeConstant(getElementTypeOrSelf(array), *number) : nullptr;
}

Attribute IndexEvaluator::read(Value array, ArrayRef<int64_t> positions) const {
  Value argument = flash::getRootArgument(array);
  auto found = elements.find(argument);
  auto shape = shapes.find(argument);
  unknown = argument ? argument : array;
  if (found == elements.end() || shape == shapes.end())
    return nullptr;
  int64_t offset = 0;
  for (auto [position, extent, stride] : llvm::zip_equal(positions, shape->second, found->second.strides)) {
    if (position < 0 || position >= extent)
      return nullptr;
    offset += position * stride;
  }
  Type type = cast<ShapedType>(array.getType()).getElementType();
  unsigned bytes = llvm::divideCeil(getBitWidth(type), 8);
  uint64_t bits = 0;
  if (bytes <= sizeof(bits))
    std::memcpy(&bits, found->second.first + offset * bytes, bytes); // this machine is little-endian, as GPUs are
  return makeConstant(type, bits);
}

/// Step for step what the kernel does (expandSortedRead), so that this is also what it finds where a promise is broken.
std::optional<int64_t> IndexEvaluator::evaluateSearch(flash::CountLeOp op) const {
  std::optional<int64_t> value = get(op.getValue());
  return value ? countElements(op, *value) : std::nullopt;
}

std::optional<int64_t> IndexEvaluator::countElements(flash::CountLeOp op, int64_t value) const {
  Value sorted = op.getSorted();
  std::optional<int64_t> extent = getExtent(sorted, cast<ShapedType>(sorted.getType()).getRank() - 1);
  auto positions = getAll(op.getIndices());
  if (!extent || !positions)
    return std::nullopt;
  int64_t count = 0;
  positions->push_back(0);
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    positions->back() = std::min(count + step, *extent) - 1;
    std::optional<int64_t> element = getInteger(read(sorted, *positions));
    if (!element)
      return std::nullopt;
    bool isCounted = op.getStrict() ? *element < value : *element <= value;
    if (count + step <= *extent && isCounted)
      count += step;
  }
  return count;
}

std::optional<int64_t> IndexEvaluator::evaluateSearch(flash::NthOp op) const {
  Value sorted = op.getSorted();
  std::optional<int64_t> position = get(op.getPosition());
  std::optional<int64_t> extent = getExtent(sorted, cast<ShapedType>(sorted.getType()).getRank() - 1);
  auto positions = getAll(op.getIndices());
  if (!position || !extent || !positions)
    return std::nullopt;
  if (*position < 0 || *position >= *extent)
    return *position < 0 ? -flash::kFarPosition : flash::kFarPosition;
  positions->push_back(*position);
  std::optional<int64_t> element = getInteger(read(sorted, *positions));
  return element ? std::optional(std::clamp(*element, -flash::kFarPosition, flash::kFarPosition)) : std::nullopt;
}

std::optional<int64_t> IndexEvaluator::evaluateRow(flash::RowTableOp op, ArrayRef<int64_t> place) const {
  IndexEvaluator inside(*this);
  for (auto [argument, position] : llvm::zip_equal(op.getBody().getArguments(), place))
    inside.setCounter(argument, position);
  std::optional<int64_t> value = inside.get(op.getValue());
  unknown = inside.unknown;
  return value;
}

/// Like expandSegmentTile.
std::optional<IndexEvaluator::Segment> IndexEvaluator::findSegment(flash::SegmentTileOp op, int64_t tile) const {
  Value sorted = op.getSorted();
  std::optional<int64_t> length = get(op.getLength());
  std::optional<int64_t> extent = getExtent(sorted, cast<ShapedType>(sorted.getType()).getRank() - 1);
  auto positions = getAll(op.getIndices());
  if (!length || !extent || !positions)
    return std::nullopt;
  int64_t size = op.getTileSize(), segment = 0;
  positions->push_back(0);
  auto getBegin = [&](int64_t segment) -> std::optional<int64_t> {
    if (segment == 0 || segment > *extent)
      return segment == 0 ? 0 : *length;
    positions->back() = segment - 1;
    std::optional<int64_t> element = getInteger(read(sorted, *positions));
    return element ? std::optional(std::max<int64_t>(std::min(*element, *length), 0)) : std::nullopt;
  };
  for (int64_t step = llvm::bit_floor(uint64_t(*extent)); step > 0; step /= 2) {
    std::optional<int64_t> begin = getBegin(std::min(segment + step, *extent));
    if (!begin)
      return std::nullopt;
    if (segment + step <= *extent && *begin / size + segment + step <= tile)
      segment += step;
  }
  std::optional<int64_t> begin = getBegin(segment), end = getBegin(segment + 1);
  return begin && end ? std::optional(Segment{segment, *begin, *end}) : std::nullopt;
}

/// Begin, size and segment.
std::optional<std::array<int64_t, 3>> IndexEvaluator::evaluateSegmentTile(flash::SegmentTileOp op) const {
  std::optional<int64_t> tile = get(op.getTile()), length = get(op.getLength());
  std::optional<Segment> segment = tile && length ? findSegment(op, *tile) : std::nullopt;
  if (!segment)
    return std::nullopt;
  int64_t size = op.getTileSize();
  int64_t first =
      std::min(segment->begin + (*tile - segment->begin / size - segment->number) * size, segment->end);
  return std::array{std::max<int64_t>(std::min(first, *length - 1), 0), std::min(segment->end - first, size),
                    segment->number};
}

std::optional<int64_t> IndexEvaluator::evaluateMinMax(flash::TileMinMaxOp op, ArrayRef<int64_t> place) const {
  Tables::Place row{op, std::vector<int64_t>(place.begin(), place.end() - 1)};
  if (auto found = tables->minMax.find(row); found != tables->minMax.end())
    return found->second[place.back()];
  int64_t dim = op.getDim(), tile = op.getTile(), begin = row.second[dim] * tile;
  std::optional<int64_t> extent = getExtent(op.getSource(), dim);
  if (!extent)
    return std::nullopt;
  bool isUnsigned = getElementTypeOrSelf(op.getSource()).isInteger(1);
  std::array<int64_t, 2> ends{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  SmallVector<int64_t, 4> position(row.second.begin(), row.second.end());
  for (position[dim] = begin; position[dim] < std::min(begin + tile, *extent); ++position[dim]) {
    std::optional<int64_t> element = getInteger(read(op.getSource(), position));
    if (!element)
      return std::nullopt;
    int64_t number = isUnsigned ? *element != 0 : *element;
    ends = {std::min(ends[0], number), std::max(ends[1], number)};
  }
  tables->minMax[row] = ends;
  return ends[place.back()];
}

/// By halves, which are asked about again and again.
std::optional<std::array<int64_t, 2>> IndexEvaluator::findEnds(flash::TileMinMaxOp op, ArrayRef<int64_t> place,
                                                               int64_t last) const {
  if (place[op.getDim()] == last) {
    std::optional<int64_t> end = evaluateMinMax(op, place);
    return end ? std::optional(std::array{*end, *end}) : std::nullopt;
  }
  std::pair<Tables::Place, int64_t> stretch{{op, place.vec()}, last};
  if (auto found = tables->stretches.find(stretch); found != tables->stretches.end())
    return found->second;
  SmallVector<int64_t, 4> middle(place);
  middle[op.getDim()] = (place[op.getDim()] + last) / 2 + 1;
  auto front = findEnds(op, place, middle[op.getDim()] - 1), back = findEnds(op, middle, last);
  if (!front || !back)
    return std::nullopt;
  return tables->stretches[stretch] = {std::min((*front)[0], (*back)[0]), std::max((*front)[1], (*back)[1])};
}

std::optional<TileRunList> IndexEvaluator::computeRuns(flash::TileRunsOp op, ArrayRef<int64_t> place) const {
  IndexEvaluator row(*this);
  Block &body = op.getBody().front();
  for (auto [argument, value] : llvm::zip(body.getArguments().take_front(2), place))
    row.setCounter(argument, value);
  row.setCounter(body.getArgument(2), place[2] * int64_t(op.getQTile()));
  IndexEvaluator single(row);
  KeyRanges stretches(op, row);
  std::optional<int64_t> keys = get(op.getKeys());
  TileRunList runs(op.getNumRuns(), op.getKvTile());
  SmallVector<std::array<int64_t, 2>> todo; // stretches of tiles, in descending order
  if (keys && *keys > 0)
    todo.push_back({0, llvm::divideCeilSigned(*keys, int64_t(op.getKvTile())) - 1});
  while (!todo.empty()) {
    auto [first, last] = todo.pop_back_val();
    std::optional<int64_t> visit = stretches.getAnswer(first, last);
    if (!visit && first < last) {
      int64_t middle = (first + last) / 2;
      todo.append({{middle + 1, last}, {first, middle}});
      continue;
    }
    if (!visit) {
      single.setCounter(body.getArgument(3), first * int64_t(op.getKvTile()));
      visit = single.get(cast<flash::YieldOp>(body.getTerminator()).getValue());
      unknown = single.unknown;
      if (!visit)
        return std::nullopt;
    }
    for (int64_t tile = first; *visit > 0 && tile <= last; ++tile)
      runs.visit(tile * int64_t(op.getKvTile()), *visit == 2);
  }
  return keys ? std::optional(runs) : std::nullopt;
}

std::optional<int64_t> IndexEvaluator::evaluateRuns(flash::TileRunsOp op, ArrayRef<int64_t> place) const {
  Tables::Place row{op, std::vector<int64_t>(place.begin(), place.begin() + 3)};
  auto found = tables->runs.find(row);
  if (found == tables->runs.end()) {
    std::optional<TileRunList> runs = computeRuns(op, place);
    if (!runs)
      return std::nullopt;
    found = tables->runs.emplace(row, *runs).first;
  }
  return found->second.get(place[3], place[4]);
}

/// What the op's own folding makes of constants.
Attribute IndexEvaluator::fold(OpResult result) const {
  Operation *op = result.getOwner();
  SmallVector<Attribute, 4> operands;
  for (Value operand : op->getOperands()) {
    Type type = operand.getType();
    if (type.isIntOrIndex()) {
      std::optional<int64_t> number = get(operand); // which is then known
      operands.push_back(number ? makeConstant(type, *number) : nullptr);
    } else {
      operands.push_back(type.isIntOrIndexOrFloat() ? getConstant(operand) : nullptr);
    }
    if (type.isIntOrIndexOrFloat() && !operands.back())
      return nullptr;
  }
  SmallVector<OpFoldResult, 1> results;
  unknown = result;
  if (op->getNumRegions() || failed(op->fold(operands, results)) || results.empty())
    return nullptr;
  OpFoldResult folded = results[result.getResultNumber()];
  return isa<Attribute>(folded) ? cast<Attribute>(folded) : getConstant(cast<Value>(folded));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Integers
//===--------------------------------------------------------------------------------------------------------------===//

/// Sums and products wrap around, as a machine's do.
static int64_t addWrapping(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
static int64_t multiplyWrapping(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

/// `expr` with numbers for its dimensions and symbols.
static int64_t evaluateExpr(AffineExpr expr, ArrayRef<int64_t> operands, unsigned numDims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t lhs = evaluateExpr(binary.getLHS(), operands, numDims);
  int64_t rhs = evaluateExpr(binary.getRHS(), operands, numDims);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return addWrapping(lhs, rhs);
  case AffineExprKind::Mul:
    return multiplyWrapping(lhs, rhs);
  case AffineExprKind::Mod:
    return lhs - llvm::divideFloorSigned(lhs, rhs) * rhs;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(lhs, rhs);
  default:
    return llvm::divideCeilSigned(lhs, rhs);
  }
}

std::optional<int64_t> IndexEvaluator::evaluateAffine(Operation *op) const {
  AffineMap map = cast<AffineMapAttr>(op->getAttr("map")).getValue();
  auto operands = getAll(op->getOperands());
  if (!operands)
    return std::nullopt;
  SmallVector<int64_t, 4> results;
  for (AffineExpr expr : map.getResults())
    results.push_back(evaluateExpr(expr, *operands, map.getNumDims()));
  return isa<affine::AffineMinOp>(op) ? *llvm::min_element(results) : *llvm::max_element(results);
}

/// Of isIndexArithmetic.
std::optional<int64_t> IndexEvaluator::evaluateInteger(Operation *op) const {
  if (isa<affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp>(op))
    return evaluateAffine(op);
  if (isa<tensor::DimOp, memref::DimOp>(op)) {
    std::optional<int64_t> dim = get(op->getOperand(1));
    return dim ? getExtent(op->getOperand(0), *dim) : std::nullopt;
  }
  std::optional<int64_t> a = get(op->getOperand(0)), b = get(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  return isa<arith::MulIOp>(op) ? multiplyWrapping(*a, *b)
                                : addWrapping(*a, isa<arith::AddIOp>(op) ? *b : multiplyWrapping(*b, -1));
}

bool flashc::isComputedFrom(ValueRange values, Value source, Operation *loop) {
  SmallVector<Value> worklist(values);
  llvm::SmallPtrSet<Operation *, 16> visited;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value == source)
      return true;
    Operation *op = value.getDefiningOp();
    if (op && loop->isProperAncestor(op) && visited.insert(op).second)
      llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Extents
//===--------------------------------------------------------------------------------------------------------------===//

std::optional<SmallVector<OpFoldResult, 3>> IndexEvaluator::getExtentTerms(Value tensor, int64_t dim) const {
  using Terms = SmallVector<OpFoldResult, 3>;
  auto type = cast<ShapedType>(tensor.getType());
  auto number = [&](int64_t value) { return Terms{IntegerAttr::get(IndexType::get(tensor.getContext()), value)}; };
  if (dim < 0 || dim >= type.getRank()) // of a tensor.dim: undefined, and no error to the verifier
    return std::nullopt;
  if (!type.isDynamicDim(dim))
    return number(type.getDimSize(dim));
  if (auto found = shapes.find(tensor); found != shapes.end())
    return number(found->second[dim]);
  if (Value tied = getTiedValue(tensor))
    return getExtentTerms(tied, dim);
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>()) {
    // Rank-reducing slices drop unit sizes only; none of flash's passes makes one.
    if (slice.getType().getRank() == slice.getSourceType().getRank())
      return Terms{slice.getMixedSizes()[dim]};
  } else if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>()) {
    return Terms{empty.getMixedSizes()[dim]};
  } else if (auto pad = tensor.getDefiningOp<tensor::PadOp>()) {
    std::optional<Terms> terms = getExtentTerms(pad.getSource(), dim);
    if (terms)
      terms->append({pad.getMixedLowPad()[dim], pad.getMixedHighPad()[dim]});
    return terms;
  }
  unknown = tensor;
  return std::nullopt;
}

std::optional<int64_t> IndexEvaluator::getExtent(Value tensor, int64_t dim) const {
  std::optional<SmallVector<OpFoldResult, 3>> terms = getExtentTerms(tensor, dim);
  if (!terms)
    return std::nullopt;
  int64_t sum = 0;
  for (OpFoldResult term : *terms) {
    std::optional<int64_t> number = get(term);
    if (!number)
      return std::nullopt;
    sum += *number;
  }
  return sum;
}

std::optional<int64_t> IndexEvaluator::getNumElements(Value tensor) const {
  int64_t count = 1;
  for (int64_t dim = 0, rank = cast<ShapedType>(tensor.getType()).getRank(); dim < rank; ++dim) {
    std::optional<int64_t> extent = getExtent(tensor, dim);
    if (!extent)
      return std::nullopt;
    count *= *extent;
  }
  return count;
}
