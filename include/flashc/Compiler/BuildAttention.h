//===- BuildAttention.h - an attention from plain values ----------------------------------------------------------===//
// printAttention prints the text of a module, which is then parsed like any other text. So a program that the C API
// builds can be printed, saved, given to the flashc program, and named in a cache. This file depends only on LLVM's
// support library.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDATTENTION_H
#define FLASHC_COMPILER_BUILDATTENTION_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flashc {

/// The attribute of a function that runs on the CPU by Algorithm 0 in f64: every float in it, also in its arguments, is
/// widened to f64.
inline constexpr llvm::StringLiteral kDoubleAttr = "flash.double";

/// An attention O = softmax(score(scale * Q K^T) where mask) V, described by plain values. An extent that is -1 becomes
/// known only at launch.
struct AttentionSpec {
  enum class Operation {
    Attention,
    /// For each query head and key j, the sum over the queries i of exp(S_ij - lse_i).
    ColumnSums,
    /// The sum of ColumnSums over the query heads of each key head.
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
  /// i1`. It may read the captures and the following values:
  /// - %b, %h, %i, %j (index): the batch, the query head, the query and the key; in a cache %i is the query's position
  ///   in the sequence;
  /// - %flashc.nq and %flashc.nk (index): Nq and Nk; in a cache Nk is the length of the sequence, and with packed
  ///   queries Nq is the sequence's number of queries;
  /// - %flashc.shift (index): the distance from the last query's position to the last key. In a cache it is 0.
  ///
  /// `scoreCode` replaces the scaled score. It may read the same values and the scaled score %s (f32), and ends with
  /// `flash.yield %t : f32`.
  std::string maskCode, scoreCode;
  std::vector<Capture> captures;
  int64_t batch = -1, keyHeads = -1, queries = -1, keys = -1;
  /// Whether attention returns the log-sum-exp, and whether the backward pass takes the gradient of the log-sum-exp.
  /// (Column sums and the backward pass always take the log-sum-exp itself as an argument.)
  bool logSumExp = true;
  Operation operation = Operation::Attention;
  /// Whether every sum of the backward pass has a fixed order.
  bool isDeterministic = false;
  /// Whether the softmax (of attention and of the backward pass) has one more column, whose score is the head's sink.
  bool hasSinks = false;
  /// The rate at which attention and the backward pass drop probabilities; 0 means no dropout.
  float dropoutP = 0.0f;
  /// The number of the capture whose gradient is computed.
  size_t captured = 0;
  /// Whether k and v of attention are caches, from which each sequence uses as many rows as its length. The last query
  /// is at the last position of the sequence. If `pageSize` is not 0, the caches consist of pages of that many rows,
  /// and a table says which pages a sequence has.
  bool hasCache = false;
  int64_t pageSize = 0;
  /// For a cache with scales: its element type, f8E4M3FN or i8. Empty for a cache of `dtype` without scales. The two
  /// flags below say whether each page, and whether each key head, has a scale of its own.
  std::string cacheDType;
  bool hasPageScales = false, hasHeadScales = false;
  /// Whether the sequences of a cache have queries of different numbers. q, o and the log-sum-exp then have one batch,
  /// in which the queries of all sequences are packed one after the other, and offsets say where each sequence begins.
  /// `batch` is still the number of sequences.
  bool hasPackedQueries = false;

  /// Sets fields from a text in the form of FlashcAttention::options. The error lists the known names.
  llvm::Error setOptions(llvm::StringRef text);
  /// Checks the fields. The error names the field that is wrong by its name in FlashcAttention.
  llvm::Error check() const;
  bool sumsColumns() const;
  /// Whether a window with this bound reaches every key. Positions are below 2^31, because extents have 31 bits.
  static bool isUnbounded(int64_t window);
};

/// Prints a module with one function on tensors. The error names the field that is wrong by its name in
/// FlashcAttention. Mistakes that are not checked here are found by the op's verifier, when the text is parsed. The
/// function is one of
///
///     @attention(%q, %k, %v, [%flashc.sinks,] [%flashc.philox,] captures...) -> (o, lse), or -> o
///     with a cache: @attention(%q, %k, %v, %flashc.lengths, [%flashc.table,] [%flashc.cu_seqlens_q,]
///         [%flashc.k_scale, %flashc.v_scale,] [%flashc.sinks,] captures...)
///     @column_sums(%q, %k, %flashc.lse, captures...) -> c
///     @attention_backward(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.sinks,]
///         [%flashc.philox,] captures...) -> (dq, dk, dv), or -> (dq, dk, dv, dsinks)
///     @captured_gradient(%q, %k, %v, %flashc.o, %flashc.lse, %flashc.do, [%flashc.dlse,] [%flashc.philox,]
///         captures...) -> the gradient
llvm::Expected<std::string> printAttention(const AttentionSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDATTENTION_H
