//===- DiagonalKernel.cpp - the kernel that adds tiles of pairs up along their diagonals --------------------------===//

#include "KernelBody.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256, kUnrolled = 8; // loads that are in flight together

namespace {
/// The main kernel stores tiles of pairs in the workspace, as [B, H, tiles * rows, cols] in f32. With q = rows / cols *
/// ceil(Nq / rows), element (r, c) of tile t is a sum of pairs with j - i = (t - q) * cols + c - r. From these tiles
/// this kernel computes the sums, [B, H, Nq + Nk - 1]: element d + Nq - 1 is the sum of all pairs with j - i = d.
struct DiagonalSums {
  DiagonalSums(flash::AccumulateGradientsOp op, const LaunchNest &nest);

  Value tiles, sums; // the values in L1: the table of `tiles` is read, the one of `sums` is written
  SmallVector<OpFoldResult, 4> tileExtents, extents;
  OpFoldResult queries, keys;
  int64_t rows, cols;
};

/// CTA (n, h, b) computes the sums 256 n to 256 n + 255, one per thread. A thread adds one element of each row of
/// tiles, in the order of the rows.
class DiagonalBody : public KernelBody {
public:
  DiagonalBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const DiagonalSums &sums)
      : KernelBody(kernel, signature), sums(sums) {}

  LogicalResult emit() {
    tiles = scalars.getTableArray(b, sums.tiles, sums.tileExtents);
    Value result = scalars.getTableArray(b, sums.sums, sums.extents);
    Value queries = scalars.get(b, b.getLoc(), sums.queries);
    end = scalars.get(b, b.getLoc(), sums.tileExtents[2]);
    Value count = scalars.get(b, b.getLoc(), sums.extents[2]);
    if (!tiles || !result || !queries || !end || !count)
      return failure();
    Value ofThread = thread(), cta = block();
    head = block(gpu::Dimension::y), batch = block(gpu::Dimension::z);
    Value number = add(mul(cta, kThreads), ofThread);
    rows = index(sums.rows), cols = index(sums.cols);
    emitIf(isBelow(number, count), [&] {
      Value sum = emitSum(number, queries);
      memref::StoreOp::create(b, sum, result, ValueRange{batch, head, number});
    });
    return success();
  }

private:
  Value emitSum(Value number, Value queries) {
    // `first` is the column, in row 0, of the first element of the sum: the distance j - i, plus the number of columns
    // of the tiles that lie before distance 0.
    Value before = mul(ceilDiv(queries, rows), rows), first = add(sub(number, sub(queries, index(1))), before);
    Value zero = constant(0);
    return emitFor(index(0), rows, index(kUnrolled), zero, [&](Value begin, Value sum) {
      SmallVector<Value> elements;
      for (int64_t n = 0; n < kUnrolled; ++n) {
        Value row = add(begin, index(n)), column = add(first, row), place = add(mul(div(column, cols), rows), row);
        Value exists = isBelow(place, end), inside = select(exists, place, row);
        Value element = memref::LoadOp::create(b, tiles, ValueRange{batch, head, inside, rem(column, cols)});
        elements.push_back(select(exists, element, zero));
      }
      for (Value element : elements)
        sum = addF(sum, element);
      return sum;
    });
  }

  const DiagonalSums &sums;
  Value tiles, end, head, batch, rows, cols;
};

class DiagonalKernel : public LaunchKernel {
public:
  explicit DiagonalKernel(flash::AccumulateGradientsOp op) : LaunchKernel(op) {}

  LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const override {
    DiagonalSums sums = getSums(nest);
    FailureOr<TileTables::Table> tiles = getArrayTable(sums.tiles, ArrayRef(sums.extents).take_front(2));
    std::optional<GridFormula> queries = getFormula(sums.queries), keys = getFormula(sums.keys);
    if (failed(tiles) || !queries || !keys)
      return failure();
    // There are Nq + Nk - 1 sums for each head. The table has room for one more, because a GridFormula cannot subtract.
    TileTables::Table added{sums.sums, mul64(tiles->tiles, *queries + *keys), tiles->bytes};
    tiles->tiles =
        mul64(tiles->tiles, ceilDiv(*queries, sums.rows) * (sums.rows / sums.cols) + ceilDiv(*keys, sums.cols));
    tiles->bytes *= sums.rows * sums.cols;
    tables.add(*tiles);
    tables.add(added);
    return success();
  }

  SmallVector<Value> getDestinations(const LaunchNest &nest, unsigned, OpBuilder &b,
                                     ScalarCloner &scalars) const override {
    DiagonalSums sums = getSums(nest);
    return {scalars.getTableArray(b, sums.tiles, sums.tileExtents)};
  }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    DiagonalSums sums = getSums(nest);
    return emitKernel<DiagonalBody>(context, "_along" + nest.getNumberSuffix(), kThreads,
                                    {ceilDiv(getSize(sums.queries) + getSize(sums.keys), kThreads),
                                     getSize(sums.extents[1]), getSize(sums.extents[0])},
                                    sums);
  }

private:
  DiagonalSums getSums(const LaunchNest &nest) const {
    return DiagonalSums(cast<flash::AccumulateGradientsOp>(op), nest);
  }
};
} // namespace

DiagonalSums::DiagonalSums(flash::AccumulateGradientsOp op, const LaunchNest &nest)
    : tiles(op.getResult(0)), extents(nest.results.front().extents), rows(nest.residentTile), cols(nest.streamedTile) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  sums = cast<flash::ScatterSumOp>(*tiles.user_begin()).getResult();
  queries = tensor::getMixedSize(b, loc, op.getQ(), 2), keys = tensor::getMixedSize(b, loc, op.getK(), 2);
  AffineExpr q, k;
  bindDims(b.getContext(), q, k);
  AffineExpr numTiles = q.ceilDiv(rows) * (rows / cols) + k.ceilDiv(cols);
  OpFoldResult tileRows = affine::makeComposedFoldedAffineApply(b, loc, numTiles * rows, {queries, keys});
  tileExtents = {extents[0], extents[1], tileRows, b.getIndexAttr(cols)};
}

void flashc::matchDiagonal(LaunchNest &nest) {
  auto op = dyn_cast<flash::AccumulateGradientsOp>(nest.end); // only if L1 has no loops
  if (op && op.has(flash::Gradients::Diagonals))
    nest.kernels.push_back(std::make_unique<DiagonalKernel>(op));
}
