//===- PNG.h - an image file of few colours -----------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_PNG_H
#define FLASHC_COMPILER_PNG_H

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace flashc {

/// Pixels as numbers of colours, row by row from the top.
struct Image {
  uint32_t width = 0, height = 0;
  /// Red, green and blue of up to 256 colours.
  std::vector<std::array<uint8_t, 3>> colours;
  std::vector<uint8_t> pixels;
};

/// The bytes of a PNG file (W3C, "Portable Network Graphics", third edition) with a palette. `mayCompress`: by zlib if
/// LLVM has it; the bytes are stored as they are otherwise.
std::string encodePNG(const Image &image, bool mayCompress = true);

} // namespace flashc

#endif // FLASHC_COMPILER_PNG_H
