//===- IndexEvaluator.h - index arithmetic with numbers -----------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace flashc {

/// Evaluates index values and tensor extents, given the shapes of a function's arguments and the values of loop
/// counters. An unknown value (read from memory, a scalar argument) is none.
class IndexEvaluator {
public:
  void setShape(mlir::Value argument, llvm::ArrayRef<int64_t> shape) {
    shapes[argument].assign(shape.begin(), shape.end());
  }
  void setCounter(mlir::Value counter, int64_t value) { counters[counter] = value; }

  std::optional<int64_t> get(mlir::Value value) const;
  std::optional<int64_t> get(mlir::OpFoldResult value) const;
  std::optional<int64_t> getExtent(mlir::Value tensor, int64_t dim) const;
  /// The product of the extents.
  std::optional<int64_t> getNumElements(mlir::Value tensor) const;

private:
  std::optional<int64_t> evaluate(mlir::Operation *op) const;
  std::optional<int64_t> evaluateAffine(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t, 4>> shapes;
  llvm::DenseMap<mlir::Value, int64_t> counters;
};

/// The tensor that `tensor` has the shape (and, in destination style, the memory) of: a loop's argument has those of
/// its initial value, a result those of its destination. Null if there is none.
mlir::Value getTiedValue(mlir::Value tensor);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H
