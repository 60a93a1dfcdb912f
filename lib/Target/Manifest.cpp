//===- Manifest.cpp - the kernel's manifest, from its attribute to JSON -------------------------------------------===//

#include "flashc/Analysis/LaunchInterface.h"
#include "flashc/Target/PTX.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

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

FailureOr<std::string> flashc::exportManifest(ModuleOp module) {
  SmallVector<LLVM::LLVMFuncOp> kernels;
  module.walk([&](LLVM::LLVMFuncOp function) {
    if (function->hasAttr(kManifestAttrName))
      kernels.push_back(function);
  });
  if (kernels.size() != 1) {
    module.emitError() << "expected one kernel with a manifest, got " << kernels.size();
    return failure();
  }
  llvm::json::Value manifest = toJSON(kernels.front()->getAttrOfType<DictionaryAttr>(kManifestAttrName));
  llvm::json::Object &object = *manifest.getAsObject();
  if (auto bytes = kernels.front()->getAttrOfType<IntegerAttr>("flashc.shared_memory"))
    object["dynamic_shared_memory"] = bytes.getInt();
  if (auto threads = kernels.front()->getAttrOfType<IntegerAttr>("flashc.threads"))
    object["block"] = llvm::json::Array{threads.getInt(), 1, 1};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", manifest) << "\n";
  return text;
}
