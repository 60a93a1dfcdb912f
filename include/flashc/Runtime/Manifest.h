//===- Manifest.h - how to launch a compiled kernel ---------------------------------------------------------------===//
//
// The C++ form of the manifest that the compiler writes together with the PTX; docs/manifest.md is its specification.
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

/// An array or a scalar of the source function: an argument or, numbered after the arguments, a result. A dynamic
/// extent is -1; a scalar has no extents. The name is the role of the argument in the op that uses it, such as q;
/// without a role it is the argument's attribute `flash.name`, or arg<number>.
struct ManifestArgument {
  std::string name;
  bool isOutput = false;
  llvm::SmallVector<int64_t, 4> shape;
  std::string dtype;
};

/// A parameter of the kernel, made from one argument, or from none (a workspace).
struct ManifestParameter {
  enum class Kind { TensorMap, Pointer, Stride, Extent, Scalar, Workspace, MaskMap, Value };
  Kind kind;
  /// The argument's index in Manifest::arguments, if hasArgument.
  unsigned argument = 0;
  /// For a stride or an extent: the dimension of the argument.
  unsigned dim = 0;
  /// For a tensor map: the extents of the box, innermost first, and the swizzle in bytes (0, 32, 64 or 128).
  llvm::SmallVector<uint32_t, 5> box = {};
  unsigned swizzle = 0;
  /// For a pointer: the address, and all strides but the innermost one, are multiples of this number of bytes. If it is
  /// 0, they are multiples of the size of an element.
  unsigned alignment = 0;
  /// For a workspace and a mask map: the offset of the address in bytes from the beginning of the memory. If none, it
  /// is 0.
  std::optional<GridFormula> offset = std::nullopt;
  /// For a value: the number, which is passed in 32 bits.
  GridFormula value = {};

  /// Whether the launcher allocates the memory, so that no argument provides it.
  bool isOfLaunch() const { return kind == Kind::Workspace || kind == Kind::MaskMap; }
  bool hasArgument() const { return !isOfLaunch() && kind != Kind::Value; }
};

/// A kernel of the PTX, and the parameters of its launch.
struct ManifestKernel {
  std::string kernel;
  std::vector<ManifestParameter> parameters;
  std::array<GridFormula, 3> grid;
  std::array<uint32_t, 3> block = {1, 1, 1}, cluster = {1, 1, 1};
  /// In bytes.
  uint32_t dynamicSharedMemory = 0;
  /// Whether the kernel writes the entry's mask map and nothing else.
  bool writesMaskMap = false;
};

/// The most CTAs along y and z (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). Along x
/// the limit is 2^31 - 1.
constexpr int64_t kMostAlongAxis = 65535;

/// Whether the grid has one dimension, for all arguments.
bool isFlat(const ManifestKernel &kernel);

/// Returns the kernel with its grid flattened to one dimension, in which x is fastest, then y. The pass tile-fold-grid
/// changes the kernel's code, so that it computes x, y and z from the number of the CTA. The code also needs the
/// extents of x and y, which become the last two parameters. A kernel with a flat grid is returned unchanged.
ManifestKernel foldGrid(ManifestKernel kernel);

/// A condition on a launch, which holds if `formula` is at most `bound`.
struct LaunchCondition {
  GridFormula formula;
  int64_t bound = 0;
};

/// The main kernel of a launch, and what the launch needs besides. In a manifest for the target "cpu" only the name is
/// set.
struct ManifestEntry : ManifestKernel {
  /// The conditions under which a launch may take the entry. All must hold.
  llvm::SmallVector<LaunchCondition, 2> conditions;
  std::string schedule;
  /// The reason why another kernel sorts the main kernel's work tiles before the main kernel runs. Empty if they are
  /// not sorted.
  std::string sorted;
  /// The size of the workspace in bytes: device memory that the kernels of a launch share. None if they need no
  /// workspace.
  std::optional<GridFormula> workspace;
  /// The size of the mask map in bytes: device memory that a launcher may keep between launches. A launch that finds
  /// the map leaves out the kernels that write the map. None if there is no mask map.
  std::optional<GridFormula> maskMap;
  /// The kernels that every launch runs before the main kernel, and those that it runs after the main kernel, in order.
  std::vector<ManifestKernel> before, after;
  /// Whether each kernel of a launch, except for the first of several kernels, may start while the kernel before it
  /// still runs. The code of such a kernel waits for the end of the kernel before it.
  bool programmaticLaunch = false;

  /// The kernels of a launch in the order in which they run.
  llvm::SmallVector<const ManifestKernel *, 4> getKernels() const;

  /// Flattens the grids of all kernels of the entry (foldGrid).
  void foldGrids();
};

/// The entry for launches to which no variant applies, and the data that all entries share.
struct Manifest : ManifestEntry {
  static constexpr llvm::StringLiteral kSchema = "flashc.manifest";
  static constexpr int64_t kVersion = 1;
  /// The version of a manifest with kernels that run before the main one. A reader of an older version would leave
  /// these kernels out.
  static constexpr int64_t kVersionWithBefore = 2;
  /// The version of a manifest with parameters that have an offset in the workspace. A reader of an older version would
  /// pass the address of the workspace's first byte.
  static constexpr int64_t kVersionWithOffsets = 3;
  /// The version of a manifest with kernels that run after the main one.
  static constexpr int64_t kVersionWithAfter = 4;
  /// The version of a manifest with mask maps.
  static constexpr int64_t kVersionWithMaskMaps = 5;

  std::string target;
  std::vector<ManifestArgument> arguments;
  /// Pairs of formulas that are equal in every launch.
  std::vector<std::pair<GridFormula, GridFormula>> requirements;
  /// A launch takes the first variant whose conditions hold.
  std::vector<ManifestEntry> variants;
  /// All entries with folded grids, for launches with more CTAs along y or z than a grid may have. A launcher makes
  /// them (addFoldedEntries); the JSON does not contain them.
  std::vector<ManifestEntry> folded;

  /// The number of entries without folded grids. These are the variants, and then the entry for every other launch.
  size_t getNumEntries() const { return variants.size() + 1; }
  /// Entries from getNumEntries() on are the entries with folded grids, in the same order.
  const ManifestEntry &getEntry(size_t number) const {
    if (number >= getNumEntries())
      return folded[number - getNumEntries()];
    return number < variants.size() ? variants[number] : *this;
  }
  void addFoldedEntries();

  /// Parses the JSON text. An error names the wrong key. Unknown keys are ignored, unknown versions refused.
  static llvm::Expected<Manifest> parse(llvm::StringRef json);
  static llvm::Expected<Manifest> fromJSON(const llvm::json::Value &value);
  /// Returns the JSON form. Its version is the lowest one that has all keys that the manifest uses.
  llvm::json::Object toJSON() const;
};

/// Returns the size in bytes of an element of the manifest's type `dtype`. Returns 0 for an unknown type.
unsigned getManifestDTypeBytes(llvm::StringRef dtype);

} // namespace flashc

#endif // FLASHC_RUNTIME_MANIFEST_H
