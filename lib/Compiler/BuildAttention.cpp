//===- BuildAttention.cpp - an attention from plain values --------------------------------------------------------===//

#include "flashc/Compiler/BuildAttention.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>

using namespace flashc;
using namespace llvm;

template <typename... Ts> static Error makeError(const char *format, const Ts &...values) {
  return createStringError(formatv(format, values...).str());
}

//===--------------------------------------------------------------------------------------------------------------===//
// Options
//===--------------------------------------------------------------------------------------------------------------===//

static constexpr std::pair<StringLiteral, bool AttentionSpec::*> kFlags[] = {
    {"deterministic", &AttentionSpec::isDeterministic}, {"sinks", &AttentionSpec::hasSinks}};
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
// Code
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The text of a region's body. The final `flash.yield` is taken off; its operand is `result`.
struct Code {
  StringRef body;
  /// The operand of the `flash.yield`, such as `%keep`.
  StringRef result;
};
} // namespace

/// Splits `text`, which must end with `flash.yield %name : type`. The error names `field`.
static Expected<Code> splitCode(StringRef text, StringRef type, const char *field) {
  Regex yield(
      ("flash\\.yield[[:space:]]+(%[[:alnum:]_$.-]+(#[0-9]+)?)[[:space:]]*:[[:space:]]*" + type + "[[:space:]]*$")
          .str());
  SmallVector<StringRef> groups;
  bool isMatch = yield.match(text, &groups);
  StringRef body = isMatch ? text.take_front(groups[0].data() - text.data()) : text;
  // A `flash.yield` in a comment does not count, nor does a longer word such as `x.flash.yield`.
  StringRef line = body.substr(body.rfind('\n') + 1); // npos + 1 is 0
  bool isYield = isMatch && !line.contains("//") && (body.empty() || isSpace(body.back()));
  if (!isYield)
    return makeError("expected {0} to end with 'flash.yield %name : {1}'", field, type);
  return Code{body.rtrim(), groups[1]};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Checks
//===--------------------------------------------------------------------------------------------------------------===//

/// The largest bound of a window that fits an index, which has 32 bits in a kernel.
static constexpr int64_t kMaxWindow = int64_t(1) << 30;

/// Whether a window with this bound reaches every key. Positions are below 2^31, because extents have 31 bits.
static bool isUnbounded(int64_t window) { return window < 0 || window >= std::numeric_limits<int32_t>::max(); }

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

static bool sumsColumns(const AttentionSpec &spec) {
  return spec.operation == AttentionSpec::Operation::ColumnSums ||
         spec.operation == AttentionSpec::Operation::GroupColumnSums;
}

static Error checkSpec(const AttentionSpec &spec) {
  if (!is_contained({"bf16", "f16", "f32"}, StringRef(spec.dtype)))
    return makeError("expected dtype to be bf16, f16 or f32, got '{0}'", spec.dtype);
  int64_t valueDim = sumsColumns(spec) ? 1 : spec.valueDim; // column sums have no values
  std::pair<const char *, int64_t> positive[] = {
      {"head_dim", spec.headDim}, {"value_dim", valueDim}, {"group_size", spec.groupSize}};
  if (spec.hasCache && (spec.operation != AttentionSpec::Operation::Attention || spec.dropoutP != 0.0f))
    return createStringError("expected attention without dropout for keys and values in a cache");
  if (spec.pageSize < 0 || (spec.pageSize > 0 && !spec.hasCache))
    return makeError("expected page_size of a cache to be positive, or 0 for one without pages, got {0}",
                     spec.pageSize);
  if (!spec.cacheDType.empty() && !spec.hasCache)
    return createStringError("expected cache_type for a cache only");
  if ((spec.hasPageScales && (spec.cacheDType.empty() || spec.pageSize == 0)) ||
      (spec.hasHeadScales && spec.cacheDType.empty()))
    return createStringError(
        "expected page_scales and head_scales for a cache of 8 bits only, and page_scales for a paged one only");
  if (spec.hasSinks && sumsColumns(spec))
    return createStringError("expected no sinks for column sums: the log-sum-exp includes them");
  if (spec.dropoutP != 0.0f && sumsColumns(spec))
    return createStringError("expected no dropout for column sums: they sum probabilities before dropout");
  if (spec.operation == AttentionSpec::Operation::CapturedGradient) {
    if (spec.captured >= spec.captures.size())
      return makeError("expected captured to be the number of a capture, got {0} of {1}", spec.captured,
                       spec.captures.size());
    const AttentionSpec::Capture &capture = spec.captures[spec.captured];
    if (capture.isScalar || capture.dtype.front() == 'i')
      return makeError("expected captured to be an array of bf16, f16, f32 or f64, got {0} '{1}' of {2}",
                       capture.isScalar ? "scalar" : "array", capture.name, capture.dtype);
    if (spec.hasSinks)
      return createStringError("expected no sinks for the gradient of a capture: the log-sum-exp includes them");
  }
  for (auto [name, value] : positive)
    if (value <= 0)
      return makeError("expected {0} to be positive, got {1}", name, value);
  std::pair<const char *, int64_t> extents[] = {
      {"batch", spec.batch}, {"key_heads", spec.keyHeads}, {"queries", spec.queries}, {"keys", spec.keys}};
  for (auto [name, value] : extents)
    if (value == 0 || value < -1)
      return makeError("expected {0} to be positive or any, got {1}", name, value);
  int64_t queryHeads;
  if (spec.keyHeads > 0 && MulOverflow(spec.keyHeads, spec.groupSize, queryHeads))
    return makeError("expected key_heads * group_size to fit 64 bits, got {0} * {1}", spec.keyHeads, spec.groupSize);
  std::pair<const char *, int64_t> windows[] = {{"window_left", spec.windowLeft}, {"window_right", spec.windowRight}};
  for (auto [name, value] : windows)
    if (spec.mask == AttentionSpec::Mask::Window && !isUnbounded(value) && value > kMaxWindow)
      return makeError("expected {0} to be at most {1}, or negative for no bound, got {2}", name, kMaxWindow, value);
  StringSet<> names;
  for (const AttentionSpec::Capture &capture : spec.captures) {
    if (Error error = checkCapture(capture, names))
      return error;
    if (spec.isDouble && capture.dtype.front() != 'i' && capture.dtype != "f64")
      return makeError("expected capture '{0}' of f64 or of integers where dtype is f64, got '{1}'", capture.name,
                       capture.dtype);
  }
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Printing
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns a tensor type as text. An extent of -1 prints as `?`.
static std::string getTensor(ArrayRef<int64_t> shape, StringRef element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += (extent < 0 ? "?" : std::to_string(extent)) + "x";
  return text + element.str() + ">";
}

static std::string getType(const AttentionSpec::Capture &capture) {
  return capture.isScalar ? capture.dtype : getTensor(capture.shape, capture.dtype);
}

/// Prints `value` such that MLIR's parser reads the same bits: as a decimal if possible, else as the bits.
static std::string getFloat(float value) {
  APFloat number(value);
  SmallString<32> text;
  // Nine digits tell all values of f32 apart.
  number.toString(text, /*FormatPrecision=*/9, /*FormatMaxPadding=*/3, /*TruncateZero=*/true);
  if (all_of(text, [](char c) { return isDigit(c) || c == '-'; }))
    text += ".0";
  if (number.isFinite() && is_contained(text, '.') && APFloat(number.getSemantics(), text).bitwiseIsEqual(number))
    return text.str().str();
  return "0x" + utohexstr(number.bitcastToAPInt().getZExtValue(), /*LowerCase=*/false, /*Width=*/8);
}

namespace {
/// A tensor of the op, by the name of its value.
struct NamedTensor {
  StringRef name;
  std::string type;
};

/// Prints one attention. The printer's own names contain a dot, so that they differ from the captures' names.
class Printer {
public:
  explicit Printer(const AttentionSpec &spec)
      : spec(spec), queryHeads(spec.keyHeads < 0 ? -1 : spec.keyHeads * spec.groupSize),
        q(getTensor({spec.batch, queryHeads, spec.queries, spec.headDim}, spec.dtype)),
        k(getTensor({spec.batch, spec.keyHeads, spec.keys, spec.headDim}, spec.dtype)),
        v(getTensor({spec.batch, spec.keyHeads, spec.keys, spec.valueDim}, spec.dtype)), kCache(getCache(spec.headDim)),
        vCache(getCache(spec.valueDim)),
        o(getTensor({spec.batch, queryHeads, spec.queries, spec.valueDim}, spec.dtype)),
        lse(getTensor({spec.batch, queryHeads, spec.queries}, "f32")),
        c(getTensor({spec.batch, sumsGroups() ? spec.keyHeads : queryHeads, spec.keys}, "f32")) {
    chooseTensors();
    if (spec.mask == AttentionSpec::Mask::Causal)
      right = 0;
    if (spec.mask == AttentionSpec::Mask::Window && !isUnbounded(spec.windowLeft))
      left = spec.windowLeft;
    if (spec.mask == AttentionSpec::Mask::Window && !isUnbounded(spec.windowRight))
      right = spec.windowRight;
  }

  std::string print(const std::optional<Code> &score, const std::optional<Code> &mask);

private:
  void chooseTensors();
  void printSignature(ArrayRef<NamedTensor> returned);
  void printOp();
  void printRegions(const std::optional<Code> &score, const std::optional<Code> &mask);
  void printConstants();
  void printViews();
  void printPosition();
  /// Returns the name of the region's argument for a query. The argument counts queries from the launch's first one on.
  /// (In a cache `%i` is another value, the query's position in the sequence.)
  StringRef getQuery() const { return spec.hasCache ? "flashc.i" : "i"; }
  SmallVector<std::string> printWindow();
  void printMask(const std::optional<Code> &code);

  std::string getCache(int64_t depth) const {
    int64_t outer = spec.pageSize ? -1 : spec.batch, rows = spec.pageSize ? spec.pageSize : spec.keys;
    return getTensor({outer, spec.keyHeads, rows, depth}, spec.cacheDType.empty() ? spec.dtype : spec.cacheDType);
  }

  bool sumsGroups() const { return spec.operation == AttentionSpec::Operation::GroupColumnSums; }

  const AttentionSpec &spec;
  int64_t queryHeads;
  std::string q, k, v, kCache, vCache, o, lse, c;
  StringRef operation;
  SmallVector<NamedTensor> inputs, results;
  /// The operands of the op that follow `inputs`.
  std::optional<NamedTensor> sinks, philox, lengths, table, kScale, vScale;
  /// A pair is kept if -left <= j - (i + Nk - Nq) <= right.
  std::optional<int64_t> left, right;
  std::string text;
  raw_string_ostream os{text};
};
} // namespace

/// Prints the two flash.cache_view ops, through which the attention reads the caches like plain arrays of keys and
/// values.
void Printer::printViews() {
  for (auto [name, cache, type, view, scale] : {std::tuple("%flashc.keys", "%k", &kCache, &k, &kScale),
                                                std::tuple("%flashc.values", "%v", &vCache, &v, &vScale)}) {
    os << "  " << name << " = flash.cache_view " << cache << " lengths(%flashc.lengths : " << lengths->type << ")";
    if (table)
      os << " pages(%flashc.table : " << table->type << ")";
    if (*scale)
      os << " scales(" << (*scale)->name << " : " << (*scale)->type << ")";
    os << " : " << *type << " -> " << *view << "\n";
  }
}

/// Prints, in a region of attention with a cache, the length of the sequence and the query's position in it.
void Printer::printPosition() {
  if (!spec.hasCache)
    return;
  os << "        %flashc.length = tensor.extract %flashc.lengths[%b] : " << lengths->type << "\n"
     << "        %flashc.nk = arith.index_cast %flashc.length : i32 to index\n"
     << "        %flashc.past = arith.subi %flashc.nk, %flashc.nq : index\n"
     << "        %i = arith.addi %flashc.i, %flashc.past : index\n"
     << "        %flashc.shift = arith.constant 0 : index\n";
}

/// Prints, before the op, the constants that its regions need: the bounds of the window, and those of %flashc.nq,
/// %flashc.nk and %flashc.shift that are used. In a cache, first prints the ops of printViews.
void Printer::printConstants() {
  if (spec.hasCache)
    printViews();
  auto asksFor = [&](StringRef name) {
    return StringRef(spec.maskCode).contains(name) || StringRef(spec.scoreCode).contains(name);
  };
  bool hasShift = !spec.hasCache && (left || right || asksFor("%flashc.shift"));
  if (!spec.hasCache && !hasShift && !asksFor("%flashc.nq") && !asksFor("%flashc.nk"))
    return;
  os << "  %flashc.dim = arith.constant 2 : index\n"
     << "  %flashc.nq = tensor.dim %q, %flashc.dim : " << q << "\n";
  if (!spec.hasCache)
    os << "  %flashc.nk = tensor.dim %k, %flashc.dim : " << k << "\n";
  if (hasShift)
    os << "  %flashc.shift = arith.subi %flashc.nk, %flashc.nq : index\n";
  if (left.value_or(0))
    os << "  %flashc.left = arith.constant " << *left << " : index\n";
  if (right.value_or(0))
    os << "  %flashc.right = arith.constant " << *right << " : index\n";
}

/// Prints a condition for each side of the window that has a bound and, in a cache, the condition that the key exists.
/// Returns the names of the conditions.
SmallVector<std::string> Printer::printWindow() {
  SmallVector<std::string> conditions;
  if (spec.hasCache) {
    os << "        %flashc.exists = arith.cmpi slt, %j, %flashc.nk : index\n";
    conditions.push_back("%flashc.exists");
  } else if (left || right)
    os << "        %flashc.aligned = arith.addi %i, %flashc.shift : index\n";
  auto compare = [&](const char *name, const char *predicate, const char *operation, int64_t distance) {
    std::string bound = spec.hasCache ? "%i" : "%flashc.aligned";
    if (distance) {
      os << "        %flashc." << name << "_bound = arith." << operation << " " << bound << ", %flashc." << name
         << " : index\n";
      bound = std::string("%flashc.") + name + "_bound";
    }
    os << "        %flashc." << name << "_keep = arith.cmpi " << predicate << ", %j, " << bound << " : index\n";
    conditions.push_back(std::string("%flashc.") + name + "_keep");
  };
  if (left)
    compare("left", "sge", "subi", *left);
  if (right)
    compare("right", "sle", "addi", *right);
  return conditions;
}

/// Prints the window and the code, joined by arith.andi, which the mask analysis takes apart again.
void Printer::printMask(const std::optional<Code> &code) {
  os << "      mask (%b: index, %h: index, %" << getQuery() << ": index, %j: index) {\n";
  printPosition();
  SmallVector<std::string> conditions = printWindow();
  if (code) {
    os << code->body << "\n";
    conditions.push_back(code->result.str());
  }
  std::string keep = conditions.front();
  for (auto [index, condition] : enumerate(ArrayRef(conditions).drop_front())) {
    std::string both = "%flashc.keep" + std::to_string(index);
    os << "        " << both << " = arith.andi " << keep << ", " << condition << " : i1\n";
    keep = both;
  }
  os << "        flash.yield " << keep << " : i1\n      }\n";
}

/// Chooses the operands and results of the op, each in the op's order.
void Printer::chooseTensors() {
  inputs = {{"%q", q}, {"%k", spec.hasCache ? kCache : k}};
  if (sumsColumns(spec)) {
    operation = "column_sums";
    inputs.push_back({"%flashc.lse", lse});
    results = {{"%flashc.c", c}};
    return;
  }
  inputs.push_back({"%v", spec.hasCache ? vCache : v});
  if (spec.hasCache)
    lengths = {"%flashc.lengths", getTensor({spec.batch}, "i32")};
  if (spec.pageSize)
    table = {"%flashc.table", getTensor({spec.batch, -1}, "i32")};
  if (!spec.cacheDType.empty()) {
    std::string scales = getTensor({spec.hasPageScales ? -1 : 1, spec.hasHeadScales ? spec.keyHeads : 1}, "f32");
    kScale = {"%flashc.k_scale", scales}, vScale = {"%flashc.v_scale", scales};
  }
  if (spec.hasSinks)
    sinks = {"%flashc.sinks", getTensor({queryHeads}, "f32")};
  if (spec.dropoutP != 0.0f)
    philox = {"%flashc.philox", getTensor({2}, "i64")};
  if (spec.operation == AttentionSpec::Operation::Attention) {
    operation = "attention";
    results = {{"%flashc.o", o}, {"%flashc.lse", lse}};
    return;
  }
  inputs.append({{"%flashc.o", o}, {"%flashc.lse", lse}, {"%flashc.do", o}});
  if (spec.logSumExp)
    inputs.push_back({"%flashc.dlse", lse});
  if (spec.operation == AttentionSpec::Operation::CapturedGradient) {
    operation = "captured_gradient";
    results = {{"%flashc.gradient", getTensor(spec.captures[spec.captured].shape, "f32")}};
    return;
  }
  operation = "attention_backward";
  results = {{"%flashc.dq", q}, {"%flashc.dk", k}, {"%flashc.dv", v}};
  if (sinks)
    results.push_back({"%flashc.dsinks", sinks->type});
}

static std::string joinNames(ArrayRef<NamedTensor> tensors) {
  return join(map_range(tensors, [](const NamedTensor &tensor) { return tensor.name; }), ", ");
}

static std::string joinTypes(ArrayRef<NamedTensor> tensors) {
  return join(map_range(tensors, [](const NamedTensor &tensor) { return tensor.type; }), ", ");
}

void Printer::printSignature(ArrayRef<NamedTensor> returned) {
  os << "func.func @" << operation << "(";
  interleaveComma(inputs, os, [&](const NamedTensor &input) { os << input.name << ": " << input.type; });
  for (const std::optional<NamedTensor> &vector : {lengths, table, kScale, vScale, sinks, philox})
    if (vector)
      os << ", " << vector->name << ": " << vector->type << " {flash.name = \"" << vector->name.split('.').second
         << "\"}";
  for (const AttentionSpec::Capture &capture : spec.captures)
    os << ", %" << capture.name << ": " << getType(capture) << " {flash.name = \"" << capture.name << "\"}";
  os << ")\n    -> (" << joinTypes(returned) << ")" << (spec.isDouble ? " attributes {" + kDoubleAttr.str() + "}" : "")
     << " {\n";
  printConstants();
}

/// Prints the op up to its regions.
void Printer::printOp() {
  SmallVector<NamedTensor> read = inputs;
  if (spec.hasCache)
    read[1] = {"%flashc.keys", k}, read[2] = {"%flashc.values", v};
  os << "  " << joinNames(results) << " = flash." << operation << "\n      ins(" << joinNames(read) << " : "
     << joinTypes(read) << ")";
  if (spec.operation == AttentionSpec::Operation::CapturedGradient) {
    const AttentionSpec::Capture &capture = spec.captures[spec.captured];
    os << " of(%" << capture.name << " : " << getType(capture) << ")";
  }
  for (auto [keyword, vector] : {std::pair("sinks", &sinks), std::pair("dropout", &philox)})
    if (*vector)
      os << " " << keyword << "(" << (*vector)->name << " : " << (*vector)->type << ")";
  os << "\n      {";
  if (spec.keyHeads < 0)
    os << "group_size = " << spec.groupSize << " : i64, ";
  if (spec.isDeterministic && spec.operation == AttentionSpec::Operation::Backward)
    os << "deterministic, ";
  if (philox)
    os << "dropout_p = " << getFloat(spec.dropoutP) << " : f32, ";
  os << "scale = " << getFloat(spec.scale) << " : f32" << (sumsGroups() ? ", sum_groups" : "") << "}\n";
}

void Printer::printRegions(const std::optional<Code> &score, const std::optional<Code> &mask) {
  if (score) {
    os << "      score (%s: f32, %b: index, %h: index, %" << getQuery() << ": index, %j: index) {\n";
    printPosition();
    os << score->body << "\n        flash.yield " << score->result << " : f32\n      }\n";
  }
  if (left || right || mask || spec.hasCache)
    printMask(mask);
}

std::string Printer::print(const std::optional<Code> &score, const std::optional<Code> &mask) {
  // The op always has both results, o and lse. The kernel computes only results that the function returns.
  bool dropsLse = spec.operation == AttentionSpec::Operation::Attention && !spec.logSumExp;
  ArrayRef<NamedTensor> returned = ArrayRef(results).drop_back(dropsLse ? 1 : 0);
  printSignature(returned);
  printOp();
  printRegions(score, mask);
  os << "      -> " << joinTypes(results) << "\n  return " << joinNames(returned) << " : " << joinTypes(returned)
     << "\n}\n";
  return std::move(text);
}

Expected<std::string> flashc::printAttention(const AttentionSpec &spec) {
  if (Error error = checkSpec(spec))
    return error;
  std::optional<Code> score, mask;
  std::tuple<const std::string *, const char *, const char *, std::optional<Code> *> codes[] = {
      {&spec.scoreCode, "f32", "score_code", &score}, {&spec.maskCode, "i1", "mask_code", &mask}};
  for (auto [text, type, field, result] : codes) {
    if (text->empty())
      continue;
    Expected<Code> code = splitCode(*text, type, field);
    if (!code)
      return code.takeError();
    *result = *code;
  }
  return Printer(spec).print(score, mask);
}
