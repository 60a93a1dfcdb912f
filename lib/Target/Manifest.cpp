//===- Manifest.cpp - a kernel's manifest as JSON -----------------------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "flashc/Launch/Launch.h"
#include "flashc/Target/PTX.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace flashc;

/// Sets the size of shared memory, which passes of L2 may have changed after the kernel got its manifest.
static void complete(ManifestKernel &info, Operation *kernel) {
  if (auto bytes = kernel->getAttrOfType<IntegerAttr>("flashc.shared_memory"))
    info.dynamicSharedMemory = bytes.getInt();
  else if (auto onTiles = dyn_cast<gpu::GPUFuncOp>(kernel))
    info.dynamicSharedMemory = tile::KernelLayout(onTiles).bytes;
}

FailureOr<std::string> flashc::exportManifest(ModuleOp module) {
  std::optional<Manifest> manifest;
  std::vector<ManifestEntry> variants;
  bool isValid = true, isOne = true;
  module.walk([&](Operation *kernel) {
    if (!Launch::isOn(kernel))
      return;
    FailureOr<Launch> launch = Launch::get(kernel);
    isValid &= succeeded(launch);
    if (failed(launch))
      return;
    complete(*launch, kernel);
    if (!launch->conditions.empty()) {
      variants.push_back(std::move(*launch));
      return;
    }
    isOne &= !manifest;
    manifest = std::move(*launch);
  });
  if (!isValid)
    return failure();
  if (!manifest || !isOne)
    return module.emitError() << "expected one kernel with a manifest and no condition, got "
                              << (manifest ? "several" : "none");
  manifest->variants = std::move(variants);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(manifest->toJSON())) << "\n";
  return text;
}
