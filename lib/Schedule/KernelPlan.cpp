//===- KernelPlan.cpp - which kernel an attention gets ------------------------------------------------------------===//

#include "flashc/Schedule/KernelPlan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

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
/// How a forward kernel reads a cache: the number of parts into which the keys of a tile are divided, and overrides of
/// the kernel's schedule.
struct ForwardParts {
  int64_t parts = 1;
  std::string overrides;
};
} // namespace

/// The plan of a forward kernel if it is faster than a decoding kernel (docs/decode.md has the model).
static llvm::Expected<std::optional<ForwardParts>> chooseForward(const Question &question, const KernelWish &wish) {
  const CacheQuestion &cache = *question.cache;
  int64_t queries = *question.queries, heads = cache.batches * cache.keyHeads;
  if (question.countRows() <= DecodeSchedule::kRows)
    return std::nullopt;
  // The cost of a kernel, in units of the time that a CTA of a forward kernel takes for all keys of a tile. CTAs run in
  // waves, and each CTA takes the time of its part of the keys.
  auto getCost = [&](int64_t tiles, int64_t parts) {
    return double(llvm::divideCeil(tiles * parts, cache.multiprocessors)) / parts;
  };
  // A tile of a forward kernel has 128 rows of one query head, or 256 if a key and its value have at most kNarrowKey
  // bytes and there are more than 128 queries. Merging parts costs as much as kMergedKeys keys. A tile of a decoding
  // kernel, of 16 rows, costs kDecodedTile as much as a tile of a forward kernel.
  constexpr int64_t kNarrowKey = 256, kForwardRows = 128, kLeastKeys = 256;
  constexpr double kMergedKeys = 400, kDecodedTile = 0.53;
  bool isNarrow = cache.keyBytes <= kNarrowKey, isShort = queries <= kForwardRows;
  int64_t tiles =
      heads * cache.groupSize * llvm::divideCeil(queries, isNarrow && !isShort ? 2 * kForwardRows : kForwardRows);
  int64_t parts = std::max<int64_t>(std::min(cache.multiprocessors / tiles, cache.keys / kLeastKeys), 1);
  double cost = getCost(tiles, 1);
  if (double ofParts = getCost(tiles, parts) + kMergedKeys / cache.keys; ofParts < cost && !cache.isMaskedByArrays)
    cost = ofParts;
  else
    parts = 1;
  llvm::Expected<KernelPlan> decoding = planDecoding(question, {"", wish.tables}, "");
  if (!decoding)
    return decoding.takeError();
  if (kDecodedTile * getCost(question.countDecodedTiles(), decoding->schedule->splits) <= cost)
    return std::nullopt;
  return ForwardParts{parts, parts > 1 && isNarrow && isShort ? "consumers=2,kv-tile=128" : ""};
}

static KernelPlan planForward(const KernelWish &wish, const ForwardParts &choice, std::string why) {
  int64_t parts = wish.splits.value_or(choice.parts);
  std::string splits = parts > 1 ? "splits=" + std::to_string(parts) : "";
  return {KernelKind::Forward,
          join({splits, wish.splits ? StringRef() : StringRef(choice.overrides), wish.overrides}),
          std::nullopt,
          {},
          std::move(why)};
}

//===--------------------------------------------------------------------------------------------------------------===//
// The choice
//===--------------------------------------------------------------------------------------------------------------===//

/// Chooses the kind of kernel, by nothing but the number of rows of queries.
static llvm::Expected<KernelPlan> chooseByRows(const Question &question, const KernelWish &wish) {
  int64_t rows = question.countRows();
  std::string count = std::to_string(rows) + (rows == 1 ? " row" : " rows") + " of queries for a key head, ";
  if (rows > kMostDecodedRows)
    return planForward(wish, {}, count + "more than " + std::to_string(kMostDecodedRows));
  return planDecoding(question, wish, count + std::to_string(kMostDecodedRows) + " at most");
}

llvm::Expected<KernelPlan> flashc::chooseKernel(const Question &question, const KernelWish &wish) {
  if (!question.cache)
    return KernelPlan{question.kind, wish.overrides.str()};
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
  llvm::Expected<std::optional<ForwardParts>> forward = chooseForward(question, wish);
  if (!forward)
    return forward.takeError();
  if (*forward)
    return planForward(wish, **forward, "it takes less time than a decoding kernel for so many rows");
  return planDecoding(question, wish, "it takes less time than a forward kernel for so few rows");
}
