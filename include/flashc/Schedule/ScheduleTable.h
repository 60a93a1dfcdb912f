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

/// Classes of masks by the registers and instructions that kernels need for them, from the fewest to the most.
enum class MaskClass {
  /// No mask.
  None,
  /// The mask compares the query, plus or minus a value, at most once, as a signed less or greater. This becomes loop
  /// bounds, and on the diagonal one comparison for each element.
  Bounds,
  /// The mask has several comparisons, or equalities, of the key with values that do not depend on the key. A row has
  /// their results as the bits of a word.
  Several,
  /// As Several, and the result of a comparison repeats along the keys with a short period. Each row of each tile has
  /// the mask as the bits of a word.
  Periodic,
  /// There are 129 to 255 keys. LLVM then knows most of the second tile to be masked, and keeps constants in registers.
  Constants,
  /// The mask has other code on the key, reads memory for the key, or has control flow.
  Code,
  /// The mask has products, quotients or remainders of the key, which need temporaries for every element.
  Arithmetic,
  /// The score reads memory for every key.
  Memory
};
llvm::StringRef getMaskClassName(MaskClass mask);

/// What the mask says about the keys that a few rows of a tile see. Kernels with `own-keys` need this.
enum class RowsClass {
  /// Nothing.
  None,
  /// Bounds that read no array (flash::hasRowBounds).
  Bounded,
  /// Bounds that read arrays (flash::hasReadRowBounds): a work list contains them for each consumer.
  Listed
};

/// What is known of the score region. None: there is no region. Bounded: the region bounds its scores (a soft cap) and
/// there is no log-sum-exp, so that `max=unified` is possible for bf16. Curved: in the backward pass, the region's
/// derivative is not the same constant for all pairs. Code: any other region.
enum class ScoreClass { Code, None, Bounded, Curved };

/// The outputs of a kernel, as far as its schedule depends on them.
struct KernelOutputs {
  /// Whether the log-sum-exp is an output.
  bool hasLse = true;
  /// Whether O has the element type of the inputs.
  bool hasInputType = true;
};

/// Facts about the loops of level L1 on which schedules depend. The initial values hold before there are loops.
struct LoopFacts {
  /// Whether tiles of queries begin where packed sequences begin (flash-align-queries).
  bool hasSegments = false;
  /// Whether CTAs take work tiles from a list that another kernel sorts (WorkOrder.h).
  bool isSorted = false;
  /// Whether some loop has the mask. Known extents may show that the mask keeps all keys.
  bool isMasked = true;
};

/// A cache of keys and values, as far as the choice of a kernel depends on it. An extent of 0 is known only at launch.
struct CacheQuestion {
  int64_t batches = 0, keyHeads = 0, keys = 0;
  /// The bytes of a key and its value together.
  int64_t keyBytes = 0;
  /// Whether elements have 8 bits. The time of a kernel is then that of its instructions, not that of its bytes.
  bool isWidened = false;
  /// The number of rows of a page. 0: the cache has no pages.
  int64_t pageRows = 0;
  /// Whether the mask reads arrays. Each tile of queries may then visit a list of tiles of keys from a table. A forward
  /// kernel cannot cut such a list into parts.
  bool isMaskedByArrays = false;
  /// Whether the mask depends on the query head. A tile of several heads would visit all keys.
  bool isMaskedByHead = false;
  /// Whether sequences have queries of different numbers. `Question::queries` is then the number of all of them.
  bool hasPackedQueries = false;
  /// The number of multiprocessors of the GPU.
  int64_t multiprocessors = 0;
};

/// The facts on which the choice of a kernel and of its schedule depends.
struct Question {
  Question(KernelKind kind = KernelKind::Forward, llvm::StringRef target = kDefaultTarget, int64_t d = 0,
           int64_t dv = 0)
      : kind(kind), target(target), d(d), dv(dv) {}

  /// The kind of the op's kernel.
  KernelKind kind;
  /// The name of a GPUTarget.
  std::string target;
  /// bf16 or f16.
  std::string dtype;
  int64_t d, dv;
  /// The number of query heads that share a key head.
  int64_t group = 1;
  MaskClass mask = MaskClass::None;
  /// The most keys that a query sees. None: a query may see all keys, or the number is unknown.
  std::optional<int64_t> keys;
  ScoreClass score = ScoreClass::None;
  /// Whether the score region adds terms that are affine in the key's position, with a slope.
  bool hasSlopes = false;
  /// Whether there is dropout. A product with the probabilities that remain does not give the row sums.
  bool hasDropout = false;
  RowsClass rows = RowsClass::None;
  /// Whether sums of a backward pass must have a fixed order. Rows of the table that add up dq in memory then do not
  /// apply.
  bool isDeterministic = false;
  /// The number of queries. None: known only at launch.
  std::optional<int64_t> queries;
  KernelOutputs outputs;
  LoopFacts loops;
  /// The cache that the attention reads. None: it reads none.
  std::optional<CacheQuestion> cache;

  const GPUTarget &getTarget() const { return *GPUTarget::lookup(target); }
  /// For a question with a cache. `countRows` returns the number of rows of queries that share a key (0: known only at
  /// launch). `countDecodedTiles` returns the number of a decoding kernel's tiles of such rows, over all sequences and
  /// heads.
  int64_t countRows() const { return group * queries.value_or(0); }
  int64_t countDecodedTiles() const;
  /// Returns the shared memory, in bytes, of one tile of keys and one of values in a decoding kernel.
  int64_t getDecodedTileBytes() const;
  /// Returns text for messages: `target=sm_90a dtype=bf16 d=64 dv=64 mask=none`, followed by those of `keys<=1024`,
  /// `score=bounded` (or `score=curved`) and `rows=bounded` (or `rows=listed`) that are known.
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
  /// The required class of the score, None, Bounded or Curved. No value: any class.
  std::optional<ScoreClass> score;
  bool needsDropout = false;
  /// The required class of rows, Bounded or Listed. None: any class.
  std::optional<RowsClass> rows;
  /// Conditions of decoding kernels. `needsBytes`: elements have 8 bits. `minWaves`: there are more than this many
  /// tiles of rows for each multiprocessor. `maxWaves`: there are at most this many. `maxKeyBytes`: a key and its value
  /// have at most this many bytes. `minCacheMiB`: all keys and values have at least this many MiB. If extents are
  /// unknown, the conditions on waves and on MiB do not hold.
  bool needsBytes = false;
  std::optional<double> minWaves, maxWaves;
  std::optional<int64_t> maxKeyBytes, minCacheMiB;
  /// The text after the colon.
  std::string overrides;
  /// The row's text, the name of its table (for messages), and its line, from 1.
  std::string text, table;
  unsigned line = 0;

  /// Whether all conditions hold, apart from the one on queries.
  bool matches(const Question &question) const;
  /// Returns the row's schedule: the initial values of a Schedule with the row's overrides.
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

/// A row that applies to up to `maxQueries` queries. None: to any number.
struct RowChoice {
  const ScheduleRow *row;
  std::optional<int64_t> maxQueries;
};

/// Finds the rows that apply, by ascending number of queries. The last one applies to any number of queries. Earlier
/// tables have precedence. If the question says the number of queries, there is only one row. If it does not, and
/// `mayVary` is false, rows with a bound on queries do not apply. Fails with an error that names the attention if no
/// row applies.
llvm::Expected<llvm::SmallVector<RowChoice, 2>> findRows(llvm::ArrayRef<const ScheduleTable *> tables,
                                                         const Question &question, bool mayVary);

} // namespace flashc

#endif // FLASHC_SCHEDULE_SCHEDULETABLE_H
