//===- DecodeSchedule.h - the choices of a decoding kernel --------------------------------------------------------===//
//
// The schedule of kernels of flash-split-kv, which are bound by the bytes that they read: how many warps of a CTA load at
// once, how far ahead, and into how many parts the keys of a tile are cut. It shares no field with that of kernels that
// are bound by products (Schedule.h).
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_DECODESCHEDULE_H
#define FLASHC_SCHEDULE_DECODESCHEDULE_H

#include "flashc/Target/GPUTarget.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace flashc {

/// How parts of the keys become one result. Cluster: their CTAs are one cluster and push what they have into each
/// other's shared memory. Kernel: parts go to the workspace, and another kernel merges them.
enum class Merge { Cluster, Kernel };

struct DecodeSchedule {
  /// Of a CTA; they share its part of the keys, tile by tile.
  int64_t warps = 8;
  /// Tiles of keys, and of values, that a warp has in flight or in use.
  int64_t stages = 2;
  /// Parts of the keys of each tile of queries.
  int64_t splits = 1;
  /// Keys of a part, whatever the length of a sequence; 0: equal parts.
  int64_t chunk = 0;
  Merge merge = Merge::Cluster;

  /// Rows of a tile, and its keys: those of a warp's products.
  static constexpr int64_t kRows = 16, kKeys = 16;
  /// The most CTAs of a cluster that all GPUs can run.
  static constexpr int64_t kMostCluster = 8;

  /// CTAs of a cluster: those of a tile's parts, or one.
  int64_t getCluster() const { return merge == Merge::Cluster && chunk == 0 ? splits : 1; }

  /// Prints what `override` reads: `warps=8,stages=2,splits=4,chunk=0,merge=cluster`.
  std::string str() const;
  /// Sets fields from text in this form; an error names the field.
  llvm::Error override(llvm::StringRef text);
  /// Why a kernel of this schedule would not fit the target; `bytes` are those of a tile of keys and one of values.
  llvm::Error check(const GPUTarget &target, int64_t bytes) const;
};

/// Whether overrides say which kernel they are of: by a field that only a decoding kernel (true) or only another
/// (false) has.
std::optional<bool> isOfDecoding(llvm::StringRef overrides);

/// What in `overrides` no kernel has: a word, or a value that is none of its field's. For programs without a kernel.
llvm::Error checkOverrides(llvm::StringRef overrides);

/// A function at L1 carries the schedule of its decoding kernel as this attribute, the text of `str`.
constexpr llvm::StringLiteral kDecodeScheduleAttrName = "flashc.decode_schedule";

/// What a launch reads, as far as it is known when a schedule is chosen; 0: it is not.
struct DecodeShape {
  int64_t batches = 0, keyHeads = 0, queries = 0, keys = 0;
  int64_t groupSize = 1;
  /// Bytes of a key and its value.
  int64_t keyBytes = 0;
  /// Whether these are elements of 8 bits, for which a kernel needs more instructions than bytes.
  bool isWidened = false;
  /// Whether the mask reads arrays. Its bounds may then be runs of a table, which the forward kernel does not cut.
  bool isMaskedByArrays = false;
};

struct DecodeChoice {
  DecodeSchedule schedule;
  /// For people.
  std::string why;
};

/// The number of parts, and how they are merged, by a cost model: enough CTAs that all multiprocessors read, as few parts
/// as that takes (docs/decode.md has the measurements).
DecodeChoice chooseDecodeSchedule(const DecodeShape &shape, int64_t smCount, const GPUTarget &target);

/// Overrides of the forward kernel's schedule, with parts of the keys (Schedule::splits), where it is faster than a decoding
/// kernel; empty where it is not.
std::string chooseForwardSplits(const DecodeShape &shape, int64_t smCount);

} // namespace flashc

#endif // FLASHC_SCHEDULE_DECODESCHEDULE_H
