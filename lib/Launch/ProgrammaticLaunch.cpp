//===- ProgrammaticLaunch.cpp - kernels start before those in front of them have ended ----------------------------===//

#include "flashc/Launch/LaunchInterface.h"
#include "flashc/Launch/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace flashc {
#define GEN_PASS_DEF_PROGRAMMATICLAUNCH
#include "flashc/Launch/Passes.h.inc"
} // namespace flashc

using namespace mlir;
using namespace mlir::tile;
using namespace flashc;

/// Whether `op` reads or writes memory, as far as is known; rings and the like only come to be.
static bool touchesMemory(Operation *op) {
  auto effects = getEffectsRecursively(op);
  return !effects || llvm::any_of(*effects, [](const MemoryEffects::EffectInstance &effect) {
    return isa<MemoryEffects::Read, MemoryEffects::Write>(effect.getEffect());
  });
}

/// Every thread that runs `block` waits before it touches memory, and in any case.
static void insertWait(Block &block) {
  auto place = llvm::find_if(block, [](Operation &op) {
    return op.hasTrait<OpTrait::IsTerminator>() || touchesMemory(&op);
  });
  auto roles = place == block.end() ? WarpSpecializeOp() : dyn_cast<WarpSpecializeOp>(*place);
  if (roles) {
    insertWait(roles.getProducer().front());
    insertWait(roles.getConsumer().front());
    return;
  }
  OpBuilder b(&block, place);
  NVVM::GriddepcontrolOp::create(b, block.getParentOp()->getLoc(), NVVM::GridDepActionKind::wait);
}

FailureOr<bool> flashc::overlapLaunches(gpu::GPUFuncOp kernel) {
  auto manifest = kernel->getAttrOfType<DictionaryAttr>(kManifestAttrName);
  auto before = manifest ? manifest.getAs<ArrayAttr>("before") : ArrayAttr();
  SmallVector<gpu::GPUFuncOp> kernels;
  if (before) {
    for (Attribute attribute : before) {
      auto entry = dyn_cast<DictionaryAttr>(attribute);
      auto name = entry ? entry.getAs<StringAttr>("kernel") : StringAttr();
      if (!name)
        return kernel->emitOpError("expected its manifest to name the kernels before it, got ") << attribute;
      kernels.push_back(SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(kernel->getParentOp(), name));
      if (!kernels.back())
        return kernel->emitOpError() << "expected a kernel '" << name.getValue()
                                     << "' beside it, which its manifest names";
    }
  }
  kernel->removeAttr(kProgrammaticLaunchAttrName);
  if (kernels.empty())
    return false;
  for (gpu::GPUFuncOp other : kernels) {
    if (other != kernels.front())
      insertWait(other.getBody().front());
    OpBuilder b = OpBuilder::atBlockBegin(&other.getBody().front());
    NVVM::GriddepcontrolOp::create(b, other.getLoc(), NVVM::GridDepActionKind::launch_dependents);
  }
  insertWait(kernel.getBody().front());
  NamedAttrList entry(manifest);
  entry.set(kProgrammaticLaunchKey, BoolAttr::get(kernel.getContext(), true));
  kernel->setAttr(kManifestAttrName, entry.getDictionary(kernel.getContext()));
  return true;
}

namespace {
struct ProgrammaticLaunch : flashc::impl::ProgrammaticLaunchBase<ProgrammaticLaunch> {
  using ProgrammaticLaunchBase::ProgrammaticLaunchBase;

  void runOnOperation() override {
    SmallVector<gpu::GPUFuncOp> kernels;
    getOperation()->walk([&](gpu::GPUFuncOp kernel) {
      if (kernel->hasAttr(kProgrammaticLaunchAttrName))
        kernels.push_back(kernel);
    });
    for (gpu::GPUFuncOp kernel : kernels) {
      FailureOr<bool> overlaps = overlapLaunches(kernel);
      if (failed(overlaps))
        return signalPassFailure();
      numOverlapped += *overlaps;
    }
  }
};
} // namespace
