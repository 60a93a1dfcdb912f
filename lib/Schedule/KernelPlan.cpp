//===- KernelPlan.cpp - which kernel an attention gets ------------------------------------------------------------===//

#include "flashc/Schedule/KernelPlan.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace flashc;
using llvm::StringRef;

/// A decoding kernel is chosen for up to this many rows of queries that share their keys (query heads of a group times
/// tokens), if times are not compared. It reads the keys once for each 16 rows; more rows fill the tiles of a forward
/// kernel.
static constexpr int64_t kMostDecodedRows = 64;

/// The number of keys of a part in a batch-invariant kernel.
static constexpr int64_t kInvariantChunk = 1024;

/// The reason why a forward kernel cannot read the caches, or an empty text.
static std::string whyNotForward(const Question &question) {
  const GPUTarget &target = question.getTarget();
  const CacheQuestion &cache = *question.cache;
  if (!target.hasTMA)
    return "the target has no TMA";
  if (cache.isWidened)
    return "caches are of another type than queries";
  if (cache.pageRows % target.getSwizzleRows() != 0)
    return "pages have " + std::to_string(cache.pageRows) + " rows, no multiple of " +
           std::to_string(target.getSwizzleRows());
  return "";
}

static bool hasAllExtents(const Question &question) {
  const CacheQuestion &cache = *question.cache;
  return question.queries && cache.batches && cache.keyHeads && cache.keys;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Decoding
//===--------------------------------------------------------------------------------------------------------------===//

static std::string join(std::initializer_list<StringRef> overrides) {
  auto isText = [](StringRef text) { return !text.empty(); };
  return llvm::join(llvm::make_filter_range(overrides, isText), ",");
}

static llvm::Expected<KernelPlan> planDecoding(Question question, const KernelWish &wish, std::string why) {
  question.kind = KernelKind::Decode;
  std::string splits = wish.splits ? "splits=" + std::to_string(*wish.splits) : "";
  std::string chunk = wish.isBatchInvariant ? "chunk=" + std::to_string(kInvariantChunk) : "";
  if (wish.isBatchInvariant)
    question.cache->batches = 0;
  llvm::Expected<llvm::SmallVector<RowChoice, 2>> rows = findRows(wish.tables, question, /*mayVary=*/false);
  if (!rows)
    return rows.takeError();
  KernelPlan plan{KernelKind::Decode, "", std::nullopt, *rows->front().row, std::move(why)};
  llvm::Expected<Schedule> schedule =
      applyRow(plan.row, question, join({splits, chunk, wish.overrides}), &plan.reasons);
  if (!schedule)
    return schedule.takeError();
  plan.schedule = *schedule;
  plan.overrides = schedule->str();
  return plan;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The times of both
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// How a forward kernel reads a cache: the number of parts into which the keys of a tile are divided, overrides of the
/// kernel's schedule, and the kernel's cost.
struct ForwardParts {
  int64_t parts = 1;
  std::string overrides;
  double cost = 0;
};

/// The costs of kernels that read a cache (docs/decode.md has the model). The unit of a cost is the time in which a CTA
/// of a forward kernel passes over all keys with a tile of 128 rows.
class CacheCosts {
public:
  explicit CacheCosts(const Question &question) : question(question), cache(*question.cache) {}

  /// The cheaper of a kernel whose tiles have one query head and, if it is cheaper, of one whose tiles have the heads
  /// of a group.
  /// `mayShare`: whether the rows of several heads may share a tile.
  ForwardParts chooseForward(bool mayShare) const;
  /// The cheapest kernel whose tiles have the rows of `heads` query heads.
  ForwardParts chooseShared(int64_t heads) const;
  double getDecoding(int64_t parts) const;

private:
  ForwardParts chooseParts(int64_t tiles, double tile, std::string overrides) const;
  /// The cost of the passes: all waves of CTAs pass over their parts of the keys, at `tile` for each key. Or the cost
  /// of reading the keys `reads` times if that is more. The lesser cost counts a little, too.
  double getPasses(int64_t tiles, int64_t parts, double tile, double reads) const;
  int64_t countHeads() const { return cache.batches * cache.keyHeads; }
  /// The number of keys. Fewer keys than a tile has cost as much as a tile.
  double countKeys() const { return double(std::max<int64_t>(cache.keys, 128)); }
  bool isNarrow() const { return cache.keyBytes <= 256; }

  const Question &question;
  const CacheQuestion &cache;
};
} // namespace

double CacheCosts::getPasses(int64_t tiles, int64_t parts, double tile, double reads) const {
  // Measured on an H100: while a CTA passes over one key, the GPU reads kBytes.
  constexpr double kBytes = 35000, kLesser = 0.2;
  double compute = tile * double(llvm::divideCeil(tiles * parts, cache.multiprocessors)) / parts;
  double memory = reads * double(countHeads()) * double(cache.keyBytes) / kBytes;
  return std::max(compute, memory) + kLesser * std::min(compute, memory);
}

/// Chooses the number of parts of the keys of each of `tiles` tiles.
ForwardParts CacheCosts::chooseParts(int64_t tiles, double tile, std::string overrides) const {
  constexpr int64_t kLeastKeys = 256, kMostParts = 64; // the most that the rules of `splits` allow
  // The costs of a launch and of merging, in keys. CTAs that have parts of packed queries take no tiles from a list, so
  // each tile without queries takes a CTA of its own.
  constexpr double kStart = 500, kMergeBatch = 100, kMergePacked = 900;
  const double kMerge = cache.hasPackedQueries ? kMergePacked : kMergeBatch;
  auto getCost = [&](int64_t parts) {
    return getPasses(tiles, parts, tile, /*reads=*/1) + (kStart + (parts > 1 ? kMerge : 0)) / countKeys();
  };
  int64_t parts = std::clamp<int64_t>(std::min(cache.multiprocessors / tiles, cache.keys / kLeastKeys), 1, kMostParts);
  if (cache.isMaskedByArrays || getCost(1) <= getCost(parts))
    parts = 1;
  return {parts, std::move(overrides), getCost(parts)};
}

/// Returns the number of query heads whose rows share a tile: the greatest divisor of the group that divides the rows
/// of a consumer. 1 if tiles have one head because of the mask: bounds that differ between heads do not hold for a tile
/// of several heads, and tiles whose keys a table has (flash.tile_runs) have one head.
static int64_t getSharedHeads(const Question &question) {
  if (question.cache->isMaskedByHead || question.cache->isMaskedByArrays)
    return 1;
  return std::gcd(question.group, tile::kTileRows);
}

/// Returns the overrides of a schedule whose tiles have the rows of `heads` query heads.
static std::string getSharedOverrides(const Question &question, int64_t heads, int64_t consumers) {
  bool isWide = std::max(question.d, question.dv) > 128; // the row of the table then has smaller tiles of keys
  return "heads=" + std::to_string(heads) + ",consumers=" + std::to_string(consumers) + (isWide ? "" : ",kv-tile=128");
}

ForwardParts CacheCosts::chooseForward(bool mayShare) const {
  constexpr int64_t kRows = 128;
  // A tile of one query head has 256 rows for small keys, unless there are fewer.
  bool isShort = *question.queries <= kRows;
  int64_t rows = isNarrow() && !isShort ? 2 * kRows : kRows;
  int64_t tiles = countHeads() * question.group * llvm::divideCeil(*question.queries, rows);
  ForwardParts best = chooseParts(tiles, /*tile=*/1.0, "");
  if (best.parts > 1 && isNarrow() && isShort)
    best.overrides = "consumers=2,kv-tile=128";
  int64_t heads = mayShare ? getSharedHeads(question) : 1;
  ForwardParts shared = heads > 1 ? chooseShared(heads) : best;
  return shared.cost < best.cost ? shared : best;
}

ForwardParts CacheCosts::chooseShared(int64_t heads) const {
  ForwardParts best;
  // A tile of one consumer takes 0.85 of the time of a tile with two consumers. A tile of several heads with two
  // consumers takes up to 1.05 of the time of a tile of one head.
  for (auto [consumers, tile] : {std::pair(1, 0.85), std::pair(2, 1.05)}) {
    int64_t queries = tile::kTileRows / heads * consumers;
    ForwardParts shared =
        chooseParts(countHeads() * (question.group / heads) * llvm::divideCeil(*question.queries, queries), tile,
                    getSharedOverrides(question, heads, consumers));
    if (consumers == 1 || shared.cost < best.cost)
      best = std::move(shared);
  }
  return best;
}

/// Returns the cost of a decoding kernel. It passes over the keys once for each 16 rows; a later pass finds most of the
/// keys in the L2 cache.
double CacheCosts::getDecoding(int64_t parts) const {
  constexpr double kTile = 0.53, kStart = 300, kRead = 0.3;
  int64_t tiles = question.countDecodedTiles();
  double passes = double(llvm::divideCeil(tiles, countHeads()));
  return getPasses(tiles, parts, kTile, 1 + kRead * (passes - 1)) + kStart / countKeys();
}

/// Returns the forward kernel if it is faster than a decoding kernel.
static llvm::Expected<std::optional<ForwardParts>> chooseForward(const Question &question, const KernelWish &wish) {
  if (question.countRows() <= DecodeSchedule::kRows)
    return std::nullopt;
  CacheCosts costs(question);
  // A field that a user gives, such as the number of stages, may leave no room for such a tile.
  ForwardParts forward = costs.chooseForward(/*mayShare=*/wish.overrides.empty());
  llvm::Expected<KernelPlan> decoding = planDecoding(question, {"", wish.tables}, "");
  if (!decoding)
    return decoding.takeError();
  if (costs.getDecoding(decoding->schedule->splits) <= forward.cost)
    return std::nullopt;
  return forward;
}

static KernelPlan planForward(const KernelWish &wish, const ForwardParts &choice, std::string why) {
  int64_t parts = wish.splits.value_or(choice.parts);
  std::string splits = parts > 1 ? "splits=" + std::to_string(parts) : "";
  return {KernelKind::Forward, join({splits, choice.overrides, wish.overrides}), std::nullopt, {}, std::move(why)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// The choice
//===--------------------------------------------------------------------------------------------------------------===//

/// Chooses the tiles of a forward kernel, by nothing but the number of rows of queries. A tile has rows of all heads of
/// a group if there are then fewer tiles.
static ForwardParts shareByRows(const Question &question) {
  constexpr int64_t kConsumers = 2;
  int64_t heads = getSharedHeads(question), rows = kConsumers * tile::kTileRows;
  int64_t single = question.group * llvm::divideCeil(*question.queries, rows);
  int64_t shared = question.group / heads * llvm::divideCeil(*question.queries, tile::kTileRows / heads * kConsumers);
  if (shared >= single)
    return {};
  return {1, getSharedOverrides(question, heads, kConsumers)};
}

/// Returns the schedule of a kernel whose keys the launch cuts into parts by the work of all tiles. The tiles have rows
/// of `heads` heads, and one consumer if the rows of a sequence then fit into a tile. None if there are too few keys to
/// cut, or if the parts would take too much memory.
static std::optional<ForwardParts> planByWork(const Question &question, int64_t heads) {
  constexpr int64_t kMostParts = 32, kMostBytes = int64_t(256) << 20;
  constexpr int64_t kUncutKeys = 256; // two tiles of 128 keys, the shortest part
  const CacheQuestion &cache = *question.cache;
  if (cache.isMaskedByArrays || cache.keys <= kUncutKeys)
    return std::nullopt;
  int64_t consumers = *question.queries * heads <= tile::kTileRows ? 1 : 2;
  int64_t queryHeads = cache.keyHeads * question.group, tiles = cache.batches * queryHeads / heads;
  int64_t leastParts = consumers == 1 ? 8 : 4; // more rows need more memory for each part
  int64_t parts = std::clamp(2 * cache.multiprocessors / tiles, leastParts, kMostParts);
  int64_t bytes = parts * cache.batches * *question.queries * queryHeads * question.dv * int64_t(sizeof(float));
  if (bytes > kMostBytes)
    return std::nullopt;
  return ForwardParts{parts, getSharedOverrides(question, heads, consumers) + ",persistent=true"};
}

/// The least number of sequences among which work is divided. Equal parts of fewer sequences fill the GPU.
static constexpr int64_t kLeastSequences = 8;

/// Whether the launch has several sequences and large caches. With small caches the list, which takes 8 us, costs more
/// than it saves.
static bool isWorthDividing(const Question &question) {
  constexpr int64_t kLeastBytes = int64_t(500) << 20;
  const CacheQuestion &cache = *question.cache;
  int64_t keys = question.keys ? std::min(cache.keys, *question.keys + *question.queries) : cache.keys;
  return cache.batches >= kLeastSequences && cache.batches * cache.keyHeads * keys * cache.keyBytes >= kLeastBytes;
}

/// Plans parts by the work of all tiles for sequences with equally many queries. None if other kernels are faster even
/// if the lengths of sequences differ: those of one head, since its tiles have few rows, and those with more rows of
/// small keys, which need two consumers (docs/decode.md).
static std::optional<ForwardParts> chooseByWork(const Question &question) {
  constexpr int64_t kLeastHeads = 4, kMostNarrowRows = 32, kMostDepth = 128; // larger ones have not been measured
  int64_t heads = getSharedHeads(question), rows = *question.queries * heads;
  bool isNarrow = std::max(question.d, question.dv) <= 64;
  if (std::max(question.d, question.dv) > kMostDepth || heads < kLeastHeads ||
      rows > (isNarrow ? kMostNarrowRows : tile::kTileRows) || !isWorthDividing(question))
    return std::nullopt;
  return planByWork(question, heads);
}

/// Chooses the forward kernel for sequences with queries of different numbers, as if each had the mean number. A tile
/// has the rows of a group unless sequences fill tiles of one head. With `isBatchInvariant`, or if an extent is not
/// known, nothing but the group and the mask decide.
static llvm::Expected<KernelPlan> choosePacked(const Question &question, const KernelWish &wish) {
  if (std::string why = whyNotForward(question); !why.empty())
    return llvm::createStringError("expected caches that a forward kernel reads, for packed queries, but " + why);
  std::string why = "sequences have queries of different numbers";
  if (!wish.overrides.empty())
    return planForward(wish, {}, why);
  // Measured on an H100: with fewer queries than this, tiles of a group are the faster ones.
  constexpr int64_t kMostShared = 6 * tile::kTileRows;
  int64_t heads = getSharedHeads(question);
  if (wish.isBatchInvariant || !wish.isForDevice || !hasAllExtents(question))
    return planForward(wish, heads > 1 ? ForwardParts{1, getSharedOverrides(question, heads, 2)} : ForwardParts(), why);
  Question mean = question;
  mean.queries = llvm::divideCeil(*question.queries, question.cache->batches);
  CacheCosts costs(mean);
  bool isShared = heads > 1 && *mean.queries < kMostShared;
  bool isShort = *mean.queries * heads <= tile::kTileRows;
  bool mayBeByWork = isShort ? heads == 1 || mean.cache->batches >= kLeastSequences : isShared && isWorthDividing(mean);
  if (mayBeByWork && !wish.splits)
    if (std::optional<ForwardParts> byWork = planByWork(mean, heads))
      return planForward(wish, *byWork, why);
  return planForward(wish, isShared ? costs.chooseShared(heads) : costs.chooseForward(/*mayShare=*/false), why);
}

/// Chooses the kind of kernel, by nothing but the number of rows of queries.
static llvm::Expected<KernelPlan> chooseByRows(const Question &question, const KernelWish &wish) {
  int64_t rows = question.countRows();
  std::string count = std::to_string(rows) + (rows == 1 ? " row" : " rows") + " of queries for a key head, ";
  if (rows > kMostDecodedRows)
    return planForward(wish, wish.overrides.empty() ? shareByRows(question) : ForwardParts(),
                       count + "more than " + std::to_string(kMostDecodedRows));
  return planDecoding(question, wish, count + std::to_string(kMostDecodedRows) + " at most");
}

llvm::Expected<KernelPlan> flashc::chooseKernel(const Question &question, const KernelWish &wish) {
  if (!question.cache)
    return KernelPlan{question.kind, wish.overrides.str()};
  if (question.cache->hasPackedQueries && !wish.kind)
    return choosePacked(question, wish);
  if (wish.kind == KernelKind::Decode)
    return planDecoding(question, wish, "the algorithm split-kv was asked for");
  if (wish.kind)
    return planForward(wish, {}, "the algorithm fa2 was asked for");
  if (std::string why = whyNotForward(question); !why.empty())
    return planDecoding(question, wish, why);
  llvm::SmallVector<KernelKind, 4> kinds = getKinds(wish.overrides);
  bool mayForward = llvm::is_contained(kinds, KernelKind::Forward),
       mayDecode = llvm::is_contained(kinds, KernelKind::Decode);
  if (mayForward != mayDecode) {
    std::string why = "the schedule that was asked for is of that";
    return mayDecode ? planDecoding(question, wish, why) : planForward(wish, {}, why);
  }
  if (!question.queries)
    return planForward(wish, {}, "the number of queries is not known");
  if (wish.isBatchInvariant || !wish.isForDevice || !hasAllExtents(question))
    return chooseByRows(question, wish);
  bool mayBeByWork = !wish.splits && wish.overrides.empty();
  if (std::optional<ForwardParts> byWork = mayBeByWork ? chooseByWork(question) : std::nullopt)
    return planForward(wish, *byWork, "parts of the keys of many sequences can have equal work");
  llvm::Expected<std::optional<ForwardParts>> forward = chooseForward(question, wish);
  if (!forward)
    return forward.takeError();
  if (*forward)
    return planForward(wish, **forward, "it takes less time than a decoding kernel for so many rows");
  return planDecoding(question, wish, "it takes less time than a forward kernel for so few rows");
}
