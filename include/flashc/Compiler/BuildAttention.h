//===- BuildAttention.h - an attention from plain values ----------------------------------------------------------===//
// printAttention prints the text of a module, and the module is parsed from it. So every program enters as text: a
// program that the C API builds can be printed, saved, given to the flashc program, and named in a cache. This file
// depends on LLVM's support library only.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDATTENTION_H
#define FLASHC_COMPILER_BUILDATTENTION_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flashc {

/// Marks a function that runs on the CPU as Algorithm 0 with every float widened to f64, also in its arguments.
inline constexpr llvm::StringLiteral kDoubleAttr = "flash.double";

/// O = softmax(score(scale * Q K^T) where mask) V, described by plain values. An extent of -1 is known at launch only.
struct AttentionSpec {
  enum class Operation {
    Attention,
    /// c_j = the sum over i of exp(S_ij - lse_i), for each query head.
    ColumnSums,
    /// The sum of c over the query heads of each key head.
    GroupColumnSums,
    /// The gradients of q, k and v.
    Backward,
    /// The gradient of a capture.
    CapturedGradient
  };

  enum class Mask {
    None,
    /// Query i sees key j when j <= i + Nk - Nq.
    Causal,
    /// Query i sees key j when i + Nk - Nq - windowLeft <= j <= i + Nk - Nq + windowRight.
    Window
  };

  /// An array or a scalar that maskCode or scoreCode reads.
  struct Capture {
    /// An identifier; the code reads it as `%name`.
    std::string name;
    /// bf16, f16, f32, f64, i1, i8, i32 or i64; with isDouble, floats are f64.
    std::string dtype;
    bool isScalar = false;
    llvm::SmallVector<int64_t> shape;
  };

  /// The element type of q, k, v and o: bf16, f16 or f32.
  std::string dtype = "bf16";
  /// Whether the function has kDoubleAttr.
  bool isDouble = false;
  int64_t headDim = 0, valueDim = 0;
  /// Query heads per key head.
  int64_t groupSize = 1;
  float scale = 1.0f;
  Mask mask = Mask::None;
  /// The window; a negative number means no bound on that side.
  int64_t windowLeft = -1, windowRight = -1;
  /// Operations in MLIR's text form, or empty. `maskCode` restricts the mask further. It ends with `flash.yield %keep :
  /// i1` and may read
  /// - %b, %h, %i, %j (index) and the captures;
  /// - %flashc.nq and %flashc.nk (index): Nq and Nk; in a cache Nk is the length of the sequence;
  /// - %flashc.shift (index): the distance from the last query's position to the last key; 0 in a cache, where %i is
  ///   the position in the sequence.
  ///
  /// `scoreCode` replaces the scaled score %s (f32). It may read the same and %s, and ends with `flash.yield %t : f32`.
  std::string maskCode, scoreCode;
  std::vector<Capture> captures;
  int64_t batch = -1, keyHeads = -1, queries = -1, keys = -1;
  /// Whether attention returns the log-sum-exp, and whether the backward pass takes the gradient of the log-sum-exp.
  /// (Column sums and the backward pass always take the log-sum-exp itself as an argument.)
  bool logSumExp = true;
  Operation operation = Operation::Attention;
  /// Whether every sum of the backward pass has a fixed order.
  bool isDeterministic = false;
  /// Whether the softmax of attention and the backward pass has one more column, the head's sink.
  bool hasSinks = false;
  /// The rate at which attention and the backward pass drop probabilities; 0 means no dropout.
  float dropoutP = 0.0f;
  /// The number of the capture whose gradient is computed.
  size_t captured = 0;
  /// Whether attention's k and v are caches of sequences with lengths, in which the last query is at the last position.
  /// With `pageSize` the caches are pages of that many rows, which a table gives to sequences.
  bool hasCache = false;
  int64_t pageSize = 0;
  /// The element type of a cache with scales, f8E4M3FN or i8; empty for a cache of dtype without scales. The flags say
  /// whether each page, and each key head, has its own scale.
  std::string cacheDType;
  bool hasPageScales = false, hasHeadScales = false;

  /// Sets fields by the names and values in FlashcAttention::options. The error lists the known names.
  llvm::Error setOptions(llvm::StringRef text);
};

/// Prints a module with one function on tensors. The error names the wrong field as FlashcAttention does. The op's
/// verifier rejects everything else that the op does not allow. The function is one of
///
///     @attention(%q, %k, %v, [%flashc.sinks,] [%flashc.philox,] captures...) -> (o, lse), or -> o
///     with a cache: @attention(%q, %k, %v, %flashc.lengths, [%flashc.table,] [%flashc.k_scale, %flashc.v_scale,]
///         [%flashc.sinks,] captures...)
///     @column_sums(%q, %k, %flashc.lse, captures...) -> c
///     @attention_backward(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.sinks,]
///         [%flashc.philox,] captures...) -> (dq, dk, dv), or -> (dq, dk, dv, dsinks)
///     @captured_gradient(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.philox,]
///         captures...) -> the gradient
llvm::Expected<std::string> printAttention(const AttentionSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDATTENTION_H
