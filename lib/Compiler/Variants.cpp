//===- Variants.cpp - several entries of one kernel ---------------------------------------------------------------===//

#include "Variants.h"
#include "Lowering.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Launch/Launch.h"
#include "flashc/Target/GPUTarget.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace flashc;

func::FuncOp flashc::findFunction(ModuleOp module) {
  auto op = findFirst<flash::ScoresOpInterface>(module);
  return op ? op->getParentOfType<func::FuncOp>() : func::FuncOp();
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

/// Returns the conditions that a launch must meet to take the entry of `choice`.
static SmallVector<LaunchCondition, 2> getConditions(unsigned queriesArgument, const ScheduleChoice &choice) {
  SmallVector<LaunchCondition, 2> conditions;
  if (choice.maxQueries)
    conditions.push_back({GridFormula::extent(queriesArgument, 2), *choice.maxQueries});
  llvm::append_range(conditions, choice.shortSequences);
  return conditions;
}

void flashc::addVariant(ModuleOp kernel, OwningOpRef<ModuleOp> variant, unsigned queriesArgument,
                        const ScheduleChoice &choice) {
  gpu::GPUModuleOp from = *variant->getOps<gpu::GPUModuleOp>().begin();
  for (Operation &op : *from.getBody())
    if (Launch::isOn(&op)) {
      Launch launch = *Launch::get(&op);
      launch.conditions = getConditions(queriesArgument, choice);
      launch.set(&op);
    }
  gpu::GPUModuleOp into = *kernel.getOps<gpu::GPUModuleOp>().begin();
  if (GPUTarget::getFeature(into) < GPUTarget::getFeature(from)) // the module needs the later of the PTX versions
    into.setTargetsAttr(from.getTargetsAttr());
  into.getBody()->getOperations().splice(into.getBody()->end(), from.getBody()->getOperations());
}

OwningOpRef<ModuleOp> flashc::selectEntry(ModuleOp kernel, size_t number) {
  SmallVector<Launch, 2> launches = *Launch::getAll(kernel);
  // In the manifest the module's first entry comes after all variants. The entries with folded grids come last, in the
  // same order.
  auto kept = launches[(number + 1) % launches.size()].getKernels();
  OwningOpRef<ModuleOp> entry = kernel.clone();
  gpu::GPUModuleOp module = *entry->getOps<gpu::GPUModuleOp>().begin();
  for (auto function : llvm::make_early_inc_range(module.getOps<gpu::GPUFuncOp>()))
    if (llvm::none_of(kept, [&](const ManifestKernel *one) { return one->kernel == function.getName(); }))
      function.erase();
  return entry;
}
