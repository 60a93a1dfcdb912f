//===- TileMapImage.cpp - a tile map to look at -------------------------------------------------------------------===//

#include "flashc/Compiler/Explain.h"
#include "flashc/Compiler/PNG.h"

using namespace flashc;

/// Of a picture, in pixels.
static constexpr int64_t kMaxSide = 2048;

int64_t flashc::getTileMapBlock(const TileGrid &grid) {
  return llvm::divideCeil(std::max(grid.getRows(), grid.getColumns()), kMaxSide);
}

/// The side of a tile in pixels: small maps become about as large as a window, large ones stay as they are.
static int64_t getScale(const TileGrid &grid) {
  return std::clamp<int64_t>(512 / std::max(grid.getRows(), grid.getColumns()), 1, 32);
}

std::string flashc::drawTileMap(const TileMap &tiles, int64_t batch, int64_t head) {
  constexpr uint8_t kLine = 3; // behind the classes
  constexpr int64_t kLeastScaleWithLines = 8;
  const TileGrid &grid = tiles.getGrid();
  int64_t block = getTileMapBlock(grid), scale = getScale(grid), lines = scale >= kLeastScaleWithLines;
  int64_t columns = llvm::divideCeil(grid.getColumns(), block), rows = llvm::divideCeil(grid.getRows(), block);
  Image image;
  image.colours = {{0xE8, 0xE8, 0xE8}, {0xF2, 0x8E, 0x2B}, {0x4E, 0x79, 0xA7}, {0xFF, 0xFF, 0xFF}};
  image.width = columns * scale + lines;
  image.height = rows * scale + lines;
  std::vector<TileClass> classes = block > 1 ? tiles.getBlocks(batch, head, block) : tiles.getTiles(batch, head);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      bool isLine = lines && (x % scale == 0 || y % scale == 0);
      image.pixels.push_back(isLine ? kLine : uint8_t(classes[y / scale * columns + x / scale]));
    }
  return encodePNG(image);
}
