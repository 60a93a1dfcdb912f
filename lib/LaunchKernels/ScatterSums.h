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
  /// The value whose table holds the summands, and the extents of this value at level L1.
  mlir::Value table;
  mlir::SmallVector<mlir::OpFoldResult, 4> extents;
  /// Whether the sums are stored as they are. Otherwise they are added to what the scatter_sum before this one stored.
  bool isFirst;
  /// The arguments of the launch that the sums are written to.
  mlir::SmallVector<unsigned, 1> outputs;

  static std::optional<ScatterSums> find(const LaunchNest &nest);

  /// Whether the summands are pairs, and the indices of the element to which a pair belongs are the pair's own
  /// positions, in the order of the dimensions. Then the main kernel writes these elements directly to the result,
  /// without a table. False unless `isFirst` holds.
  bool isDirect() const;
  void addRoles(LaunchRoles &roles) const;
  /// `getSizes` returns the extents of the result as formulas; `emitSize` emits one of them in a kernel.
  mlir::SmallVector<GridFormula> getSizes() const;
  mlir::Value emitSize(mlir::ImplicitLocOpBuilder &b, KernelSignature &signature, int64_t dim) const;
  int64_t getRank() const { return getShape().size(); }

private:
  mlir::ArrayRef<int64_t> getShape() const { return mlir::flash::ScatterSumOp(op).getInit().getType().getShape(); }
};

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_SCATTERSUMS_H
