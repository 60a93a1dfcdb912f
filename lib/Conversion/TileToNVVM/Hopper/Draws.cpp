//===- Draws.cpp - the dynamic tile scheduler and its broadcasts --------------------------------------------------===//
//
// The producer writes a broadcast to one of kPublishPlaces places in shared memory. It then arrives at the place's
// mbarrier. The arrival releases the write. A consumer waits for the phase and then reads (PTX ISA 9.7.13.15.13 and
// .16: arrival and wait are ordered at CTA scope). Broadcasts are numbered by their `turn`: turn t has place t mod
// kPublishPlaces, and phase t / kPublishPlaces mod 2.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {
constexpr int64_t kWordBytes = 4;
static_assert(llvm::isPowerOf2_64(kPublishPlaces));

/// The addresses of a turn's broadcast in shared memory.
struct Place {
  Value barrier, words;
};

Place getPlace(Emitter &emit, const KernelContext &kernel, Value turn) {
  Value place = emit.bitAnd(turn, kPublishPlaces - 1);
  Value barriers = emit.add(kernel.sharedBase, *kernel.layout.published);
  Value all = emit.add(barriers, kPublishPlaces * kHopper.barrierBytes);
  return {emit.add(barriers, emit.mul(place, kHopper.barrierBytes)),
          emit.add(all, emit.mul(place, kWordBytes * kernel.publishWords))};
}

TileValues lowerPublish(PublishOp op, Adaptor<PublishOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Place place = getPlace(emit, kernel, emit.toI32(op.getTurn()));
  SmallVector<Value> words{emit.select(op.getExists(), emit.i32(1), emit.i32(0))};
  for (Value value : llvm::concat<Value>(op.getValues(), op.getOwn()))
    words.push_back(emit.toI32(value));
  for (auto [number, word] : llvm::enumerate(words))
    emit.ptx("st.shared.u32 [$0], $1;", "r,r,~{memory}", {emit.add(place.words, kWordBytes * number), word});
  emit.ptx("mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", {place.barrier});
  return {};
}

TileValues lowerPublished(PublishedOp op, Adaptor<PublishedOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value turn = emit.toI32(op.getTurn());
  Place place = getPlace(emit, kernel, turn);
  Value round = emit.shr(turn, llvm::Log2_64(kPublishPlaces));
  waitForPhase(emit, place.barrier, emit.bitAnd(round, 1));
  SmallVector<Value> words;
  auto load = [&](Value begin, size_t number) {
    words.push_back(emit.ptx(emit.builder.getI32Type(), "ld.shared.u32 $0, [$1];", "=r,r,~{memory}",
                             {emit.add(begin, kWordBytes * number)}, /*sideEffects=*/true));
  };
  size_t numShared = 1 + op.getValues().size(), numOwn = op.getOwn().size();
  for (size_t number = 0; number < numShared; ++number)
    load(place.words, number);
  Value own = place.words;
  if (numOwn > 0)
    own = emit.add(own, emit.mul(emit.toI32(op.getWarpgroup()), kWordBytes * numOwn));
  for (size_t number = 0; number < numOwn; ++number)
    load(own, numShared + number);
  SmallVector<Value> values = llvm::map_to_vector(words, [&](Value word) { return emit.toIndex(word); });
  Value exists = emit.makeUniform(words.front());
  values.front() = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::ne, exists, emit.i32(0));
  return llvm::map_to_vector<6>(values, [](Value value) { return SmallVector<Value>{value}; });
}

TileValues lowerTake(ConsumeOp op, Adaptor<ConsumeOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value counter = getElementPointer(emit, adaptor.getList(), emit.builder.getI32Type(), emit.toI32(op.getPlace()));
  Value before = emit.ptx(emit.builder.getI32Type(), "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}",
                          {counter}, /*sideEffects=*/true);
  return {{emit.toIndex(before)}};
}
} // namespace

void flashc::tiletonvvm::populateDrawPatterns(KernelPatterns &patterns) {
  patterns.add(lowerPublish, lowerPublished, lowerTake);
}
