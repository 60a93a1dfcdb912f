//===- GPUTarget.cpp - the known targets, and how IR names one ----------------------------------------------------===//

#include "flashc/Target/GPUTarget.h"
#include "flashc/Target/Ampere.h"
#include "flashc/Target/Hopper.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using flashc::GPUTarget;

static constexpr const GPUTarget *kTargets[] = {&flashc::kHopper, &flashc::kAmpere};

const GPUTarget *GPUTarget::lookup(StringRef name) {
  auto *found = llvm::find_if(kTargets, [&](const GPUTarget *target) { return target->name == name; });
  return found == std::end(kTargets) ? nullptr : *found;
}

std::string GPUTarget::getNames() {
  return llvm::join(llvm::map_range(kTargets, [](const GPUTarget *target) { return target->name; }), ", ");
}

ArrayAttr GPUTarget::getAttr(MLIRContext *context, StringRef feature) const {
  auto attr = NVVM::NVVMTargetAttr::get(context, /*optLevel=*/2, "nvptx64-nvidia-cuda", name,
                                        feature.empty() ? ptxFeature : feature);
  return ArrayAttr::get(context, attr);
}

/// Returns the target attribute of the gpu.module at or around `op`. Null if the module names no target.
static NVVM::NVVMTargetAttr getTargetAttr(Operation *op) {
  auto module = dyn_cast<gpu::GPUModuleOp>(op);
  if (!module)
    module = op->getParentOfType<gpu::GPUModuleOp>();
  ArrayAttr targets = module ? module.getTargetsAttr() : ArrayAttr();
  for (Attribute attr : targets ? targets.getValue() : ArrayRef<Attribute>())
    if (auto target = dyn_cast<NVVM::NVVMTargetAttr>(attr))
      return target;
  return {};
}

static StringRef getName(Operation *op) {
  NVVM::NVVMTargetAttr target = getTargetAttr(op);
  return target ? target.getChip() : StringRef(flashc::kDefaultTarget);
}

StringRef GPUTarget::getFeature(Operation *op) {
  NVVM::NVVMTargetAttr target = getTargetAttr(op);
  return target && target.getFeatures().contains("+ptx") ? target.getFeatures() : of(op).ptxFeature;
}

const GPUTarget &GPUTarget::of(Operation *op) {
  const GPUTarget *target = lookup(getName(op));
  return target ? *target : *lookup(kDefaultTarget);
}

LogicalResult GPUTarget::verify(Operation *op) {
  if (lookup(getName(op)))
    return success();
  return op->emitError() << "expected the target of the gpu.module to be one of " << getNames() << ", got '"
                         << getName(op) << "'";
}
