//===- Merge.cpp - merges the softmax states of warps and CTAs ----------------------------------------------------===//
//
// States are passed in the order in which threads hold them, with sixteen bytes for each lane. Lane l of one warp reads
// what lane l of another warp wrote: the same element of the same row.
//
// Invariants of a cluster's merge:
//   1. Before a CTA pushes, all CTAs of the cluster have arrived, so their barriers are initialised.
//   2. The barrier of a CTA completes with the bytes of all CTAs, including its own. After that no CTA writes to this
//      CTA, so this CTA may end.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Warp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

constexpr int64_t kWarpThreads = 32, kChunkBytes = 16, kWarpBytes = kWarpThreads * kChunkBytes;

void storeShared(Emitter &emit, Value address, int64_t offset, ArrayRef<Value> values) {
  std::string at = "[$0+" + std::to_string(offset) + "], ";
  SmallVector<Value> operands{address};
  llvm::append_range(operands, values);
  if (values.size() == 4)
    emit.ptx("st.shared.v4.f32 " + at + "{$1, $2, $3, $4};", "r,f,f,f,f,~{memory}", operands);
  else
    emit.ptx("st.shared.v2.f32 " + at + "{$1, $2};", "r,f,f,~{memory}", operands);
}

SmallVector<Value> loadShared(Emitter &emit, Value address, int64_t offset, int64_t count) {
  std::string at = "$" + std::to_string(count) + "+" + std::to_string(offset);
  SmallVector<Type> types(count, emit.builder.getF32Type());
  if (count == 4)
    return emit.ptx(types, "ld.shared.v4.f32 {$0, $1, $2, $3}, [" + at + "];", "=f,=f,=f,=f,r,~{memory}", {address});
  return emit.ptx(types, "ld.shared.v2.f32 {$0, $1}, [" + at + "];", "=f,=f,r,~{memory}", {address});
}

/// The maxima and sums of one row in several states.
struct RowStates {
  SmallVector<Value> max, sum;
};

/// The merged maximum and sum of a row, and the factor for each state.
struct MergedRow {
  Value max, sum;
  SmallVector<Value> factors;
};

MergedRow mergeRow(Emitter &emit, const RowStates &states, FloatAttr factor) {
  OpBuilder &b = emit.builder;
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, emit.loc, b.getF32FloatAttr(value));
  };
  MergedRow merged;
  for (Value max : states.max)
    merged.max = merged.max ? arith::MaxNumFOp::create(b, emit.loc, merged.max, max).getResult() : max;
  // If no state has seen a key, all maxima are -inf. Their differences would be NaN, so 0 is subtracted.
  Value isEmpty = arith::CmpFOp::create(b, emit.loc, arith::CmpFPredicate::OEQ, merged.max,
                                        constant(-std::numeric_limits<double>::infinity()));
  Value base = emit.select(isEmpty, constant(0.0), merged.max), scale = constant(factor.getValueAsDouble());
  for (auto [max, sum] : llvm::zip_equal(states.max, states.sum)) {
    Value distance = arith::SubFOp::create(b, emit.loc, max, base);
    Value power = math::Exp2Op::create(b, emit.loc, arith::MulFOp::create(b, emit.loc, distance, scale));
    merged.factors.push_back(power);
    merged.sum = merged.sum ? math::FmaOp::create(b, emit.loc, power, sum, merged.sum).getResult()
                            : arith::MulFOp::create(b, emit.loc, power, sum).getResult();
  }
  return merged;
}

/// Adds the elements of a state to `acc`, each multiplied by the factor that its row has for state number `state`. The
/// elements are in the order of an accumulator.
void accumulate(Emitter &emit, ArrayRef<MergedRow> rows, int64_t state, ArrayRef<Value> elements,
                MutableArrayRef<Value> acc) {
  for (auto [number, element] : llvm::enumerate(elements)) {
    Value factor = rows[getHalf(number)].factors[state];
    acc[number] = acc[number] ? math::FmaOp::create(emit.builder, emit.loc, factor, element, acc[number]).getResult()
                              : arith::MulFOp::create(emit.builder, emit.loc, factor, element).getResult();
  }
}

TileValues getResults(ArrayRef<Value> acc, ArrayRef<MergedRow> rows) {
  return {SmallVector<Value>(acc), {rows[0].max, rows[1].max}, {rows[0].sum, rows[1].sum}};
}

TileValues lowerMergeWarps(MergeWarpsOp op, Adaptor<MergeWarpsOp> adaptor, Emitter &emit, KernelContext &kernel) {
  int64_t warps = kernel.warps;
  ValueRange acc = adaptor.getAcc();
  int64_t blocks = acc.size() / 4,
          ownBlocks = cast<RankedTensorType>(op.getMerged().getType()).getDimSize(1) / kBlockCols;
  Value lane = getLane(emit, kernel), place = emit.mul(lane, kChunkBytes);
  Value rowBase = emit.add(kernel.sharedBase, kernel.layout.getPlace(op).data);
  auto getRowPlace = [&](Value base) { return emit.add(base, emit.mul(kernel.row, 8)); };
  constexpr int64_t kRowBytes = 8, kStatesBytes = kWarpRows * kRowBytes;

  emitCTABarrier(emit); // all slots have been read
  Value own = emit.add(emit.add(kernel.sharedBase, emit.mul(kernel.warp, blocks * kWarpBytes)), place);
  for (int64_t block = 0; block < blocks; ++block)
    storeShared(emit, own, block * kWarpBytes, SmallVector<Value>(acc.slice(4 * block, 4)));
  Value ownRow = getRowPlace(emit.add(rowBase, emit.mul(kernel.warp, kStatesBytes)));
  for (int64_t half = 0; half < 2; ++half) // the four lanes of a row write the same value
    storeShared(emit, ownRow, half * 8 * kRowBytes, {adaptor.getMax()[half], adaptor.getSum()[half]});
  emitCTABarrier(emit);

  SmallVector<MergedRow> rows;
  Value row = getRowPlace(rowBase);
  for (int64_t half = 0; half < 2; ++half) {
    RowStates states;
    for (int64_t warp = 0; warp < warps; ++warp) {
      SmallVector<Value> state = loadShared(emit, row, warp * kStatesBytes + half * 8 * kRowBytes, 2);
      states.max.push_back(state[0]), states.sum.push_back(state[1]);
    }
    rows.push_back(mergeRow(emit, states, op.getFactorAttr()));
  }
  SmallVector<Value> merged(4 * ownBlocks);
  for (int64_t own = 0; own < ownBlocks; ++own) {
    Value block = emit.add(emit.mul(kernel.warp, ownBlocks), own);
    block = arith::MinUIOp::create(emit.builder, emit.loc, block, emit.i32(blocks - 1));
    Value address = emit.add(emit.add(kernel.sharedBase, emit.mul(block, kWarpBytes)), place);
    for (int64_t warp = 0; warp < warps; ++warp)
      accumulate(emit, rows, warp, loadShared(emit, address, warp * blocks * kWarpBytes, 4),
                 MutableArrayRef(merged).slice(4 * own, 4));
  }
  return getResults(merged, rows);
}

TileValues lowerMergeCluster(MergeClusterOp op, Adaptor<MergeClusterOp> adaptor, Emitter &emit, KernelContext &kernel) {
  int64_t warps = kernel.warps, cluster = kernel.cluster, ofCTA = warps / cluster;
  ValueRange acc = adaptor.getAcc();
  int64_t chunks = acc.size() / 4 + 1; // the last one has maxima and sums
  SharedLayout::Place place = kernel.layout.getPlace(op);
  Value lane = getLane(emit, kernel), i32Lane = emit.mul(lane, kChunkBytes);
  Value base = emit.add(emit.add(kernel.sharedBase, place.data), i32Lane),
        barrier = emit.add(kernel.sharedBase, place.full);
  Type i32 = emit.builder.getI32Type();
  Value rank = emit.ptx(i32, "mov.u32 $0, %cluster_ctarank;", "=r", {}, /*sideEffects=*/false);
  Value target = arith::DivUIOp::create(emit.builder, emit.loc, kernel.warp, emit.i32(ofCTA));
  Value number = arith::RemUIOp::create(emit.builder, emit.loc, kernel.warp, emit.i32(ofCTA));
  auto getRemote = [&](Value address) {
    return emit.ptx(i32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", {address, target}, /*sideEffects=*/false);
  };
  auto getPlace = [&](Value from, Value part) {
    return emit.add(base, emit.mul(emit.add(emit.mul(from, ofCTA), part), chunks * kWarpBytes));
  };
  emit.ptx("barrier.cluster.wait.acquire;", "~{memory}", {});
  Value remote = getRemote(getPlace(rank, number)), remoteBarrier = getRemote(barrier);
  auto push = [&](int64_t chunk, ArrayRef<Value> values) {
    SmallVector<Value> operands{remote, remoteBarrier};
    llvm::append_range(operands, values);
    emit.ptx("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [$0+" +
                 std::to_string(chunk * kWarpBytes) + "], {$2, $3, $4, $5}, [$1];",
             "r,r,f,f,f,f,~{memory}", operands);
  };
  for (int64_t chunk = 0; chunk + 1 < chunks; ++chunk)
    push(chunk, SmallVector<Value>(acc.slice(4 * chunk, 4)));
  ValueRange max = adaptor.getMax(), sum = adaptor.getSum();
  push(chunks - 1, {max[0], sum[0], max[1], sum[1]});
  waitForBarrier(emit, kernel.target, barrier, emit.i32(0));

  // Warps that have no part of the columns read the part of another warp.
  Value source = getPlace(emit.i32(0), arith::RemUIOp::create(emit.builder, emit.loc, kernel.warp, emit.i32(ofCTA)));
  RowStates states[2];
  int64_t distance = ofCTA * chunks * kWarpBytes;
  for (int64_t from = 0; from < cluster; ++from) {
    SmallVector<Value> state = loadShared(emit, source, from * distance + (chunks - 1) * kWarpBytes, 4);
    for (int64_t half = 0; half < 2; ++half)
      states[half].max.push_back(state[2 * half]), states[half].sum.push_back(state[2 * half + 1]);
  }
  SmallVector<MergedRow> rows;
  for (const RowStates &ofRow : states)
    rows.push_back(mergeRow(emit, ofRow, op.getFactorAttr()));
  SmallVector<Value> merged(acc.size());
  for (int64_t chunk = 0; chunk + 1 < chunks; ++chunk)
    for (int64_t from = 0; from < cluster; ++from)
      accumulate(emit, rows, from, loadShared(emit, source, from * distance + chunk * kWarpBytes, 4),
                 MutableArrayRef(merged).slice(4 * chunk, 4));
  Value gets = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::ult, kernel.warp, emit.i32(ofCTA));
  Value part = emit.select(gets, emit.add(emit.mul(rank, ofCTA), kernel.warp), emit.i32(warps));
  TileValues results = getResults(merged, rows);
  results.push_back({emit.toIndex(part)});
  return results;
}

} // namespace

void flashc::tiletonvvm::populateWarpMergePatterns(KernelPatterns &patterns) {
  patterns.add(lowerMergeWarps, lowerMergeCluster);
}
