//===- KernelParameters.cpp - from a manifest and arrays to what a kernel takes -----------------------------------===//

#include "flashc/Runtime/KernelParameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cstring>
#include <limits>
#include <optional>

using namespace flashc;
using namespace llvm;

static std::string describe(const Manifest &manifest, unsigned index) {
  return ("argument " + Twine(index) + " (" + manifest.arguments[index].name + ")").str();
}

Error flashc::blameArguments(Error error) {
  return createStringError(std::make_error_code(std::errc::invalid_argument), toString(std::move(error)));
}

bool flashc::isArgumentMismatch(std::error_code code) { return code == std::errc::invalid_argument; }

/// The extents of the arguments; up to 8 arguments need no allocation.
static SmallVector<ArrayRef<int64_t>, 8> getShapes(ArrayRef<LaunchArgument> arguments) {
  return SmallVector<ArrayRef<int64_t>, 8>(
      map_range(arguments, [](const LaunchArgument &argument) -> ArrayRef<int64_t> { return argument.shape; }));
}

/// Checks that extents are equal where the manifest requires it. The error names the argument whose extent differs.
static Error checkRequirements(const Manifest &manifest, ArrayRef<LaunchArgument> arguments) {
  SmallVector<ArrayRef<int64_t>, 8> shapes = getShapes(arguments);
  for (const auto &[first, second] : manifest.requirements) {
    Expected<int64_t> x = first.evaluate(shapes, /*smCount=*/0), y = second.evaluate(shapes, /*smCount=*/0);
    if (!x || !y)
      return joinErrors(x.takeError(), y.takeError());
    if (*x == *y)
      continue;
    // Manifest::parse ensures that one side is an extent.
    bool isSecond = second.getExtent().has_value();
    auto [argument, dim] = isSecond ? *second.getExtent() : *first.getExtent();
    const GridFormula &other = isSecond ? first : second;
    std::string words = other.str([&](unsigned index) { return describe(manifest, index); });
    return createStringError(describe(manifest, argument) + ": expected extent " + Twine(isSecond ? *x : *y) +
                             " in dimension " + Twine(dim) + ", " + (other.getExtent() ? "as in " : "") + words +
                             ", got " + Twine(isSecond ? *y : *x));
  }
  return Error::success();
}

Error flashc::checkArguments(const Manifest &manifest, ArrayRef<LaunchArgument> arguments) {
  if (arguments.size() != manifest.arguments.size())
    return createStringError("expected " + Twine(manifest.arguments.size()) + " arguments, got " +
                             Twine(arguments.size()));
  for (auto [index, argument] : enumerate(arguments)) {
    ArrayRef<int64_t> shape = manifest.arguments[index].shape;
    if (argument.shape.size() != shape.size() || argument.strides.size() != shape.size())
      return createStringError(describe(manifest, index) + ": expected rank " + Twine(shape.size()) + ", got " +
                               Twine(argument.shape.size()));
    for (auto [dim, extent] : enumerate(shape))
      if (extent >= 0 && argument.shape[dim] != extent)
        return createStringError(describe(manifest, index) + ": expected extent " + Twine(extent) + " in dimension " +
                                 Twine(dim) + ", got " + Twine(argument.shape[dim]));
    for (auto [dim, extent] : enumerate(argument.shape))
      if (extent < 0)
        return createStringError(describe(manifest, index) + ": expected an extent that is not negative in dimension " +
                                 Twine(dim) + ", got " + Twine(extent));
  }
  return checkRequirements(manifest, arguments);
}

Error flashc::checkAddresses(const Manifest &manifest, ArrayRef<LaunchArgument> arguments) {
  for (auto [index, argument] : enumerate(arguments))
    if (argument.address == 0 && !argument.shape.empty() && !is_contained(argument.shape, 0))
      return createStringError(describe(manifest, index) + ": expected an address, got 0");
  return Error::success();
}

unsigned flashc::getParameterBytes(const Manifest &manifest, const ManifestParameter &parameter) {
  using Kind = ManifestParameter::Kind;
  switch (parameter.kind) {
  case Kind::TensorMap:
    return sizeof(cuda::TensorMap);
  case Kind::Extent:
  case Kind::Value:
    return sizeof(int32_t);
  case Kind::Scalar:
    return getManifestDTypeBytes(manifest.arguments[parameter.argument].dtype);
  case Kind::Pointer:
  case Kind::Stride:
  case Kind::Workspace:
    break;
  }
  return sizeof(uint64_t);
}

Expected<size_t> flashc::chooseEntry(const Manifest &manifest, ArrayRef<LaunchArgument> arguments, int64_t smCount) {
  if (manifest.variants.empty())
    return 0;
  SmallVector<ArrayRef<int64_t>, 8> shapes = getShapes(arguments);
  for (auto [number, variant] : enumerate(manifest.variants)) {
    bool holds = true;
    for (const auto &[formula, bound] : variant.conditions) {
      Expected<int64_t> value = formula.evaluate(shapes, smCount);
      if (!value)
        return value.takeError();
      holds = holds && *value <= bound;
    }
    if (holds)
      return number;
  }
  return manifest.variants.size();
}

Expected<std::array<uint32_t, 3>> flashc::computeGrid(const ManifestKernel &kernel, ArrayRef<LaunchArgument> arguments,
                                                      int64_t smCount) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(); // kernels number CTAs in 32 bits
  SmallVector<ArrayRef<int64_t>, 8> shapes = getShapes(arguments);
  std::array<uint32_t, 3> grid;
  int64_t total = 1;
  for (unsigned axis = 0; axis < 3; ++axis) {
    Expected<int64_t> value = kernel.grid[axis].evaluate(shapes, smCount);
    if (!value)
      return value.takeError();
    if (*value < 0 || *value > kMost || (total *= std::max<int64_t>(*value, 1)) > kMost)
      return createStringError("expected at most " + Twine(kMost) + " CTAs, got " + Twine(*value) +
                               " along grid axis " + Twine(axis) + (axis > 0 ? " with those of the others" : ""));
    grid[axis] = static_cast<uint32_t>(*value);
  }
  if (is_contained(grid, 0u))
    grid = {0, 0, 0};
  return grid;
}

Expected<size_t> flashc::computeBytes(const std::optional<GridFormula> &formula, ArrayRef<LaunchArgument> arguments,
                                      int64_t smCount) {
  if (!formula)
    return 0;
  Expected<int64_t> bytes = formula->evaluate(getShapes(arguments), smCount);
  if (!bytes)
    return bytes.takeError();
  return static_cast<size_t>(*bytes);
}

/// The alignment of addresses and strides in bytes that cuTensorMapEncodeTiled requires (CUDA Driver API).
static constexpr unsigned kMapAlignment = 16;

static std::optional<int> getMapDataType(StringRef dtype) {
  return StringSwitch<std::optional<int>>(dtype)
      .Case("bf16", cuda::kMapBFloat16)
      .Case("f16", cuda::kMapFloat16)
      .Case("f32", cuda::kMapFloat32)
      .Cases({"i8", "f8E4M3FN"}, cuda::kMapUInt8)
      .Case("i32", cuda::kMapInt32)
      .Case("i64", cuda::kMapInt64)
      .Default(std::nullopt);
}

/// Checks that the address and all strides but the innermost are multiples of `alignment` bytes, and that the innermost
/// stride is 1. cuTensorMapEncodeTiled requires 16 bytes (CUDA Driver API); a kernel's wide loads and stores require
/// their own width. The stride of a dimension with one element is not checked: it is never used, and frameworks leave
/// it arbitrary.
static Error checkAlignment(const Manifest &manifest, unsigned index, const LaunchArgument &argument, unsigned bytes,
                            unsigned alignment) {
  if (argument.address % alignment != 0)
    return createStringError(describe(manifest, index) + ": expected an address that is a multiple of " +
                             Twine(alignment) + " bytes");
  for (auto [dim, extent, stride] : enumerate(argument.shape, argument.strides)) {
    if (extent <= 1)
      continue;
    if (dim + 1 == argument.strides.size()) {
      if (stride != 1)
        return createStringError(describe(manifest, index) + ": expected stride 1 in the innermost dimension, got " +
                                 Twine(stride));
    } else if (stride < 0 || stride * bytes % alignment != 0) {
      return createStringError(describe(manifest, index) + ": expected a stride of a multiple of " + Twine(alignment) +
                               " bytes in dimension " + Twine(dim) + ", got " + Twine(stride * bytes));
    }
  }
  return Error::success();
}

static Error encodeTensorMap(const cuda::Driver &driver, const Manifest &manifest, const ManifestParameter &parameter,
                             const LaunchArgument &argument, cuda::TensorMap &map) {
  StringRef dtype = manifest.arguments[parameter.argument].dtype;
  unsigned bytes = getManifestDTypeBytes(dtype);
  std::optional<int> type = getMapDataType(dtype);
  if (!type)
    return createStringError(describe(manifest, parameter.argument) + ": no tensor map has elements of " + dtype);
  for (auto [dim, extent] : enumerate(argument.shape))
    if (extent == 0)
      return createStringError(describe(manifest, parameter.argument) +
                               ": expected an extent of at least 1 in dimension " + Twine(dim) +
                               ", got 0: without keys, o is 0 and lse is -inf");
  if (Error error = checkAlignment(manifest, parameter.argument, argument, bytes, kMapAlignment))
    return error;

  // The driver numbers dimensions from the innermost, and takes no innermost stride.
  SmallVector<uint64_t, 5> extents, strides;
  for (unsigned dim = argument.shape.size(); dim-- > 0;) {
    extents.push_back(argument.shape[dim]);
    if (dim + 1 != argument.shape.size())
      strides.push_back(argument.shape[dim] > 1 ? argument.strides[dim] * bytes : kMapAlignment);
  }
  SmallVector<uint32_t, 5> elementStrides(extents.size(), 1);
  // The values of CUtensorMapSwizzle for no swizzle and for swizzles of 32, 64 and 128 bytes. The map has no
  // interleaving, and elements outside of the array read as zeros.
  int swizzle = parameter.swizzle == 0 ? 0 : parameter.swizzle == 32 ? 1 : parameter.swizzle == 64 ? 2 : 3;
  cuda::Result result =
      driver.tensorMapEncodeTiled(&map, *type, extents.size(), reinterpret_cast<void *>(argument.address),
                                  extents.data(), strides.data(), parameter.box.data(), elementStrides.data(),
                                  /*interleave=*/0, swizzle, cuda::kL2Promotion128B, /*oobFill=*/0);
  if (result == 0)
    return Error::success();
  return driver.check(result, describe(manifest, parameter.argument) + ": encoding the tensor map");
}

/// The largest extent: kernels count positions in 32 bits, including positions of a tile that exceeds an array.
static constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max() - (1 << 16);

/// Writes the value of one parameter. Integers are little-endian on the host and on the device.
static Error writeParameter(const cuda::Driver &driver, const Manifest &manifest, const ManifestParameter &parameter,
                            ArrayRef<LaunchArgument> arguments, cuda::TensorMap &value) {
  using Kind = ManifestParameter::Kind;
  const LaunchArgument &argument = arguments[parameter.argument];
  uint64_t bits = 0;
  switch (parameter.kind) {
  case Kind::TensorMap:
    return encodeTensorMap(driver, manifest, parameter, argument, value);
  case Kind::Pointer: {
    unsigned bytes = getManifestDTypeBytes(manifest.arguments[parameter.argument].dtype);
    if (Error error =
            checkAlignment(manifest, parameter.argument, argument, bytes, std::max(bytes, parameter.alignment)))
      return error;
    bits = argument.address;
    break;
  }
  case Kind::Stride:
    bits = argument.strides[parameter.dim];
    break;
  case Kind::Extent:
    if (argument.shape[parameter.dim] > kMostExtent)
      return createStringError(describe(manifest, parameter.argument) + ": expected an extent of at most " +
                               Twine(kMostExtent) + " in dimension " + Twine(parameter.dim) + ", got " +
                               Twine(argument.shape[parameter.dim]));
    bits = argument.shape[parameter.dim];
    break;
  case Kind::Scalar:
    bits = argument.scalar;
    break;
  case Kind::Workspace:
  case Kind::MaskMap:
  case Kind::Value:
    break;
  }
  std::memcpy(&value, &bits, sizeof(bits));
  return Error::success();
}

Expected<KernelParameters> KernelParameters::build(const cuda::Driver &driver, const Manifest &manifest,
                                                   const ManifestKernel &kernel, ArrayRef<LaunchArgument> arguments,
                                                   int64_t smCount) {
  KernelParameters result;
  result.values.resize(kernel.parameters.size());
  for (auto [index, parameter] : enumerate(kernel.parameters)) {
    if (parameter.isOfLaunch()) {
      Expected<int64_t> offset = parameter.offset ? parameter.offset->evaluate(getShapes(arguments), smCount) : 0;
      if (!offset)
        return offset.takeError();
      bool isMap = parameter.kind == ManifestParameter::Kind::MaskMap;
      (isMap ? result.maskMaps : result.workspaces).emplace_back(index, *offset);
      continue;
    }
    if (parameter.kind == ManifestParameter::Kind::Value) {
      Expected<int64_t> number = parameter.value.evaluate(getShapes(arguments), smCount);
      if (!number)
        return number.takeError();
      int32_t bits = static_cast<int32_t>(*number); // an extent of a grid
      std::memcpy(&result.values[index], &bits, sizeof(bits));
      result.numbers.push_back(index);
      continue;
    }
    bool isNumber =
        parameter.kind == ManifestParameter::Kind::Extent || parameter.kind == ManifestParameter::Kind::Scalar;
    if (isNumber)
      result.numbers.push_back(index);
    else
      result.hasArrays = true;
    if (Error error = writeParameter(driver, manifest, parameter, arguments, result.values[index]))
      return error;
  }
  return result;
}

void KernelParameters::setAddresses(const Addresses &addresses, cuda::DevicePtr memory) {
  for (auto [index, offset] : addresses) {
    cuda::DevicePtr inside = memory + offset;
    std::memcpy(&values[index], &inside, sizeof(inside));
  }
}

std::string KernelParameters::getNumbers() const {
  std::string bytes;
  for (unsigned index : numbers)
    bytes.append(reinterpret_cast<const char *>(&values[index]), sizeof(uint64_t));
  return bytes;
}

SmallVector<void *, 16> KernelParameters::getAddresses() {
  SmallVector<void *, 16> addresses;
  for (cuda::TensorMap &value : values)
    addresses.push_back(&value);
  return addresses;
}
