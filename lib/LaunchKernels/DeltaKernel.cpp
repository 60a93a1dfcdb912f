//===- DeltaKernel.cpp - the kernel that computes the delta of a backward pass ------------------------------------===//

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/LaunchKernels/AddedSums.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256, kRows = 64, kBytes = 16;
/// For each query the table has two numbers in f32, the shift and the delta.
static constexpr int64_t kBytesOfQuery = 2 * 4;

/// Returns the number of queries of a tile. The table of `delta` has a whole number of tiles.
static int64_t getTile(const TileTables &tables, Value delta) {
  return tables.getTables()[*tables.getNumber(delta)].bytes / kBytesOfQuery;
}

namespace {
/// CTA (n, h, b) has queries kRows n to kRows n + kRows - 1. `lanes` consecutive lanes share a row and read it in
/// vectors. A vector has as many elements of o, and of do, as fit 16 bytes in the wider of the two types. The next
/// lanes of the warp have the next rows.
class DeltaBody : public KernelBody {
public:
  DeltaBody(gpu::GPUFuncOp kernel, KernelSignature &signature, Value delta, Value lse, ArrayRef<const AddedSums *> sums)
      : KernelBody(kernel, signature), op(delta.getDefiningOp()), delta(delta), lse(lse),
        dots(*flash::matchRowDots(delta)), sums(sums) {
    auto ofO = cast<ShapedType>(dots.o.getType()), ofDo = cast<ShapedType>(dots.dout.getType());
    depth = ofO.getDimSize(3);
    perVector = kBytes * 8 / std::max(ofO.getElementTypeBitWidth(), ofDo.getElementTypeBitWidth());
    lanes = std::min<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(depth, perVector)), kLanes);
  }

  LogicalResult emit() {
    Value statistics = scalars.getStatistics(b, op, delta), numQueries = scalars.getExtent(b, op, dots.o, 2);
    if (!statistics || !numQueries)
      return failure();
    Value ofThread = thread(), first = block();
    head = block(gpu::Dimension::y), batch = block(gpu::Dimension::z);
    for (const AddedSums *added : sums)
      if (failed(added->groupSize > 1 ? clearOfGroup(*added, first, ofThread)
                                      : clearOfQueries(*added, first, ofThread)))
        return failure();
    lane = rem(ofThread, lanes);
    Value begin = mul(first, kRows), row = div(ofThread, lanes);
    int64_t tile = getTile(signature.getTables(), delta);
    Value padded = mul(ceilDiv(numQueries, tile), tile);
    LogicalResult result = success();
    emitFor(index(0), index(kRows), index(kThreads / lanes), [&](Value at) {
      query = add(add(begin, at), row);
      Value exists = isBelow(query, numQueries);
      FailureOr<Value> sum = emitSum(exists);
      Value isWritten = isBelow(query, padded), isFirst = isZero(lane);
      result = sum;
      if (succeeded(sum))
        emitIf(arith::AndIOp::create(b, isWritten, isFirst), [&] { result = store(*sum, exists, statistics); });
    });
    return result;
  }

private:
  /// Clears the sums of this CTA's queries. These sums are one row of panels.
  LogicalResult clearOfQueries(const AddedSums &added, Value rows, Value thread) {
    Value array = added.getArray(b, scalars);
    if (!array)
      return failure();
    clear(array, head, rows, thread);
    return success();
  }

  /// Clears this CTA's share of the sums of a head to which a group of heads adds. If the heads of the group have n
  /// CTAs in total, each of these clears every n-th row of panels.
  LogicalResult clearOfGroup(const AddedSums &added, Value first, Value thread) {
    Value array = added.getArray(b, scalars), end = added.countPanelRows(b, scalars);
    if (!array || !end)
      return failure();
    Value size = index(added.groupSize), ctas = gpu::GridDimOp::create(b, gpu::Dimension::x);
    Value member = rem(head, size), shared = div(head, size), begin = add(first, mul(member, ctas));
    emitFor(begin, end, mul(ctas, size), [&](Value rows) { clear(array, shared, rows, thread); });
    return success();
  }

  void clear(Value array, Value ofHead, Value rows, Value thread) {
    int64_t count = kBytes / 4;
    ArrayRef<int64_t> shape = cast<ShapedType>(array.getType()).getShape();
    Value none = index(0), numPanels = index(shape[3]), one = index(1);
    emitFor(none, numPanels, one, [&](Value panel) {
      Value begin = mul(thread, count), end = index(shape[4]), step = index(kThreads * count);
      emitFor(begin, end, step, [&](Value element) {
        Value zero = zeros(VectorType::get({count}, b.getF32Type()));
        vector::StoreOp::create(b, zero, array, ValueRange{batch, ofHead, rows, panel, element});
      });
    });
  }

  /// Returns the sum of the row's products, in all lanes that share the row.
  FailureOr<Value> emitSum(Value exists) {
    SmallVector<Value> arrays;
    for (Value source : {dots.o, dots.dout}) {
      BlockArgument argument = flash::getRootArgument(source);
      if (!argument)
        return op->emitError() << "expected o and do to be arguments of the function";
      arrays.push_back(signature.getMemRef(argument.getArgNumber(), kBytes));
    }
    return emitLaneSum(emitIf(exists, constant(0), [&] { return emitProducts(arrays); }), lanes);
  }

  /// Returns the sum of the products of this lane's elements of o and do.
  Value emitProducts(ArrayRef<Value> arrays) {
    Value begin = mul(lane, perVector), end = index(depth), step = index(lanes * perVector);
    return emitFor(begin, end, step, constant(0), [&](Value column, Value total) {
      SmallVector<Value, 2> vectors;
      for (Value array : arrays) {
        auto type = VectorType::get({perVector}, getElementTypeOrSelf(array.getType()));
        vectors.push_back(vector::LoadOp::create(b, type, array, ValueRange{batch, head, query, column}));
      }
      for (int64_t number = 0; number < perVector; ++number) {
        SmallVector<Value, 2> factors;
        for (Value vector : vectors)
          factors.push_back(widen(vector::ExtractOp::create(b, vector, number)));
        total = math::FmaOp::create(b, factors[0], factors[1], total);
      }
      return total;
    });
  }

  /// Stores the shift and the delta of a query. If the query does not exist, stores -inf and 0.
  LogicalResult store(Value sum, Value exists, Value statistics) {
    auto branch = scf::IfOp::create(b, TypeRange{b.getF32Type(), b.getF32Type()}, exists, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.elseBlock());
      Value shift = lowest(), none = constant(0);
      scf::YieldOp::create(b, ValueRange{shift, none});
      b.setInsertionPointToStart(branch.thenBlock());
      if (failed(yieldStatistics(sum)))
        return failure();
    }
    for (auto [number, value] : llvm::enumerate(branch.getResults()))
      memref::StoreOp::create(b, value, statistics, ValueRange{index(number), batch, head, query});
    return success();
  }

  /// Yields the statistics of a query that exists.
  LogicalResult yieldStatistics(Value sum) {
    SmallVector<Value> place{batch, head, query};
    Value ofScores = scalars.loadElement(b, op, lse, place);
    Value ofLse = dots.dlse ? scalars.loadElement(b, op, dots.dlse, place) : Value();
    if (!ofScores || (dots.dlse && !ofLse))
      return failure();
    Value none = lowest(), isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, ofScores, none);
    Value shift = select(isEmpty, none, mulF(ofScores, constant(-llvm::numbers::log2ef)));
    scf::YieldOp::create(b, ValueRange{shift, ofLse ? arith::SubFOp::create(b, sum, ofLse).getResult() : sum});
    return success();
  }

  Operation *op;
  Value delta, lse;
  flash::RowDots dots;
  ArrayRef<const AddedSums *> sums;
  /// `depth` and `perVector` count the elements of a row and of a vector. `lanes` lanes share a row.
  int64_t depth, perVector, lanes;
  Value batch, head, query, lane;
};

/// Fills the table of the two numbers that a backward pass reads for each query: the shift of its exponents, -log2(e)
/// lse, and its delta (flash::emitRowDots), minus dlse if there is a dlse. The table is [2, B, Hq, N] in f32, where N
/// is Nq rounded up to whole tiles. A query that does not exist has a shift of -inf and a delta of 0, so that its
/// probabilities are 0. A query that sees no key also has a shift of -inf. Each CTA also clears sums that the main
/// kernels add to: dq of the CTA's queries, and a part of dk and dv if several query heads share them.
class DeltaKernel : public LaunchKernel {
public:
  explicit DeltaKernel(Value delta) : LaunchKernel(delta.getDefiningOp()), dots(*flash::matchRowDots(delta)) {}

  Time getTime() const override { return Time::Before; }

  LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const override {
    std::optional<GridFormula> batches = getFormula(dots.o, 0), heads = getFormula(dots.o, 1);
    std::optional<GridFormula> rows = getFormula(dots.o, 2);
    if (!batches || !heads || !rows)
      return op->emitOpError() << "expected extents that are constants or those of arguments";
    int64_t tile = nest.streamedTile;
    tables.add({nest.delta, *batches * *heads * ceilDiv(*rows, tile), kBytesOfQuery * tile});
    return success();
  }

  void addRoles(LaunchRoles &roles) const override {
    using flash::StepDim;
    auto add = [&](StringRef name, Value value, SmallVector<StepDim, 4> dims) {
      int64_t depth = cast<ShapedType>(value.getType()).getShape().back();
      if (BlockArgument argument = flash::getRootArgument(value))
        roles.roles.push_back({{name, 0, std::move(dims)}, {argument.getArgNumber()}, /*isOutput=*/false, depth});
    };
    add("o", dots.o, {StepDim::B, StepDim::H, StepDim::I, StepDim::Whole});
    if (dots.dlse)
      add("dlse", dots.dlse, {StepDim::B, StepDim::H, StepDim::I});
  }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    SmallVector<const AddedSums *> sums;
    for (const LaunchNest *other : context.nests)
      for (unsigned result = 0; result < other->results.size(); ++result)
        if (const AddedSums *added = other->getAddedSums(result))
          sums.push_back(added);
    // The grid also covers the padding of the last tile of queries.
    int64_t tile = getTile(context.tables, nest.delta);
    GridFormula ctas = ceilDiv(ceilDiv(*getFormula(dots.o, 2), tile) * tile, kRows);
    return emitKernel<DeltaBody>(context, "_delta", kThreads, {ctas, *getFormula(dots.o, 1), *getFormula(dots.o, 0)},
                                 nest.delta, nest.lse, sums);
  }

private:
  flash::RowDots dots;
};
} // namespace

void flashc::matchDelta(LaunchNest &nest) {
  if (nest.delta)
    nest.kernels.push_back(std::make_unique<DeltaKernel>(nest.delta));
}
