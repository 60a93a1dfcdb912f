//===- MergeKernel.cpp - the kernel that merges partial results of attention --------------------------------------===//

#include "KernelBody.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;

/// CTAs are small, because there may be few rows. A thread loads kAtOnce parts before it uses the first of them.
static constexpr int64_t kThreads = 128, kBytes = 16, kAtOnce = 8;

/// Returns the number of elements of a row that one thread merges.
static int64_t getWidth(ShapedType parts) {
  int64_t width = kBytes * 8 / parts.getElementTypeBitWidth();
  while (parts.getShape().back() % width)
    width /= 2;
  return width;
}

static int64_t getVectors(ShapedType parts) { return parts.getShape().back() / getWidth(parts); }

namespace {
/// A flash.merge_states, and where its parts and its results are.
struct MergedStates {
  flash::MergeStatesOp op;
  /// The extents S, B, H, N and D at level L1, if the parts are tables of the launch. The tables of o_parts and
  /// lse_parts are in f32, row by row. Empty if the parts are arguments.
  SmallVector<OpFoldResult, 5> extents;
  /// The arguments of the launch that o and lse are written to.
  SmallVector<unsigned, 1> outputs, lses;
  /// Whether a row may have fewer parts than `op` has: the log-sum-exp of each of the last parts is then -inf.
  bool mayLackParts = false;
};

/// Thread t of the grid has vector t mod V of row t / V, where a row has V vectors, and rows are in the order of B, H,
/// N. A vector has 16 bytes, or fewer if 16 bytes do not divide the row. The thread reads the row's parts in ascending
/// order.
class MergeBody : public KernelBody {
public:
  MergeBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const MergedStates &states)
      : KernelBody(kernel, signature), states(states), op(states.op), width(getWidth(op.getPartsType())) {
    std::optional<int64_t> known = states.extents.empty() ? std::nullopt : getConstantIntValue(states.extents.front());
    if (!op.getPartsType().isDynamicDim(0))
      known = op.getPartsType().getDimSize(0);
    atOnce = std::min(kAtOnce, std::max<int64_t>(known.value_or(kAtOnce), 1));
    if (states.mayLackParts)
      atOnce = std::min(kAtOnce / 2, atOnce); // most rows have few parts
  }

  LogicalResult emit() {
    for (int64_t dim : {0, 1, 2, 3})
      extents.push_back(getExtent(dim));
    o = getParts(op.getOParts(), ArrayRef(states.extents), width), lse = getParts(op.getLseParts(), getRowExtents(), 1);
    if (llvm::is_contained(extents, Value()) || !o || !lse)
      return failure();
    Value first = mul(block(), kThreads), number = add(first, thread());
    Value vectors = index(getVectors(op.getPartsType())), row = div(number, vectors), rest = div(row, extents[3]);
    column = mul(rem(number, vectors), width);
    place = {div(rest, extents[2]), rem(rest, extents[2]), rem(row, extents[3])};
    LogicalResult result = success();
    Value isMerged = isBelow(place[0], extents[1]);
    if (states.mayLackParts)
      isMerged = emitIf(isMerged, isMerged, [&] { return emitHasParts(); });
    emitIf(isMerged, [&] {
      end = states.mayLackParts ? emitEnd() : extents[0];
      FailureOr<State> state = emitFirstState();
      result = state;
      if (succeeded(state))
        emitResults(emitLoop(*state));
    });
    return result;
  }

private:
  /// The largest log-sum-exp so far, the sum of weights, and the weighted sum.
  struct State {
    Value m, l, acc;
  };

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

  /// Returns the array of `parts`, which is an argument, or a table of the launch with the extents `ofTable`. Returns
  /// null after an error.
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

  /// Returns the state before the first part: the state of the sink if there is one, else the state without any key.
  FailureOr<State> emitFirstState() {
    Value none = zeros(getType(b.getF32Type()));
    if (!op.getSinks()) {
      Value max = lowest(), sum = constant(0);
      return State{max, sum, none};
    }
    Value sink = scalars.loadElement(b, op, op.getSinks(), place[1]);
    if (!sink)
      return failure();
    Value isNone = isLowest(sink), zero = constant(0), one = constant(1);
    return State{sink, select(isNone, zero, one), none};
  }

  /// Emits whether the row has several parts. Otherwise the main kernel has stored its results.
  Value emitHasParts() {
    Value first = memref::LoadOp::create(b, lse, ValueRange{index(0), place[0], place[1], place[2]});
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, first, constant(kRowIsWhole));
  }

  /// Emits the number of parts up to the last one that has keys. The others are not read.
  Value emitEnd() {
    Value begin = index(0), step = index(atOnce), last = sub(extents[0], index(1));
    auto loop = scf::ForOp::create(b, begin, extents[0], step, ValueRange{begin});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value after = loop.getRegionIterArg(0);
    for (int64_t number = 0; number < atOnce; ++number) {
      Value part = add(loop.getInductionVar(), index(number)), there = arith::MinUIOp::create(b, part, last);
      Value read = memref::LoadOp::create(b, lse, ValueRange{there, place[0], place[1], place[2]});
      Value next = add(there, index(1));
      after = select(isLowest(read), after, next);
    }
    scf::YieldOp::create(b, after);
    return loop.getResult(0);
  }

  /// Loops over the parts, `atOnce` in each iteration. If the last iteration has fewer parts, it reads the last part
  /// again in their place, with weight 0.
  State emitLoop(const State &first) {
    Value begin = index(0), step = index(atOnce);
    auto loop = scf::ForOp::create(b, begin, end, step, ValueRange{first.m, first.l, first.acc});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    ValueRange carried = loop.getRegionIterArgs();
    State next = emitParts(loop.getInductionVar(), {carried[0], carried[1], carried[2]});
    scf::YieldOp::create(b, ValueRange{next.m, next.l, next.acc});
    return {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
  }

  State emitParts(Value begin, const State &before) {
    SmallVector<Value, kAtOnce> lses, elements;
    Value last = sub(end, index(1)), m = before.m;
    for (int64_t number = 0; number < atOnce; ++number) {
      Value part = add(begin, index(number)), there = arith::MinUIOp::create(b, part, last);
      SmallVector<Value> at{there, place[0], place[1], place[2]};
      Value read = memref::LoadOp::create(b, lse, at);
      Value exists = compare(arith::CmpIPredicate::ule, part, last), none = lowest();
      lses.push_back(select(exists, read, none));
      at.push_back(column);
      elements.push_back(vector::LoadOp::create(b, getType(getElementTypeOrSelf(o.getType())), o, at));
      m = arith::MaximumFOp::create(b, m, lses.back());
    }
    Value isNone = isLowest(m), zero = constant(0);
    Value shift = select(isNone, zero, m), kept = emitWeight(before.m, shift);
    Value l = mulF(before.l, kept), acc = mulF(before.acc, splat(kept));
    for (auto [ofPart, element] : llvm::zip_equal(lses, elements)) {
      Value weight = emitWeight(ofPart, shift);
      l = addF(l, weight);
      acc = emitSum(acc, element, weight, isLowest(ofPart));
    }
    return {m, l, acc};
  }

  /// Returns exp(x - shift).
  Value emitWeight(Value x, Value shift) {
    Value distance = arith::SubFOp::create(b, x, shift);
    return math::Exp2Op::create(b, mulF(distance, constant(llvm::numbers::log2ef)));
  }

  /// Returns acc + weight * elements. If the part is empty, returns acc, since the elements of an empty part may be
  /// NaN.
  Value emitSum(Value acc, Value elements, Value weight, Value isEmpty) {
    elements = widen(elements);
    elements = select(isEmpty, zeros(elements.getType()), elements);
    return math::FmaOp::create(b, elements, splat(weight), acc);
  }

  void emitResults(const State &state) {
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.l, constant(0));
    Value divisor = select(isEmpty, constant(1), state.l);
    Value result = mulF(state.acc, splat(arith::DivFOp::create(b, constant(1), divisor)));
    SmallVector<Value> at(place);
    at.push_back(column);
    for (unsigned output : states.outputs) {
      Type type = op.getOutputType(0).getElementType();
      Value array = signature.getMemRef(output, getAlignment(type, width));
      vector::StoreOp::create(b, round(result, type), array, at);
    }
    if (states.lses.empty())
      return;
    emitIf(isZero(column), [&] {
      Value sum = addF(state.m, math::LogOp::create(b, state.l));
      for (unsigned output : states.lses)
        memref::StoreOp::create(b, sum, signature.getMemRef(output), place);
    });
  }

  const MergedStates &states;
  flash::MergeStatesOp op;
  int64_t width, atOnce;         // columns of a thread, and the number of parts that it reads before it uses them
  SmallVector<Value, 4> extents; // S, B, H, N
  Value o, lse, column;
  Value end;                // the number of parts that are read
  SmallVector<Value> place; // the indices of the row
};

/// Merges parts that a nest computed for parts of the keys, or parts that are arguments of the function.
class MergeKernel : public LaunchKernel {
public:
  explicit MergeKernel(flash::MergeStatesOp op) : LaunchKernel(op) {}

  LogicalResult addTables(const LaunchNest &nest, TileTables &tables) const override {
    MergedStates states = getStates(nest);
    return success(
        succeeded(addTable(tables, getArrayTable(states.op.getOParts(), states.extents))) &&
        succeeded(addTable(tables, getArrayTable(states.op.getLseParts(), ArrayRef(states.extents).drop_back()))));
  }

  /// The main kernel stores to an array whose first dimension combines parts and batches.
  SmallVector<Value> getDestinations(const LaunchNest &nest, unsigned result, OpBuilder &b,
                                     ScalarCloner &scalars) const override {
    OpBuilder inL1(nest.end);
    Location loc = nest.end->getLoc();
    SmallVector<OpFoldResult, 4> extents = nest.results[result].extents;
    Value batches = getValueOrCreateConstantIndexOp(inL1, loc, extents.front());
    Value parts = getValueOrCreateConstantIndexOp(inL1, loc, nest.parts.dim.extent);
    extents.front() = arith::MulIOp::create(inL1, loc, parts, batches).getResult();
    return {scalars.getTableArray(b, op->getOperand(result), extents)};
  }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    MergedStates states = getStates(nest);
    std::optional<GridFormula> rows;
    for (int64_t dim : {1, 2, 3}) {
      std::optional<GridFormula> extent =
          states.extents.empty() ? getFormula(states.op.getOParts(), dim) : getFormula(states.extents[dim]);
      if (!extent)
        return op->emitOpError() << "expected extents that are constants or those of arguments";
      rows = rows ? *rows * *extent : *extent;
    }
    GridFormula ctas = ceilDiv(*rows * getVectors(states.op.getPartsType()), kThreads);
    return emitKernel<MergeBody>(context, isMain(nest) ? "" : "_merge", kThreads, {ctas, 1, 1}, states);
  }

private:
  bool isMain(const LaunchNest &nest) const { return nest.end == op; }

  MergedStates getStates(const LaunchNest &nest) const {
    MergedStates states{
        cast<flash::MergeStatesOp>(op), {}, nest.getOutputs(0), nest.getOutputs(1), nest.parts.size != nullptr};
    if (isMain(nest))
      return states;
    states.extents.push_back(nest.parts.dim.extent);
    llvm::append_range(states.extents, nest.results.front().extents);
    return states;
  }
};
} // namespace

void flashc::matchMerge(LaunchNest &nest) {
  nest.parts.merge = nest.findUser<flash::MergeStatesOp>();
  if (auto merge = nest.parts.merge ? nest.parts.merge : dyn_cast<flash::MergeStatesOp>(nest.end))
    nest.kernels.push_back(std::make_unique<MergeKernel>(merge));
}
