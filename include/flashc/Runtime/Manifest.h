//===- Manifest.h - how to launch a compiled kernel ---------------------------------------------------------------===//
//
// The C++ form of the manifest that the compiler writes beside the PTX; docs/manifest.md is its specification.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_MANIFEST_H
#define FLASHC_RUNTIME_MANIFEST_H

#include "flashc/Runtime/GridFormula.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flashc {

/// An array or scalar of the source function: an argument of it or, numbered after those, one of its results. A dynamic
/// extent is -1; a scalar has no extents. The name is what the argument is to the op that computes with it, such as q;
/// otherwise what the argument's attribute `flash.name` says, or arg<number>.
struct ManifestArgument {
  std::string name;
  bool isOutput = false;
  llvm::SmallVector<int64_t, 4> shape;
  std::string dtype;
};

/// A parameter of the kernel, made from one argument (or, a workspace, from none).
struct ManifestParameter {
  enum class Kind { TensorMap, Pointer, Stride, Extent, Scalar, Workspace, MaskMap, Value };
  Kind kind;
  /// Index into Manifest::arguments, if hasArgument.
  unsigned argument = 0;
  /// Stride and extent: a dimension of the argument.
  unsigned dim = 0;
  /// Tensor map: elements along each dimension, innermost first, and the swizzle in bytes (0, 32, 64 or 128).
  llvm::SmallVector<uint32_t, 5> box = {};
  unsigned swizzle = 0;
  /// Pointer: bytes that the address and all strides but the innermost are multiples of; 0: the element's size.
  unsigned alignment = 0;
  /// Workspace and mask map: bytes that the address lies behind the memory's first; none: it is that.
  std::optional<GridFormula> offset = std::nullopt;
  /// Value: what it is, in 32 bits.
  GridFormula value = {};

  /// Whether it is memory that the launcher finds, and no argument.
  bool isOfLaunch() const { return kind == Kind::Workspace || kind == Kind::MaskMap; }
  bool hasArgument() const { return !isOfLaunch() && kind != Kind::Value; }
};

/// A kernel of the PTX, and how to launch it.
struct ManifestKernel {
  std::string kernel;
  std::vector<ManifestParameter> parameters;
  std::array<GridFormula, 3> grid;
  std::array<uint32_t, 3> block = {1, 1, 1}, cluster = {1, 1, 1};
  /// In bytes.
  uint32_t dynamicSharedMemory = 0;
  /// Whether the entry's mask map is what it writes, and all that it writes.
  bool writesMaskMap = false;
};

/// The most CTAs along y and z (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"); along x
/// there may be 2^31 - 1.
constexpr int64_t kMostAlongAxis = 65535;

/// Whether the grid has one dimension, whatever the arguments are.
bool isFlat(const ManifestKernel &kernel);

/// How a kernel is launched by a grid of one dimension, which its code (tile-fold-grid) takes apart: x runs fastest,
/// then y. The extents of x and y are its last two parameters. A flat kernel stays as it is.
ManifestKernel foldGrid(ManifestKernel kernel);

/// A formula and the most that it may be.
struct LaunchCondition {
  GridFormula formula;
  int64_t bound = 0;
};

/// The main kernel of a launch, and what it needs there. A manifest for the target "cpu" says the name alone.
struct ManifestEntry : ManifestKernel {
  /// The launches that it is for: those where all of these hold.
  llvm::SmallVector<LaunchCondition, 2> conditions;
  std::string schedule;
  /// Why its work is sorted by a kernel before it; empty if it is not.
  std::string sorted;
  /// Bytes of device memory that the kernels of a launch share; none: they need none.
  std::optional<GridFormula> workspace;
  /// Bytes of device memory that a launcher may keep, and then leave out the kernels that write it; none: there is
  /// none.
  std::optional<GridFormula> maskMap;
  /// Kernels that run before it and after it in every launch, in this order.
  std::vector<ManifestKernel> before, after;
  /// Whether every kernel of a launch but the first of several may start before the one in front of it has ended: it
  /// waits itself.
  bool programmaticLaunch = false;

  /// What a launch runs, in this order.
  llvm::SmallVector<const ManifestKernel *, 4> getKernels() const;

  /// Folds the grids of all of them.
  void foldGrids();
};

/// The entry for every launch that no variant is for, and what all entries share.
struct Manifest : ManifestEntry {
  static constexpr llvm::StringLiteral kSchema = "flashc.manifest";
  static constexpr int64_t kVersion = 1;
  /// The version of a manifest with kernels that run before others: a reader that does not know them would leave them
  /// out.
  static constexpr int64_t kVersionWithBefore = 2;
  /// The version of a manifest with parameters that lie inside of the workspace: a reader that does not know these
  /// offsets would pass the first byte.
  static constexpr int64_t kVersionWithOffsets = 3;
  /// The version of a manifest with kernels that run after others.
  static constexpr int64_t kVersionWithAfter = 4;
  /// The version of a manifest with mask maps.
  static constexpr int64_t kVersionWithMaskMaps = 5;

  std::string target;
  std::vector<ManifestArgument> arguments;
  /// Formulas that are equal in every launch.
  std::vector<std::pair<GridFormula, GridFormula>> requirements;
  /// The first whose conditions hold is launched.
  std::vector<ManifestEntry> variants;
  /// All entries with folded grids, for launches of more CTAs along y or z than there may be. A launcher makes them
  /// (addFoldedEntries); they are not written.
  std::vector<ManifestEntry> folded;

  /// All entries by number: the variants, then the one for every other launch.
  size_t getNumEntries() const { return variants.size() + 1; }
  /// From getNumEntries() on: those with folded grids, in the same order.
  const ManifestEntry &getEntry(size_t number) const {
    if (number >= getNumEntries())
      return folded[number - getNumEntries()];
    return number < variants.size() ? variants[number] : *this;
  }
  void addFoldedEntries();

  /// Reads the JSON text. An error names the key that is wrong. Unknown keys are ignored, unknown versions refused.
  static llvm::Expected<Manifest> parse(llvm::StringRef json);
  static llvm::Expected<Manifest> fromJSON(const llvm::json::Value &value);
  /// What fromJSON reads, of the lowest version that has all of it.
  llvm::json::Object toJSON() const;
};

/// Size of an element of a manifest's dtype in bytes, or 0 if there is no such dtype.
unsigned getManifestDTypeBytes(llvm::StringRef dtype);

} // namespace flashc

#endif // FLASHC_RUNTIME_MANIFEST_H
