//===- Manifest.cpp - a manifest's entries and their folded grids -------------------------------------------------===//

#include "flashc/Runtime/Manifest.h"
#include "llvm/ADT/StringSwitch.h"

using namespace flashc;
using namespace llvm;

unsigned flashc::getManifestDTypeBytes(StringRef dtype) {
  return StringSwitch<unsigned>(dtype)
      .Cases({"i1", "i8", "f8E4M3FN"}, 1)
      .Cases({"bf16", "f16", "i16"}, 2)
      .Cases({"f32", "i32"}, 4)
      .Cases({"f64", "i64", "index"}, 8)
      .Default(0);
}

SmallVector<const ManifestKernel *, 4> ManifestEntry::getKernels() const {
  SmallVector<const ManifestKernel *, 4> kernels;
  for (const ManifestKernel &kernel : before)
    kernels.push_back(&kernel);
  kernels.push_back(this);
  for (const ManifestKernel &kernel : after)
    kernels.push_back(&kernel);
  return kernels;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Folded grids
//===--------------------------------------------------------------------------------------------------------------===//

bool flashc::isFlat(const ManifestKernel &kernel) {
  return kernel.grid[1].getText() == "1" && kernel.grid[2].getText() == "1";
}

ManifestKernel flashc::foldGrid(ManifestKernel kernel) {
  if (isFlat(kernel))
    return kernel;
  for (unsigned axis : {0, 1}) {
    ManifestParameter extent{ManifestParameter::Kind::Value};
    extent.value = kernel.grid[axis];
    kernel.parameters.push_back(std::move(extent));
  }
  kernel.grid = {kernel.grid[0] * kernel.grid[1] * kernel.grid[2], 1, 1};
  return kernel;
}

void ManifestEntry::foldGrids() {
  static_cast<ManifestKernel &>(*this) = foldGrid(*this);
  for (std::vector<ManifestKernel> *others : {&before, &after})
    for (ManifestKernel &kernel : *others)
      kernel = foldGrid(std::move(kernel));
}

void Manifest::addFoldedEntries() {
  folded.clear();
  for (size_t number = 0; number < getNumEntries(); ++number) {
    folded.push_back(getEntry(number));
    folded.back().foldGrids();
  }
}
