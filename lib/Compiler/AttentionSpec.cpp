//===- AttentionSpec.cpp - options and checks of an attention from plain values -----------------------------------===//

#include "flashc/Compiler/BuildAttention.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace flashc;
using namespace llvm;

template <typename... Ts> static Error makeError(const char *format, const Ts &...values) {
  return createStringError(formatv(format, values...).str());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Options
//===--------------------------------------------------------------------------------------------------------------===//

static constexpr std::pair<StringLiteral, bool AttentionSpec::*> kFlags[] = {
    {"deterministic", &AttentionSpec::isDeterministic},
    {"packed_queries", &AttentionSpec::hasPackedQueries},
    {"sinks", &AttentionSpec::hasSinks}};
static constexpr std::pair<StringLiteral, float AttentionSpec::*> kNumbers[] = {
    {"dropout_p", &AttentionSpec::dropoutP}};

/// Sets the field that `option` (a name or `name=value`) names. Returns false if no field has the name, or if the value
/// is not a number.
static bool setOption(AttentionSpec &spec, StringRef option) {
  auto [name, value] = option.split('=');
  for (auto [flag, field] : kFlags)
    if (option == flag)
      return spec.*field = true;
  double number;
  for (auto [known, field] : kNumbers)
    if (name == known && !value.getAsDouble(number)) {
      spec.*field = number;
      return true;
    }
  return false;
}

Error AttentionSpec::setOptions(StringRef text) {
  for (StringRef option : split(text, ','))
    if (!text.empty() && !setOption(*this, option)) {
      std::string names = join(make_first_range(kFlags), ", ");
      for (auto [name, field] : kNumbers)
        names += ", " + name.str() + "=number";
      return makeError("expected options to be among {0}, got '{1}'", names, option);
    }
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Checks
//===--------------------------------------------------------------------------------------------------------------===//

/// The largest bound of a window that fits an index, which has 32 bits in a kernel.
static constexpr int64_t kMaxWindow = int64_t(1) << 30;

bool AttentionSpec::isUnbounded(int64_t window) { return window < 0 || window >= std::numeric_limits<int32_t>::max(); }

static Error checkCapture(const AttentionSpec::Capture &capture, StringSet<> &names) {
  StringRef name = capture.name;
  bool isIdentifier =
      !name.empty() && isAlpha(name.front()) && all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
  if (!isIdentifier)
    return makeError("expected the name of a capture to be a letter, then letters, digits and underscores, got '{0}'",
                     capture.name);
  if (is_contained({"q", "k", "v", "b", "h", "i", "j", "s"}, name))
    return makeError("expected the name of a capture to be none of q, k, v, b, h, i, j, s, got '{0}'", capture.name);
  if (!names.insert(name).second)
    return makeError("expected captures of different names, got '{0}' twice", capture.name);
  if (!is_contained({"bf16", "f16", "f32", "f64", "i1", "i8", "i32", "i64"}, StringRef(capture.dtype)))
    return makeError("expected capture '{0}' to be of bf16, f16, f32, f64, i1, i8, i32 or i64, got '{1}'", capture.name,
                     capture.dtype);
  if (capture.isScalar && !capture.shape.empty())
    return makeError("expected capture '{0}', a scalar, to have no extents, got {1}", capture.name,
                     capture.shape.size());
  for (int64_t extent : capture.shape)
    if (extent == 0 || extent < -1)
      return makeError("expected the extents of capture '{0}' to be positive or any, got {1}", capture.name, extent);
  return Error::success();
}

bool AttentionSpec::sumsColumns() const {
  return operation == Operation::ColumnSums || operation == Operation::GroupColumnSums;
}

Error AttentionSpec::check() const {
  if (!is_contained({"bf16", "f16", "f32"}, StringRef(dtype)))
    return makeError("expected dtype to be bf16, f16 or f32, got '{0}'", dtype);
  int64_t columns = sumsColumns() ? 1 : valueDim; // column sums have no values
  std::pair<const char *, int64_t> positive[] = {
      {"head_dim", headDim}, {"value_dim", columns}, {"group_size", groupSize}};
  if (hasCache && (operation != Operation::Attention || dropoutP != 0.0f))
    return createStringError("expected attention without dropout for keys and values in a cache");
  if (hasPackedQueries && !hasCache)
    return createStringError("expected packed_queries for keys and values in a cache only");
  if (pageSize < 0 || (pageSize > 0 && !hasCache))
    return makeError("expected page_size of a cache to be positive, or 0 for one without pages, got {0}", pageSize);
  if (!cacheDType.empty() && !hasCache)
    return createStringError("expected cache_type for a cache only");
  if ((hasPageScales && (cacheDType.empty() || pageSize == 0)) || (hasHeadScales && cacheDType.empty()))
    return createStringError(
        "expected page_scales and head_scales for a cache of 8 bits only, and page_scales for a paged one only");
  if (hasSinks && sumsColumns())
    return createStringError("expected no sinks for column sums: the log-sum-exp includes them");
  if (dropoutP != 0.0f && sumsColumns())
    return createStringError("expected no dropout for column sums: they sum probabilities before dropout");
  if (operation == Operation::CapturedGradient) {
    if (captured >= captures.size())
      return makeError("expected captured to be the number of a capture, got {0} of {1}", captured, captures.size());
    const Capture &capture = captures[captured];
    if (capture.isScalar || capture.dtype.front() == 'i')
      return makeError("expected captured to be an array of bf16, f16, f32 or f64, got {0} '{1}' of {2}",
                       capture.isScalar ? "scalar" : "array", capture.name, capture.dtype);
    if (hasSinks)
      return createStringError("expected no sinks for the gradient of a capture: the log-sum-exp includes them");
  }
  for (auto [name, value] : positive)
    if (value <= 0)
      return makeError("expected {0} to be positive, got {1}", name, value);
  std::pair<const char *, int64_t> extents[] = {
      {"batch", batch}, {"key_heads", keyHeads}, {"queries", queries}, {"keys", keys}};
  for (auto [name, value] : extents)
    if (value == 0 || value < -1)
      return makeError("expected {0} to be positive or any, got {1}", name, value);
  int64_t queryHeads;
  if (keyHeads > 0 && MulOverflow(keyHeads, groupSize, queryHeads))
    return makeError("expected key_heads * group_size to fit 64 bits, got {0} * {1}", keyHeads, groupSize);
  std::pair<const char *, int64_t> windows[] = {{"window_left", windowLeft}, {"window_right", windowRight}};
  for (auto [name, value] : windows)
    if (mask == Mask::Window && !isUnbounded(value) && value > kMaxWindow)
      return makeError("expected {0} to be at most {1}, or negative for no bound, got {2}", name, kMaxWindow, value);
  StringSet<> names;
  for (const Capture &capture : captures) {
    if (Error error = checkCapture(capture, names))
      return error;
    if (isDouble && capture.dtype.front() != 'i' && capture.dtype != "f64")
      return makeError("expected capture '{0}' of f64 or of integers where dtype is f64, got '{1}'", capture.name,
                       capture.dtype);
  }
  return Error::success();
}
