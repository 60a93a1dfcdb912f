//===- ScatterKernel.cpp - the kernel that adds sums up where code says -------------------------------------------===//

#include "KernelBody.h"
#include "ScatterSums.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256;

/// Returns the number of threads that share an element of the result: one if the element has few summands, a warp if it
/// has many, the whole CTA if every position may be a summand.
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
  if (llvm::any_of(positions,
                   [&](unsigned dim) { return isOf(dim, {Kind::Same, Kind::Rising, Kind::Falling, Kind::Any}); }))
    return kLanes;
  return kThreads;
}

namespace {
/// CTA n has kThreads / group elements of one line of the result; `group` threads share an element. These threads find
/// the element's summands, and add them in an order that depends only on the extents. If an index is monotonic in one
/// position, the positions of the summands are a range, and bisection finds its ends. If an index is not monotonic, the
/// threads compute it for each position, and compare it with the element's position.
class ScatterBody : public KernelBody {
public:
  ScatterBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const ScatterSums &sums)
      : KernelBody(kernel, signature), sums(sums), op(sums.op), indices(analyzeScatterIndices(sums.op)),
        group(getGroup(sums.op, indices)) {}

  LogicalResult emit() {
    if (group == kThreads)
      scratch = emitScratch(kThreads / kLanes);
    queries = scalars.get(b, op.getQueries());
    for (OpFoldResult extent : sums.extents)
      extents.push_back(scalars.get(b, b.getLoc(), extent));
    array = scalars.getTableArray(b, sums.table, sums.extents);
    if (!queries || llvm::is_contained(extents, Value()) || !array)
      return failure();
    SmallVector<Value> shape =
        llvm::map_to_vector(llvm::seq(sums.getRank()), [&](int64_t dim) { return sums.emitSize(b, signature, dim); });
    Value ofThread = thread(), cta = block();
    Value lane = group == 1 ? index(0) : rem(ofThread, index(group)), last = shape.empty() ? index(1) : shape.back();
    Value inBlock = index(kThreads / group), chunks = ceilDiv(last, inBlock);
    SmallVector<Value> element(std::max<size_t>(shape.size(), 1));
    element.back() = add(mul(rem(cta, chunks), inBlock), div(ofThread, index(group)));
    Value line = div(cta, chunks);
    for (size_t dim = shape.size(); dim-- > 1;) {
      element[dim - 1] = dim == 1 ? line : rem(line, shape[dim - 1]);
      line = div(line, shape[dim - 1]);
    }
    ValueRange places = ArrayRef(element).take_front(shape.size());
    if (group == kThreads)
      return emitElement(places, lane);
    LogicalResult result = success();
    emitIf(isBelow(element.back(), last), [&] { result = emitElement(places, lane); });
    return result;
  }

private:
  struct Range {
    Value begin, end;
  };
  /// The positions in one dimension, in ascending order. There is one range, or several if an index counts from the
  /// end: such an index is monotonic only as long as its sign stays the same.
  using Ranges = SmallVector<Range, 1>;

  bool isNarrowed() const {
    return llvm::any_of(indices, [](const ScatterIndex &index) { return index.lastDirection != 0; });
  }

  LogicalResult emitElement(ValueRange element, Value lane) {
    FailureOr<SmallVector<Ranges>> ranges = emitRanges(element);
    Value sum;
    if (succeeded(ranges))
      sum = isNarrowed() ? emitNarrowedSum(*ranges, element, lane) : emitSum(*ranges, element, lane);
    if (!sum)
      return failure();
    sum = emitGroupSum(sum, lane);
    if (group == 1)
      emitStore(sum, element);
    else
      emitIf(isZero(lane), [&] { emitStore(sum, element); });
    return success();
  }

  /// Returns, for each dimension of the sums, the positions at which summands of `element` may be.
  FailureOr<SmallVector<Ranges>> emitRanges(ValueRange element) {
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
      SmallVector<Value> at(extents.size(), this->index(0)); // this index ignores all other dimensions
      bool isRising = index.kind == Kind::Rising;
      if (failed(emitNarrowing(number, at, index.dim, isRising, element[number], ranges[index.dim])))
        return failure();
    }
    return ranges;
  }

  /// Narrows `ranges`, of dimension `dim`, to the positions where index `number` equals `value`. The index must be
  /// monotonic in dimension `dim`. `at` has the positions in the other dimensions.
  LogicalResult emitNarrowing(unsigned number, ArrayRef<Value> at, unsigned dim, bool isRising, Value value,
                              Ranges &ranges) {
    if (failed(splitAtSigns(indices[number], at, dim, ranges)))
      return failure();
    // A range ends at the first position where a rising index is above `value`, or a falling one is below `value`.
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

  /// Splits `ranges` at the positions where a wrapped index changes its sign, so that the index is monotonic in each
  /// part.
  LogicalResult splitAtSigns(const ScatterIndex &index, ArrayRef<Value> at, unsigned dim, Ranges &ranges) {
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

  /// Returns the value of `index`, one of the op's indices, for the summand at position `at` of the sums.
  Value emitIndex(Value index, ValueRange at) {
    ScalarCloner inside = scalars; // a copy, so that the mappings below stay local
    SmallVector<Value> pair = flash::emitPairOfSum(b, b.getLoc(), op.getGradients(), at, queries);
    for (auto [argument, value] : llvm::zip_equal(op.getIndex().getArguments(), pair))
      inside.map(argument, value);
    return inside.get(b, index);
  }

  /// Returns the first position in the range `among` of dimension `dim` at which `indexValue` has reached the value
  /// `reached`. `at` has the positions in the other dimensions.
  Value emitBound(Value indexValue, ArrayRef<Value> at, unsigned dim, bool isRising, Value reached, Range among) {
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
          Value sum = add(ends[0], ends[1]), middle = div(sum, index(2));
          SmallVector<Value> place(at);
          place[dim] = middle;
          Value found = emitIndex(indexValue, place);
          isEmitted &= found != nullptr;
          if (!found)
            found = middle;
          auto predicate = isRising ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle;
          Value hasReached = compare(predicate, found, reached);
          Value begin = select(hasReached, ends[0], add(middle, index(1)));
          Value end = select(hasReached, middle, ends[1]);
          scf::YieldOp::create(b, ValueRange{begin, end});
        });
    return isEmitted ? loop.getResult(0) : Value();
  }

  Value emitCount(const Ranges &ranges) {
    Value count;
    for (const Range &range : ranges) {
      Value ofRange = b.createOrFold<arith::MaxSIOp>(sub(range.end, range.begin), index(0));
      count = count ? add(count, ofRange) : ofRange;
    }
    return count;
  }

  /// Appends the number of positions in each dimension to `counts`, and returns the product of these numbers.
  Value emitCounts(ArrayRef<Ranges> ranges, SmallVectorImpl<Value> &counts) {
    Value total = index(1);
    for (const Ranges &ofDim : ranges) {
      counts.push_back(emitCount(ofDim));
      total = mul(total, counts.back());
    }
    return total;
  }

  /// Returns the position with this number in one dimension, where numbers count through all of the dimension's ranges.
  Value emitPosition(const Ranges &ranges, Value number) {
    Value position = add(ranges.front().begin, number);
    for (auto [at, range] : llvm::enumerate(ArrayRef(ranges).drop_front())) {
      Value before = emitCount(Ranges(ArrayRef(ranges).take_front(at + 1)));
      Value isHere = compare(arith::CmpIPredicate::sge, number, before);
      position = select(isHere, add(range.begin, sub(number, before)), position);
    }
    return position;
  }

  /// Returns the position of summand `number` in each dimension. `counts` has the number of positions in each
  /// dimension.
  SmallVector<Value> emitPlace(ArrayRef<Ranges> ranges, ArrayRef<Value> counts, Value number) {
    SmallVector<Value> at(ranges.size());
    for (size_t dim = ranges.size(); dim-- > 0;) {
      at[dim] = emitPosition(ranges[dim], dim == 0 ? number : rem(number, counts[dim]));
      number = div(number, counts[dim]);
    }
    return at;
  }

  /// Returns the summand at position `at`, or 0 if it belongs to another element than `element`. With `isNarrowed`,
  /// indices with a lastDirection are known to match `element` and are not compared.
  Value emitTerm(ArrayRef<Value> at, ValueRange element, bool isNarrowed) {
    Value zero = constant(0);
    Value term = memref::LoadOp::create(b, array, at);
    for (auto [number, index] : llvm::enumerate(indices)) {
      if (index.kind != ScatterIndex::Kind::Any && index.kind != ScatterIndex::Kind::Constant)
        continue;
      if (isNarrowed && index.lastDirection != 0)
        continue;
      Value found = emitIndex(op.getIndices()[number], at);
      if (!found)
        return {};
      term = select(isEqual(found, element[number]), term, zero);
    }
    return term;
  }

  /// Returns this thread's part of the sum if there is an index with a lastDirection. The thread takes every group-th
  /// combination of positions in the other dimensions. For each it narrows the range of last positions to those whose
  /// index is that of `element`.
  Value emitNarrowedSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane) {
    ArrayRef<Ranges> outer = ranges.drop_back();
    SmallVector<Value> counts;
    Value total = emitCounts(outer, counts), zero = constant(0);
    return emitFor(lane, total, index(group), zero, [&](Value number, Value before) -> Value {
      SmallVector<Value> at = emitPlace(outer, counts, number);
      at.push_back(index(0));
      Ranges last = ranges.back();
      for (auto [number, index] : llvm::enumerate(indices))
        if (index.lastDirection != 0)
          if (failed(emitNarrowing(number, at, outer.size(), index.lastDirection > 0, element[number], last)))
            return {};
      Value none = index(0), count = emitCount(last), one = index(1);
      return emitFor(none, count, one, before, [&](Value number, Value sum) -> Value {
        at.back() = emitPosition(last, number);
        Value term = emitTerm(at, element, /*isNarrowed=*/true);
        return term ? addF(sum, term) : Value();
      });
    });
  }

  /// Returns this thread's part of the sum: the thread takes every group-th position of all ranges.
  Value emitSum(ArrayRef<Ranges> ranges, ValueRange element, Value lane) {
    SmallVector<Value> counts;
    Value total = emitCounts(ranges, counts), zero = constant(0);
    return emitFor(lane, total, index(group), zero, [&](Value number, Value sum) -> Value {
      Value term = emitTerm(emitPlace(ranges, counts, number), element, /*isNarrowed=*/false);
      return term ? addF(sum, term) : Value();
    });
  }

  /// Returns the sum over all threads that share an element.
  Value emitGroupSum(Value sum, Value lane) {
    if (group < kThreads)
      return group == 1 ? sum : emitLaneSum(sum, kLanes);
    shareSum(sum, lane, scratch);
    return emitSharedSum(scratch);
  }

  void emitStore(Value sum, ValueRange element) {
    for (unsigned output : sums.outputs) {
      Value result = signature.getMemRef(output), all = sum;
      if (!sums.isFirst)
        all = addF(memref::LoadOp::create(b, result, element), sum);
      memref::StoreOp::create(b, all, result, element);
    }
  }

  const ScatterSums &sums;
  flash::ScatterSumOp op;
  SmallVector<ScatterIndex> indices;
  int64_t group;
  Value array, queries;
  /// An f32 in shared memory for each warp.
  Value scratch;
  SmallVector<Value> extents;
};

/// The kernel of a flash.scatter_sum whose summands another kernel of the launch stores in the workspace.
class ScatterKernel : public LaunchKernel {
public:
  explicit ScatterKernel(ScatterSums sums) : LaunchKernel(sums.op, sums.outputs), sums(std::move(sums)) {}

  LogicalResult addTables(const LaunchNest &, TileTables &tables) const override {
    if (tables.getNumber(sums.table)) // DiagonalKernel has added it
      return success();
    return addTable(tables, getArrayTable(sums.table, sums.extents, /*isNumbered=*/true));
  }

  SmallVector<Value> getDestinations(const LaunchNest &, unsigned, OpBuilder &b, ScalarCloner &scalars) const override {
    return {scalars.getTableArray(b, sums.table, sums.extents)};
  }

  void addRoles(LaunchRoles &roles) const override { sums.addRoles(roles); }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    SmallVector<GridFormula> shape = sums.getSizes();
    if (!shape.empty())
      shape.back() = ceilDiv(shape.back(), kThreads / getGroup(sums.op, analyzeScatterIndices(sums.op)));
    return emitKernel<ScatterBody>(context, "_scatter" + nest.getNumberSuffix(), kThreads,
                                   {llvm::product_of(shape, GridFormula(1)), 1, 1}, sums);
  }

private:
  ScatterSums sums;
};
} // namespace

void flashc::matchScatter(LaunchNest &nest) {
  if (std::optional<ScatterSums> sums = ScatterSums::find(nest); sums && !sums->isDirect())
    nest.kernels.push_back(std::make_unique<ScatterKernel>(std::move(*sums)));
}
