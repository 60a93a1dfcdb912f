//===- AppendKernel.cpp - the kernel that writes new tokens to a cache --------------------------------------------===//

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/IR/EightBits.h"
#include "flashc/Dialect/Flash/IR/SortedData.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;
using Predicate = arith::CmpIPredicate;

/// A CTA has few threads: one CTA suffices for a sequence with one new token of eight heads of 128 columns.
static constexpr int64_t kThreads = 128, kBytes = 16;

namespace {
/// How a row of keys or values is divided into the threads' vectors.
struct RowSplit {
  explicit RowSplit(flash::AppendKVOp op) {
    MemRefType k = op.getKType();
    depth = k.getShape().back(), valueDepth = op.getVType().getShape().back(), pairs = op.getNumPairs();
    isInterleaved = op.getInterleaved();
    width = kBytes * 8 / k.getElementTypeBitWidth();
    // The two elements of a rotated pair are in one vector (interleaved), or in the same place of two vectors.
    int64_t rotated = isInterleaved ? 2 * pairs : pairs;
    while (depth % width || valueDepth % width || rotated % width)
      width /= 2;
  }

  int64_t getVectors() const { return std::max(depth, valueDepth) / width; }

  int64_t depth, valueDepth, pairs, width;
  bool isInterleaved;
};

/// Each sequence has X tiles, and CTA n has tile n mod X of sequence n / X. A tile has one vector of keys and one of
/// values for each thread, in the order of tokens, heads and columns. A vector has 16 bytes, or fewer if the depths
/// require it. With offsets the tokens of all sequences are those of one, and a thread searches the sequence of its
/// token. The grid does not depend on the contents of arrays.
class AppendBody : public KernelBody {
public:
  AppendBody(gpu::GPUFuncOp kernel, KernelSignature &signature, flash::AppendKVOp op)
      : KernelBody(kernel, signature), op(op), split(op) {}

  LogicalResult emit() {
    int64_t dim = op.getTokenDim();
    Value tokens = getExtent(op.getK(), dim), heads = getExtent(op.getK(), dim + 1);
    Value vectors = index(split.getVectors());
    Value ofSequence = mul(mul(tokens, heads), vectors);
    Value tiles = ceilDiv(ofSequence, kThreads), cta = block(), ofThread = thread();
    batch = div(cta, tiles);
    Value number = add(mul(rem(cta, tiles), kThreads), ofThread), row = div(number, vectors);
    column = mul(rem(number, vectors), split.width), head = rem(row, heads), token = div(row, heads);
    emitIf(isBelow(number, ofSequence), [&] {
      if (!op.getOffsets())
        return emitToken({batch, token, head});
      SmallVector<Value> place{token, head};
      batch = emitSequence(token);
      emitIf(isBelow(batch, getExtent(op.getPositions(), 0)), [&] {
        token = sub(token, loadIndex(op.getOffsets(), batch));
        emitToken(place);
      });
    });
    return success();
  }

private:
  unsigned getArgument(Value array) { return flash::getRootArgument(array).getArgNumber(); }
  /// Returns an extent of an array; all arrays are arguments of the host function.
  Value getExtent(Value array, int64_t dim) { return scalars.getExtent(b, op, array, dim); }

  Value loadIndex(Value array, ValueRange place) {
    Value number = memref::LoadOp::create(b, signature.getMemRef(getArgument(array)), place);
    return arith::IndexCastOp::create(b, b.getIndexType(), number);
  }

  /// Returns the number of the sequence that has a row of k. Rows of no sequence give a number that no sequence has.
  Value emitSequence(Value row) {
    Value offsets = signature.getMemRef(getArgument(op.getOffsets()));
    auto count = flash::CountLeOp::create(b, b.getIndexType(), row, offsets, /*indices=*/ValueRange());
    Value sequences = flash::expandSortedRead(
        b, count, row, getExtent(op.getOffsets(), 0), [&](OpBuilder &nested, Value position) -> Value {
          return memref::LoadOp::create(nested, count.getLoc(), offsets, position);
        });
    count.erase();
    return sub(sequences, index(1));
  }

  /// Loads consecutive elements of a row.
  Value loadVector(Value array, SmallVector<Value> row, Value at, int64_t width) {
    row.push_back(at);
    return vector::LoadOp::create(b, VectorType::get({width}, getElementTypeOrSelf(array.getType())),
                                  getVectorArray(array, width), row);
  }

  void storeVector(Value vector, Value array, SmallVector<Value> row) {
    if (op.hasEightBits())
      vector = emitQuantised(vector, array, row);
    row.push_back(column);
    vector::StoreOp::create(b, vector, getVectorArray(array, split.width), row);
  }

  Value getVectorArray(Value array, int64_t width) {
    int64_t bytes = width * getElementTypeOrSelf(array.getType()).getIntOrFloatBitWidth() / 8;
    bool isOfBytes = getElementTypeOrSelf(array.getType()).getIntOrFloatBitWidth() == 8;
    return signature.getMemRef(getArgument(array), width == 1 ? 0 : std::min(bytes, kBytes), isOfBytes);
  }

  /// Returns the largest number of positions that a sequence may have. It is the number of positions of the cache or,
  /// with a block table, of the pages in one row of the table. Without left padding it is also at most the number of
  /// rows of cos. Callers compare positions with the result as unsigned 32-bit numbers, so that a negative position is
  /// also too large.
  Value getLimit() {
    Value limit = getExtent(op.getKCache(), 1);
    if (op.getTable())
      limit = mul(limit, getExtent(op.getTable(), 1));
    if (op.getCos() && !op.getLeftpad())
      limit = arith::MinUIOp::create(b, limit, getExtent(op.getCos(), 0));
    return arith::MinUIOp::create(b, limit, index(std::numeric_limits<int32_t>::max()));
  }

  /// Copies the vectors of `row` of k and v, the row of token number `token` of sequence `batch`.
  void emitToken(SmallVector<Value> row) {
    Value position = add(loadIndex(op.getPositions(), batch), token);
    Value exists = isBelow(position, getLimit());
    angle = position;
    if (op.getLeftpad()) {
      angle = sub(position, loadIndex(op.getLeftpad(), batch));
      exists = arith::AndIOp::create(b, exists, isBelow(angle, getExtent(op.getCos(), 0)));
    }
    if (op.getCounts())
      exists = arith::AndIOp::create(b, exists, compare(Predicate::slt, token, loadIndex(op.getCounts(), batch)));
    emitIf(exists, [&] {
      if (!op.getTable())
        return emitVectors(row, {batch, position, head});
      Value rows = getExtent(op.getKCache(), 1), page = loadIndex(op.getTable(), {batch, div(position, rows)});
      emitIf(isBelow(page, getExtent(op.getKCache(), 0)), [&] { emitVectors(row, {page, rem(position, rows), head}); });
    });
  }

  /// Stores this thread's vectors of a key and a value, which are those of `row`, at `place` of the caches. If the
  /// depths are equal, loads both before it stores either.
  void emitVectors(SmallVector<Value> row, SmallVector<Value> place) {
    if (split.depth == split.valueDepth) {
      Value value = loadVector(op.getV(), row, column, split.width);
      storeVector(emitKey(row), op.getKCache(), place);
      return storeVector(value, op.getVCache(), place);
    }
    emitIf(isBelow(column, index(split.depth)), [&] { storeVector(emitKey(row), op.getKCache(), place); });
    emitIf(isBelow(column, index(split.valueDepth)),
           [&] { storeVector(loadVector(op.getV(), row, column, split.width), op.getVCache(), place); });
  }

  /// Returns `vector` quantised for an 8-bit cache. `place` is the page, the row and the head of the vector in the
  /// cache.
  Value emitQuantised(Value vector, Value array, ArrayRef<Value> place) {
    Value scales = array == op.getKCache() ? op.getKScale() : op.getVScale();
    auto type = cast<MemRefType>(scales.getType());
    SmallVector<Value> at{type.getDimSize(0) == 1 ? index(0) : place[0], type.getDimSize(1) == 1 ? index(0) : place[2]};
    Value scale = memref::LoadOp::create(b, signature.getMemRef(getArgument(scales)), at);
    Type element = getElementTypeOrSelf(array.getType());
    SmallVector<Value> elements;
    for (int64_t number = 0; number < split.width; ++number)
      elements.push_back(flash::emitQuantised(b, getElement(vector, number), scale, element));
    return vector::FromElementsOp::create(b, VectorType::get({split.width}, b.getI8Type()), elements);
  }

  Value emitKey(SmallVector<Value> row) {
    Value key = loadVector(op.getK(), row, column, split.width);
    if (!op.getCos())
      return key;
    if (2 * split.pairs == split.depth)
      return emitRotated(key, row);
    if (op.hasEightBits())
      key =
          makeKey(llvm::map_to_vector(llvm::seq(split.width), [&](int64_t number) { return getElement(key, number); }));
    return emitIf(isBelow(column, index(2 * split.pairs)), key, [&] { return emitRotated(key, row); });
  }

  Value emitRotated(Value key, SmallVector<Value> row) {
    return split.isInterleaved ? rotateInside(key) : rotateHalves(key, row);
  }

  /// Returns element `number` of a vector, extended to f32.
  Value getElement(Value vector, int64_t number) { return widen(vector::ExtractOp::create(b, vector, number)); }

  Value makeKey(ArrayRef<Value> elements) {
    Value all = vector::FromElementsOp::create(b, VectorType::get({split.width}, b.getF32Type()), elements);
    return op.hasEightBits() ? all : round(all, op.getKType().getElementType());
  }

  /// Rotates `key`, a vector of one half of `row`, together with the vector of the same columns in the other half.
  Value rotateHalves(Value key, SmallVector<Value> row) {
    Value half = index(split.pairs), isFirst = isBelow(column, half);
    Value pair = select(isFirst, column, sub(column, half));
    Value other = loadVector(op.getK(), row, select(isFirst, add(column, half), pair), split.width);
    SmallVector<Value> elements;
    Value cos = loadAngles(op.getCos(), pair, split.width), sin = loadAngles(op.getSin(), pair, split.width);
    for (int64_t number = 0; number < split.width; ++number) {
      Value x = getElement(key, number), y = getElement(other, number);
      Value ofCos = getElement(cos, number), ofSin = getElement(sin, number);
      ofSin = select(isFirst, arith::NegFOp::create(b, ofSin), ofSin);
      Value own = mulF(x, ofCos), others = mulF(y, ofSin);
      elements.push_back(addF(own, others));
    }
    return makeKey(elements);
  }

  /// Rotates a vector that consists of whole pairs.
  Value rotateInside(Value key) {
    int64_t pairs = split.width / 2;
    Value first = div(column, index(2));
    Value cos = loadAngles(op.getCos(), first, pairs), sin = loadAngles(op.getSin(), first, pairs);
    SmallVector<Value> elements;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      Value x = getElement(key, 2 * pair), y = getElement(key, 2 * pair + 1);
      Value ofCos = getElement(cos, pair), ofSin = getElement(sin, pair);
      Value xCos = mulF(x, ofCos), ySin = mulF(y, ofSin);
      Value yCos = mulF(y, ofCos), xSin = mulF(x, ofSin);
      elements.push_back(arith::SubFOp::create(b, xCos, ySin));
      elements.push_back(addF(yCos, xSin));
    }
    return makeKey(elements);
  }

  Value loadAngles(Value angles, Value first, int64_t count) { return loadVector(angles, {angle}, first, count); }

  flash::AppendKVOp op;
  RowSplit split;
  Value batch, token, head, column;
  /// The row of the arrays cos and sin by which the token is rotated.
  Value angle;
};

/// The kernel of a flash.append_kv, whose operands are arguments of the host function.
class AppendKernel : public LaunchKernel {
public:
  using LaunchKernel::LaunchKernel;

  FailureOr<ManifestKernel> emit(const LaunchNest &, const LaunchContext &context) const override {
    auto append = cast<flash::AppendKVOp>(op);
    RowSplit split(append);
    if (split.isInterleaved && split.width == 1)
      return append.emitOpError() << "expected D and Dv to be even for 'interleaved', got " << split.depth << " and "
                                  << split.valueDepth;
    int64_t dim = append.getTokenDim();
    GridFormula ofSequence = *getFormula(append.getK(), dim) * *getFormula(append.getK(), dim + 1) * split.getVectors();
    GridFormula ctas = ceilDiv(ofSequence, kThreads);
    if (dim != 0)
      ctas = *getFormula(append.getK(), 0) * ctas;
    return emitKernel<AppendBody>(context, "", kThreads, {ctas, 1, 1}, append);
  }
};
} // namespace

void flashc::matchAppend(LaunchNest &nest) {
  if (isa<flash::AppendKVOp>(nest.end))
    nest.kernels.push_back(std::make_unique<AppendKernel>(nest.end));
}
