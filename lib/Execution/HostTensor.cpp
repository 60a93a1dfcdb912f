//===- HostTensor.cpp - an array in host memory, with its type and strides ----------------------------------------===//

#include "flashc/Execution/HostTensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace flashc;

std::optional<DType> flashc::getDType(mlir::Type type) {
  if (type.isBF16())
    return DType::BF16;
  if (type.isF16())
    return DType::F16;
  if (type.isF32())
    return DType::F32;
  if (type.isF64())
    return DType::F64;
  if (type.isIndex() || type.isInteger(64))
    return DType::I64;
  if (type.isInteger(32))
    return DType::I32;
  if (type.isInteger(16))
    return DType::I16;
  if (type.isInteger(8))
    return DType::I8;
  if (type.isInteger(1))
    return DType::I1;
  return std::nullopt;
}

llvm::StringRef flashc::getName(DType dtype) {
  static const char *const names[] = {"bf16", "f16", "f32", "f64", "i1", "i8", "i16", "i32", "i64"};
  return names[static_cast<int>(dtype)];
}

unsigned flashc::getByteSize(DType dtype) {
  static const unsigned sizes[] = {2, 2, 4, 8, 1, 1, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

/// Returns `value` rounded to nearest even in a float format of `precision` significant bits, whose smallest normal
/// exponent is `minExponent` and whose largest finite value is `maxFinite`.
static double roundToFormat(double value, int precision, int minExponent, double maxFinite) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent = std::max(std::ilogb(value), minExponent);
  double rounded = std::scalbn(std::nearbyint(std::scalbn(value, precision - 1 - exponent)), exponent - precision + 1);
  return std::fabs(rounded) > maxFinite ? std::copysign(INFINITY, value) : rounded;
}

double flashc::roundTo(DType dtype, double value) {
  switch (dtype) {
  case DType::BF16:
    return roundToFormat(value, 8, -126, 0x1.FEp127);
  case DType::F16:
    return roundToFormat(value, 11, -14, 65504.0);
  case DType::F32:
    return static_cast<float>(value);
  case DType::F64:
    return value;
  default:
    return std::nearbyint(value);
  }
}

static double loadHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                     : exponent == 0 ? std::scalbn(mantissa, -24)
                                     : std::scalbn(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t storeHalf(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7E00;
  double magnitude = std::fabs(roundTo(DType::F16, value));
  if (std::isinf(magnitude))
    return sign | 0x7C00;
  if (magnitude < 0x1p-14) // subnormal or zero: the bits count units of 2^-24
    return sign | static_cast<uint16_t>(std::scalbn(magnitude, 24));
  int exponent = std::ilogb(magnitude);
  return sign | static_cast<uint16_t>((exponent + 15) << 10 | (int(std::scalbn(magnitude, 10 - exponent)) & 1023));
}

template <typename T> static T readAs(const void *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

double flashc::loadElement(DType dtype, const void *data) {
  switch (dtype) {
  case DType::BF16:
    return llvm::bit_cast<float>(uint32_t(readAs<uint16_t>(data)) << 16);
  case DType::F16:
    return loadHalf(readAs<uint16_t>(data));
  case DType::F32:
    return readAs<float>(data);
  case DType::F64:
    return readAs<double>(data);
  case DType::I1:
    return readAs<uint8_t>(data) & 1;
  case DType::I8:
    return readAs<int8_t>(data);
  case DType::I16:
    return readAs<int16_t>(data);
  case DType::I32:
    return readAs<int32_t>(data);
  case DType::I64:
    return static_cast<double>(readAs<int64_t>(data));
  }
  llvm_unreachable("unknown element type");
}

template <typename T> static void writeAs(void *data, T value) { std::memcpy(data, &value, sizeof(T)); }

void flashc::storeElement(DType dtype, void *data, double value) {
  switch (dtype) {
  case DType::BF16: {
    // The upper 16 bits of a NaN are a NaN of bf16, because the conversion to float sets the highest bit of the
    // mantissa. (`roundTo` does not change a NaN.)
    float rounded = static_cast<float>(roundTo(DType::BF16, value));
    return writeAs(data, static_cast<uint16_t>(llvm::bit_cast<uint32_t>(rounded) >> 16));
  }
  case DType::F16:
    return writeAs(data, storeHalf(value));
  case DType::F32:
    return writeAs(data, static_cast<float>(value));
  case DType::F64:
    return writeAs(data, value);
  case DType::I1:
    return writeAs(data, static_cast<uint8_t>(value != 0));
  case DType::I8:
    return writeAs(data, static_cast<int8_t>(value));
  case DType::I16:
    return writeAs(data, static_cast<int16_t>(value));
  case DType::I32:
    return writeAs(data, static_cast<int32_t>(value));
  case DType::I64:
    return writeAs(data, static_cast<int64_t>(value));
  }
}

static llvm::SmallVector<int64_t, 4> contiguousStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (int dim = int(shape.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * shape[dim + 1];
  return strides;
}

HostTensor::HostTensor(DType dtype, llvm::ArrayRef<int64_t> shape)
    : HostTensor(dtype, shape, contiguousStrides(shape), 0) {}

HostTensor::HostTensor(DType dtype, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, int64_t offset)
    : dtype(dtype), shape(shape), strides(strides), offset(offset) {
  int64_t last = offset;
  for (auto [extent, stride] : llvm::zip(shape, strides))
    last += std::max<int64_t>(extent - 1, 0) * stride;
  // The size that aligned_alloc takes is a multiple of the alignment.
  bufferBytes = ((last + 1) * flashc::getByteSize(dtype) + 63) / 64 * 64;
  buffer.reset(static_cast<char *>(std::aligned_alloc(64, bufferBytes)), std::free);
  if (!buffer)
    llvm::report_fatal_error("out of memory", /*gen_crash_diag=*/false);
  poison();
}

HostTensor HostTensor::view(DType dtype, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, void *first) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.strides.assign(strides.begin(), strides.end());
  tensor.buffer.reset(static_cast<char *>(first), [](char *) {});
  return tensor;
}

int64_t HostTensor::getNumElements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

void HostTensor::poison() { std::memset(buffer.get(), 0xFF, bufferBytes); }

void HostTensor::forEach(llvm::function_ref<void(int64_t, void *)> visit) {
  llvm::SmallVector<int64_t, 4> position(shape.size(), 0);
  unsigned size = getByteSize(dtype);
  int64_t count = getNumElements();
  for (int64_t linear = 0; linear < count; ++linear) {
    int64_t element = offset;
    for (auto [index, stride] : llvm::zip(position, strides))
      element += index * stride;
    visit(linear, buffer.get() + element * size);
    for (int dim = int(shape.size()) - 1; dim >= 0 && ++position[dim] == shape[dim]; --dim)
      position[dim] = 0;
  }
}

void HostTensor::copyFrom(const HostTensor &other) {
  unsigned size = flashc::getByteSize(dtype);
  llvm::SmallVector<const void *, 0> sources(other.getNumElements());
  const_cast<HostTensor &>(other).forEach([&](int64_t linear, void *data) { sources[linear] = data; });
  forEach([&](int64_t linear, void *data) { std::memcpy(data, sources[linear], size); });
}

llvm::SmallVector<double, 0> HostTensor::toDoubles() const {
  llvm::SmallVector<double, 0> values(getNumElements());
  const_cast<HostTensor *>(this)->forEach(
      [&](int64_t linear, void *data) { values[linear] = loadElement(dtype, data); });
  return values;
}

HostTensor HostTensor::convert(DType other) const {
  HostTensor result(other, shape, strides, offset);
  llvm::SmallVector<double, 0> values = toDoubles();
  result.forEach([&](int64_t linear, void *data) { storeElement(other, data, values[linear]); });
  return result;
}
