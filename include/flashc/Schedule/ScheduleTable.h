//===- ScheduleTable.h - which schedule for which attention, as data ----------------------------------------------===//
//
// One text form for the table that is built in (lib/Schedule/schedules.txt), for what the tuner writes
// and for a user's own:
//
//   # a comment
//   d<=64 dv<=64 mask=bounds queries<=1024: consumers=2,kv-tile=128,stages=4
//   d<=64 dv<=64 mask=several keys<=2048: consumers=2,kv-tile=128,stages=4
//   dtype=bf16 d<=64 dv<=64 score=bounded: max=unified
//   d<=64 dv<=64 rows=bounded: consumers=3,own-keys=true
//   d=256 dv=256: kv-tile=64
//   kind=column-sums d<=64: consumers=3,kv-tile=128,stages=4
//   kind=decode waves<=1 key-bytes<=256: warps=8,stages=4,merge=cluster
//
// The first row whose conditions all hold applies.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_SCHEDULETABLE_H
#define FLASHC_SCHEDULE_SCHEDULETABLE_H

#include "flashc/Schedule/Schedule.h"

#include <optional>
#include <vector>

namespace flashc {

/// What the regions of an attention ask of a kernel's registers, in growing order.
enum class MaskClass {
  /// No mask.
  None,
  /// At most one signed less or greater of the query per element, shifted at most: loop bounds, and one mask on the
  /// diagonal.
  Bounds,
  /// More bounds on the key, equalities among them, whatever they are computed from: the bits of a word for every row.
  Several,
  /// The same and a condition that repeats along the keys after few of them: a word for every row and tile.
  Periodic,
  /// 129 to 255 keys: LLVM knows most of the second tile to be masked, and keeps constants in registers.
  Constants,
  /// Other code on the key, reads of memory for it, or control flow.
  Code,
  /// Products, quotients or remainders of the key: temporaries for every element.
  Arithmetic,
  /// The score reads memory for every key.
  Memory
};
llvm::StringRef getMaskClassName(MaskClass mask);

/// What the mask says of the keys that a few rows of a tile see, as `own-keys` needs it.
enum class RowsClass {
  /// Nothing.
  None,
  /// Bounds, which read no array (flash::hasRowBounds).
  Bounded,
  /// Bounds that read arrays (flash::hasReadRowBounds): a list of work has them for each consumer.
  Listed
};

/// What a kernel writes, as far as schedules depend on it.
struct KernelOutputs {
  /// The log-sum-exp is an output.
  bool hasLse = true;
  /// O has the inputs' element type.
  bool hasInputType = true;
};

/// Keys and values that lie in caches, as far as the choice of their kernel depends on it. An extent of 0 is known at
/// launch only.
struct CacheQuestion {
  int64_t batches = 0, keyHeads = 0, groupSize = 1, keys = 0;
  /// Bytes of a key and its value.
  int64_t keyBytes = 0;
  /// Whether elements have 8 bits, for which a kernel needs more instructions than bytes.
  bool isWidened = false;
  /// Rows of a page; 0: a cache without pages.
  int64_t pageRows = 0;
  /// Whether the mask reads arrays. Its bounds may then be ranges of a table, which the forward kernel does not cut.
  bool isMaskedByArrays = false;
  /// Multiprocessors of the GPU.
  int64_t multiprocessors = 0;
};

/// What the choice of a kernel and of its schedule depends on.
struct Question {
  /// Which kernel it is.
  KernelKind kind = KernelKind::Forward;
  /// A known one (GPUTarget).
  std::string target = kDefaultTarget.str();
  /// bf16 or f16.
  std::string dtype;
  int64_t d = 0, dv = 0;
  MaskClass mask = MaskClass::None;
  /// A query sees at most so many keys; none: all of them, or nobody knows.
  std::optional<int64_t> keys;
  /// The score region bounds its scores so that `max=unified` is possible for bf16 (a soft cap), and there is no
  /// log-sum-exp.
  bool hasBoundedScores = false;
  /// The score region adds terms to s that are affine in the key's position, with a slope, as `tensor-bias` needs them.
  bool hasSlopes = false;
  /// Probabilities are dropped, so that a product with them does not add up rows.
  bool hasDropout = false;
  RowsClass rows = RowsClass::None;
  /// Sums of a backward pass have one order, so that no row applies that adds dq up in memory.
  bool isDeterministic = false;
  /// None: known at launch only.
  std::optional<int64_t> queries;
  KernelOutputs outputs;
  /// None: keys and values are in no cache.
  std::optional<CacheQuestion> cache;

  const GPUTarget &getTarget() const { return *GPUTarget::lookup(target); }
  /// For a question with a cache: rows of queries that share a key (0: known at launch only), and a decoding kernel's
  /// tiles of such rows in all sequences and heads.
  int64_t countRows() const { return cache->groupSize * queries.value_or(0); }
  int64_t countDecodedTiles() const;
  /// Shared memory of a decoding kernel's tile of keys and one of values.
  int64_t getDecodedTileBytes() const;
  /// For messages: `target=sm_90a dtype=bf16 d=64 dv=64 mask=none`, and `keys<=1024 score=bounded rows=bounded`, or
  /// `rows=listed`, where that is known.
  std::string str() const;
};

/// A condition on a dimension: `d<=N`, or `d=N`.
struct DimensionCondition {
  int64_t value;
  bool isExact;

  bool holds(int64_t dimension) const { return isExact ? dimension == value : dimension <= value; }
};

struct ScheduleRow {
  KernelKind kind = KernelKind::Forward;
  std::optional<std::string> target, dtype;
  std::optional<DimensionCondition> d, dv;
  std::optional<int64_t> maxQueries, maxKeys;
  std::optional<MaskClass> mask;
  bool needsBoundedScores = false, needsDropout = false;
  /// Bounded or listed.
  std::optional<RowsClass> rows;
  /// Decoding: elements of 8 bits; more than so many tiles of rows for each multiprocessor, and at most so many, where
  /// extents are known; at most so many bytes of a key and its value; at least so many MiB of keys and values in all.
  bool needsBytes = false;
  std::optional<double> minWaves, maxWaves;
  std::optional<int64_t> maxKeyBytes, minCacheMiB;
  /// The text after the colon.
  std::string overrides;
  /// The row as it is written, and where: in which table (for messages), in which line (from 1).
  std::string text, table;
  unsigned line = 0;

  /// Whether all conditions but the one on queries hold.
  bool matches(const Question &question) const;
  /// The row's schedule: the overrides on top of Schedule's initial values.
  Schedule getSchedule() const;
};

class ScheduleTable {
public:
  /// `name` is for messages: an error is "<name>, line 3: expected ...".
  static llvm::Expected<ScheduleTable> parse(llvm::StringRef text, llvm::StringRef name);
  static llvm::StringRef getBuiltInText();
  /// The table of this compiler.
  static const ScheduleTable &getBuiltIn();

  llvm::ArrayRef<ScheduleRow> getRows() const { return rows; }

private:
  std::vector<ScheduleRow> rows;
};

/// A row, for up to `maxQueries` queries (none: for any number).
struct RowChoice {
  const ScheduleRow *row;
  std::optional<int64_t> maxQueries;
};

/// The rows that apply, by growing number of queries; the last is for any number, and the only one where the number is
/// known. Earlier tables come first. `mayVary`: whether there may be more than one where it is not; otherwise rows with
/// a bound do not apply then. The error names the attention for which there is no row.
llvm::Expected<llvm::SmallVector<RowChoice, 2>> findRows(llvm::ArrayRef<const ScheduleTable *> tables,
                                                         const Question &question, bool mayVary);

} // namespace flashc

#endif // FLASHC_SCHEDULE_SCHEDULETABLE_H
