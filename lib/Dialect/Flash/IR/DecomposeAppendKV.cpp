//===- DecomposeAppendKV.cpp - new tokens of a cache as loops -----------------------------------------------------===//

#include "Decompose.h"
#include "flashc/Dialect/Flash/IR/EightBits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flash;
using namespace mlir::flash::decompose;
using Predicate = arith::CmpIPredicate;

namespace {
/// Writes the loops over sequences, tokens, heads and columns.
class AppendLoops {
public:
  AppendLoops(ImplicitLocOpBuilder &b, AppendKVOp op) : b(b), op(op) {}

  void emit() {
    emitLoop(getDim(op.getPositions(), 0), [&](Value batch) {
      Value first = loadIndex(op.getPositions(), batch);
      Value count = op.getCounts() ? loadIndex(op.getCounts(), batch) : Value(), tokens;
      if (op.getOffsets()) {
        firstRow = loadIndex(op.getOffsets(), batch);
        Value end = loadIndex(op.getOffsets(), Value(arith::AddIOp::create(b, batch, index(1))));
        tokens = arith::SubIOp::create(b, end, firstRow);
      } else {
        tokens = getDim(op.getK(), 1);
      }
      emitLoop(tokens, [&](Value token) {
        Value position = arith::AddIOp::create(b, first, token);
        Value exists = compare(Predicate::ult, position, getLimit());
        angle = position;
        if (op.getLeftpad()) {
          angle = arith::SubIOp::create(b, position, loadIndex(op.getLeftpad(), batch));
          exists = arith::AndIOp::create(b, exists, compare(Predicate::ult, angle, getDim(op.getCos(), 0)));
        }
        if (op.getOffsets()) { // a row that k does not have is not read
          Value row = arith::AddIOp::create(b, firstRow, token);
          exists = arith::AndIOp::create(b, exists, compare(Predicate::ult, row, getDim(op.getK(), 0)));
        }
        if (count)
          exists = arith::AndIOp::create(b, exists, compare(Predicate::slt, token, count));
        emitIf(exists, [&] { emitToken(batch, token, position); });
      });
    });
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value getDim(Value memref, int64_t dim) { return b.createOrFold<memref::DimOp>(memref, dim); }
  Value loadIndex(Value memref, ValueRange indices) {
    return arith::IndexCastOp::create(b, b.getIndexType(), memref::LoadOp::create(b, memref, indices));
  }
  Value compare(Predicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }

  void emitLoop(Value from, Value end, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, from, end, index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  void emitLoop(Value end, function_ref<void(Value)> body) { emitLoop(index(0), end, body); }

  void emitIf(Value condition, function_ref<void()> body) {
    auto branch = scf::IfOp::create(b, condition);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  /// Emits the number of positions that a token may have. This is the number of rows that the cache has for a sequence.
  /// If positions index cos and sin, it is at most the number of rows of cos and sin.
  Value getLimit() {
    Value limit = getDim(op.getKCache(), 1);
    if (op.getTable())
      limit = arith::MulIOp::create(b, limit, getDim(op.getTable(), 1));
    bool isBounded = op.getCos() && !op.getLeftpad();
    return isBounded ? arith::MinUIOp::create(b, limit, getDim(op.getCos(), 0)).getResult() : limit;
  }

  void emitToken(Value batch, Value token, Value position) {
    if (!op.getTable())
      return emitRows(batch, token, batch, position);
    Value rows = getDim(op.getKCache(), 1);
    Value slot = arith::DivUIOp::create(b, position, rows), row = arith::RemUIOp::create(b, position, rows);
    Value page = loadIndex(op.getTable(), {batch, slot});
    emitIf(compare(Predicate::ult, page, getDim(op.getKCache(), 0)), [&] { emitRows(batch, token, page, row); });
  }

  void emitRows(Value batch, Value token, Value page, Value row) {
    emitLoop(getDim(op.getK(), op.getTokenDim() + 1), [&](Value head) {
      SmallVector<Value> from{batch, token, head}, to{page, row, head};
      if (op.getOffsets())
        from = {arith::AddIOp::create(b, firstRow, token), head};
      int64_t pairs = op.getNumPairs();
      if (pairs)
        emitLoop(index(pairs), [&](Value pair) { rotate(pair, from, to); });
      Value behind = index(2 * pairs), depth = getDim(op.getK(), op.getTokenDim() + 2);
      emitLoop(behind, depth, [&](Value column) { store(load(op.getK(), from, column), op.getKCache(), to, column); });
      emitLoop(getDim(op.getV(), op.getTokenDim() + 2),
               [&](Value column) { store(load(op.getV(), from, column), op.getVCache(), to, column); });
    });
  }

  Value load(Value memref, ArrayRef<Value> row, Value column) {
    SmallVector<Value> indices(row);
    indices.push_back(column);
    return memref::LoadOp::create(b, memref, indices);
  }

  void store(Value value, Value memref, ArrayRef<Value> row, Value column) {
    SmallVector<Value> indices(row);
    indices.push_back(column);
    memref::StoreOp::create(b, op.hasEightBits() ? quantise(value, memref, row) : value, memref, indices);
  }

  /// Quantises `value` for a cache of 8 bits. `to` is the row of the cache, as (page, row, head).
  Value quantise(Value value, Value memref, ArrayRef<Value> to) {
    Value scales = memref == op.getKCache() ? op.getKScale() : op.getVScale();
    auto type = cast<MemRefType>(scales.getType());
    SmallVector<Value> place{type.getDimSize(0) == 1 ? index(0) : to[0], type.getDimSize(1) == 1 ? index(0) : to[2]};
    Type element = getElementTypeOrSelf(memref.getType());
    Value bits = emitQuantised(b, widen(b, value), memref::LoadOp::create(b, scales, place), element);
    return element.isInteger() ? bits : arith::BitcastOp::create(b, element, bits).getResult();
  }

  void rotate(Value pair, ArrayRef<Value> from, ArrayRef<Value> to) {
    Value first = op.getInterleaved() ? arith::MulIOp::create(b, pair, index(2)).getResult() : pair;
    Value second = arith::AddIOp::create(b, first, index(op.getInterleaved() ? 1 : op.getNumPairs()));
    Value x = widen(b, load(op.getK(), from, first)), y = widen(b, load(op.getK(), from, second));
    Value cos = widen(b, load(op.getCos(), angle, pair)), sin = widen(b, load(op.getSin(), angle, pair));
    auto multiply = [&](Value a, Value c) -> Value { return arith::MulFOp::create(b, a, c); };
    Value xCos = multiply(x, cos), ySin = multiply(y, sin), yCos = multiply(y, cos), xSin = multiply(x, sin);
    Type type = op.hasEightBits() ? b.getF32Type() : op.getKType().getElementType();
    store(narrow(b, arith::SubFOp::create(b, xCos, ySin), type), op.getKCache(), to, first);
    store(narrow(b, arith::AddFOp::create(b, yCos, xSin), type), op.getKCache(), to, second);
  }

  ImplicitLocOpBuilder &b;
  AppendKVOp op;
  /// The row of cos and sin for the current token.
  Value angle;
  /// With offsets: the row of k of the current sequence's first token.
  Value firstRow;
};
} // namespace

FailureOr<SmallVector<Value>> AppendKVOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  AppendLoops(b, *this).emit();
  return SmallVector<Value>();
}
