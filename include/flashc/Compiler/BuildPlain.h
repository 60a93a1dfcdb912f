//===- BuildPlain.h - what surrounds attention, from plain values -------------------------------------------------===//
// The functions print the text of a module, as in BuildAttention.h. All extents except for depths are known at launch
// only.
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
  /// Whether each sequence begins at its own row of the cache, from which rotation counts.
  bool hasLeftpad = false;
  /// The element type of 8-bit caches with scales, f8E4M3FN or i8; empty for caches of `dtype` without scales. The
  /// flags say whether each page, and each key head, has its own scale.
  std::string cacheDType = {};
  bool hasPageScales = false, hasHeadScales = false;
};

/// Print a module with one function. The error names the wrong field as flashc.h does. The op's verifier rejects
/// everything else that the op does not allow. The functions are
///
///     on tensors: @merge_states(%o_parts, %lse_parts, [%sinks]) -> (o, lse)
///     on memrefs: @append_kv(%k, %v, %positions, [%counts], [%table], [%leftpad], [%cos, %sin], [%k_scale, %v_scale],
///         %k_cache, %v_cache)
llvm::Expected<std::string> printMerge(const MergeSpec &spec);
llvm::Expected<std::string> printAppend(const AppendSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDPLAIN_H
