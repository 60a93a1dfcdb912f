//===- Variants.cpp - several entries of one kernel ---------------------------------------------------------------===//

#include "Variants.h"
#include "flashc/Analysis/LaunchInterface.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace flashc;

static func::FuncOp findFunction(ModuleOp module) {
  func::FuncOp function;
  module.walk([&](flash::AttentionOp attention) {
    function = attention->getParentOfType<func::FuncOp>();
    return WalkResult::interrupt();
  });
  return function;
}

std::string flashc::getVariantName(ModuleOp module, int64_t maxQueries) {
  std::string name = (findFunction(module).getName() + "_q" + Twine(maxQueries)).str();
  while (module.lookupSymbol(name))
    name += "_";
  return name;
}

void flashc::renameEntry(ModuleOp module, StringRef name) { findFunction(module).setName(name); }

/// Says in the kernel's manifest when it is launched.
static void setCondition(Operation *kernel, unsigned queriesArgument, int64_t maxQueries) {
  Builder b(kernel->getContext());
  std::string queries = ("arg" + Twine(queriesArgument) + ".dim2").str();
  Attribute pair = b.getArrayAttr({b.getStringAttr(queries), b.getI64IntegerAttr(maxQueries)});
  NamedAttrList manifest(kernel->getAttrOfType<DictionaryAttr>(kManifestAttrName));
  manifest.set(kVariantConditionKey, b.getArrayAttr(pair));
  kernel->setAttr(kManifestAttrName, manifest.getDictionary(kernel->getContext()));
}

void flashc::addVariant(ModuleOp kernel, OwningOpRef<ModuleOp> variant, unsigned queriesArgument, int64_t maxQueries) {
  Block *from = (*variant->getOps<gpu::GPUModuleOp>().begin()).getBody();
  for (Operation &op : *from)
    if (op.hasAttr(kManifestAttrName))
      setCondition(&op, queriesArgument, maxQueries);
  Block *into = (*kernel.getOps<gpu::GPUModuleOp>().begin()).getBody();
  into->getOperations().splice(into->end(), from->getOperations());
}
