//===- ScalarCloner.h - scalar code of L1, again inside the kernel ------------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H

#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace flashc {

/// Copies the scalar code that computes a value into a kernel. The copy ends at: values that are already mapped,
/// constants, scalar arguments of the host function (scalar parameters), extents of its arrays (extent parameters), and
/// elements of its arrays, which are loaded from memref parameters. Affine ops become arith, searches of sorted arrays
/// become loops.
class ScalarCloner {
public:
  explicit ScalarCloner(KernelSignature &signature) : signature(signature) {}

  KernelSignature &getSignature() { return signature; }

  void map(mlir::Value from, mlir::Value to) { mapping.map(from, to); }
  /// The copy of `value`, or null.
  mlir::Value lookup(mlir::Value value) const { return mapping.lookupOrNull(value); }

  /// Returns the copy of `value`, and makes it at the builder's insertion point unless it exists. Emits an error and
  /// returns null if `value` cannot be copied.
  mlir::Value get(mlir::OpBuilder &b, mlir::Value value);
  mlir::Value get(mlir::OpBuilder &b, mlir::Location loc, mlir::OpFoldResult value);
  /// The copies of `values`. Fails if one cannot be copied.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getAll(mlir::OpBuilder &b, mlir::ValueRange values);

  /// Copies values that a score or mask region captures, and values that it computes from these, b and h alone; if
  /// `head` is null, from b alone, since rows have different heads. Called before the loop over keys, this keeps the
  /// code out of the loop.
  mlir::LogicalResult cloneInvariants(mlir::OpBuilder &b, mlir::Region &region, mlir::Value batch, mlir::Value head);

  /// Finds, after `cloneInvariants`, the values of a region that depend on its arguments `rows` and on no other
  /// argument, that take more than a few instructions, and that code which depends on other arguments reads.
  llvm::SmallVector<mlir::Value> findRowValues(mlir::Region &region, mlir::ValueRange rows);

  /// Copies the rest of the region for these values of its arguments. Returns the copy of the yielded value. flash-tile
  /// has clamped the region's array indices for tiles that exceed the arrays.
  mlir::Value cloneRegion(mlir::OpBuilder &b, mlir::Region &region, mlir::ValueRange arguments);

  /// An extent of an array of the host function. Null after an error at `op`.
  mlir::Value getExtent(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, int64_t dim);
  /// Loads an element of an array of the host function at `positions`, which are values of the kernel. Null after an
  /// error at `op`.
  mlir::Value loadElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange positions);
  /// The table of shifts and `delta` (DeltaKernel.cpp of LaunchKernels) as an array. Null after an error.
  mlir::Value getStatistics(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value delta);
  /// The table of a value with these extents, in f32, row by row, as an array. Null after an error.
  mlir::Value getTableArray(mlir::OpBuilder &b, mlir::Value table, mlir::ArrayRef<mlir::OpFoldResult> extents);
  /// The extents of a table of tiles (TileTables), without those within a row. Fails after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getTableExtents(mlir::OpBuilder &b, mlir::Value table);
  /// The number of a table's row at `positions` of L1. Null after an error.
  mlir::Value getTableRow(mlir::OpBuilder &b, mlir::Value table, mlir::ValueRange positions);

private:
  mlir::Value getArgument(mlir::OpBuilder &b, mlir::BlockArgument argument);
  mlir::Value getDim(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value index);
  mlir::Value getElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange indices);
  mlir::Value loadFromTable(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value place);
  /// Emits the search that a flash.count_le or flash.nth does.
  template <typename SortedReadOp> mlir::Value getSearch(mlir::OpBuilder &b, SortedReadOp op, mlir::Value argument);
  mlir::LogicalResult cloneSegmentTile(mlir::OpBuilder &b, mlir::flash::SegmentTileOp op);
  mlir::LogicalResult cloneOp(mlir::OpBuilder &b, mlir::Operation *op);
  mlir::LogicalResult cloneGeneric(mlir::OpBuilder &b, mlir::Operation *op);

  KernelSignature &signature;
  mlir::IRMapping mapping;
};

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
