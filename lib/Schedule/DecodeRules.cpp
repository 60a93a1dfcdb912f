//===- DecodeRules.cpp - rules of decoding kernels ----------------------------------------------------------------===//

#include "RuleTable.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace flashc;

/// Whether the number of parts is still to be chosen.
static bool isOpen(const Draft &d) { return !d.isSaid("splits") && d.s.chunk == 0 && d.question.cache; }

static bool hasExtents(const Draft &d) { return d.question.countDecodedTiles() > 0 && d.question.cache->keys > 0; }

/// The largest number of parts: each warp has at least one tile of keys in each part. With more parts, the merge would
/// cost more than they save.
static int64_t getMostParts(const Draft &d) {
  return std::max<int64_t>(d.question.cache->keys / (DecodeSchedule::kKeys * d.s.warps), 1);
}

static int64_t countParts(const Draft &d) {
  int64_t filling = std::max<int64_t>(d.question.cache->multiprocessors / d.question.countDecodedTiles(), 1);
  return std::min(filling, getMostParts(d));
}

/// The number of parts that are merged in clusters. It is doubled as long as all CTAs run at the same time on 85% of
/// the multiprocessors. Two parts may use all multiprocessors if several tiles of rows read the same keys.
static int64_t countClusterParts(const Draft &d) {
  int64_t multiprocessors = d.question.cache->multiprocessors, parts = 1;
  auto countCTAs = [&] {
    return d.question.countRows() > DecodeSchedule::kRows && parts == 1 ? multiprocessors : multiprocessors * 17 / 20;
  };
  int64_t most = std::min({getMostParts(d), DecodeSchedule::kMostCluster, d.s.warps});
  while (2 * parts <= most && 2 * parts * d.question.countDecodedTiles() <= countCTAs())
    parts *= 2;
  return parts;
}

static int64_t getRingBytes(const Draft &d) {
  return d.question.cache ? d.s.warps * d.s.stages * d.question.getDecodedTileBytes() : 0;
}

static bool hasRoom(const Draft &d) { return getRingBytes(d) <= d.target().maxSharedMemory; }

/// The rules in order; docs/schedules.md contains them as a table.
static const Rule kRules[] = {
    {"warps", "no override sets it, and shared memory has no room for the rings of so many warps", "half of it",
     [](const Draft &d) { return d.s.warps > 1 && !hasRoom(d); }, nullptr,
     [](Draft &d) {
       while (d.s.warps > 1 && !hasRoom(d))
         d.s.warps /= 2;
     }},
    {"splits", "neither the row nor an override sets it, `chunk` is 0, and an extent is known only at launch", "4",
     [](const Draft &d) { return isOpen(d) && !hasExtents(d); }},
    {"splits", "neither the row nor an override sets it, `chunk` is 0, and the row has `merge=kernel`",
     "a CTA for each multiprocessor, with a tile of keys for each warp",
     [](const Draft &d) { return isOpen(d) && hasExtents(d) && d.ofRow.merge == Merge::Kernel; }, nullptr,
     [](Draft &d) { d.s.splits = countParts(d); }},
    {"splits", "neither the row nor an override sets it, `chunk` is 0, and the row has `merge=cluster`",
     "as many CTAs as fit together in clusters, with a tile of keys for each warp",
     [](const Draft &d) { return isOpen(d) && hasExtents(d) && d.ofRow.merge == Merge::Cluster; }, nullptr,
     [](Draft &d) { d.s.splits = countClusterParts(d); }},
    {"merge", "`chunk` is given", "kernel",
     [](const Draft &d) { return d.s.chunk != 0 && d.s.merge == Merge::Cluster; },
     [](const Draft &) -> std::string {
       return "expected merge=kernel for chunks, whose number is that of the longest sequence";
     }},
    {"merge", "`splits` is 1, and `chunk` is 0", "cluster",
     [](const Draft &d) { return d.s.chunk == 0 && d.s.splits == 1; }},
    {"merge", "`splits` is above 1, and the GPU has no clusters", "kernel",
     [](const Draft &d) { return d.s.getCluster() > 1 && !d.target().hasClusters; },
     [](const Draft &d) { return "expected merge=kernel on " + d.target().name.str() + ", which has no clusters"; }},
    {"merge", "`splits` is not 1, 2, 4 or 8, or does not divide the warps", "kernel",
     [](const Draft &d) {
       int64_t cluster = d.s.getCluster();
       return cluster > DecodeSchedule::kMostCluster || !llvm::isPowerOf2_64(cluster) || d.s.warps % cluster != 0;
     },
     [](const Draft &d) {
       return "expected 2, 4 or 8 splits that divide the warps for merge=cluster, got " + print(d.s.splits) + " of " +
              print(d.s.warps) + " warps";
     }},
    {"warps", "it is above 16", "", [](const Draft &d) { return d.s.warps > 16; },
     [](const Draft &d) { return "expected at most 16 warps, got " + print(d.s.warps); }},
    {"stages", "it is not 2 to 64", "", [](const Draft &d) { return d.s.stages < 2 || d.s.stages > 64; },
     [](const Draft &d) { return "expected 2 to 64 stages, got " + print(d.s.stages); }},
    {"chunk", "it is no multiple of 16", "", [](const Draft &d) { return d.s.chunk % DecodeSchedule::kKeys != 0; },
     [](const Draft &d) {
       return "expected chunks of a multiple of " + print(DecodeSchedule::kKeys) + " keys, got " + print(d.s.chunk);
     }},
    {"stages", "the rings take more shared memory than the hardware has", "",
     [](const Draft &d) { return !hasRoom(d); },
     [](const Draft &d) {
       return "expected at most " + print(d.target().maxSharedMemory) + " bytes of shared memory, got " +
              print(getRingBytes(d));
     }},
};

ArrayRef<Rule> flashc::getDecodeRules() { return kRules; }
