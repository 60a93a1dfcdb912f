//===- MergeKernel.cpp - the kernel that merges partial results of attention --------------------------------------===//

#include "flashc/Conversion/HostToKernel/MergeKernel.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;

/// CTAs are small, since rows may be few; the parts that are read at once are in flight together.
static constexpr int64_t kThreads = 128, kBytes = 16, kAtOnce = 8;

/// Elements of a row that a thread has.
static int64_t getWidth(ShapedType parts) {
  int64_t width = kBytes * 8 / parts.getElementTypeBitWidth();
  while (parts.getShape().back() % width)
    width /= 2;
  return width;
}

static int64_t getVectors(ShapedType parts) { return parts.getShape().back() / getWidth(parts); }

FailureOr<SmallVector<TileTables::Table, 2>> MergedStates::getTables() const {
  flash::MergeStatesOp merge = op;
  FailureOr<TileTables::Table> o = getArrayTable(merge.getOParts(), extents);
  FailureOr<TileTables::Table> lse = getArrayTable(merge.getLseParts(), ArrayRef(extents).drop_back());
  if (failed(o) || failed(lse))
    return failure();
  return SmallVector<TileTables::Table, 2>{*o, *lse};
}

namespace {
/// Writes the kernel's body. Thread t of the grid has vector t mod V of row t / V, in the order of B, H, N.
/// One argument of a call at most makes an op: which comes first would depend on the compiler.
class MergeKernel {
public:
  MergeKernel(gpu::GPUFuncOp kernel, KernelSignature &signature, const MergedStates &states)
      : b(kernel.getLoc(), kernel.getContext()), signature(signature), scalars(signature), states(states),
        op(states.op), width(getWidth(op.getPartsType())) {
    std::optional<int64_t> known = states.extents.empty() ? std::nullopt : getConstantIntValue(states.extents.front());
    if (!op.getPartsType().isDynamicDim(0))
      known = op.getPartsType().getDimSize(0);
    atOnce = std::min(kAtOnce, std::max<int64_t>(known.value_or(kAtOnce), 1));
    b.setInsertionPointToStart(&kernel.getBody().front());
  }

  LogicalResult emit() {
    for (int64_t dim : {0, 1, 2, 3})
      extents.push_back(getExtent(dim));
    o = getParts(op.getOParts(), ArrayRef(states.extents), width), lse = getParts(op.getLseParts(), getRowExtents(), 1);
    if (llvm::is_contained(extents, Value()) || !o || !lse)
      return failure();
    Value first = mul(gpu::BlockIdOp::create(b, gpu::Dimension::x), kThreads);
    Value number = add(first, gpu::ThreadIdOp::create(b, gpu::Dimension::x)),
          vectors = index(getVectors(op.getPartsType()));
    Value row = div(number, vectors), rest = div(row, extents[3]);
    column = mul(rem(number, vectors), width);
    place = {div(rest, extents[2]), rem(rest, extents[2]), rem(row, extents[3])};
    auto branch = scf::IfOp::create(b, compare(arith::CmpIPredicate::ult, place[0], extents[1]));
    b.setInsertionPointToStart(branch.thenBlock());
    FailureOr<State> state = emitFirstState();
    if (failed(state))
      return failure();
    emitResults(emitLoop(*state));
    b.setInsertionPointAfter(branch);
    gpu::ReturnOp::create(b);
    return success();
  }

private:
  /// The largest log-sum-exp so far, the sum of weights, and the weighted sum.
  struct State {
    Value m, l, acc;
  };

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value constant(float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  Value lowest() { return constant(-std::numeric_limits<float>::infinity()); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value mul(Value x, int64_t y) { return b.createOrFold<arith::MulIOp>(x, index(y)); }
  Value div(Value x, Value y) { return b.createOrFold<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return b.createOrFold<arith::RemUIOp>(x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }
  Value isLowest(Value x) { return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, lowest()); }
  Value multiply(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  VectorType getType(Type element) { return VectorType::get({width}, element); }
  Value splat(Value x) { return vector::FromElementsOp::create(b, getType(x.getType()), SmallVector<Value>(width, x)); }

  ArrayRef<OpFoldResult> getRowExtents() {
    return states.extents.empty() ? ArrayRef<OpFoldResult>() : ArrayRef(states.extents).drop_back();
  }

  Value getExtent(int64_t dim) {
    if (states.extents.empty())
      return scalars.getExtent(b, op, op.getOParts(), dim);
    return scalars.get(b, op.getLoc(), states.extents[dim]);
  }

  /// An argument, or a table of the launch; null after an error.
  Value getParts(Value parts, ArrayRef<OpFoldResult> ofTable, int64_t elements) {
    if (!ofTable.empty())
      return scalars.getTableArray(b, parts, ofTable);
    BlockArgument argument = flash::getRootArgument(parts);
    if (!argument) {
      op.emitOpError() << "expected parts that are arguments of the function, or tables of the launch";
      return {};
    }
    return signature.getMemRef(argument.getArgNumber(), getAlignment(getElementTypeOrSelf(parts), elements));
  }

  static int64_t getAlignment(Type type, int64_t elements) {
    return elements == 1 ? 0 : elements * type.getIntOrFloatBitWidth() / 8;
  }

  /// That of no part, or of the sink.
  FailureOr<State> emitFirstState() {
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(getType(b.getF32Type())));
    if (!op.getSinks())
      return State{lowest(), constant(0), zeros};
    Value sink = scalars.loadElement(b, op, op.getSinks(), place[1]);
    if (!sink)
      return failure();
    Value isNone = isLowest(sink), none = constant(0), one = constant(1);
    return State{sink, arith::SelectOp::create(b, isNone, none, one), zeros};
  }

  /// Over some parts at a time. Behind the last part it is read again, with no weight.
  State emitLoop(const State &first) {
    Value begin = index(0), step = index(atOnce);
    auto loop = scf::ForOp::create(b, begin, extents[0], step, ValueRange{first.m, first.l, first.acc});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    ValueRange carried = loop.getRegionIterArgs();
    State next = emitParts(loop.getInductionVar(), {carried[0], carried[1], carried[2]});
    scf::YieldOp::create(b, ValueRange{next.m, next.l, next.acc});
    return {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
  }

  State emitParts(Value begin, const State &before) {
    SmallVector<Value, kAtOnce> lses, elements;
    Value last = arith::SubIOp::create(b, extents[0], index(1)), m = before.m;
    for (int64_t number = 0; number < atOnce; ++number) {
      Value part = add(begin, index(number)), there = arith::MinUIOp::create(b, part, last);
      SmallVector<Value> at{there, place[0], place[1], place[2]};
      Value read = memref::LoadOp::create(b, lse, at);
      Value exists = compare(arith::CmpIPredicate::ule, part, last), none = lowest();
      lses.push_back(arith::SelectOp::create(b, exists, read, none));
      at.push_back(column);
      elements.push_back(vector::LoadOp::create(b, getType(getElementTypeOrSelf(o.getType())), o, at));
      m = arith::MaximumFOp::create(b, m, lses.back());
    }
    Value isNone = isLowest(m), zero = constant(0);
    Value shift = arith::SelectOp::create(b, isNone, zero, m), kept = emitWeight(before.m, shift);
    Value l = multiply(before.l, kept), acc = multiply(before.acc, splat(kept));
    for (auto [ofPart, element] : llvm::zip_equal(lses, elements)) {
      Value weight = emitWeight(ofPart, shift);
      l = arith::AddFOp::create(b, l, weight);
      acc = emitSum(acc, element, weight, isLowest(ofPart));
    }
    return {m, l, acc};
  }

  /// exp(x - shift).
  Value emitWeight(Value x, Value shift) {
    Value distance = arith::SubFOp::create(b, x, shift);
    return math::Exp2Op::create(b, multiply(distance, constant(llvm::numbers::log2ef)));
  }

  /// acc + weight * elements, of which nothing is used in a part that is empty: it may hold NaN.
  Value emitSum(Value acc, Value elements, Value weight, Value isEmpty) {
    if (!getElementTypeOrSelf(elements.getType()).isF32())
      elements = arith::ExtFOp::create(b, getType(b.getF32Type()), elements);
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(getType(b.getF32Type())));
    elements = arith::SelectOp::create(b, isEmpty, zeros, elements);
    return math::FmaOp::create(b, elements, splat(weight), acc);
  }

  void emitResults(const State &state) {
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.l, constant(0));
    Value divisor = arith::SelectOp::create(b, isEmpty, constant(1), state.l);
    Value result = multiply(state.acc, splat(arith::DivFOp::create(b, constant(1), divisor)));
    SmallVector<Value> at(place);
    at.push_back(column);
    for (unsigned output : states.outputs) {
      Type type = op.getOutputType(0).getElementType();
      Value array = signature.getMemRef(output, getAlignment(type, width)), rounded = result;
      if (!type.isF32())
        rounded = arith::TruncFOp::create(b, getType(type), result);
      vector::StoreOp::create(b, rounded, array, at);
    }
    if (states.lses.empty())
      return;
    auto branch = scf::IfOp::create(b, compare(arith::CmpIPredicate::eq, column, index(0)));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value sum = arith::AddFOp::create(b, state.m, math::LogOp::create(b, state.l));
    for (unsigned output : states.lses)
      memref::StoreOp::create(b, sum, signature.getMemRef(output), place);
  }

  ImplicitLocOpBuilder b;
  KernelSignature &signature;
  ScalarCloner scalars;
  const MergedStates &states;
  flash::MergeStatesOp op;
  int64_t width, atOnce;         // columns of a thread, and parts that it reads at once
  SmallVector<Value, 4> extents; // S, B, H, N
  Value o, lse, column;
  SmallVector<Value> place; // of the row
};
} // namespace

FailureOr<ManifestKernel> flashc::emitMergeKernel(func::FuncOp host, gpu::GPUModuleOp module, StringRef name,
                                                  const TileTables &tables, const MergedStates &states) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return MergeKernel(kernel, signature, states).emit();
  };
  flash::MergeStatesOp op = states.op;
  std::optional<GridFormula> rows;
  for (int64_t dim : {1, 2, 3}) {
    std::optional<GridFormula> extent =
        states.extents.empty() ? getFormula(op.getOParts(), dim) : getFormula(states.extents[dim]);
    if (!extent)
      return op.emitOpError() << "expected extents that are constants or those of arguments";
    rows = rows ? *rows * *extent : *extent;
  }
  FailureOr<ManifestKernel> info = emitPlainKernel(host, module, name, kThreads, tables, emit);
  if (succeeded(info))
    info->grid = {ceilDiv(*rows * getVectors(op.getPartsType()), kThreads), 1, 1};
  return info;
}
