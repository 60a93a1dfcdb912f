//===- TileMapTest.cpp - maps of tiles ----------------------------------------------------------------------------===//

#include "flashc/Analysis/TileMap.h"
#include "gtest/gtest.h"

using namespace flashc;
using llvm::DynamicAPInt;

static TileCounts makeCounts(int64_t skipped, int64_t partial, int64_t full) {
  return {DynamicAPInt(skipped), DynamicAPInt(partial), DynamicAPInt(full)};
}

TEST(TileMap, CountsEveryHeadThatSharesAMap) {
  TileGrid grid{2, 3, 100, 130, 64, 32};
  EXPECT_EQ(grid.getRows(), 2);
  EXPECT_EQ(grid.getColumns(), 5);
  for (bool byBatch : {false, true})
    for (bool byHead : {false, true}) {
      TileMap map(grid, byBatch, byHead);
      EXPECT_EQ(map.count(), makeCounts(60, 0, 0));
      EXPECT_TRUE(map.add(1, 2, 1, {TileClass::Full, 4, 5}));
      EXPECT_TRUE(map.add(1, 2, 0, {TileClass::Partial, 3, 4}));
      EXPECT_EQ(map.getTiles(1, 2)[9], TileClass::Full);
      EXPECT_EQ(map.count(1, 2), makeCounts(8, 1, 1));
      int64_t heads = (byBatch ? 1 : 2) * (byHead ? 1 : 3);
      EXPECT_EQ(map.count(), makeCounts(60 - 2 * heads, heads, heads));
      EXPECT_EQ(map.count(0, 2).full, byBatch ? 0 : 1);
      EXPECT_EQ(map.count(1, 0).full, byHead ? 0 : 1);
    }
}

TEST(TileMap, TakesEachTileOnce) {
  TileMap map({1, 1, 2, 8, 1, 1}, false, false);
  EXPECT_TRUE(map.add(0, 0, 0, {TileClass::Full, 2, 4}));
  EXPECT_TRUE(map.add(0, 0, 0, {TileClass::Full, 4, 5}));
  EXPECT_TRUE(map.add(0, 0, 0, {TileClass::Partial, 0, 2}));
  EXPECT_FALSE(map.add(0, 0, 0, {TileClass::Partial, 4, 7}));
  EXPECT_TRUE(map.add(0, 0, 1, {TileClass::Partial, 4, 7}));
  std::string text;
  for (TileClass tile : map.getTiles(0, 0))
    text += ".pF"[int(tile)];
  EXPECT_EQ(text, "ppFFF......."
                  "ppp.");
}

// Rows 2, 6 and 10 of 11 rows are known. In each of them, as many tiles are visited as the row's number says.
TEST(TileMap, EstimatesFromTheMiddleOfEveryFewRows) {
  TileMap map({1, 2, 11, 100, 1, 1}, false, false, 4);
  EXPECT_TRUE(map.isSample());
  EXPECT_EQ(map.getKnownRows(), 3);
  for (int64_t row = 0; row < 11; ++row)
    if (map.isKnown(row)) {
      EXPECT_TRUE(map.add(0, 0, row, {TileClass::Partial, 50, 50 + row}));
    }
  EXPECT_EQ(map.count(0, 1), makeCounts(1100 - 66, 66, 0));
  EXPECT_EQ(map.count(), makeCounts(2200 - 132, 132, 0));
  EXPECT_EQ(TileMap({1, 1, 3, 3, 1, 1}, false, false, 7).getKnownRows(), 1);
}

TEST(TileMap, CountsBeyond64Bits) {
  int64_t extent = std::numeric_limits<int32_t>::max();
  TileMap map({extent, extent, extent, extent, 64, 64}, false, false, extent);
  int64_t side = map.getGrid().getRows();
  EXPECT_TRUE(map.add(0, 0, map.getFirstRow(), {TileClass::Full, 0, side}));
  EXPECT_EQ(map.count().full, DynamicAPInt(side) * side * extent * extent);
  EXPECT_EQ(map.count().total(), map.count().full);
}
