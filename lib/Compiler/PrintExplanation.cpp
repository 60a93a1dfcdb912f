//===- PrintExplanation.cpp - an explanation as text and as JSON --------------------------------------------------===//

#include "flashc/Analysis/Cost.h"
#include "flashc/Compiler/Explain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace flashc;
namespace json = llvm::json;

static void printLines(llvm::raw_ostream &os, llvm::StringRef title, const std::vector<std::string> &lines) {
  for (auto [number, line] : llvm::enumerate(lines))
    os << (number == 0 ? title : llvm::StringRef()) << (number == 0 ? "\n  " : "  ") << line << "\n";
}

static void printShare(llvm::raw_ostream &os, llvm::StringRef name, const llvm::DynamicAPInt &count,
                       const llvm::DynamicAPInt &total) {
  os << llvm::formatv("  {0,-8}{1,12}{2,8:f1} %\n", name, llvm::to_string(count),
                      100.0 * toDouble(count) / toDouble(total));
}

/// Calls `visit` for every batch and head that has its own map. Passes a text that names the batch and the head.
static void forEachMap(const TileMap &tiles, llvm::function_ref<void(int64_t, int64_t, const std::string &)> visit) {
  for (int64_t batch = 0; batch < tiles.getNumBatches(); ++batch)
    for (int64_t head = 0; head < tiles.getNumHeads(); ++head) {
      std::string name;
      if (tiles.getVariesByBatch())
        name += "batch " + std::to_string(batch);
      if (tiles.getVariesByHead())
        name += (name.empty() ? "head " : ", head ") + std::to_string(head);
      visit(batch, head, name);
    }
}

/// Prints a line for each batch and head, unless all their counts are equal.
static void printEach(llvm::raw_ostream &os, const TileMap &tiles) {
  constexpr int64_t kMaxLines = 64;
  TileCounts first = tiles.count(0, 0);
  bool differ = false;
  forEachMap(tiles,
             [&](int64_t batch, int64_t head, const std::string &) { differ |= !(tiles.count(batch, head) == first); });
  if (!differ)
    return;
  os << (tiles.getVariesByHead() ? "each head:\n" : "each head of a batch:\n");
  int64_t lines = 0;
  forEachMap(tiles, [&](int64_t batch, int64_t head, const std::string &name) {
    TileCounts counts = tiles.count(batch, head);
    if (lines++ < kMaxLines)
      os << "  " << name << ": skipped " << counts.skipped << ", partial " << counts.partial << ", full " << counts.full
         << "\n";
  });
  if (lines > kMaxLines)
    os << "  and " << lines - kMaxLines << " more\n";
}

std::string Explanation::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  const TileGrid &grid = tiles.getGrid();
  os << "explain @" << function << " (B = " << grid.batch << ", Hq = " << grid.heads << ", Nq = " << grid.queries
     << ", Nk = " << grid.keys << ")\n";
  os << "mask: " << mask.maskClass << "\n";
  for (const std::string &reason : mask.reasons)
    os << "  because " << reason << "\n";
  if (mask.formulas.empty() && mask.reasons.empty())
    os << "keeps every pair\n";
  printLines(os, "keeps the pairs (i, j) with", mask.formulas);
  printLines(os,
             grid.streamsQueries ? "visits the queries, for keys j0 to j0 + keys - 1"
                                 : "visits the keys, for queries i0 to i0 + rows - 1",
             mask.bounds);
  os << "tiles: " << grid.qTile << " queries x " << grid.kvTile << " keys, " << tileSource << "\n";
  TileCounts counts = tiles.count();
  os << "of " << counts.total() << " tiles (" << grid.batch * grid.heads << " heads of " << grid.getRows() << " x "
     << grid.getColumns() << ")";
  if (tiles.isSample())
    os << ", estimated from " << tiles.getKnownRows() << " rows of each head";
  os << "\n";
  printShare(os, "skipped", counts.skipped, counts.total());
  printShare(os, "partial", counts.partial, counts.total());
  printShare(os, "full", counts.full, counts.total());
  printEach(os, tiles);
  return text;
}

static void writeLines(json::OStream &writer, llvm::StringRef name, const std::vector<std::string> &lines) {
  writer.attributeArray(name, [&] {
    for (const std::string &line : lines)
      writer.value(line);
  });
}

std::string Explanation::toJSON() const {
  const TileGrid &grid = tiles.getGrid();
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream writer(os, /*IndentSize=*/2);
  writer.object([&] {
    writer.attribute("function", function);
    writer.attribute("mask_class", mask.maskClass);
    writeLines(writer, "reasons", mask.reasons);
    writeLines(writer, "formulas", mask.formulas);
    writeLines(writer, "bounds", mask.bounds);
    writer.attribute("tile", json::Array{grid.qTile, grid.kvTile});
    writer.attribute("tile_source", tileSource);
    writer.attribute("batch", grid.batch);
    writer.attribute("heads", grid.heads);
    writer.attribute("queries", grid.queries);
    writer.attribute("keys", grid.keys);
    writer.attribute("streams_queries", grid.streamsQueries);
    writer.attribute("rows", grid.getRows());
    writer.attribute("columns", grid.getColumns());
    writer.attribute("varies_by_batch", tiles.getVariesByBatch());
    writer.attribute("varies_by_head", tiles.getVariesByHead());
    writer.attribute("counted_rows", tiles.getKnownRows());
    writer.attributeObject("counts", [&] {
      // The counts may exceed json::Value's integers.
      TileCounts counts = tiles.count();
      for (auto [name, count] :
           {std::pair("skipped", counts.skipped), {"partial", counts.partial}, {"full", counts.full}})
        writer.attributeBegin(name), writer.rawValue(llvm::to_string(count)), writer.attributeEnd();
    });
  });
  return text;
}
