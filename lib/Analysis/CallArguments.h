//===- CallArguments.h - what is known of the arguments of a call -------------------------------------------------===//
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
  /// Where the elements of an array with a shape lie in the memory of this process; strides are in elements.
  void setElements(mlir::Value argument, const void *first, llvm::ArrayRef<int64_t> strides) {
    elements[argument] = {static_cast<const char *>(first), {strides.begin(), strides.end()}};
  }
  /// A scalar argument's bytes in its own type, lowest first.
  void setScalar(mlir::Value argument, uint64_t bits) { scalars[argument] = bits; }

  std::optional<int64_t> getExtent(mlir::Value argument, int64_t dim) const;
  /// The bits of a scalar; none if it is not known.
  std::optional<uint64_t> getScalar(mlir::Value argument) const;
  /// The bits of an element of an argument at positions that may lie outside; none if they do.
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

/// Of a scalar; an index has 64.
unsigned getBitWidth(mlir::Type type);
/// The integer with these bits; none without bits, and for other types.
std::optional<int64_t> toNumber(std::optional<uint64_t> bits, mlir::Type type);
/// The constant of a scalar type whose bytes, lowest first, are those of `bits`; null for other types.
mlir::Attribute makeConstant(mlir::Type type, uint64_t bits);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_CALLARGUMENTS_H
