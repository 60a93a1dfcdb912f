//===- OrderKernel.h - a kernel that sorts items by their work ----------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCH_ORDERKERNEL_H
#define FLASHC_LIB_LAUNCH_ORDERKERNEL_H

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::tile {

/// The number of threads of the kernel's only CTA.
constexpr int64_t kOrderThreads = 1024;

/// Writes the body of a kernel of one CTA with kOrderThreads threads. The kernel lists the items 0 to `count` - 1 by
/// descending work. It does a counting sort in shared memory with 256 sort keys (called keys below; they are no keys of
/// an attention). Items with equal keys keep their order, so that every run makes the same list.
///
/// Warp w (of 32) has the items from w * steps * 32 on: 32 items, one for each lane, in each of its steps. The key of
/// an item is the difference between the most work and the item's work, shifted right so that it is below 256. So the
/// order is exact if the most work is at most 256; otherwise only the first eight bits of the difference decide. A lane
/// that has no item takes part with a key of its own, 256.
///
/// ```
///   measure   stores the work and the numbers of every item after the list; finds the most work of each warp; sets
///             the counters, also that of tile.draw, to 0
///   ------- barrier 1: publishes the most work of all warps
///   count     counter[w][key] += number of lanes of the warp with the key
///   ------- barrier 2: publishes the counters of all warps
///   sum       thread t: adds up counter[w][t] over all warps w; shuffles add up these sums over lower keys t
///   ------- barrier 3: publishes the sums of the warps that have keys
///   place     thread t: counter[w][t] = the place of warp w's first item with key t
///   ------- barrier 4: publishes the places
///   deal      list[counter[w][key] + lanes below with the key] = item and its numbers; counter[w][key] += lanes with
///             the key
/// ```
///
/// With parts, the warps also add up the work and the rows of their items before barrier 1. Two more phases follow it,
/// each with a barrier that publishes its numbers:
///
/// ```
///   try       lane l of warp w: counts the parts that all items of the warp have if the longest item has l + 1 of them
///   estimate  warp w: adds up the parts of all items if the longest item has w + 1 of them; estimates the time
/// ```
///
/// All warps then take the number of parts with the least time.
///
/// 1. Barriers are in uniform control flow, and every thread reaches all of them.
/// 2. Between barriers 1 and 2, and after barrier 4, only warp w reads and writes row w of the counters.
/// 3. In a step of a warp, only the lowest of the lanes with equal keys writes their counter. bar.warp.sync separates
///    the reads of the lanes from this write, and this write from the reads of the next step (match.sync orders no
///    memory, PTX ISA 9.7.13.11).
/// 4. Between barriers 2 and 4, only thread t < 256 reads and writes column t. Column 256 is only read.
/// 5. The data after the list are written before barrier 1 and do not change later. So after it any thread may read
///    them: a lane without an item reads the work of the last item, and with parts several lanes read those of an item.
class OrderKernel {
public:
  /// The data of an item: its work (an index of at least 1, or 0 for an item without parts) and the numbers of its
  /// entry (indices of 32 bits).
  struct Facts {
    Value work;
    SmallVector<Value> numbers;
    /// With parts: the number of rows of the item.
    Value rows = {};
  };

  /// Items that are divided into parts, at most `most` of each. `sharers` is how many work tiles an entry stands for.
  /// All parts of an item have equally many units of work but the last. That size is the first number of an entry;
  /// emitFacts gives the other numbers. An item without work has no part.
  struct Parts {
    int64_t most;
    Value sharers;
  };

  /// `list` has `count` * getListItemWords(numbers) + 1 words: first the entries (an item and its `numbers` numbers),
  /// then the work of each item, then the numbers of each item, and last the counter of tile.draw, which the kernel
  /// sets to 0.
  ///
  /// With parts, the list has room for `most` entries of each item. An entry is item * `most` + part, and the word
  /// after the counter is the number of entries.
  OrderKernel(ImplicitLocOpBuilder &b, gpu::GPUFuncOp kernel, Value list, Value count, int64_t numbers,
              std::optional<Parts> parts = std::nullopt);

  /// Emits the kernel. `emitFacts` emits the data of an item inside a loop.
  void emit(llvm::function_ref<Facts(Value)> emitFacts);

private:
  /// The values that a lane has in a step. An entry is an item or, with parts, a part of one.
  struct Lane {
    Value item, entry, isInside, work;
    /// `counter` is the address of the lane's counter. `peers` are the lanes with the same key, as bits, and `rank`
    /// says how many of these are below this lane.
    Value counter, peers, rank;
  };

  Value emitScratch(gpu::GPUFuncOp kernel);
  void emitCounter();
  void emitMeasure(llvm::function_ref<Facts(Value)> emitFacts);
  void emitMaximum();
  void emitSizeOfParts();
  void emitShift();
  Value emitTrial(Value number);
  void emitTrials();
  void emitTime();
  void emitLimit();
  void emitCount();
  void emitPlaces();
  Value emitSumOfLanes(Value value);
  void emitDeal();
  void emitSteps(llvm::function_ref<void(Value)> emitBody);
  /// Divides `number` entries among the warps.
  void divide(Value number);
  /// Emits the number of this lane's entry in a step, and whether the entry exists.
  std::pair<Value, Value> emitEntry(Value step);
  /// Emits the work of each part of an item with the work `work`, and the number of its parts.
  std::pair<Value, Value> emitDivision(Value work);
  Lane emitLane(Value step);
  /// Adds the number of lanes that have the key of `lane` to the counter of this key. Only the lowest of these lanes
  /// does so.
  void emitAdvance(const Lane &lane);
  void emitBarrier();
  /// Stores the value of the warp's last lane for all other warps, which may read it after the next barrier. `first`
  /// is the place of warp 0's value.
  void emitTell(Value value, int64_t first);

  Value index(int64_t value);
  Value i32(int64_t value);
  Value f32(double value);
  Value toF32(Value value);
  Value toI32(Value value);
  Value toIndex(Value value);
  Value add(Value x, Value y);
  Value addF(Value x, Value y);
  Value mul(Value x, int64_t factor);
  Value isBelow(Value x, Value y);
  Value read(Value place);
  void write(Value value, Value place);
  /// The most entries of an item.
  int64_t countEntries() const { return parts ? parts->most : 1; }
  Value getCounterPlace();
  /// Return the places in `list` of an item's work and of the first of its numbers.
  Value getWorkPlace(Value item);
  Value getNumbersPlace(Value item);

  ImplicitLocOpBuilder &b;
  int64_t numbers;
  std::optional<Parts> parts;
  Value list, count, scratch, thread, lane, warp, entries, steps, firstEntry;
  /// `most` is the greatest work of an entry. The sort key of an entry is `most` minus its work, shifted right by
  /// `shift` bits.
  Value most, shift;
  /// With parts: the most work of a part. An item has as many parts as make each of them no longer than the limit.
  Value limit;
};

} // namespace mlir::tile

#endif // FLASHC_LIB_LAUNCH_ORDERKERNEL_H
