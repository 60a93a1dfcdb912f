//===- BuildPlain.cpp - what surrounds attention, from plain values -----------------------------------------------===//

#include "flashc/Compiler/BuildPlain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace flashc;
using namespace llvm;

static Error checkPositive(StringRef name, int64_t value) {
  if (value > 0)
    return Error::success();
  return createStringError(formatv("expected {0} to be positive, got {1}", name, value));
}

static std::string getShape(unsigned numAny, int64_t depth) {
  std::string text;
  for (unsigned dim = 0; dim < numAny; ++dim)
    text += "?x";
  return depth ? text + std::to_string(depth) + "x" : text;
}

/// Returns a tensor type with `numAny` dynamic extents, followed by the extent `depth` if `depth` is not 0.
static std::string getTensor(unsigned numAny, int64_t depth, StringRef type) {
  return "tensor<" + getShape(numAny, depth) + type.str() + ">";
}

/// Returns a memref type with the same shape as the type of getTensor. All strides are dynamic except for the last one,
/// which is 1.
static std::string getMemRef(unsigned numAny, int64_t depth, StringRef type) {
  SmallVector<StringRef> strides(numAny + (depth != 0), "?");
  strides.back() = "1";
  return "memref<" + getShape(numAny, depth) + type.str() + ", strided<[" + join(strides, ", ") + "], offset: ?>>";
}

namespace {
/// A value of the function, by name.
struct Named {
  StringRef name;
  std::string type;
};
} // namespace

/// Returns ` keyword(%a, %b : type, type)`, or an empty string without values.
static std::string getOperands(StringRef keyword, ArrayRef<Named> values) {
  if (values.empty())
    return "";
  std::string names = join(map_range(values, [](const Named &value) { return "%" + value.name.str(); }), ", ");
  std::string types = join(map_range(values, [](const Named &value) { return value.type; }), ", ");
  return formatv(" {0}({1} : {2})", keyword, names, types);
}

static std::string getParameters(ArrayRef<ArrayRef<Named>> groups) {
  SmallVector<std::string> parameters;
  for (ArrayRef<Named> group : groups)
    for (const Named &value : group)
      parameters.push_back("%" + value.name.str() + ": " + value.type);
  return join(parameters, ", ");
}

Expected<std::string> flashc::printMerge(const MergeSpec &spec) {
  if (Error error = checkPositive("value_dim", spec.valueDim))
    return error;
  SmallVector<Named, 2> parts{{"o_parts", getTensor(4, spec.valueDim, spec.partsType)},
                              {"lse_parts", getTensor(4, 0, "f32")}};
  SmallVector<Named, 1> sinks;
  if (spec.hasSinks)
    sinks.push_back({"sinks", getTensor(1, 0, "f32")});
  std::string results = getTensor(3, spec.valueDim, spec.outputType) + ", " + getTensor(3, 0, "f32");
  return formatv("func.func @merge_states({0}) -> ({1}) {{\n"
                 "  %o, %lse = flash.merge_states{2}{3} -> {1}\n"
                 "  return %o, %lse : {1}\n"
                 "}\n",
                 getParameters({parts, sinks}), results, getOperands("ins", parts), getOperands("sinks", sinks))
      .str();
}

Expected<std::string> flashc::printAppend(const AppendSpec &spec) {
  for (auto [name, value] : {std::pair("head_dim", spec.headDim), std::pair("value_dim", spec.valueDim)})
    if (Error error = checkPositive(name, value))
      return error;
  if (spec.rotaryDim < 0 || spec.rotaryDim % 2)
    return createStringError(formatv("expected rotary_dim to be even and not negative, got {0}", spec.rotaryDim));
  if (spec.hasLeftpad && !spec.rotaryDim)
    return createStringError("expected leftpad for rotated keys only, with a positive rotary_dim");
  if (spec.cacheDType.empty() ? spec.hasPageScales || spec.hasHeadScales : spec.hasPageScales && !spec.isPaged)
    return createStringError(
        "expected page_scales and head_scales for caches of 8 bits only, and page_scales for paged ones only");
  if (spec.hasOffsets && spec.hasCounts)
    return createStringError("expected no counts together with offsets, which give each sequence its tokens");
  StringRef stored = spec.cacheDType.empty() ? spec.dtype : spec.cacheDType;
  unsigned numAny = spec.hasOffsets ? 2 : 3;
  SmallVector<Named, 3> news{{"k", getMemRef(numAny, spec.headDim, spec.dtype)},
                             {"v", getMemRef(numAny, spec.valueDim, spec.dtype)},
                             {"positions", getMemRef(1, 0, "i32")}};
  SmallVector<Named, 1> offsets, counts, table, leftpad;
  SmallVector<Named, 2> rotary, scales,
      caches{{"k_cache", getMemRef(3, spec.headDim, stored)}, {"v_cache", getMemRef(3, spec.valueDim, stored)}};
  if (spec.hasOffsets)
    offsets.push_back({"offsets", getMemRef(1, 0, "i32")});
  if (spec.hasCounts)
    counts.push_back({"counts", getMemRef(1, 0, "i32")});
  if (spec.isPaged)
    table.push_back({"table", getMemRef(2, 0, "i32")});
  if (spec.rotaryDim)
    rotary = {{"cos", getMemRef(1, spec.rotaryDim / 2, spec.rotaryType)},
              {"sin", getMemRef(1, spec.rotaryDim / 2, spec.rotaryType)}};
  if (spec.hasLeftpad)
    leftpad.push_back({"leftpad", getMemRef(1, 0, "i32")});
  std::string scaleType = formatv("memref<{0}x{1}xf32, strided<[?, 1], offset: ?>>", spec.hasPageScales ? "?" : "1",
                                  spec.hasHeadScales ? "?" : "1");
  if (!spec.cacheDType.empty())
    scales = {{"k_scale", scaleType}, {"v_scale", scaleType}};
  return formatv("func.func @append_kv({0}) {{\n  flash.append_kv{1}{2}{3}{4}{5}{6}{7}{8}{9}\n  return\n}\n",
                 getParameters({news, offsets, counts, table, leftpad, rotary, scales, caches}),
                 getOperands("ins", news), getOperands("offsets", offsets), getOperands("counts", counts),
                 getOperands("table", table), getOperands("leftpad", leftpad), getOperands("rotary", rotary),
                 getOperands("scales", scales), getOperands("outs", caches), spec.isInterleaved ? " {interleaved}" : "")
      .str();
}
