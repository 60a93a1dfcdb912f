//===- Reads.cpp - elements of arrays -----------------------------------------------------------------------------===//

#include "Lowering.h"
#include "flashc/Support/CloneSlice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

Value flashc::tiletonvvm::addColumn(Emitter &emit, Value col, int64_t distance) {
  if (distance == 0)
    return col;
  return arith::AddIOp::create(emit.builder, emit.loc, col, emit.index(distance), arith::IntegerOverflowFlags::nsw);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Pairs of neighbouring columns
//===--------------------------------------------------------------------------------------------------------------===//

static bool isInside(MapOp map, Value value) {
  Region *region = value.getParentRegion(); // null if the op of the value was replaced
  return region && map.getBody().isAncestor(region);
}

/// Whether `index` is j, or j clamped between bounds that are constant in a row.
static bool isColumn(MapOp map, Value index) {
  if (index == map.getBody().getArgument(2))
    return true;
  Operation *def = isInside(map, index) ? index.getDefiningOp() : nullptr;
  if (!isa_and_nonnull<arith::MinSIOp, arith::MaxSIOp>(def))
    return false;
  bool isSecond = map.isSameInRow(def->getOperand(0));
  return map.isSameInRow(def->getOperand(1 - isSecond)) && isColumn(map, def->getOperand(isSecond));
}

/// Whether the region computes `value` without the row's position, so that `value` is the same in all rows of a column.
static bool isSameInColumn(MapOp map, Value value) {
  if (!isInside(map, value) || value == map.getBody().getArgument(2))
    return true;
  Operation *def = value.getDefiningOp();
  return def && def->getNumRegions() == 0 &&
         llvm::all_of(def->getOperands(), [&](Value operand) { return isSameInColumn(map, operand); });
}

bool flashc::tiletonvvm::isReadAlongRow(MapOp map, memref::LoadOp load) {
  OperandRange indices = load.getIndices();
  Type pair = ReadPairOp::getPairType(load.getType());
  if (!pair || indices.empty() || !isColumn(map, indices.back()))
    return false;
  // In masked tiles j is clamped to the array. With a clamp only 8-bit elements are read in pairs, since arrays of such
  // elements make all tiles masked. With other arrays few tiles are masked, and another branch in these tiles makes
  // ptxas spill at d = 256.
  bool isKept = indices.back() != map.getBody().getArgument(2);
  return (!isKept || pair.isInteger()) &&
         llvm::all_of(indices.drop_back(), [&](Value index) { return map.isSameInRow(index); });
}

namespace {

/// Loads the values that `load`, an op of `map`, has for the elements of a thread.
class PairReader {
public:
  PairReader(Emitter &emit, MapOp map, memref::LoadOp load, std::array<IRMapping, 2> rows, int64_t elements)
      : emit(emit), map(map), load(load), rows(std::move(rows)), elements(elements),
        firstColumn(this->rows[0].lookup(map.getBody().getArgument(2))) {
    halves = llvm::all_of(load.getIndices(), [&](Value index) { return isSameInColumn(map, index); }) ? 1 : 2;
    for (int64_t half = 0; half < halves; ++half)
      for (Value index : load.getIndices().drop_back())
        indices[half].push_back(getIndex(emit, index, half, /*column=*/0));
  }

  SmallVector<Value> read() {
    Value condition = isPossible(/*half=*/0);
    if (halves == 2)
      condition = arith::AndIOp::create(emit.builder, emit.loc, condition, isPossible(/*half=*/1));
    auto fill = [&](Value (PairReader::*readPair)(Emitter &, int64_t, int64_t)) {
      return [this, readPair](OpBuilder &nested, Location loc) {
        Emitter inside(nested, loc);
        SmallVector<Value> pairs;
        for (int64_t e = 0; e < elements; e += 2)
          if (getHalf(e) < halves)
            pairs.push_back((this->*readPair)(inside, getHalf(e), getColumn(e)));
        scf::YieldOp::create(nested, loc, pairs);
      };
    };
    auto branch = scf::IfOp::create(emit.builder, emit.loc, condition, fill(&PairReader::readAtOnce),
                                    fill(&PairReader::readOneByOne));
    SmallVector<Value> values;
    for (int64_t e = 0; e < elements; ++e)
      values.push_back(takeApart(branch.getResult(e / 4 * halves + getHalf(e) % halves), e % 2));
    return values;
  }

private:
  /// Returns an index of the load in one of the thread's two rows (`half`), `column` columns to the right of the row's
  /// first element.
  Value getIndex(Emitter &at, Value index, int64_t half, int64_t column) {
    IRMapping mapping = rows[half];
    mapping.map(map.getBody().getArgument(2), addColumn(at, firstColumn, column));
    auto getOutside = [&](Value value) { return isInside(map, value) ? Value() : value; };
    return flashc::cloneSlice(at.builder, index, mapping, getOutside);
  }

  /// Emits whether the warp's threads can load the elements of one of their rows in pairs. All pairs are aligned if the
  /// first one is. No clamp moves a column if none moves the first or the last column.
  Value isPossible(int64_t half) {
    SmallVector<Value> first = indices[half];
    first.push_back(firstColumn);
    int64_t bytes = 2 * llvm::divideCeil(load.getType().getIntOrFloatBitWidth(), 8);
    Value result = IsAlignedOp::create(emit.builder, emit.loc, load.getMemref(), first, bytes);
    Value index = load.getIndices().back();
    for (int64_t column : {int64_t(0), getColumn(elements - 1)}) {
      if (index == map.getBody().getArgument(2))
        break;
      Value isSame = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::eq,
                                           getIndex(emit, index, half, column), addColumn(emit, firstColumn, column));
      result = arith::AndIOp::create(emit.builder, emit.loc, result, isSame);
    }
    return emit.intrinsic(emit.builder.getI1Type(), "llvm.nvvm.vote.all.sync", {emit.i32(-1), result});
  }

  Value readAtOnce(Emitter &at, int64_t half, int64_t column) {
    SmallVector<Value> place = indices[half];
    place.push_back(addColumn(at, firstColumn, column));
    return ReadPairOp::create(at.builder, at.loc, ReadPairOp::getPairType(load.getType()), load.getMemref(), place);
  }

  Value readOneByOne(Emitter &at, int64_t half, int64_t column) {
    Value words[2];
    for (int64_t word : {0, 1}) {
      SmallVector<Value> place = indices[half];
      place.push_back(getIndex(at, load.getIndices().back(), half, column + word));
      words[word] = memref::LoadOp::create(at.builder, at.loc, load.getMemref(), place);
    }
    Type type = ReadPairOp::getPairType(load.getType());
    if (isa<VectorType>(type)) {
      Value pair = LLVM::PoisonOp::create(at.builder, at.loc, type);
      for (int64_t word : {0, 1})
        pair = LLVM::InsertElementOp::create(at.builder, at.loc, pair, words[word], at.i32(word));
      return pair;
    }
    for (Value &word : words)
      word = arith::ExtUIOp::create(at.builder, at.loc, type, word);
    Value high = arith::ShLIOp::create(at.builder, at.loc, words[1], at.constantLike(words[1], 8));
    return arith::OrIOp::create(at.builder, at.loc, words[0], high);
  }

  Value takeApart(Value pair, int64_t word) {
    if (isa<VectorType>(pair.getType()))
      return LLVM::ExtractElementOp::create(emit.builder, emit.loc, pair, emit.i32(word));
    if (load.getType().isInteger(1))
      return emit.isSet(arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), pair), 8 * word);
    return arith::TruncIOp::create(emit.builder, emit.loc, load.getType(), word == 0 ? pair : emit.shr(pair, 8));
  }

  Emitter &emit;
  MapOp map;
  memref::LoadOp load;
  std::array<IRMapping, 2> rows;
  int64_t elements, halves;
  Value firstColumn;
  /// The indices of the load, without that of the column, for each row that is loaded.
  std::array<SmallVector<Value>, 2> indices;
};

} // namespace

SmallVector<Value> flashc::tiletonvvm::readPairs(Emitter &emit, MapOp map, memref::LoadOp load,
                                                 std::array<IRMapping, 2> rows, int64_t elements) {
  return PairReader(emit, map, load, std::move(rows), elements).read();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Patterns
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

/// Loads from a captured tensor in a region.
struct MemRefLoadLowering : OpConversionPattern<memref::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    // An i1 tensor has one byte for each element, like LLVM's i1.
    Value pointer = getElementPointer(emit, adaptor.getMemref(), op.getMemRefType(), op.getIndices());
    rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(), pointer);
    return success();
  }
};

struct ReadPairLowering : OpConversionPattern<ReadPairOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(ReadPairOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    auto memref = cast<MemRefType>(op.getMemref().getType());
    Value pointer = getElementPointer(emit, adaptor.getMemref(), memref, op.getIndices());
    int64_t bytes = 2 * llvm::divideCeil(memref.getElementTypeBitWidth(), 8);
    rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(), pointer, bytes);
    return success();
  }
};

struct IsAlignedLowering : OpConversionPattern<IsAlignedOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(IsAlignedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value pointer = getElementPointer(emit, adaptor.getMemref(), op.getMemref().getType(), op.getIndices());
    Value address = LLVM::PtrToIntOp::create(rewriter, op.getLoc(), rewriter.getI64Type(), pointer);
    Value low = arith::TruncIOp::create(rewriter, op.getLoc(), rewriter.getI32Type(), address);
    rewriter.replaceOp(op, emit.equal(emit.bitAnd(low, op.getBytes() - 1), 0));
    return success();
  }
};

/// Returns a stride in 64 bits, since a product of extents may exceed the 32 bits that an index has in a kernel.
Value emitStride(Emitter &emit, Value stride) {
  if (std::optional<int64_t> constant = getConstantIntValue(stride))
    return emit.i64(*constant);
  if (auto product = stride.getDefiningOp<arith::MulIOp>())
    return emit.mul(emitStride(emit, product.getLhs()), emitStride(emit, product.getRhs()));
  return emit.toI64(emit.toI32(stride));
}

/// A memref whose pointer and strides are those of the op.
struct ReinterpretCastLowering : OpConversionPattern<memref::ReinterpretCastOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::ReinterpretCastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    SmallVector<Value> values{adaptor.getSource().front()};
    for (OpFoldResult stride : ArrayRef(op.getConstifiedMixedStrides()).drop_back())
      values.push_back(emitStride(emit, getValueOrCreateConstantIndexOp(rewriter, op.getLoc(), stride)));
    rewriter.replaceOpWithMultiple(op, {values});
    return success();
  }
};

struct MemRefCastLowering : OpConversionPattern<memref::CastOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::CastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource()});
    return success();
  }
};

} // namespace

void flashc::tiletonvvm::populateLoadPatterns(TileTypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<MemRefLoadLowering, ReadPairLowering, IsAlignedLowering, ReinterpretCastLowering, MemRefCastLowering>(
      converter, patterns.getContext());
}
