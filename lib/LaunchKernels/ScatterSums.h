//===- ScatterSums.h - sums that are added up where code says -----------------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_SCATTERSUMS_H
#define FLASHC_LIB_LAUNCHKERNELS_SCATTERSUMS_H

#include "ScatterIndex.h"
#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

/// A flash.scatter_sum of the first result of a nest.
struct ScatterSums {
  mlir::flash::ScatterSumOp op;
  /// The value whose table holds the sums, and their extents in L1.
  mlir::Value table;
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// Whether it adds to zeros; otherwise to what the one before it has written.
  bool isFirst;
  /// Arguments of the launch that it writes.
  mlir::SmallVector<unsigned, 1> outputs;

  static std::optional<ScatterSums> find(const LaunchNest &nest);

  /// Whether the sums are pairs, each of which is the element of the result at its own position, in the order of the
  /// dimensions: then the main kernel writes the result, as far as there are pairs, and needs no table.
  bool isDirect() const;
  void addRoles(LaunchRoles &roles) const;
  /// The extents of the result, and one of them in a kernel.
  mlir::SmallVector<GridFormula> getSizes() const;
  mlir::Value emitSize(mlir::ImplicitLocOpBuilder &b, KernelSignature &signature, int64_t dim) const;
  int64_t getRank() const { return getShape().size(); }

private:
  mlir::ArrayRef<int64_t> getShape() const { return mlir::flash::ScatterSumOp(op).getInit().getType().getShape(); }
};

/// 1 of no factors.
GridFormula multiply(mlir::ArrayRef<GridFormula> factors);

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_SCATTERSUMS_H
