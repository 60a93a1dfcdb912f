//===- OrderKernel.h - a kernel that sorts items by their work ----------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCH_ORDERKERNEL_H
#define FLASHC_LIB_LAUNCH_ORDERKERNEL_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// Threads of the only CTA.
constexpr int64_t kOrderThreads = 1024;

/// Writes the body of a kernel of one CTA with kOrderThreads threads. The kernel lists the items 0 to `count` - 1 by
/// descending work: a counting sort in shared memory with 256 keys. Items with equal keys keep their order, so that
/// every run makes the same list.
///
/// Warp w of 32 has the items from w * steps * 32 on, 32 in each of its steps. A lane after the last item takes part
/// with a key of its own, 256. A key is the difference to the most work, shifted right until it is below 256: the order
/// is exact if the most work is at most 256, and otherwise by the first eight bits.
///
/// ```
///   measure   work and numbers of every item, after the list; the most work of each warp; counters = 0, also that of
///             tile.draw
///   ------- barrier 1: publishes the most work of all warps
///   count     counter[w][key] += number of lanes of the warp with the key
///   ------- barrier 2: publishes the counters of all warps
///   sum       thread t has key t: its count in all warps; the place of its first item among the keys by shuffles
///   ------- barrier 3: publishes the sums of the warps that have keys
///   place     thread t: counter[w][t] = the place of warp w's first item with key t
///   ------- barrier 4: publishes the places
///   deal      list[counter[w][key] + lanes below with the key] = item and its numbers; counter[w][key] += lanes with
///             the key
/// ```
///
/// 1. Barriers are in uniform control flow; every thread reaches all four.
/// 2. Between barriers 1 and 2, and after barrier 4, only warp w reads and writes row w of the counters.
/// 3. In a step of a warp, the lowest lane of those with equal keys alone writes their counter; bar.warp.sync separates
///    the lanes' reads from this write, and this write from the reads of the next step (match.sync orders no memory,
///    PTX ISA 9.7.13.11).
/// 4. Between barriers 2 and 4, only thread t reads and writes column t of a key, and column 256 is only read.
/// 5. A thread reads after the list only its own writes, except the work of other threads' items, which is read before
///    barrier 1.
class OrderKernel {
public:
  /// The data of an item: its work (an index of at least 0) and the numbers of its entry (indices of 32 bits).
  struct Facts {
    Value work;
    SmallVector<Value> numbers;
  };

  /// `list` has room for `count` times getListItemWords(numbers) words and one more: the entries of the list (an item
  /// and its numbers), the items' work, the items' numbers, and the counter of tile.draw, which begins at 0.
  OrderKernel(ImplicitLocOpBuilder &b, gpu::GPUFuncOp kernel, Value list, Value count, int64_t numbers);

  /// Emits the kernel. `emitFacts` emits the data of an item inside a loop.
  void emit(llvm::function_ref<Facts(Value)> emitFacts);

private:
  /// The part of a lane in a step.
  struct Lane {
    Value item, isInside;
    /// The address of the lane's counter, the lanes with the same key, and how many of them are below this lane.
    Value counter, peers, rank;
  };

  Value emitScratch(gpu::GPUFuncOp kernel);
  void emitCounter();
  void emitMeasure(llvm::function_ref<Facts(Value)> emitFacts);
  void emitMaximum();
  void emitCount();
  void emitPlaces();
  Value emitSumOfLanes(Value value);
  void emitDeal();
  void emitSteps(llvm::function_ref<void(Value)> emitBody);
  std::pair<Value, Value> emitItem(Value step);
  Lane emitLane(Value step);
  /// Makes the lowest lane of `lane`'s key add the number of the warp's items with this key to the counter.
  void emitAdvance(const Lane &lane);
  void emitBarrier();
  /// Hands the last lane's value to all other warps; they may read it after the next barrier.
  void emitTell(Value value);

  Value index(int64_t value);
  Value i32(int64_t value);
  Value toI32(Value value);
  Value toIndex(Value value);
  Value add(Value x, Value y);
  Value mul(Value x, int64_t factor);
  Value isBelow(Value x, Value y);
  Value read(Value place);
  void write(Value value, Value place);
  /// The places in `list` of an item's work and of its first number.
  Value getWorkPlace(Value item);
  Value getNumbersPlace(Value item);

  ImplicitLocOpBuilder &b;
  int64_t numbers;
  Value list, count, scratch, thread, lane, warp, steps, firstItem;
  /// The most work of all items, and the shift that makes a key of a difference.
  Value most, shift;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_LAUNCH_ORDERKERNEL_H
