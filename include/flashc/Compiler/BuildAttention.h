//===- BuildAttention.h - an attention from plain values ----------------------------------------------------------===//
//
// The text comes first and the module is parsed from it, so that there is one way in for programs: what the C API
// builds can be printed, saved, given to the flashc program, and named in a cache. Only LLVM's support library is
// needed here.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDATTENTION_H
#define FLASHC_COMPILER_BUILDATTENTION_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flashc {

/// On a function that runs on the CPU as Algorithm 0 with every float widened to f64, its arguments too.
inline constexpr llvm::StringLiteral kDoubleAttr = "flash.double";

/// O = softmax(score(scale * Q K^T) where mask) V, in plain values. Extents of -1 are known at launch only.
struct AttentionSpec {
  enum class Operation {
    Attention,
    /// c_j = sum over i of exp(S_ij - lse_i), for each query head.
    ColumnSums,
    /// The same, summed over the query heads of each key head.
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

  /// An array or a scalar that the codes read.
  struct Capture {
    /// An identifier; the codes call it `%name`.
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
  /// Negative: no bound on that side.
  int64_t windowLeft = -1, windowRight = -1;
  /// Operations in MLIR's text form, or empty. `maskCode` restricts the mask further: it may use %b, %h, %i, %j
  /// (index), the captures, %flashc.nq and %flashc.nk (index: Nq and Nk; in a cache Nk is the length of the sequence)
  /// and %flashc.shift (index: what brings the last query's position to the last key; 0 in a cache, where it is there),
  /// and ends with `flash.yield %keep : i1`. `scoreCode` replaces the scaled score %s (f32): likewise, and it ends with
  /// `flash.yield %t : f32`.
  std::string maskCode, scoreCode;
  std::vector<Capture> captures;
  int64_t batch = -1, keyHeads = -1, queries = -1, keys = -1;
  /// Whether the function returns the log-sum-exp too; of the backward pass, whether it takes the gradient of that one.
  /// The log-sum-exp itself is an argument of sums and of the backward pass.
  bool logSumExp = true;
  Operation operation = Operation::Attention;
  /// Every sum of the backward pass has one order.
  bool isDeterministic = false;
  /// Softmax has a column more, the head's sink, in attention and the backward pass.
  bool hasSinks = false;
  /// The rate with which attention and the backward pass drop probabilities; 0: no dropout.
  float dropoutP = 0.0f;
  /// The number of the capture whose gradient is computed.
  size_t captured = 0;
  /// Attention's k and v are caches whose sequences have lengths, and the last query is a sequence's last position.
  /// With `pageSize` they lie in pages of so many rows, behind a table.
  bool hasCache = false;
  int64_t pageSize = 0;
  /// The elements of a cache, f8E4M3FN or i8 with scales; empty: dtype, without. Whether pages, or key heads, have
  /// scales of their own.
  std::string cacheDType;
  bool hasPageScales = false, hasHeadScales = false;

  /// Sets fields by the names and values in FlashcAttention::options; or an error that says which names there are.
  llvm::Error setOptions(llvm::StringRef text);
};

/// The text of a module with one function on tensors; or an error that says which field is wrong, by its name in
/// FlashcAttention. What the text form can express and the op does not allow is left to the op's verifier. It is one of
///
///     @attention(%q, %k, %v, [%flashc.sinks,] [%flashc.philox,] captures...) -> (o, lse), or -> o
///     @attention(%q, %k, %v, %flashc.lengths, [%flashc.table,] [%flashc.k_scale, %flashc.v_scale,] [%flashc.sinks,]
///         captures...), of a cache
///     @column_sums(%q, %k, %flashc.lse, captures...) -> c
///     @attention_backward(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.sinks,]
///         [%flashc.philox,] captures...)
///         -> (dq, dk, dv), or -> (dq, dk, dv, dsinks)
///     @captured_gradient(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.philox,]
///     captures...)
///         -> the gradient
llvm::Expected<std::string> printAttention(const AttentionSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDATTENTION_H
