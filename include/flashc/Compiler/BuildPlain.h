//===- BuildPlain.h - what surrounds attention, from plain values -------------------------------------------------===//
//
// As BuildAttention.h: the text comes first, and the module is parsed from it. All extents but depths are known at
// launch only.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDPLAIN_H
#define FLASHC_COMPILER_BUILDPLAIN_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace flashc {

/// flash.merge_states. Types are bf16, f16 or f32.
struct MergeSpec {
  /// Of the parts, and of the output.
  std::string partsType = "f32", outputType = "bf16";
  int64_t valueDim = 0;
  bool hasSinks = false;
};

/// flash.append_kv.
struct AppendSpec {
  /// Of keys, values and caches: bf16, f16 or f32.
  std::string dtype = "bf16";
  int64_t headDim = 0, valueDim = 0;
  bool isPaged = false, hasCounts = false;
  /// Columns of a key that are rotated; 0: no rotation.
  int64_t rotaryDim = 0;
  /// Of cos and sin: f32 or `dtype`.
  std::string rotaryType = "f32";
  bool isInterleaved = false;
  /// Sequences begin at a row of their own, which rotation counts from.
  bool hasLeftpad = false;
  /// The type of caches of 8 bits, f8E4M3FN or i8, with scales; empty: `dtype`, without. Whether pages, or key heads,
  /// have scales of their own.
  std::string cacheDType = {};
  bool hasPageScales = false, hasHeadScales = false;
};

/// The text of a module with one function; or an error that says which field is wrong, by its name in flashc.h. What
/// the text form can express and the op does not allow is left to the op's verifier. They are
///
///     @merge_states(%o_parts, %lse_parts, [%sinks]) -> (o, lse)                                          on tensors
///     @append_kv(%k, %v, %positions, [%counts], [%table], [%leftpad], [%cos, %sin], [%k_scale, %v_scale], %k_cache,
///                %v_cache)                                                                           on memrefs
llvm::Expected<std::string> printMerge(const MergeSpec &spec);
llvm::Expected<std::string> printAppend(const AppendSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDPLAIN_H
