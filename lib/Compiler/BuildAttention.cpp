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
    return createStringError(formatv("expected {0} to end with 'flash.yield %name : {1}'", field, type).str());
  return Code{body.rtrim(), groups[1]};
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
        q(getTensor({spec.batch, queryHeads, spec.queries, spec.headDim}, spec.dtype)), qs(q),
        k(getTensor({spec.batch, spec.keyHeads, spec.keys, spec.headDim}, spec.dtype)),
        v(getTensor({spec.batch, spec.keyHeads, spec.keys, spec.valueDim}, spec.dtype)), kCache(getCache(spec.headDim)),
        vCache(getCache(spec.valueDim)),
        o(getTensor({spec.batch, queryHeads, spec.queries, spec.valueDim}, spec.dtype)),
        lse(getTensor({spec.batch, queryHeads, spec.queries}, "f32")),
        c(getTensor({spec.batch, sumsGroups() ? spec.keyHeads : queryHeads, spec.keys}, "f32")) {
    chooseTensors();
    if (spec.mask == AttentionSpec::Mask::Causal)
      right = 0;
    if (spec.mask == AttentionSpec::Mask::Window && !AttentionSpec::isUnbounded(spec.windowLeft))
      left = spec.windowLeft;
    if (spec.mask == AttentionSpec::Mask::Window && !AttentionSpec::isUnbounded(spec.windowRight))
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
  void printPacked();
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
  /// The types of the arrays. qs is that of the queries as a batch of sequences, which differs from q for packed ones.
  std::string q, qs, k, v, kCache, vCache, o, lse, c;
  StringRef operation;
  SmallVector<NamedTensor> inputs, results;
  /// The operands of the op that follow `inputs`.
  std::optional<NamedTensor> sinks, philox, lengths, table, offsets, kScale, vScale;
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

/// Prints the op that views packed queries as a batch of sequences.
void Printer::printPacked() {
  os << "  %flashc.one = arith.constant 1 : index\n"
     << "  %flashc.sorted = flash.assume_sorted %flashc.cu_seqlens_q : " << offsets->type << "\n"
     << "  %flashc.qs = flash.unpack_rows %q by %flashc.sorted : " << q << ", " << offsets->type << " -> " << qs
     << "\n";
}

/// Prints, in a region of attention with a cache, the length of the sequence and the query's position in it. With
/// packed queries, first prints the number of queries of the sequence, and the end of the sequence's rows.
void Printer::printPosition() {
  if (!spec.hasCache)
    return;
  if (offsets)
    os << "        %flashc.next = arith.addi %b, %flashc.one : index\n"
       << "        %flashc.first_offset = tensor.extract %flashc.cu_seqlens_q[%b] : " << offsets->type << "\n"
       << "        %flashc.first = arith.index_cast %flashc.first_offset : i32 to index\n"
       << "        %flashc.end_offset = tensor.extract %flashc.cu_seqlens_q[%flashc.next] : " << offsets->type << "\n"
       << "        %flashc.end = arith.index_cast %flashc.end_offset : i32 to index\n"
       << "        %flashc.nq = arith.subi %flashc.end, %flashc.first : index\n";
  os << "        %flashc.length = tensor.extract %flashc.lengths[%b] : " << lengths->type << "\n"
     << "        %flashc.nk = arith.index_cast %flashc.length : i32 to index\n"
     << "        %flashc.past = arith.subi %flashc.nk, %flashc." << (offsets ? "end" : "nq") << " : index\n"
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
  if (offsets) {
    printPacked();
  } else {
    os << "  %flashc.dim = arith.constant 2 : index\n"
       << "  %flashc.nq = tensor.dim %q, %flashc.dim : " << q << "\n";
  }
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
  if (offsets) {
    os << "        %flashc.is_after = arith.cmpi sge, %flashc.i, %flashc.first : index\n"
       << "        %flashc.is_before = arith.cmpi slt, %flashc.i, %flashc.end : index\n";
    conditions.append({"%flashc.is_after", "%flashc.is_before"});
  }
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
  if (spec.sumsColumns()) {
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
  if (spec.hasPackedQueries) {
    offsets = {"%flashc.cu_seqlens_q", getTensor({spec.batch < 0 ? -1 : spec.batch + 1}, "i32")};
    inputs[0].type = q = getTensor({1, queryHeads, spec.queries, spec.headDim}, spec.dtype);
  }
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
  for (const std::optional<NamedTensor> &vector : {lengths, table, offsets, kScale, vScale, sinks, philox})
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
  if (offsets)
    read[0] = {"%flashc.qs", qs};
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
  SmallVector<NamedTensor> returned(ArrayRef(results).drop_back(dropsLse ? 1 : 0));
  if (offsets) {
    returned[0] = {"%flashc.packed_o", getTensor({1, queryHeads, spec.queries, spec.valueDim}, spec.dtype)};
    if (!dropsLse)
      returned[1] = {"%flashc.packed_lse", getTensor({1, queryHeads, spec.queries}, "f32")};
  }
  printSignature(returned);
  printOp();
  printRegions(score, mask);
  os << "      -> " << joinTypes(results) << "\n";
  if (offsets)
    for (auto [packed, result] : zip_first(returned, results))
      os << "  " << packed.name << " = flash.pack_rows " << result.name << " by %flashc.sorted : " << result.type
         << ", " << offsets->type << " -> " << packed.type << "\n";
  os << "  return " << joinNames(returned) << " : " << joinTypes(returned) << "\n}\n";
  return std::move(text);
}

Expected<std::string> flashc::printAttention(const AttentionSpec &spec) {
  if (Error error = spec.check())
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
