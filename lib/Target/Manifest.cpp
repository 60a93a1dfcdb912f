//===- Manifest.cpp - the kernel's manifest, from its attribute to JSON -------------------------------------------===//

#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Target/PTX.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using flashc::Manifest;

/// Attributes as JSON: dictionary, array, integer, bool, float, string.
static llvm::json::Value toJSON(Attribute attribute) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    llvm::json::Object object;
    for (NamedAttribute entry : dictionary)
      object[entry.getName().str()] = toJSON(entry.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    llvm::json::Array values;
    for (Attribute element : array)
      values.push_back(toJSON(element));
    return values;
  }
  if (auto boolean = dyn_cast<BoolAttr>(attribute))
    return boolean.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  return cast<StringAttr>(attribute).getValue().str();
}

/// The manifest of one kernel, with what only the lowered kernel knows.
static llvm::json::Object makeObject(LLVM::LLVMFuncOp kernel) {
  llvm::json::Value manifest = toJSON(kernel->getAttrOfType<DictionaryAttr>(flashc::kManifestAttrName));
  llvm::json::Object &object = *manifest.getAsObject();
  if (auto bytes = kernel->getAttrOfType<IntegerAttr>("flashc.shared_memory"))
    object["dynamic_shared_memory"] = bytes.getInt();
  if (auto threads = kernel->getAttrOfType<IntegerAttr>("flashc.threads"))
    object["block"] = llvm::json::Array{threads.getInt(), 1, 1};
  return std::move(object);
}

/// The version that the launcher of one entry must know.
static int64_t getVersion(const llvm::json::Object &entry) {
  const llvm::json::Array *before = entry.getArray("before");
  if (!before)
    return Manifest::kVersion;
  auto isInside = [](const llvm::json::Value &parameter) { return parameter.getAsObject()->get("offset"); };
  auto hasOffset = [&](const llvm::json::Object &kernel) {
    return llvm::any_of(*kernel.getArray("parameters"), isInside);
  };
  auto kernelHasOffset = [&](const llvm::json::Value &kernel) { return hasOffset(*kernel.getAsObject()); };
  return hasOffset(entry) || llvm::any_of(*before, kernelHasOffset) ? Manifest::kVersionWithOffsets : Manifest::kVersionWithBefore;
}

FailureOr<std::string> flashc::exportManifest(ModuleOp module) {
  std::optional<llvm::json::Object> manifest;
  llvm::json::Array variants;
  WalkResult result = module.walk([&](LLVM::LLVMFuncOp function) {
    if (!function->hasAttr(kManifestAttrName))
      return WalkResult::advance();
    llvm::json::Object object = makeObject(function);
    if (object.get(kVariantConditionKey)) {
      for (StringRef shared : {"schema", "version", "target", "arguments", "requires"})
        object.erase(shared);
      variants.push_back(std::move(object));
      return WalkResult::advance();
    }
    if (manifest)
      return WalkResult::interrupt();
    manifest = std::move(object);
    return WalkResult::advance();
  });
  if (!manifest || result.wasInterrupted())
    return module.emitError() << "expected one kernel with a manifest and no condition, got "
                              << (manifest ? "several" : "none");
  int64_t version = getVersion(*manifest);
  for (const llvm::json::Value &variant : variants)
    version = std::max(version, getVersion(*variant.getAsObject()));
  (*manifest)["version"] = version;
  if (!variants.empty())
    (*manifest)["variants"] = std::move(variants);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(std::move(*manifest))) << "\n";
  return text;
}
