//===- ReadManifest.cpp - reads a manifest and checks it ----------------------------------------------------------===//

#include "ManifestKinds.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace flashc;
using namespace llvm;

/// Reads a JSON array of exactly `out.size()` integers that fit the element type.
template <typename Int> static bool readIntegers(const json::Value &value, MutableArrayRef<Int> out, json::Path path) {
  const json::Array *array = value.getAsArray();
  if (!array || array->size() != out.size()) {
    path.report("expected as many integers as there are dimensions");
    return false;
  }
  for (auto [index, element] : enumerate(*array)) {
    std::optional<int64_t> number = element.getAsInteger();
    if (!number || *number < std::numeric_limits<Int>::min() ||
        *number > static_cast<int64_t>(std::numeric_limits<Int>::max())) {
      path.index(index).report("expected an integer in range");
      return false;
    }
    out[index] = static_cast<Int>(*number);
  }
  return true;
}

template <typename Int, unsigned N>
static bool readIntegers(const json::Value &value, SmallVector<Int, N> &out, json::Path path) {
  const json::Array *array = value.getAsArray();
  if (!array) {
    path.report("expected array");
    return false;
  }
  out.resize(array->size());
  return readIntegers(value, MutableArrayRef<Int>(out), path);
}

/// Reads an integer, or a formula as text.
static bool readFormula(const json::Value &value, GridFormula &result, json::Path path, std::string &why) {
  std::string text;
  if (std::optional<StringRef> string = value.getAsString())
    text = string->str();
  else if (std::optional<int64_t> number = value.getAsInteger())
    text = std::to_string(*number);
  Expected<GridFormula> formula = GridFormula::parse(text);
  if (!formula) {
    why = toString(formula.takeError());
    path.report("expected a formula");
    return false;
  }
  result = *formula;
  return true;
}

// llvm::json finds the fromJSON overloads by argument-dependent lookup, so they are in the namespace of the structs.
namespace flashc {
static bool fromJSON(const json::Value &value, ManifestArgument &argument, json::Path path) {
  json::ObjectMapper map(value, path);
  std::string role;
  if (!map || !map.map("name", argument.name) || !map.map("role", role) || !map.map("dtype", argument.dtype))
    return false;
  if (role != "input" && role != "output") {
    path.field("role").report("expected input or output");
    return false;
  }
  argument.isOutput = role == "output";
  if (getManifestDTypeBytes(argument.dtype) == 0) {
    path.field("dtype").report("unknown element type");
    return false;
  }
  const json::Value *shape = value.getAsObject()->get("shape");
  if (!shape) {
    path.field("shape").report("missing value");
    return false;
  }
  return readIntegers(*shape, argument.shape, path.field("shape"));
}

/// Reads a formula that the manifest must have.
static bool readValue(const json::Value *value, ManifestParameter &parameter, json::Path path) {
  std::string why; // the error's path says enough
  if (value)
    return readFormula(*value, parameter.value, path, why);
  path.report("missing value");
  return false;
}

/// Reads an offset. Without an offset, the parameter is the address of the memory's first byte.
static bool readOffset(const json::Value *value, ManifestParameter &parameter, json::Path path) {
  std::string why; // the error's path says enough
  return !value || readFormula(*value, parameter.offset.emplace(), path, why);
}

static bool fromJSON(const json::Value &value, ManifestParameter &parameter, json::Path path) {
  using Kind = ManifestParameter::Kind;
  json::ObjectMapper map(value, path);
  std::string name;
  if (!map || !map.map("kind", name))
    return false;
  const auto *known = find_if(kManifestKinds, [&](const auto &entry) { return entry.second == name; });
  if (known == std::end(kManifestKinds)) {
    path.field("kind").report("unknown parameter kind");
    return false;
  }
  Kind kind = parameter.kind = known->first;
  if (parameter.hasArgument() && !map.map("argument", parameter.argument))
    return false;
  if (kind == Kind::Value)
    return readValue(value.getAsObject()->get("value"), parameter, path.field("value"));
  if (kind == Kind::Stride || kind == Kind::Extent)
    return map.map("dim", parameter.dim);
  if (kind == Kind::Pointer)
    return map.mapOptional("alignment", parameter.alignment);
  if (parameter.isOfLaunch())
    return readOffset(value.getAsObject()->get("offset"), parameter, path.field("offset"));
  if (kind != Kind::TensorMap)
    return true;
  if (!map.map("swizzle", parameter.swizzle))
    return false;
  if (!is_contained({0u, 32u, 64u, 128u}, parameter.swizzle)) {
    path.field("swizzle").report("expected 0, 32, 64 or 128");
    return false;
  }
  const json::Value *box = value.getAsObject()->get("box");
  if (!box) {
    path.field("box").report("missing value");
    return false;
  }
  return readIntegers(*box, parameter.box, path.field("box"));
}
} // namespace flashc

/// Reads three formulas into the manifest's grid.
static bool readGrid(const json::Value &value, std::array<GridFormula, 3> &grid, json::Path path, std::string &why) {
  const json::Array *array = value.getAsArray();
  if (!array || array->size() != 3) {
    path.report("expected three formulas");
    return false;
  }
  for (auto [index, element] : enumerate(*array))
    if (!readFormula(element, grid[index], path.index(index), why))
      return false;
  return true;
}

/// Reads an optional array. Reads each element by `readOne(element, path of the element)`.
static bool readEach(const json::Value *value, json::Path path,
                     function_ref<bool(const json::Value &, json::Path)> readOne) {
  if (!value)
    return true;
  const json::Array *array = value->getAsArray();
  if (!array) {
    path.report("expected array");
    return false;
  }
  for (auto [index, element] : enumerate(*array))
    if (!readOne(element, path.index(index)))
      return false;
  return true;
}

/// Reads pairs of formulas. Compilers of older versions wrote none.
static bool readRequirements(const json::Value *value, Manifest &manifest, json::Path path, std::string &why) {
  return readEach(value, path, [&](const json::Value &element, json::Path place) {
    const json::Array *pair = element.getAsArray();
    if (!pair || pair->size() != 2) {
      place.report("expected two formulas");
      return false;
    }
    auto &[first, second] = manifest.requirements.emplace_back();
    return readFormula((*pair)[0], first, place.index(0), why) && readFormula((*pair)[1], second, place.index(1), why);
  });
}

/// Reads a kernel with the data of its launch.
static bool readKernel(const json::Value &value, ManifestKernel &kernel, json::Path path, std::string &why) {
  json::ObjectMapper map(value, path);
  if (!map || !map.map("kernel", kernel.kernel) || !map.map("parameters", kernel.parameters) ||
      !map.map("dynamic_shared_memory", kernel.dynamicSharedMemory) ||
      !map.mapOptional("writes_mask_map", kernel.writesMaskMap))
    return false;
  const json::Object &object = *value.getAsObject();
  for (StringRef key : {"grid", "block", "cluster"}) {
    if (!object.get(key)) {
      path.field(key).report("missing value");
      return false;
    }
  }
  return readGrid(*object.get("grid"), kernel.grid, path.field("grid"), why) &&
         readIntegers(*object.get("block"), MutableArrayRef(kernel.block), path.field("block")) &&
         readIntegers(*object.get("cluster"), MutableArrayRef(kernel.cluster), path.field("cluster"));
}

/// Reads an optional array of kernels, which run before or after the main kernel.
static bool readKernels(const json::Value *value, std::vector<ManifestKernel> &kernels, json::Path path,
                        std::string &why) {
  return readEach(value, path, [&](const json::Value &element, json::Path place) {
    return readKernel(element, kernels.emplace_back(), place, why);
  });
}

/// Reads an array of pairs [formula, bound]. An empty array is an error.
static bool readConditions(const json::Value &value, ManifestEntry &entry, json::Path path, std::string &why) {
  const json::Array *array = value.getAsArray();
  if (!array || array->empty()) {
    path.report("expected pairs of a formula and an integer");
    return false;
  }
  for (auto [index, element] : enumerate(*array)) {
    const json::Array *pair = element.getAsArray();
    std::optional<int64_t> bound = pair && pair->size() == 2 ? (*pair)[1].getAsInteger() : std::nullopt;
    if (!bound) {
      path.index(index).report("expected a formula and an integer");
      return false;
    }
    auto &[formula, limit] = entry.conditions.emplace_back();
    if (!readFormula((*pair)[0], formula, path.index(index).index(0), why))
      return false;
    limit = *bound;
  }
  return true;
}

static bool readEntry(const json::Value &value, ManifestEntry &entry, json::Path path, std::string &why) {
  json::ObjectMapper map(value, path);
  if (!map || !map.mapOptional("schedule", entry.schedule) || !map.mapOptional("sorted", entry.sorted) ||
      !map.mapOptional("programmatic_launch", entry.programmaticLaunch) || !readKernel(value, entry, path, why))
    return false;
  const json::Object &object = *value.getAsObject();
  const json::Value *when = object.get("when");
  for (auto [key, bytes] : {std::pair("workspace", &entry.workspace), std::pair("mask_map", &entry.maskMap)})
    if (const json::Value *formula = object.get(key); formula && formula->getAsInteger() != 0)
      if (!readFormula(*formula, bytes->emplace(), path.field(key), why))
        return false;
  return readKernels(object.get("before"), entry.before, path.field("before"), why) &&
         readKernels(object.get("after"), entry.after, path.field("after"), why) &&
         (!when || readConditions(*when, entry, path.field("when"), why));
}

/// Reads the variants, an optional array.
static bool readVariants(const json::Value *value, Manifest &manifest, json::Path path, std::string &why) {
  return readEach(value, path, [&](const json::Value &element, json::Path place) {
    ManifestEntry &variant = manifest.variants.emplace_back();
    return readEntry(element, variant, place, why) &&
           (!variant.conditions.empty() || readConditions(nullptr, variant, place.field("when"), why));
  });
}

static bool readManifest(const json::Value &value, Manifest &manifest, json::Path path, std::string &why) {
  json::ObjectMapper map(value, path);
  const json::Object *object = value.getAsObject();
  if (!map || !map.map("kernel", manifest.kernel) || !map.map("target", manifest.target) ||
      !map.map("arguments", manifest.arguments) ||
      !readRequirements(object->get("requires"), manifest, path.field("requires"), why))
    return false;
  return manifest.target == "cpu" || (readEntry(value, manifest, path, why) &&
                                      readVariants(object->get("variants"), manifest, path.field("variants"), why));
}

/// Checks that a kernel's parameters name existing arguments and dimensions, which the JSON types do not ensure.
/// `prefix` begins the messages.
static Error checkParameters(const Manifest &manifest, const ManifestEntry &entry, const ManifestKernel &kernel,
                             const Twine &prefix) {
  using Kind = ManifestParameter::Kind;
  for (auto [index, parameter] : enumerate(kernel.parameters)) {
    std::string where = (prefix + "parameters[" + Twine(index) + "]: ").str();
    if (parameter.kind == Kind::Workspace && !entry.workspace)
      return createStringError(where + "expected a workspace of some bytes, got none");
    if (parameter.kind == Kind::MaskMap && !entry.maskMap)
      return createStringError(where + "expected a mask map of some bytes, got none");
    if (!parameter.hasArgument())
      continue;
    if (parameter.argument >= manifest.arguments.size())
      return createStringError(where + "expected an argument below " + Twine(manifest.arguments.size()) + ", got " +
                               Twine(parameter.argument));
    size_t rank = manifest.arguments[parameter.argument].shape.size();
    bool hasDim = parameter.kind == Kind::Stride || parameter.kind == Kind::Extent;
    if (hasDim && parameter.dim >= rank)
      return createStringError(where + "expected a dimension below " + Twine(rank) + ", got " + Twine(parameter.dim));
    if (parameter.kind == Kind::TensorMap && (parameter.box.size() != rank || rank == 0 || rank > 5))
      return createStringError(where + "expected a box of the argument's rank " + Twine(rank) + " (1 to 5), got rank " +
                               Twine(parameter.box.size()));
  }
  return Error::success();
}

/// Returns extents for a trial evaluation of formulas. Dynamic extents (-1) become 1, since no launch has the extent
/// -1.
static SmallVector<SmallVector<int64_t, 4>> getExtents(const Manifest &manifest) {
  SmallVector<SmallVector<int64_t, 4>> shapes;
  for (const ManifestArgument &argument : manifest.arguments) {
    shapes.push_back(argument.shape);
    std::replace_if(shapes.back().begin(), shapes.back().end(), [](int64_t extent) { return extent < 0; }, 1);
  }
  return shapes;
}

/// Checks that the formulas of `requires` name existing arguments and dimensions, and that at least one formula of each
/// pair is an extent.
static Error checkRequirements(const Manifest &manifest) {
  SmallVector<SmallVector<int64_t, 4>> extents = getExtents(manifest);
  SmallVector<ArrayRef<int64_t>> shapes(extents.begin(), extents.end());
  for (auto [index, pair] : enumerate(manifest.requirements)) {
    if (!pair.first.getExtent() && !pair.second.getExtent())
      return createStringError("manifest: requires[" + Twine(index) + "]: expected one formula to be an extent");
    for (const GridFormula *formula : {&pair.first, &pair.second})
      if (Expected<int64_t> value = formula->evaluate(shapes, /*smCount=*/1); !value)
        return createStringError("manifest: requires[" + Twine(index) + "]: " + toString(value.takeError()));
  }
  return Error::success();
}

/// Checks the kernels of an entry. Their names must not be in `kernels` yet, and are added to it. `prefix` begins the
/// messages.
static Error checkEntry(const Manifest &manifest, const ManifestEntry &entry, const Twine &prefix,
                        StringSet<> &kernels) {
  if (!kernels.insert(entry.kernel).second)
    return createStringError(prefix + "expected a kernel of its own, got " + entry.kernel + " again");
  if (Error error = checkParameters(manifest, entry, entry, prefix))
    return error;
  for (auto [key, others] : {std::pair("before", &entry.before), std::pair("after", &entry.after)})
    for (auto [index, kernel] : enumerate(*others)) {
      std::string where = (prefix + key + "[" + Twine(index) + "]: ").str();
      if (!kernels.insert(kernel.kernel).second)
        return createStringError(where + "expected a kernel of its own, got " + kernel.kernel + " again");
      if (Error error = checkParameters(manifest, entry, kernel, where))
        return error;
      if (kernel.writesMaskMap && (others == &entry.after || !entry.maskMap))
        return createStringError(where + "expected a mask map and a kernel before the entry's to write it");
    }
  return Error::success();
}

/// Checks all entries, and that the conditions of variants can be evaluated.
static Error checkEntries(const Manifest &manifest) {
  SmallVector<SmallVector<int64_t, 4>> extents = getExtents(manifest);
  SmallVector<ArrayRef<int64_t>> shapes(extents.begin(), extents.end());
  StringSet<> kernels;
  if (Error error = checkEntry(manifest, manifest, "manifest: ", kernels))
    return error;
  for (auto [index, variant] : enumerate(manifest.variants)) {
    std::string where = ("manifest: variants[" + Twine(index) + "]: ").str();
    for (const auto &[formula, bound] : variant.conditions)
      if (Expected<int64_t> value = formula.evaluate(shapes, /*smCount=*/1); !value)
        return createStringError(where + toString(value.takeError()));
    if (Error error = checkEntry(manifest, variant, where, kernels))
      return error;
  }
  return Error::success();
}

Expected<Manifest> Manifest::parse(StringRef text) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return createStringError("manifest: " + toString(value.takeError()));
  return fromJSON(*value);
}

Expected<Manifest> Manifest::fromJSON(const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object || object->getString("schema") != StringRef(Manifest::kSchema))
    return createStringError("manifest: expected the schema flashc.manifest");
  std::optional<int64_t> version = object->getInteger("version");
  if (!version || *version < kVersion || *version > kVersionWithMaskMaps)
    return createStringError("manifest: expected a version from " + Twine(kVersion) + " to " +
                             Twine(kVersionWithMaskMaps) + ", got " +
                             (version ? Twine(*version).str() : std::string("none")));
  Manifest manifest;
  json::Path::Root root("manifest");
  std::string why;
  if (!readManifest(value, manifest, root, why)) {
    std::string message = toString(root.getError());
    return createStringError(why.empty() ? message : message + ": " + why);
  }
  if (Error error = checkRequirements(manifest))
    return error;
  if (Error error = checkEntries(manifest))
    return error;
  return manifest;
}
