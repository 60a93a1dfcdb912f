//===- OrderKernel.h - a kernel that sorts items by their work ----------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCH_ORDERKERNEL_H
#define FLASHC_LIB_LAUNCH_ORDERKERNEL_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// Threads of the one CTA that sorts.
constexpr int64_t kOrderThreads = 1024;

/// Writes the body of a kernel of one CTA with kOrderThreads threads, which lists the items 0 to `count` - 1, those
/// with the most work first: a counting sort in shared memory, by 256 keys. Items of one key stay in the order of their
/// numbers, so that the list is the same in every run.
///
/// Warp w of 32 has the items from w * steps * 32 on, 32 in each of its steps; a lane beyond the last item takes part
/// with a key of its own, 256. The key is the distance from the most work, shifted right until it is below 256: sorted
/// exactly if the most is 256 or less, else by the first eight bits.
///
/// ```
///   measure   work and numbers of every item behind the list; the most of each warp; counters to 0, that of tile.draw
///             too
///   ------- barrier 1: the most of all warps
///   count     counter[w][key] += how many lanes of the warp have the key
///   ------- barrier 2: the counters of all warps
///   sum       thread t has key t: what its key has in all warps; its place among the keys by shuffles
///   ------- barrier 3: the sums of the warps that have keys
///   place     thread t: counter[w][t] = the place of warp w's first item with key t
///   ------- barrier 4: the places
///   deal      list[counter[w][key] + lanes below with the key] = item and its numbers; counter[w][key] += lanes with
///             the key
/// ```
///
/// 1. Barriers stand in uniform control flow; every thread meets all four.
/// 2. Between barriers 1 and 2, and behind barrier 4, row w of the counters is read and written by warp w only.
/// 3. In a step of a warp, lanes with one key elect the lowest, which alone writes that counter; bar.warp.sync stands
///    between the lanes' reads and that write, and between that write and the next step's reads (match.sync orders no
///    memory, PTX ISA 9.7.13.11).
/// 4. Between barriers 2 and 4, column t of a key is read and written by thread t only, and that of key 256 only read.
/// 5. What a thread reads of what lies behind the list it wrote itself; work of an item of others, before barrier 1.
class OrderKernel {
public:
  /// What is known of an item: its work, an index of at least 0, and numbers of the entry, indices in 32 bits.
  struct Facts {
    Value work;
    SmallVector<Value> numbers;
  };

  /// `list` has room for `count` times getListItemWords(numbers) and one more: the list, whose entries are an item and
  /// its numbers; the items' work; the items' numbers; the counter of tile.draw, which begins at 0.
  OrderKernel(ImplicitLocOpBuilder &b, gpu::GPUFuncOp kernel, Value list, Value count, int64_t numbers);

  /// `emitFacts` computes the facts of an item, inside of a loop.
  void emit(llvm::function_ref<Facts(Value)> emitFacts);

private:
  /// A lane's part of a step.
  struct Lane {
    Value item, isInside;
    /// The place of its counter; the lanes with the same key; how many of them are below.
    Value counter, peers, rank;
  };

  Value emitScratch(gpu::GPUFuncOp kernel);
  void emitCounter();
  void emitMeasure(llvm::function_ref<Facts(Value)> emitFacts);
  void emitMost();
  void emitCount();
  void emitPlaces();
  Value emitSumOfLanes(Value value);
  void emitDeal();
  void emitSteps(llvm::function_ref<void(Value)> emitBody);
  std::pair<Value, Value> emitItem(Value step);
  Lane emitLane(Value step);
  /// The lowest lane of `lane`'s key adds what the warp has of it.
  void emitAdvance(const Lane &lane);
  void emitBarrier();
  /// Hands the last lane's value to all other warps, behind the next barrier.
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
  /// Where in `list` the work of an item is, and its first number.
  Value getWorkPlace(Value item);
  Value getNumbersPlace(Value item);

  ImplicitLocOpBuilder &b;
  int64_t numbers;
  Value list, count, scratch, thread, lane, warp, steps, firstItem;
  /// The most keys of all items, and the shift of sort keys.
  Value most, shift;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_LAUNCH_ORDERKERNEL_H
