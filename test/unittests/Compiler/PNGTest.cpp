//===- PNGTest.cpp - image files, read back -----------------------------------------------------------------------===//

#include "flashc/Compiler/PNG.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

#include <map>

using namespace flashc;
namespace endian = llvm::support::endian;

/// The chunks of a file by their types, their checksums checked.
static std::map<std::string, std::string> readChunks(llvm::StringRef file) {
  std::map<std::string, std::string> chunks;
  EXPECT_TRUE(file.consume_front("\x89PNG\r\n\x1a\n"));
  while (file.size() >= 12) {
    uint32_t size = endian::read32be(file.data());
    llvm::StringRef checked = file.substr(4, size + 4);
    EXPECT_EQ(endian::read32be(file.data() + 8 + size), llvm::crc32(llvm::arrayRefFromStringRef(checked)));
    chunks[checked.take_front(4).str()] += checked.drop_front(4);
    file = file.drop_front(size + 12);
  }
  EXPECT_TRUE(file.empty());
  return chunks;
}

static std::vector<uint8_t> inflate(llvm::StringRef stream, size_t size) {
  llvm::SmallVector<uint8_t, 0> data;
  EXPECT_EQ(llvm::toString(llvm::compression::zlib::decompress(llvm::arrayRefFromStringRef(stream), data, size)), "");
  return {data.begin(), data.end()};
}

static Image makeImage(uint32_t width, uint32_t height) {
  Image image{width, height, {{1, 2, 3}, {255, 254, 253}, {0, 128, 0}}, {}};
  for (uint32_t pixel = 0; pixel < width * height; ++pixel)
    image.pixels.push_back(pixel * 7 % 3);
  return image;
}

TEST(PNG, RowsComeBackHoweverTheyArePacked) {
  if (!llvm::compression::zlib::isAvailable())
    GTEST_SKIP() << "LLVM without zlib cannot unpack";
  // The last one takes several blocks that are stored, the last of which is full.
  for (auto [width, height] : {std::pair(1u, 1u), {5u, 3u}, {65534u, 2u}, {300u, 500u}})
    for (bool mayCompress : {true, false}) {
      Image image = makeImage(width, height);
      std::map<std::string, std::string> chunks = readChunks(encodePNG(image, mayCompress));
      EXPECT_EQ(chunks["PLTE"], std::string("\x01\x02\x03\xff\xfe\xfd\x00\x80\x00", 9));
      ASSERT_EQ(chunks["IHDR"].size(), 13u);
      EXPECT_EQ(endian::read32be(chunks["IHDR"].data()), width);
      EXPECT_EQ(endian::read32be(chunks["IHDR"].data() + 4), height);
      EXPECT_EQ(chunks["IHDR"].substr(8), std::string("\x08\x03\x00\x00\x00", 5));
      EXPECT_TRUE(chunks.count("IEND"));
      std::vector<uint8_t> rows = inflate(chunks["IDAT"], size_t(width + 1) * height);
      ASSERT_EQ(rows.size(), size_t(width + 1) * height);
      for (uint32_t row = 0; row < height; ++row) {
        EXPECT_EQ(rows[row * (width + 1)], 0);
        EXPECT_TRUE(std::equal(image.pixels.begin() + row * width, image.pixels.begin() + (row + 1) * width,
                               rows.begin() + row * (width + 1) + 1));
      }
      if (mayCompress && width > 100) {
        EXPECT_LT(chunks["IDAT"].size(), image.pixels.size() / 4);
      }
    }
}
