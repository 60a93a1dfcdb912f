//===- ScatterKernel.cpp - the kernel that adds sums up where code says -------------------------------------------===//

#include "flashc/Conversion/HostToKernel/ScatterKernel.h"
#include "ScatterIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;
using flash::Gradients;

static constexpr int64_t kThreads = 256, kLanes = 32;

/// Threads that share an element: one, where its summands are few, a warp, or the CTA, where all positions have summands.
static int64_t getGroup(flash::ScatterSumOp op, ArrayRef<ScatterIndex> indices) {
  unsigned rank = op.getSums().getType().getRank();
  auto isOf = [&](unsigned dim, ArrayRef<ScatterIndex::Kind> kinds) {
    return llvm::any_of(indices, [&](const ScatterIndex &index) {
      return llvm::is_contained(kinds, index.kind) && (index.kind == ScatterIndex::Kind::Any || index.dim == dim);
    });
  };
  using Kind = ScatterIndex::Kind;
  auto positions = llvm::seq<unsigned>(2, rank);
  if (llvm::all_of(positions, [&](unsigned dim) { return isOf(dim, {Kind::Same}); }))
    return 1;
  if (llvm::any_of(positions, [&](unsigned dim) { return isOf(dim, {Kind::Same, Kind::Rising, Kind::Falling, Kind::Any}); }))
    return kLanes;
  return kThreads;
}

bool ScatterSums::isDirect() const {
  flash::ScatterSumOp op = this->op; // whose accessors are not const
  if (op.getGradients() != Gradients::Pairs || !isFirst)
    return false;
  RankedTensorType type = cast<RankedTensorType>(op.getSums().getType());
  SmallVector<unsigned> dims;
  for (unsigned dim = 0; dim < 4; ++dim)
    if (dim >= 2 || type.getDimSize(dim) != 1)
      dims.push_back(dim);
  SmallVector<ScatterIndex> indices = analyzeScatterIndices(op);
  return llvm::equal(indices, dims, [](const ScatterIndex &index, unsigned dim) {
    return index.kind == ScatterIndex::Kind::Same && index.dim == dim;
  });
}

namespace {
class ScatterKernel {
public:
  ScatterKernel(gpu::GPUFuncOp kernel, KernelSignature &signature, const ScatterSums &sums)
      : b(kernel.getLoc(), kernel.getContext()), kernel(kernel), signature(signature), scalars(signature), sums(sums),
        op(sums.op), indices(analyzeScatterIndices(sums.op)), group(getGroup(sums.op, indices)) {
    b.setInsertionPointToStart(&kernel.getBody().front());
  }

  LogicalResult emit();

private:
  struct Range {
    Value begin, end;
  };
  /// Positions in one dimension, in order: one range, or one for each sign of an index that counts from the end.
  using Ranges = SmallVector<Range, 1>;

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
  Value div(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return b.createOrFold<arith::RemUIOp>(x, y); }

  LogicalResult emitElement(ValueRange element, Value lane);
  FailureOr<SmallVector<Ranges>> emitRanges(ValueRange element);
  LogicalResult emitNarrowing(unsigned number, ArrayRef<Value> at, unsigned dim, bool isRising, Value value,
                              Ranges &ranges);
  LogicalResult splitAtSigns(const ScatterIndex &index, ArrayRef<Value> at, unsigned dim, Ranges &ranges);
  Value emitIndex(Value index, ValueRange at);
  Value emitBound(Value index, ArrayRef<Value> at, unsigned dim, bool isRising, Value reached, Range among);
  Value emitCount(const Ranges &ranges);
  Value emitCounts(ArrayRef<Ranges> ranges, SmallVectorImpl<Value> &counts);
  Value emitPosition(const Ranges &ranges, Value number);
  SmallVector<Value> emitPlace(ArrayRef<Ranges> ranges, ArrayRef<Value> counts, Value number);
  Value emitTerm(ArrayRef<Value> at, ValueRange element, bool isNarrowed);
  Value emitSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane);
  Value emitNarrowedSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane);
  bool isNarrowed() const {
    return llvm::any_of(indices, [](const ScatterIndex &index) { return index.lastDirection != 0; });
  }
  Value emitGroupSum(Value sum, Value lane);
  void emitStore(Value sum, ValueRange element);

  ImplicitLocOpBuilder b;
  gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  ScalarCloner scalars;
  const ScatterSums &sums;
  flash::ScatterSumOp op;
  SmallVector<ScatterIndex> indices;
  int64_t group;
  Value array, queries;
  /// A number for each warp.
  Value scratch;
  SmallVector<Value> extents;
};
} // namespace

/// CTA n has kThreads / group elements of one line of the result.
LogicalResult ScatterKernel::emit() {
  if (group == kThreads)
    scratch = emitScratch(b, kernel, kThreads / kLanes);
  queries = scalars.get(b, op.getQueries());
  for (OpFoldResult extent : sums.extents)
    extents.push_back(scalars.get(b, b.getLoc(), extent));
  array = scalars.getTableArray(b, sums.table, sums.extents);
  if (!queries || llvm::is_contained(extents, Value()) || !array)
    return failure();
  SmallVector<Value> shape;
  RankedTensorType type = op.getInit().getType();
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    shape.push_back(type.isDynamicDim(dim) ? signature.getExtent(sums.outputs.front(), dim) : index(type.getDimSize(dim)));
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x), block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value lane = group == 1 ? index(0) : rem(thread, index(group)), last = shape.empty() ? index(1) : shape.back();
  Value inBlock = index(kThreads / group), chunks = b.createOrFold<arith::CeilDivUIOp>(last, inBlock);
  SmallVector<Value> element(std::max<size_t>(shape.size(), 1));
  element.back() = add(mul(rem(block, chunks), inBlock), div(thread, index(group)));
  Value line = div(block, chunks);
  for (size_t dim = shape.size(); dim-- > 1;) {
    element[dim - 1] = dim == 1 ? line : rem(line, shape[dim - 1]);
    line = div(line, shape[dim - 1]);
  }
  ValueRange places = ArrayRef(element).take_front(shape.size());
  if (group < kThreads) {
    auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, element.back(), last));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    if (failed(emitElement(places, lane)))
      return failure();
  } else if (failed(emitElement(places, lane))) {
    return failure();
  }
  gpu::ReturnOp::create(b);
  return success();
}

LogicalResult ScatterKernel::emitElement(ValueRange element, Value lane) {
  FailureOr<SmallVector<Ranges>> ranges = emitRanges(element);
  Value sum;
  if (succeeded(ranges))
    sum = isNarrowed() ? emitNarrowedSum(*ranges, element, lane) : emitSum(*ranges, element, lane);
  if (!sum)
    return failure();
  sum = emitGroupSum(sum, lane);
  if (group == 1) {
    emitStore(sum, element);
    return success();
  }
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitStore(sum, element);
  return success();
}

/// Of each dimension of the sums the positions whose indices may be the element's.
FailureOr<SmallVector<ScatterKernel::Ranges>> ScatterKernel::emitRanges(ValueRange element) {
  SmallVector<Ranges> ranges;
  for (Value extent : extents)
    ranges.push_back(Ranges{Range{index(0), extent}});
  for (auto [number, index] : llvm::enumerate(indices)) {
    using Kind = ScatterIndex::Kind;
    if (index.kind == Kind::Any || index.kind == Kind::Constant)
      continue;
    if (index.kind == Kind::Same) {
      Value next = add(element[number], this->index(1));
      for (Range &range : ranges[index.dim])
        range = {b.createOrFold<arith::MaxSIOp>(range.begin, element[number]),
                 b.createOrFold<arith::MinSIOp>(range.end, next)};
      continue;
    }
    SmallVector<Value> at(extents.size(), this->index(0)); // the index hangs on one of them
    bool isRising = index.kind == Kind::Rising;
    if (failed(emitNarrowing(number, at, index.dim, isRising, element[number], ranges[index.dim])))
      return failure();
  }
  return ranges;
}

/// Narrows ranges of dimension `dim`, others being at `at`, to the positions where index `number`, which moves in one
/// direction, is `value`.
LogicalResult ScatterKernel::emitNarrowing(unsigned number, ArrayRef<Value> at, unsigned dim, bool isRising,
                                           Value value, Ranges &ranges) {
  if (failed(splitAtSigns(indices[number], at, dim, ranges)))
    return failure();
  // Where a rising index is at least the value, and where it is more; a falling one at most, and less.
  Value beyond = isRising ? add(value, index(1)) : sub(value, index(1));
  for (Range &range : ranges) {
    Range within = range;
    range.begin = emitBound(op.getIndices()[number], at, dim, isRising, value, within);
    range.end = emitBound(op.getIndices()[number], at, dim, isRising, beyond, within);
    if (!range.begin || !range.end)
      return failure();
  }
  return success();
}

/// Cuts ranges where an index changes its sign, so that in each of them what it is wrapped to rises, or falls.
LogicalResult ScatterKernel::splitAtSigns(const ScatterIndex &index, ArrayRef<Value> at, unsigned dim, Ranges &ranges) {
  for (const ScatterIndex::Sign &sign : index.signs) {
    Ranges parts;
    for (const Range &range : ranges) {
      Value change = emitBound(sign.index, at, dim, sign.isRising, this->index(sign.isRising ? 0 : -1), range);
      if (!change)
        return failure();
      parts.append({{range.begin, change}, {change, range.end}});
    }
    ranges = std::move(parts);
  }
  return success();
}

/// An index of the pair at `at`, a position in each dimension of the sums.
Value ScatterKernel::emitIndex(Value index, ValueRange at) {
  ScalarCloner inside = scalars; // what it maps holds here only
  SmallVector<Value> pair = flash::emitPairOfSum(b, b.getLoc(), op.getGradients(), at, queries);
  for (auto [argument, value] : llvm::zip_equal(op.getIndex().getArguments(), pair))
    inside.map(argument, value);
  return inside.get(b, index);
}

/// The first position of dimension `dim` in a range, others being at `at`, from which on an index has reached a value.
Value ScatterKernel::emitBound(Value indexValue, ArrayRef<Value> at, unsigned dim, bool isRising, Value reached,
                               Range among) {
  Type type = b.getIndexType();
  bool isEmitted = true;
  auto loop = scf::WhileOp::create(
      b, TypeRange{type, type}, ValueRange{among.begin, among.end},
      [&](OpBuilder &inner, Location loc, ValueRange ends) {
        Value isOpen = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::slt, ends[0], ends[1]);
        scf::ConditionOp::create(inner, loc, isOpen, ends);
      },
      [&](OpBuilder &inner, Location loc, ValueRange ends) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(inner.saveInsertionPoint());
        Value middle = arith::DivUIOp::create(b, arith::AddIOp::create(b, ends[0], ends[1]), index(2));
        SmallVector<Value> place(at);
        place[dim] = middle;
        Value found = emitIndex(indexValue, place);
        isEmitted &= found != nullptr;
        if (!found)
          found = middle;
        auto predicate = isRising ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle;
        Value hasReached = arith::CmpIOp::create(b, predicate, found, reached);
        Value begin = arith::SelectOp::create(b, hasReached, ends[0], arith::AddIOp::create(b, middle, index(1)));
        Value end = arith::SelectOp::create(b, hasReached, middle, ends[1]);
        scf::YieldOp::create(b, ValueRange{begin, end});
      });
  return isEmitted ? loop.getResult(0) : Value();
}

Value ScatterKernel::emitCount(const Ranges &ranges) {
  Value count;
  for (const Range &range : ranges) {
    Value ofRange = b.createOrFold<arith::MaxSIOp>(sub(range.end, range.begin), index(0));
    count = count ? add(count, ofRange) : ofRange;
  }
  return count;
}

/// How many positions each dimension has, and their product.
Value ScatterKernel::emitCounts(ArrayRef<Ranges> ranges, SmallVectorImpl<Value> &counts) {
  Value total = index(1);
  for (const Ranges &ofDim : ranges) {
    counts.push_back(emitCount(ofDim));
    total = mul(total, counts.back());
  }
  return total;
}

/// The position with a number among those of a dimension.
Value ScatterKernel::emitPosition(const Ranges &ranges, Value number) {
  Value position = add(ranges.front().begin, number);
  for (auto [at, range] : llvm::enumerate(ArrayRef(ranges).drop_front())) {
    Value before = emitCount(Ranges(ArrayRef(ranges).take_front(at + 1)));
    Value isHere = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, number, before);
    position = arith::SelectOp::create(b, isHere, add(range.begin, sub(number, before)), position);
  }
  return position;
}

/// Place `number` of those in all dimensions, each of which has so many positions.
SmallVector<Value> ScatterKernel::emitPlace(ArrayRef<Ranges> ranges, ArrayRef<Value> counts, Value number) {
  SmallVector<Value> at(ranges.size());
  for (size_t dim = ranges.size(); dim-- > 0;) {
    at[dim] = emitPosition(ranges[dim], dim == 0 ? number : rem(number, counts[dim]));
    number = div(number, counts[dim]);
  }
  return at;
}

/// The sum at `at`, or 0 if it is another element's. `isNarrowed`: indices that move in one direction with the last
/// position are known to be the element's.
Value ScatterKernel::emitTerm(ArrayRef<Value> at, ValueRange element, bool isNarrowed) {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  Value term = memref::LoadOp::create(b, array, at);
  for (auto [number, index] : llvm::enumerate(indices)) {
    if (index.kind != ScatterIndex::Kind::Any && index.kind != ScatterIndex::Kind::Constant)
      continue;
    if (isNarrowed && index.lastDirection != 0)
      continue;
    Value found = emitIndex(op.getIndices()[number], at);
    if (!found)
      return {};
    Value isSame = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, found, element[number]);
    term = arith::SelectOp::create(b, isSame, term, zero);
  }
  return term;
}

/// The sum where indices move in one direction with the last position: for each of the other positions, every group-th
/// one of which is this thread's, the last ones are narrowed to the element's.
Value ScatterKernel::emitNarrowedSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane) {
  ArrayRef<Ranges> outer = ranges.drop_back();
  SmallVector<Value> counts;
  Value total = emitCounts(outer, counts), zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  auto loop = scf::ForOp::create(b, lane, total, index(group), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> at = emitPlace(outer, counts, loop.getInductionVar());
  at.push_back(index(0));
  Ranges last = ranges.back();
  for (auto [number, index] : llvm::enumerate(indices))
    if (index.lastDirection != 0)
      if (failed(emitNarrowing(number, at, outer.size(), index.lastDirection > 0, element[number], last)))
        return {};
  auto inner = scf::ForOp::create(b, index(0), emitCount(last), index(1), loop.getRegionIterArg(0));
  scf::YieldOp::create(b, inner.getResult(0));
  b.setInsertionPointToStart(inner.getBody());
  at.back() = emitPosition(last, inner.getInductionVar());
  Value term = emitTerm(at, element, /*isNarrowed=*/true);
  if (!term)
    return {};
  scf::YieldOp::create(b, arith::AddFOp::create(b, inner.getRegionIterArg(0), term).getResult());
  return loop.getResult(0);
}

/// The sum over this thread's positions in all ranges: every group-th one.
Value ScatterKernel::emitSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane) {
  SmallVector<Value> counts;
  Value total = emitCounts(ranges, counts), zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  auto loop = scf::ForOp::create(b, lane, total, index(group), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value term = emitTerm(emitPlace(ranges, counts, loop.getInductionVar()), element, /*isNarrowed=*/false);
  if (!term)
    return {};
  scf::YieldOp::create(b, arith::AddFOp::create(b, loop.getRegionIterArg(0), term).getResult());
  return loop.getResult(0);
}

/// The sum of all threads that share an element, in the first one of them.
Value ScatterKernel::emitGroupSum(Value sum, Value lane) {
  if (group == 1)
    return sum;
  sum = emitLaneSum(b, sum, kLanes);
  if (group == kLanes)
    return sum;
  Value inWarp = rem(lane, index(kLanes)), warp = div(lane, index(kLanes));
  auto isFirst = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, inWarp, index(0)));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(isFirst.thenBlock());
    memref::StoreOp::create(b, sum, scratch, warp);
  }
  NVVM::Barrier0Op::create(b);
  Value total = memref::LoadOp::create(b, scratch, index(0));
  for (int64_t number = 1; number < kThreads / kLanes; ++number)
    total = arith::AddFOp::create(b, total, memref::LoadOp::create(b, scratch, index(number)));
  return total;
}

void ScatterKernel::emitStore(Value sum, ValueRange element) {
  for (unsigned output : sums.outputs) {
    Value result = signature.getMemRef(output), all = sum;
    if (!sums.isFirst)
      all = arith::AddFOp::create(b, memref::LoadOp::create(b, result, element), sum);
    memref::StoreOp::create(b, all, result, element);
  }
}

FailureOr<ManifestKernel> flashc::emitScatterKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef name,
                                                    const TileTables &tables, const ScatterSums &sums) {
  int64_t group = getGroup(sums.op, analyzeScatterIndices(sums.op));
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return ScatterKernel(kernel, signature, sums).emit();
  };
  FailureOr<ManifestKernel> info = emitPlainKernel(host, main, name, kThreads, tables, emit);
  if (failed(info))
    return failure();
  RankedTensorType type = flash::ScatterSumOp(sums.op).getInit().getType();
  auto getExtent = [&](int64_t dim) -> GridFormula {
    return type.isDynamicDim(dim) ? GridFormula::extent(sums.outputs.front(), dim) : GridFormula(type.getDimSize(dim));
  };
  GridFormula blocks = 1;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    blocks = blocks * (dim + 1 == type.getRank() ? ceilDiv(getExtent(dim), kThreads / group) : getExtent(dim));
  info->grid = {blocks, 1, 1};
  return info;
}

//===--------------------------------------------------------------------------------------------------------------===//
// What has no pair
//===--------------------------------------------------------------------------------------------------------------===//

/// CTA n has line n of the result.
static LogicalResult emitRest(ImplicitLocOpBuilder &b, KernelSignature &signature, const ScatterSums &sums) {
  ScalarCloner scalars(signature);
  RankedTensorType type = flash::ScatterSumOp(sums.op).getInit().getType();
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  SmallVector<OpFoldResult> extents(sums.extents.end() - type.getRank(), sums.extents.end());
  if (type.getRank() == 3) // of batches or of heads
    extents.front() = isConstantIntValue(sums.extents[1], 1) ? sums.extents[0] : sums.extents[1];
  Value line = gpu::BlockIdOp::create(b, gpu::Dimension::x), zero = index(0);
  Value hasPairs = arith::ConstantOp::create(b, b.getBoolAttr(true));
  SmallVector<Value> element(type.getRank());
  for (int64_t dim = type.getRank() - 1; dim-- > 0;) {
    Value extent = scalars.get(b, b.getLoc(), extents[dim]);
    if (!extent)
      return failure();
    Value size = type.isDynamicDim(dim) ? signature.getExtent(sums.outputs.front(), dim) : index(type.getDimSize(dim));
    element[dim] = dim == 0 ? line : b.createOrFold<arith::RemUIOp>(line, size);
    line = b.createOrFold<arith::DivUIOp>(line, size);
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, element[dim], extent);
    hasPairs = arith::AndIOp::create(b, hasPairs, isInside);
  }
  int64_t last = type.getRank() - 1;
  Value keys = scalars.get(b, b.getLoc(), extents[last]);
  if (!keys)
    return failure();
  Value size = type.isDynamicDim(last) ? signature.getExtent(sums.outputs.front(), last) : index(type.getDimSize(last));
  Value begin = arith::SelectOp::create(b, hasPairs, keys, zero), thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  auto loop = scf::ForOp::create(b, b.createOrFold<arith::AddIOp>(begin, thread), size, index(kThreads));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    element[last] = loop.getInductionVar();
    Value none = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
    for (unsigned output : sums.outputs)
      memref::StoreOp::create(b, none, signature.getMemRef(output), element);
  }
  gpu::ReturnOp::create(b);
  return success();
}

FailureOr<ManifestKernel> flashc::emitRestKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef name,
                                                 const TileTables &tables, const ScatterSums &sums) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
    return emitRest(b, signature, sums);
  };
  FailureOr<ManifestKernel> info = emitPlainKernel(host, main, name, kThreads, tables, emit);
  if (failed(info))
    return failure();
  RankedTensorType type = flash::ScatterSumOp(sums.op).getInit().getType();
  GridFormula lines = 1;
  for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim)
    lines = lines * (type.isDynamicDim(dim) ? GridFormula::extent(sums.outputs.front(), dim)
                                            : GridFormula(type.getDimSize(dim)));
  info->grid = {lines, 1, 1};
  return info;
}
