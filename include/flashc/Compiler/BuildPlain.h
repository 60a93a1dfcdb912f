//===- BuildPlain.h - what surrounds attention, from plain values -------------------------------------------------===//
// Like BuildAttention.h, prints the text of modules. All extents except for depths become known only at launch.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDPLAIN_H
#define FLASHC_COMPILER_BUILDPLAIN_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace flashc {

/// A flash.merge_states. Types are bf16, f16 or f32.
struct MergeSpec {
  /// The element types of the parts and of the output.
  std::string partsType = "f32", outputType = "bf16";
  int64_t valueDim = 0;
  bool hasSinks = false;
};

/// A flash.append_kv.
struct AppendSpec {
  /// The element type of keys, values and caches: bf16, f16 or f32.
  std::string dtype = "bf16";
  int64_t headDim = 0, valueDim = 0;
  bool isPaged = false, hasCounts = false;
  /// The number of columns of a key that are rotated; 0 means no rotation.
  int64_t rotaryDim = 0;
  /// The element type of cos and sin: f32 or `dtype`.
  std::string rotaryType = "f32";
  bool isInterleaved = false;
  /// Whether each sequence begins at a row of its own in the cache. Rotation then counts from that row.
  bool hasLeftpad = false;
  /// For 8-bit caches with scales: their element type, f8E4M3FN or i8. Empty for caches of `dtype` without scales. The
  /// two flags below say whether each page, and whether each key head, has a scale of its own.
  std::string cacheDType = {};
  bool hasPageScales = false, hasHeadScales = false;
  /// Whether the new tokens of all sequences are packed, in keys and values without a batch.
  bool hasOffsets = false;
};

/// Each of these prints a module with one function. The error names the wrong field by its name in flashc.h. Mistakes
/// that are not checked here are found by the op's verifier, when the text is parsed. The functions are
///
///     on tensors: @merge_states(%o_parts, %lse_parts, [%sinks]) -> (o, lse)
///     on memrefs: @append_kv(%k, %v, %positions, [%offsets], [%counts], [%table], [%leftpad], [%cos, %sin],
///         [%k_scale, %v_scale], %k_cache, %v_cache)
llvm::Expected<std::string> printMerge(const MergeSpec &spec);
llvm::Expected<std::string> printAppend(const AppendSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDPLAIN_H
