//===- KernelParameters.h - from a manifest and arrays to what a kernel takes -------------------------------------===//
#ifndef FLASHC_RUNTIME_KERNELPARAMETERS_H
#define FLASHC_RUNTIME_KERNELPARAMETERS_H

#include "flashc/Runtime/CUDADriver.h"
#include "flashc/Runtime/Manifest.h"

#include <string>
#include <vector>

namespace flashc {

/// An argument of the source function at a launch: an array in device memory, or a scalar.
struct LaunchArgument {
  /// The address of the first element.
  cuda::DevicePtr address = 0;
  llvm::SmallVector<int64_t, 4> shape;
  /// Strides in elements.
  llvm::SmallVector<int64_t, 4> strides;
  /// The bytes of a scalar in its own type, lowest byte first.
  uint64_t scalar = 0;
};

/// Marks `error` so that isArgumentMismatch recognises it: the launch's arguments do not suit the kernel.
llvm::Error blameArguments(llvm::Error error);
bool isArgumentMismatch(std::error_code code);

/// Checks ranks and extents against the manifest, including extents that must be equal. The error names the argument.
llvm::Error checkArguments(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments);

/// Checks that each array with elements has an address. The error names the argument.
llvm::Error checkAddresses(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments);

/// Returns the size of a parameter's value in bytes.
unsigned getParameterBytes(const Manifest &manifest, const ManifestParameter &parameter);

/// Returns the number of the manifest's entry for these arguments. A variant is taken if all of its conditions hold,
/// and the first such variant has precedence. If there is none, the entry that is not a variant is taken.
llvm::Expected<size_t> chooseEntry(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments, int64_t smCount);

/// Returns the numbers of CTAs along x, y and z. All three are 0 if one of them is 0. Fails if there are 2^31 CTAs or
/// more. The numbers along y and z may exceed kMostAlongAxis. Such a launch needs a kernel with a flat grid (foldGrid).
llvm::Expected<std::array<uint32_t, 3>> computeGrid(const ManifestKernel &kernel,
                                                    llvm::ArrayRef<LaunchArgument> arguments, int64_t smCount);

/// Returns the size in bytes of memory that the kernels of a launch share (the workspace or the mask map), for these
/// arguments.
llvm::Expected<size_t> computeBytes(const std::optional<GridFormula> &formula, llvm::ArrayRef<LaunchArgument> arguments,
                                    int64_t smCount);

/// The values of a kernel's parameters in the order of the parameters.
class KernelParameters {
public:
  /// Builds the values from arguments that have passed checkArguments. Encodes tensor maps through `driver`. Refuses
  /// arrays that a tensor map cannot describe: the innermost stride must be 1, and the address and the other strides
  /// must be multiples of 16 bytes.
  static llvm::Expected<KernelParameters> build(const cuda::Driver &driver, const Manifest &manifest,
                                                const ManifestKernel &kernel, llvm::ArrayRef<LaunchArgument> arguments,
                                                int64_t smCount);

  /// Sets the address of the workspace, which differs in each launch.
  void setWorkspace(cuda::DevicePtr address) { setAddresses(workspaces, address); }
  /// Sets the address of the mask map.
  void setMaskMap(cuda::DevicePtr address) { setAddresses(maskMaps, address); }
  /// Returns the values of extents and scalars, as bytes. If all other parameters of a kernel are mask maps, the kernel
  /// computes equal results for equal bytes.
  std::string getNumbers() const;
  bool readsArrays() const { return hasArrays; }

  /// Returns the addresses of the values, for cuLaunchKernelEx. They are valid during the lifetime of this object.
  llvm::SmallVector<void *, 16> getAddresses();

private:
  /// Parameters that are addresses inside of one allocation. For each parameter: its number, and its offset in bytes
  /// from the begin of the allocation.
  using Addresses = llvm::SmallVector<std::pair<unsigned, int64_t>, 2>;
  void setAddresses(const Addresses &addresses, cuda::DevicePtr memory);

  /// One value for each parameter. A tensor map is the largest kind of value.
  std::vector<cuda::TensorMap> values;
  Addresses workspaces, maskMaps;
  llvm::SmallVector<unsigned, 4> numbers;
  bool hasArrays = false;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_KERNELPARAMETERS_H
