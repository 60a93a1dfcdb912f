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
  /// In elements.
  llvm::SmallVector<int64_t, 4> strides;
  /// A scalar's bytes in its own type, lowest first.
  uint64_t scalar = 0;
};

/// `error` with the code by which isArgumentMismatch knows that a launch's arguments do not suit the kernel.
llvm::Error blameArguments(llvm::Error error);
bool isArgumentMismatch(std::error_code code);

/// Checks ranks and extents against the manifest, those that must agree too. The error names the argument.
llvm::Error checkArguments(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments);

/// Arrays with elements have an address. The error names the argument.
llvm::Error checkAddresses(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments);

/// Bytes of a parameter's value.
unsigned getParameterBytes(const Manifest &manifest, const ManifestParameter &parameter);

/// The number of the manifest's entry that is for these arguments: the first variant whose conditions hold.
llvm::Expected<size_t> chooseEntry(const Manifest &manifest, llvm::ArrayRef<LaunchArgument> arguments, int64_t smCount);

/// The CTAs along x, y and z; all zero if there is nothing to do. Fails if they are 2^31 or more. Along y and z there
/// may be more than kMostAlongAxis, which a launch with a folded grid has.
llvm::Expected<std::array<uint32_t, 3>> computeGrid(const ManifestKernel &kernel,
                                                    llvm::ArrayRef<LaunchArgument> arguments, int64_t smCount);

/// Bytes of a memory that an entry's kernels share in a launch with these arguments: its workspace, or its mask map.
llvm::Expected<size_t> computeBytes(const std::optional<GridFormula> &formula, llvm::ArrayRef<LaunchArgument> arguments,
                                    int64_t smCount);

/// The values of a kernel's parameters, in order.
class KernelParameters {
public:
  /// For arguments that checkArguments passes. Encodes tensor maps through `driver`. Refuses arrays that a tensor map
  /// cannot describe: the innermost stride is 1, and the address and the other strides are multiples of 16 bytes.
  static llvm::Expected<KernelParameters> build(const cuda::Driver &driver, const Manifest &manifest,
                                                const ManifestKernel &kernel, llvm::ArrayRef<LaunchArgument> arguments,
                                                int64_t smCount);

  /// Says where the workspace is, which each launch has anew.
  void setWorkspace(cuda::DevicePtr address) { setAddresses(workspaces, address); }
  /// Says where the mask map is.
  void setMaskMap(cuda::DevicePtr address) { setAddresses(maskMaps, address); }
  /// Extents and scalars, as bytes. Kernels without other parameters but these and mask maps do the same for equal
  /// ones.
  std::string getNumbers() const;
  bool readsArrays() const { return hasArrays; }

  /// What cuLaunchKernelEx takes; valid while this object lives.
  llvm::SmallVector<void *, 16> getAddresses();

private:
  /// Parameters that are addresses in a memory, and how far behind its first byte.
  using Addresses = llvm::SmallVector<std::pair<unsigned, int64_t>, 2>;
  void setAddresses(const Addresses &addresses, cuda::DevicePtr memory);

  /// One parameter; a tensor map is the largest.
  std::vector<cuda::TensorMap> values;
  Addresses workspaces, maskMaps;
  llvm::SmallVector<unsigned, 4> numbers;
  bool hasArrays = false;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_KERNELPARAMETERS_H
