//===- TileMapTest.cpp - maps of tiles ----------------------------------------------------------------------------===//

#include "flashc/Analysis/TileMap.h"
#include "gtest/gtest.h"

using namespace flashc;
using llvm::DynamicAPInt;

static TileCounts makeCounts(int64_t skipped, int64_t partial, int64_t full) {
  return {DynamicAPInt(skipped), DynamicAPInt(partial), DynamicAPInt(full)};
}

/// Rows 1, 3 and 5: two columns from 0, three from 2, four from 4.
static const TilePatch kStairs{TileClass::Full, 1, 2, 3, 0, 2, 2, 1};

TEST(TileMap, CountsEveryHeadThatSharesAMap) {
  TileGrid grid{2, 3, 100, 130, 64, 32};
  EXPECT_EQ(grid.getRows(), 2);
  EXPECT_EQ(grid.getColumns(), 5);
  for (bool byBatch : {false, true})
    for (bool byHead : {false, true}) {
      TileMap map(grid, byBatch, byHead);
      EXPECT_EQ(map.count(), makeCounts(60, 0, 0));
      map.add(1, 2, {TileClass::Full, 1, 1, 1, 4});
      map.add(1, 2, {TileClass::Partial, 0, 1, 1, 3});
      EXPECT_EQ(map.getTiles(1, 2)[9], TileClass::Full);
      EXPECT_EQ(map.count(1, 2), makeCounts(8, 1, 1));
      int64_t heads = (byBatch ? 1 : 2) * (byHead ? 1 : 3);
      EXPECT_EQ(map.count(), makeCounts(60 - 2 * heads, heads, heads));
      EXPECT_EQ(map.count(0, 2).full, byBatch ? 0 : 1);
      EXPECT_EQ(map.count(1, 0).full, byHead ? 0 : 1);
    }
}

TEST(TileMap, ListsWhatItCounts) {
  TileMap map({1, 1, 6, 8, 1, 1}, false, false);
  map.add(0, 0, kStairs);
  map.add(0, 0, {TileClass::Partial, 0, 1, 6, 7});
  // The last of the stairs ends where the wall is.
  EXPECT_EQ(map.findSharedTile(), (std::array<int64_t, 2>{5, 7}));
  std::string text;
  for (TileClass tile : map.getTiles(0, 0))
    text += ".pF"[int(tile)];
  EXPECT_EQ(text.substr(0, 24), ".......pFF.....p.......p");
  EXPECT_EQ(text.substr(24, 16), "..FFF..p.......p");
  EXPECT_EQ(map.count(), makeCounts(48 - 9 - 6, 6, 9));
}

TEST(TileMap, PatchesInTurnShareNothing) {
  TileMap map({1, 1, 6, 9, 1, 1}, false, false);
  map.add(0, 0, kStairs);
  TilePatch between = kStairs, behind = kStairs;
  between.row = 0; // the rows that are left out
  behind = {TileClass::Partial, 1, 2, 3, 2, 3, 1, 0};
  map.add(0, 0, between);
  map.add(0, 0, behind);
  EXPECT_EQ(map.findSharedTile(), std::nullopt);
  map.add(0, 0, {TileClass::Partial, 3, 1, 1, 4, 0, 1, 0});
  EXPECT_EQ(map.findSharedTile(), (std::array<int64_t, 2>{3, 4}));
}

TEST(TileMap, BlocksAreFullOrSkippedIfAllOfTheirTilesAre) {
  TileMap map({1, 1, 5, 7, 1, 1}, false, false);
  map.add(0, 0, {TileClass::Full, 0, 1, 4, 0, 0, 3, 0});
  map.add(0, 0, {TileClass::Partial, 0, 1, 2, 4, 0, 2, 0});
  map.add(0, 0, {TileClass::Full, 4, 1, 1, 0, 0, 7, 0});
  std::string text;
  for (TileClass block : map.getBlocks(0, 0, 2))
    text += ".pF"[int(block)];
  EXPECT_EQ(text, "Fpp."
                  "Fp.."
                  "FFFF");
}

TEST(TileMap, CountsBeyond64Bits) {
  int64_t extent = std::numeric_limits<int32_t>::max();
  TileMap map({extent, extent, extent, extent, 64, 64}, false, false);
  int64_t side = map.getGrid().getRows();
  map.add(0, 0, {TileClass::Full, 0, 1, side, 0, 0, 1, 1}); // a triangle
  DynamicAPInt triangle = DynamicAPInt(side) * (side + 1) / 2 * extent * extent;
  EXPECT_EQ(map.count().full, triangle);
  EXPECT_EQ(map.count().total(), DynamicAPInt(side) * side * extent * extent);
}
