//===- CallArguments.h - known shapes and values of the arguments of a call ---------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_CALLARGUMENTS_H
#define FLASHC_LIB_ANALYSIS_CALLARGUMENTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace flashc {

/// The shapes of a function's arguments and, as far as they are known, the values of scalars and of arrays' elements.
class CallArguments {
public:
  void setShape(mlir::Value argument, llvm::ArrayRef<int64_t> shape) {
    shapes[argument].assign(shape.begin(), shape.end());
  }
  /// Sets where the elements of the array `argument` are; its shape must be set before. `first` is the address of the
  /// first element in this process. `strides` are in elements.
  void setElements(mlir::Value argument, const void *first, llvm::ArrayRef<int64_t> strides) {
    elements[argument] = {static_cast<const char *>(first), {strides.begin(), strides.end()}};
  }
  /// Sets a scalar argument. The low bytes of `bits` are the scalar, as many bytes as its type has.
  void setScalar(mlir::Value argument, uint64_t bits) { scalars[argument] = bits; }

  std::optional<int64_t> getExtent(mlir::Value argument, int64_t dim) const;
  /// Returns the bits of a scalar, or nullopt if it is unknown.
  std::optional<uint64_t> getScalar(mlir::Value argument) const;
  /// Returns the bits of an element of an array, or nullopt if it is unknown or outside of the array.
  std::optional<uint64_t> read(mlir::Value argument, llvm::ArrayRef<int64_t> positions) const;

private:
  struct Elements {
    const char *first;
    llvm::SmallVector<int64_t, 4> strides;
  };

  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t, 4>> shapes;
  llvm::DenseMap<mlir::Value, Elements> elements;
  llvm::DenseMap<mlir::Value, uint64_t> scalars;
};

/// Returns the bit width of a scalar type; 64 for an index.
unsigned getBitWidth(mlir::Type type);
/// Returns the integer of `type` that has these bits. Returns nullopt if there are no bits, or if `type` is not an
/// integer type.
std::optional<int64_t> toNumber(std::optional<uint64_t> bits, mlir::Type type);
/// Returns a constant of a scalar type, made of as many low bytes of `bits` as the type has. Null for other types.
mlir::Attribute makeConstant(mlir::Type type, uint64_t bits);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_CALLARGUMENTS_H
