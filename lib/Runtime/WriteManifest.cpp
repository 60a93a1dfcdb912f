//===- WriteManifest.cpp - writes a manifest as JSON --------------------------------------------------------------===//

#include "ManifestKinds.h"
#include "llvm/ADT/STLExtras.h"

using namespace flashc;
using namespace llvm;

static StringRef getName(ManifestParameter::Kind kind) {
  return find_if(kManifestKinds, [&](const auto &entry) { return entry.first == kind; })->second;
}

// llvm::json finds these overloads by argument-dependent lookup, for the elements of arrays, too.
namespace flashc {
static json::Value toJSON(const GridFormula &formula) { return formula.getText(); }

static json::Value toJSON(const std::pair<GridFormula, GridFormula> &pair) {
  return json::Array{pair.first, pair.second};
}

static json::Value toJSON(const LaunchCondition &condition) { return json::Array{condition.formula, condition.bound}; }

static json::Value toJSON(const ManifestArgument &argument) {
  return json::Object{{"name", argument.name},
                      {"role", argument.isOutput ? "output" : "input"},
                      {"shape", json::Array(argument.shape)},
                      {"dtype", argument.dtype}};
}

static json::Value toJSON(const ManifestParameter &parameter) {
  using Kind = ManifestParameter::Kind;
  json::Object object;
  object["kind"] = getName(parameter.kind);
  if (parameter.hasArgument())
    object["argument"] = parameter.argument;
  if (parameter.kind == Kind::Value)
    object["value"] = parameter.value;
  if (parameter.kind == Kind::TensorMap) {
    object["box"] = json::Array(parameter.box);
    object["swizzle"] = parameter.swizzle;
  }
  if (parameter.kind == Kind::Stride || parameter.kind == Kind::Extent)
    object["dim"] = parameter.dim;
  if (parameter.alignment)
    object["alignment"] = parameter.alignment;
  if (parameter.offset)
    object["offset"] = *parameter.offset;
  return object;
}

static json::Value toJSON(const ManifestKernel &kernel) {
  json::Object object{{"kernel", kernel.kernel},
                      {"parameters", json::Array(kernel.parameters)},
                      {"grid", json::Array(kernel.grid)},
                      {"block", json::Array(kernel.block)},
                      {"cluster", json::Array(kernel.cluster)},
                      {"dynamic_shared_memory", kernel.dynamicSharedMemory}};
  if (kernel.writesMaskMap)
    object["writes_mask_map"] = true;
  return object;
}

static json::Value toJSON(const ManifestEntry &entry) {
  json::Value value = toJSON(static_cast<const ManifestKernel &>(entry));
  json::Object &object = *value.getAsObject();
  object["workspace"] = entry.workspace ? json::Value(*entry.workspace) : json::Value(0);
  if (entry.maskMap)
    object["mask_map"] = *entry.maskMap;
  object["schedule"] = entry.schedule;
  if (!entry.sorted.empty())
    object["sorted"] = entry.sorted;
  if (!entry.conditions.empty())
    object["when"] = json::Array(entry.conditions);
  if (!entry.before.empty())
    object["before"] = json::Array(entry.before);
  if (!entry.after.empty())
    object["after"] = json::Array(entry.after);
  if (entry.programmaticLaunch)
    object["programmatic_launch"] = true;
  return value;
}
} // namespace flashc

/// The manifest's version that a launcher must know at least, to run this entry.
static int64_t getVersion(const ManifestEntry &entry) {
  auto hasOffset = [](const ManifestKernel *kernel) {
    return any_of(kernel->parameters, [](const ManifestParameter &parameter) { return parameter.offset.has_value(); });
  };
  if (entry.maskMap)
    return Manifest::kVersionWithMaskMaps;
  if (!entry.after.empty())
    return Manifest::kVersionWithAfter;
  if (any_of(entry.getKernels(), hasOffset))
    return Manifest::kVersionWithOffsets;
  return entry.before.empty() ? Manifest::kVersion : Manifest::kVersionWithBefore;
}

json::Object Manifest::toJSON() const {
  json::Object object;
  if (target == "cpu")
    object["kernel"] = kernel;
  else
    object = std::move(*flashc::toJSON(static_cast<const ManifestEntry &>(*this)).getAsObject());
  int64_t version = getVersion(*this);
  for (const ManifestEntry &variant : variants)
    version = std::max(version, getVersion(variant));
  object["schema"] = kSchema;
  object["version"] = version;
  object["target"] = target;
  object["arguments"] = json::Array(arguments);
  object["requires"] = json::Array(requirements);
  if (!variants.empty())
    object["variants"] = json::Array(variants);
  return object;
}
