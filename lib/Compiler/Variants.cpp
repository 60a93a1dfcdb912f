//===- Variants.cpp - several entries of one kernel ---------------------------------------------------------------===//

#include "Variants.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Launch/LaunchInterface.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace flashc;

func::FuncOp flashc::findFunction(ModuleOp module) {
  func::FuncOp function;
  module.walk([&](flash::AttentionOp attention) {
    function = attention->getParentOfType<func::FuncOp>();
    return WalkResult::interrupt();
  });
  return function;
}

std::string flashc::getVariantName(ModuleOp module, const ScheduleChoice &choice) {
  if (!choice.maxQueries && choice.shortSequences.empty())
    return "";
  std::string name = findFunction(module).getName().str();
  if (choice.maxQueries)
    name += "_q" + std::to_string(*choice.maxQueries);
  if (!choice.shortSequences.empty())
    name += "_short";
  while (module.lookupSymbol(name))
    name += "_";
  return name;
}

void flashc::renameEntry(ModuleOp module, StringRef name) { findFunction(module).setName(name); }

/// Says in the kernel's manifest when it is launched.
static void setConditions(Operation *kernel, unsigned queriesArgument, const ScheduleChoice &choice) {
  Builder b(kernel->getContext());
  SmallVector<Attribute> pairs;
  auto add = [&](const Twine &formula, int64_t bound) {
    pairs.push_back(b.getArrayAttr({b.getStringAttr(formula), b.getI64IntegerAttr(bound)}));
  };
  if (choice.maxQueries)
    add("arg" + Twine(queriesArgument) + ".dim2", *choice.maxQueries);
  for (const LaunchCondition &condition : choice.shortSequences)
    add(condition.formula, condition.bound);
  NamedAttrList manifest(kernel->getAttrOfType<DictionaryAttr>(kManifestAttrName));
  manifest.set(kVariantConditionKey, b.getArrayAttr(pairs));
  kernel->setAttr(kManifestAttrName, manifest.getDictionary(kernel->getContext()));
}

void flashc::addVariant(ModuleOp kernel, OwningOpRef<ModuleOp> variant, unsigned queriesArgument,
                        const ScheduleChoice &choice) {
  Block *from = (*variant->getOps<gpu::GPUModuleOp>().begin()).getBody();
  for (Operation &op : *from)
    if (op.hasAttr(kManifestAttrName))
      setConditions(&op, queriesArgument, choice);
  Block *into = (*kernel.getOps<gpu::GPUModuleOp>().begin()).getBody();
  into->getOperations().splice(into->end(), from->getOperations());
}
