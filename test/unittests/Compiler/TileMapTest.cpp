//===- TileMapTest.cpp - maps of tiles ----------------------------------------------------------------------------===//

#include "flashc/Analysis/TileMap.h"
#include "gtest/gtest.h"

using namespace flashc;

TEST(TileMap, CountsEveryHeadThatSharesAMap) {
  TileGrid grid{2, 3, 100, 130, 64, 32};
  EXPECT_EQ(grid.getRows(), 2);
  EXPECT_EQ(grid.getColumns(), 5);
  for (bool byBatch : {false, true})
    for (bool byHead : {false, true}) {
      TileMap map(grid, byBatch, byHead);
      EXPECT_EQ(map.count(), (TileCounts{60, 0, 0}));
      map.at(1, 2, 1, 4) = TileClass::Full;
      map.at(1, 2, 0, 3) = TileClass::Partial;
      EXPECT_EQ(map.getTiles(1, 2)[9], TileClass::Full);
      EXPECT_EQ(map.count(1, 2), (TileCounts{8, 1, 1}));
      int64_t heads = (byBatch ? 1 : 2) * (byHead ? 1 : 3);
      EXPECT_EQ(map.count(), (TileCounts{60 - 2 * heads, heads, heads}));
      EXPECT_EQ(map.count(0, 2).full, byBatch ? 0 : 1);
      EXPECT_EQ(map.count(1, 0).full, byHead ? 0 : 1);
    }
}
