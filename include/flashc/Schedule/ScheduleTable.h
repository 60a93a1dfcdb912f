//===- ScheduleTable.h - which schedule for which attention, as data ----------------------------------------------===//
//
// The built-in table (lib/Schedule/schedules.txt), the tuner's tables and users' tables have the same text form:
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

/// Classes of masks by the registers and instructions that they need, from fewest to most.
enum class MaskClass {
  /// No mask.
  None,
  /// At most one signed less or greater of the query, plus or minus a value, for each element: loop bounds, and one
  /// comparison on the diagonal.
  Bounds,
  /// More bounds on the key, also equalities, computed from anything but the key: the bits of a word for every row.
  Several,
  /// As Several, with a condition that repeats along the keys after a few of them: a word for every row and tile.
  Periodic,
  /// 129 to 255 keys: LLVM finds most of the second tile masked, and keeps constants in registers.
  Constants,
  /// Other code on the key, memory reads for it, or control flow.
  Code,
  /// Products, quotients or remainders of the key: temporaries for every element.
  Arithmetic,
  /// The score reads memory for every key.
  Memory
};
llvm::StringRef getMaskClassName(MaskClass mask);

/// What the mask says about the keys that a few rows of a tile see, which `own-keys` needs.
enum class RowsClass {
  /// Nothing.
  None,
  /// Bounds that read no array (flash::hasRowBounds).
  Bounded,
  /// Bounds that read arrays (flash::hasReadRowBounds): a work list contains them for each consumer.
  Listed
};

/// The outputs of a kernel, as far as schedules depend on them.
struct KernelOutputs {
  /// Whether the log-sum-exp is an output.
  bool hasLse = true;
  /// Whether O has the element type of the inputs.
  bool hasInputType = true;
};

/// Keys and values in caches, as far as the choice of a kernel depends on them. An extent of 0 is known only at launch.
struct CacheQuestion {
  int64_t batches = 0, keyHeads = 0, groupSize = 1, keys = 0;
  /// Bytes of a key and its value together.
  int64_t keyBytes = 0;
  /// Whether elements have 8 bits, for which a kernel's time is that of its instructions and not of its bytes.
  bool isWidened = false;
  /// Rows of a page; 0: a cache without pages.
  int64_t pageRows = 0;
  /// Whether the mask reads arrays. Its bounds may then be ranges of a table, which the forward kernel cannot cut into
  /// parts.
  bool isMaskedByArrays = false;
  /// The number of multiprocessors of the GPU.
  int64_t multiprocessors = 0;
};

/// The facts on which the choice of a kernel and of its schedule depends.
struct Question {
  /// The kind of the op's kernel.
  KernelKind kind = KernelKind::Forward;
  /// The name of a GPUTarget.
  std::string target = kDefaultTarget.str();
  /// bf16 or f16.
  std::string dtype;
  int64_t d = 0, dv = 0;
  MaskClass mask = MaskClass::None;
  /// The most keys that a query sees. None: all of them, or unknown.
  std::optional<int64_t> keys;
  /// Whether the score region bounds its scores (a soft cap) and there is no log-sum-exp, so that `max=unified` is
  /// possible for bf16.
  bool hasBoundedScores = false;
  /// Whether the score region adds terms to s that are affine in the key's position, with a slope.
  bool hasSlopes = false;
  /// Whether probabilities are dropped, so that a product with them does not add up rows.
  bool hasDropout = false;
  RowsClass rows = RowsClass::None;
  /// Whether sums of a backward pass must have a fixed order, which excludes rows that add dq up in memory.
  bool isDeterministic = false;
  /// The number of queries. None: known only at launch.
  std::optional<int64_t> queries;
  KernelOutputs outputs;
  /// The caches. None: keys and values are in no cache.
  std::optional<CacheQuestion> cache;

  const GPUTarget &getTarget() const { return *GPUTarget::lookup(target); }
  /// For a question with a cache: the rows of queries that share a key (0: known only at launch), and the number of a
  /// decoding kernel's tiles of such rows in all sequences and heads.
  int64_t countRows() const { return cache->groupSize * queries.value_or(0); }
  int64_t countDecodedTiles() const;
  /// Shared memory of one tile of keys and one of values of a decoding kernel.
  int64_t getDecodedTileBytes() const;
  /// Text for messages: `target=sm_90a dtype=bf16 d=64 dv=64 mask=none`, with `keys<=1024 score=bounded rows=bounded`
  /// (or `rows=listed`) if known.
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
  /// Bounded or Listed.
  std::optional<RowsClass> rows;
  /// Conditions of decoding kernels: elements of 8 bits; more than, and at most, so many tiles of rows for each
  /// multiprocessor, if extents are known; at most so many bytes of a key and its value; at least so many MiB of keys
  /// and values.
  bool needsBytes = false;
  std::optional<double> minWaves, maxWaves;
  std::optional<int64_t> maxKeyBytes, minCacheMiB;
  /// The text after the colon.
  std::string overrides;
  /// The row's text, the name of its table (for messages), and its line, from 1.
  std::string text, table;
  unsigned line = 0;

  /// Whether all conditions but those on queries hold.
  bool matches(const Question &question) const;
  /// The row's schedule: its overrides applied to the initial values of a Schedule.
  Schedule getSchedule() const;
};

class ScheduleTable {
public:
  /// Parses a table. `name` begins error messages: "<name>, line 3: expected ...".
  static llvm::Expected<ScheduleTable> parse(llvm::StringRef text, llvm::StringRef name);
  static llvm::StringRef getBuiltInText();
  /// The built-in table.
  static const ScheduleTable &getBuiltIn();

  llvm::ArrayRef<ScheduleRow> getRows() const { return rows; }

private:
  std::vector<ScheduleRow> rows;
};

/// A row for up to `maxQueries` queries. None: for any number.
struct RowChoice {
  const ScheduleRow *row;
  std::optional<int64_t> maxQueries;
};

/// Finds the rows that apply, by ascending number of queries; the last is for any number, and the only one if the
/// number is known. Earlier tables have precedence. `mayVary`: whether there may be several rows for an unknown number;
/// if not, rows with a bound on queries do not apply to one. Fails with an error that names the attention if no row
/// applies.
llvm::Expected<llvm::SmallVector<RowChoice, 2>> findRows(llvm::ArrayRef<const ScheduleTable *> tables,
                                                         const Question &question, bool mayVary);

} // namespace flashc

#endif // FLASHC_SCHEDULE_SCHEDULETABLE_H
