//===- HostTensor.h - an array in host memory, with its type and strides ------------------------------------------===//
#ifndef FLASHC_EXECUTION_HOSTTENSOR_H
#define FLASHC_EXECUTION_HOSTTENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace mlir {
class Type;
} // namespace mlir

namespace flashc {

/// The element types that functions exchange with the host. `index` is I64.
enum class DType { BF16, F16, F32, F64, I1, I8, I16, I32, I64 };

/// Returns the element type for an MLIR scalar type. None if the host has no such type.
std::optional<DType> getDType(mlir::Type type);
llvm::StringRef getName(DType dtype);
unsigned getByteSize(DType dtype);
inline bool isFloat(DType dtype) { return dtype <= DType::F64; }
inline bool is16BitFloat(DType dtype) { return dtype <= DType::F16; }

/// `loadElement` reads the element at `data` as a double. `storeElement` writes `value` to it; a float is rounded to
/// nearest even.
double loadElement(DType dtype, const void *data);
void storeElement(DType dtype, void *data, double value);
/// Returns `value` rounded to `dtype`.
double roundTo(DType dtype, double value);

/// An array of any rank; a scalar has rank 0. Strides are in elements. The tensor owns its buffer, unless `view` has
/// made it. The buffer is aligned to 64 bytes, and may be larger than the elements need (gaps between rows).
class HostTensor {
public:
  HostTensor() = default;
  /// A contiguous array.
  HostTensor(DType dtype, llvm::ArrayRef<int64_t> shape);
  HostTensor(DType dtype, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, int64_t offset);

  /// Returns a tensor for an array in memory that another object owns and keeps alive. Strides may be negative.
  static HostTensor view(DType dtype, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, void *first);

  DType getDType() const { return dtype; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  llvm::ArrayRef<int64_t> getStrides() const { return strides; }
  int64_t getOffset() const { return offset; }
  int64_t getNumElements() const;
  /// The start of the buffer. The first element is `getOffset()` elements after it.
  void *getBuffer() { return buffer.get(); }
  const void *getBuffer() const { return buffer.get(); }
  size_t getBufferBytes() const { return bufferBytes; }

  /// Sets every byte to 0xFF: NaN in every float type, -1 in every integer type.
  void poison();
  /// Calls `visit(linear index in row-major order, address)` for every element.
  void forEach(llvm::function_ref<void(int64_t, void *)> visit);
  /// Copies all elements of `other`, which has the same type and shape.
  void copyFrom(const HostTensor &other);
  /// All elements in row-major order.
  llvm::SmallVector<double, 0> toDoubles() const;
  /// Returns a tensor with the same elements in another type, with the same shape, strides and offset. (A copy of a
  /// HostTensor, in contrast, shares its buffer.)
  HostTensor convert(DType other) const;

private:
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t, 4> shape, strides;
  int64_t offset = 0;
  size_t bufferBytes = 0;
  std::shared_ptr<char> buffer;
};

} // namespace flashc

#endif // FLASHC_EXECUTION_HOSTTENSOR_H
