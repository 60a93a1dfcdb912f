//===- DecodeSchedule.cpp - the choices of a decoding kernel ------------------------------------------------------===//

#include "flashc/Schedule/DecodeSchedule.h"
#include "flashc/Schedule/Schedule.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace flashc;
using llvm::StringRef;

namespace {
struct Number {
  StringRef key;
  int64_t DecodeSchedule::*member;
  int64_t least;
};
} // namespace

static constexpr Number kNumbers[] = {{"warps", &DecodeSchedule::warps, 1},
                                      {"stages", &DecodeSchedule::stages, 2},
                                      {"splits", &DecodeSchedule::splits, 1},
                                      {"chunk", &DecodeSchedule::chunk, 0}};

std::string DecodeSchedule::str() const {
  std::string text;
  for (const Number &number : kNumbers)
    text += (number.key + "=" + llvm::Twine(this->*number.member) + ",").str();
  return text + "merge=" + (merge == Merge::Cluster ? "cluster" : "kernel");
}

llvm::Error DecodeSchedule::override(StringRef text) {
  for (StringRef item : llvm::split(text, ',')) {
    auto [key, value] = item.split('=');
    key = key.trim(), value = value.trim();
    if (key.empty())
      continue;
    if (key == "merge") {
      if (value != "cluster" && value != "kernel")
        return llvm::createStringError("expected cluster or kernel for 'merge', got '" + value + "'");
      merge = value == "cluster" ? Merge::Cluster : Merge::Kernel;
      continue;
    }
    auto *number = llvm::find_if(kNumbers, [key = key](const Number &known) { return known.key == key; });
    if (number == std::end(kNumbers))
      return llvm::createStringError("expected warps, stages, splits, chunk or merge in the schedule of a decoding kernel, "
                                     "got '" + key + "'");
    if (value.getAsInteger(10, this->*number->member) || this->*number->member < number->least)
      return llvm::createStringError("expected a number of at least " + llvm::Twine(number->least) + " for '" + key +
                                     "', got '" + value + "'");
  }
  return llvm::Error::success();
}

std::optional<bool> flashc::isOfDecoding(StringRef overrides) {
  auto isAsked = [&](StringRef field) { return hasOverride(overrides, field); };
  if (llvm::any_of(std::array{"chunk", "merge", "warps"}, isAsked))
    return true;
  for (const auto &field : Schedule().getFields())
    if (!llvm::is_contained({"stages", "splits"}, StringRef(field.first)) && isAsked(field.first))
      return false;
  return std::nullopt;
}

llvm::Error flashc::checkOverrides(StringRef overrides) {
  if (isOfDecoding(overrides).value_or(false))
    return DecodeSchedule().override(overrides);
  Schedule schedule;
  return overrideSchedule(schedule, overrides);
}

llvm::Error DecodeSchedule::check(const GPUTarget &target, int64_t bytes) const {
  if (warps > 16)
    return llvm::createStringError("expected at most 16 warps, got " + llvm::Twine(warps));
  if (chunk % kKeys != 0)
    return llvm::createStringError("expected chunks of a multiple of " + llvm::Twine(kKeys) + " keys, got " + llvm::Twine(chunk));
  if (int64_t cluster = getCluster(); cluster > 1) {
    if (!target.hasClusters)
      return llvm::createStringError("expected merge=kernel on " + target.name + ", which has no clusters");
    if (cluster > kMostCluster || !llvm::isPowerOf2_64(cluster) || warps % cluster != 0)
      return llvm::createStringError("expected 2, 4 or 8 splits that divide the warps for merge=cluster, got " +
                                     llvm::Twine(splits) + " of " + llvm::Twine(warps) + " warps");
  }
  if (chunk != 0 && merge == Merge::Cluster)
    return llvm::createStringError("expected merge=kernel for chunks, whose number is that of the longest sequence");
  int64_t ofCTA = warps * stages * bytes;
  if (ofCTA > target.maxSharedMemory)
    return llvm::createStringError("expected at most " + llvm::Twine(target.maxSharedMemory) + " bytes of shared memory, got " +
                                   llvm::Twine(ofCTA));
  return llvm::Error::success();
}

/// Of the rings of a CTA, beside what merges take: deep heads have room for fewer warps.
static constexpr int64_t kMostRingBytes = 200 << 10;

/// The choice where elements have 8 bits: many warps on all multiprocessors, since it is instructions that take the time.
static DecodeChoice chooseForBytes(const DecodeShape &shape, int64_t tiles, int64_t smCount) {
  DecodeSchedule schedule;
  constexpr int64_t kWideKey = 256;
  if (tiles > smCount) {
    schedule.warps = shape.keyBytes < kWideKey ? 12 : 4;
    return {schedule, "the tiles of all sequences and heads are more than the multiprocessors"};
  }
  schedule.warps = 12;
  int64_t mostParts = std::max<int64_t>(shape.keys / (DecodeSchedule::kKeys * schedule.warps), 1);
  schedule.splits = std::min(std::max<int64_t>(smCount / tiles, 1), mostParts);
  if (schedule.splits > 1)
    schedule.merge = Merge::Kernel;
  return {schedule, "a CTA for each multiprocessor: elements of 8 bits take more instructions than bytes"};
}

/// The choice for a GPU with clusters.
static DecodeChoice choose(const DecodeShape &shape, int64_t smCount) {
  DecodeSchedule schedule;
  int64_t rows = shape.groupSize * std::max<int64_t>(shape.queries, 1);
  int64_t tiles = shape.batches * shape.keyHeads * llvm::divideCeil(rows, DecodeSchedule::kRows);
  if (schedule.warps * schedule.stages * DecodeSchedule::kKeys * shape.keyBytes > kMostRingBytes)
    schedule.warps = 4;
  if (tiles == 0 || shape.keys == 0) {
    schedule.splits = 4;
    return {schedule, "the batch, the heads or the keys are not known: four parts"};
  }
  constexpr int64_t kManyBytes = 300 << 20, kManyNarrowBytes = 16 << 20;
  int64_t bytes = shape.batches * shape.keyHeads * shape.keys * shape.keyBytes;
  if (shape.isWidened && (tiles > smCount || bytes >= kManyNarrowBytes))
    return chooseForBytes(shape, tiles, smCount);
  if (tiles > smCount) {
    // Smaller CTAs share a multiprocessor: all of them run at once, or in two waves that end together. The more there are,
    // the less it matters how the last ones end, and the more what each begins with. Narrow rows end sooner.
    constexpr int64_t kWideKey = 512;
    bool isWide = shape.keyBytes >= kWideKey;
    if (tiles <= (isWide ? 4 : 16) * smCount) {
      bool isOneWave = tiles <= 3 * smCount;
      if (isWide && !isOneWave && schedule.warps > 4)
        schedule.stages = 3;
      schedule.warps = 4;
    }
    return {schedule, "the tiles of all sequences and heads are more than the multiprocessors"};
  }
  // A multiprocessor has one CTA, whose rings are all that is under way: narrow rows need more of them.
  constexpr int64_t kBytesUnderWay = 128 << 10;
  if (2 * schedule.warps * schedule.stages * DecodeSchedule::kKeys * shape.keyBytes <= kBytesUnderWay)
    schedule.stages *= 2;
  // A few tiles of keys for each warp, or the merge costs more than the part saves.
  int64_t mostParts = std::max<int64_t>(shape.keys / (DecodeSchedule::kKeys * schedule.warps), 1);
  if (bytes < kManyBytes || tiles > smCount / 2) {
    // Pairs of CTAs fit on all multiprocessors, larger clusters on 85% of them. Where keys are read for several tiles of rows,
    // and the memory does not keep all of these waiting, more CTAs are always worth it.
    auto getMostCTAs = [&] { return rows > DecodeSchedule::kRows && schedule.splits == 1 ? smCount : smCount * 17 / 20; };
    while (schedule.splits < std::min(DecodeSchedule::kMostCluster, schedule.warps) && 2 * schedule.splits * tiles <= getMostCTAs() &&
           2 * schedule.splits <= mostParts)
      schedule.splits *= 2;
    return {schedule, "as many CTAs as fit beside each other, in clusters"};
  }
  schedule.splits = std::min(std::max<int64_t>(smCount / tiles, 1), mostParts);
  if (schedule.splits > 1)
    schedule.merge = Merge::Kernel;
  return {schedule, "a CTA for each multiprocessor: the cache is large, and the merge is small beside it"};
}

std::string flashc::chooseForwardSplits(const DecodeShape &shape, int64_t smCount) {
  int64_t rows = shape.groupSize * shape.queries, heads = shape.batches * shape.keyHeads;
  if (shape.isWidened || rows <= DecodeSchedule::kRows || heads == 0 || shape.keys == 0)
    return "";
  // What a key costs, in units of a forward kernel's CTA: all waves of CTAs pass over their part of the keys.
  auto getCost = [&](int64_t tiles, int64_t parts) { return double(llvm::divideCeil(tiles * parts, smCount)) / parts; };
  // A tile has rows of one query head: 256 of narrow ones, unless that is more than there are. Merging parts takes as long
  // as some keys, and decoding 16 rows half as long as those.
  constexpr int64_t kNarrowKey = 256, kTileRows = 128, kLeastKeys = 256;
  constexpr double kMergedKeys = 400, kDecodedTile = 0.53;
  bool isNarrow = shape.keyBytes <= kNarrowKey, isShort = shape.queries <= kTileRows;
  int64_t tiles = heads * shape.groupSize * llvm::divideCeil(shape.queries, isNarrow && !isShort ? 2 * kTileRows : kTileRows);
  int64_t parts = std::max<int64_t>(std::min(smCount / tiles, shape.keys / kLeastKeys), 1);
  double cost = getCost(tiles, 1);
  if (double ofParts = getCost(tiles, parts) + kMergedKeys / shape.keys; ofParts < cost && !shape.isMaskedByArrays)
    cost = ofParts;
  else
    parts = 1;
  int64_t decoded = heads * llvm::divideCeil(rows, DecodeSchedule::kRows);
  if (kDecodedTile * getCost(decoded, choose(shape, smCount).schedule.splits) <= cost)
    return "";
  return "splits=" + std::to_string(parts) + (parts > 1 && isNarrow && isShort ? ",consumers=2,kv-tile=128" : "");
}

DecodeChoice flashc::chooseDecodeSchedule(const DecodeShape &shape, int64_t smCount, const GPUTarget &target) {
  DecodeChoice choice = choose(shape, smCount);
  if (!target.hasClusters && choice.schedule.splits > 1)
    choice.schedule.merge = Merge::Kernel;
  return choice;
}
