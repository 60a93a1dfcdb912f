//===- PNG.cpp - an image file of few colours ---------------------------------------------------------------------===//

#include "flashc/Compiler/PNG.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/Endian.h"

#include <algorithm>

using namespace flashc;
namespace endian = llvm::support::endian;

/// PNG and zlib write numbers with the highest byte first.
static std::string toBytes(uint32_t value) {
  char bytes[4];
  endian::write32be(bytes, value);
  return std::string(bytes, sizeof(bytes));
}

/// RFC 1950, 8.2.
static uint32_t computeAdler32(llvm::ArrayRef<uint8_t> data) {
  uint32_t a = 1, b = 0;
  for (uint8_t byte : data) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/// A zlib stream (RFC 1950) of blocks that are not compressed (RFC 1951, 3.2.4).
static std::string store(llvm::ArrayRef<uint8_t> data) {
  constexpr size_t kMaxBlock = 65535;
  std::string stream = "\x78\x01"; // deflate, a window of 32 KiB, no dictionary
  size_t at = 0;
  do {
    size_t size = std::min(kMaxBlock, data.size() - at);
    char header[5] = {static_cast<char>(at + size == data.size())}; // whether it is the last block
    endian::write16le(header + 1, static_cast<uint16_t>(size));
    endian::write16le(header + 3, static_cast<uint16_t>(~size));
    stream.append(header, sizeof(header));
    stream += llvm::toStringRef(data.slice(at, size));
    at += size;
  } while (at < data.size());
  return stream + toBytes(computeAdler32(data));
}

static std::string deflate(llvm::ArrayRef<uint8_t> data, bool mayCompress) {
  if (!mayCompress || !llvm::compression::zlib::isAvailable())
    return store(data);
  llvm::SmallVector<uint8_t, 0> compressed;
  llvm::compression::zlib::compress(data, compressed);
  return llvm::toStringRef(compressed).str();
}

/// Length, type, data, checksum of the latter two (PNG, 5.3).
static std::string makeChunk(llvm::StringRef type, llvm::StringRef data) {
  std::string checked = (type + data).str();
  return toBytes(data.size()) + checked + toBytes(llvm::crc32(llvm::arrayRefFromStringRef(checked)));
}

std::string flashc::encodePNG(const Image &image, bool mayCompress) {
  // Eight bits a pixel, colours from a palette, no filter that needs the rows before, not interlaced (PNG, 11.2.1).
  std::string header = toBytes(image.width) + toBytes(image.height) + std::string("\x08\x03\x00\x00\x00", 5);
  std::string palette;
  for (const std::array<uint8_t, 3> &colour : image.colours)
    palette.append(colour.begin(), colour.end());
  std::vector<uint8_t> rows;
  for (uint32_t row = 0; row < image.height; ++row) {
    rows.push_back(0); // the row's filter: none
    auto first = image.pixels.begin() + size_t(row) * image.width;
    rows.insert(rows.end(), first, first + image.width);
  }
  return "\x89PNG\r\n\x1a\n" + makeChunk("IHDR", header) + makeChunk("PLTE", palette) +
         makeChunk("IDAT", deflate(rows, mayCompress)) + makeChunk("IEND", "");
}
