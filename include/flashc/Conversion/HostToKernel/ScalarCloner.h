//===- ScalarCloner.h - scalar code of L1, again inside the kernel ------------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H

#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace flashc {

/// Copies the scalar code that computes a value into a kernel. The copy ends at values that are already mapped, at
/// constants, and at what becomes a kernel parameter: scalar arguments of the host function, extents of its arrays, and
/// its arrays, whose elements the kernel loads. Affine ops become arith, and searches of sorted arrays become loops.
class ScalarCloner {
public:
  explicit ScalarCloner(KernelSignature &signature) : signature(signature) {}

  KernelSignature &getSignature() { return signature; }

  void map(mlir::Value from, mlir::Value to) { mapping.map(from, to); }
  /// The copy of `value`, or null.
  mlir::Value lookup(mlir::Value value) const { return mapping.lookupOrNull(value); }

  /// Returns the copy of `value`. If there is none yet, makes it at the builder's insertion point. Emits an error and
  /// returns null if `value` cannot be copied.
  mlir::Value get(mlir::OpBuilder &b, mlir::Value value);
  mlir::Value get(mlir::OpBuilder &b, mlir::Location loc, mlir::OpFoldResult value);
  /// Returns the copies of `values`. Fails if one of the values cannot be copied.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getAll(mlir::OpBuilder &b, mlir::ValueRange values);

  /// Copies the values that a score or mask region captures, and those that the region computes from captured values, b
  /// and h alone. If `head` is null, rows have different heads, and values that depend on h are not copied. A call
  /// before the loop over keys keeps the copied code out of the loop.
  mlir::LogicalResult cloneInvariants(mlir::OpBuilder &b, mlir::Region &region, mlir::Value batch, mlir::Value head);

  /// Finds values of a region that are worth computing once for each row; call it after `cloneInvariants`. Such a value
  /// depends on the arguments `rows` and on no other argument, takes more than a few instructions, and is read by code
  /// that depends on other arguments.
  llvm::SmallVector<mlir::Value> findRowValues(mlir::Region &region, mlir::ValueRange rows);

  /// Copies the rest of the region, with `arguments` as the values of its arguments. Returns the copy of the yielded
  /// value. A tile may exceed the arrays, but the copy reads only elements that exist, since flash-tile has clamped the
  /// indices.
  mlir::Value cloneRegion(mlir::OpBuilder &b, mlir::Region &region, mlir::ValueRange arguments);

  /// Returns an extent of an array of the host function. Null after an error at `op`.
  mlir::Value getExtent(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, int64_t dim);
  /// Loads an element of an array of the host function at `positions`, which are values of the kernel. Null after an
  /// error at `op`.
  mlir::Value loadElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange positions);
  /// Returns the table of shifts and of `delta` (DeltaKernel.cpp of LaunchKernels) as an array. Null after an error.
  mlir::Value getStatistics(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value delta);
  /// Returns the table of the value `table` as an array of f32 with these extents, stored row by row. Null after an
  /// error.
  mlir::Value getTableArray(mlir::OpBuilder &b, mlir::Value table, mlir::ArrayRef<mlir::OpFoldResult> extents);
  /// Returns the extents of a table of tiles (TileTables), seen as an array of rows: for example batches, heads and
  /// resident tiles. The extent of a row itself is not included. Fails after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getTableExtents(mlir::OpBuilder &b, mlir::Value table);
  /// Returns the number of the table's row that belongs to `positions`, values of level L1. Null after an error.
  mlir::Value getTableRow(mlir::OpBuilder &b, mlir::Value table, mlir::ValueRange positions);

private:
  mlir::Value getArgument(mlir::OpBuilder &b, mlir::BlockArgument argument);
  mlir::Value getDim(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value index);
  mlir::Value getElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange indices);
  mlir::Value loadFromTable(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value place);
  /// Emits the search of `op`, a flash.count_le or flash.nth.
  template <typename SortedReadOp> mlir::Value getSearch(mlir::OpBuilder &b, SortedReadOp op, mlir::Value argument);
  mlir::LogicalResult cloneSegmentTile(mlir::OpBuilder &b, mlir::flash::SegmentTileOp op);
  mlir::LogicalResult cloneOp(mlir::OpBuilder &b, mlir::Operation *op);
  mlir::LogicalResult cloneGeneric(mlir::OpBuilder &b, mlir::Operation *op);

  KernelSignature &signature;
  mlir::IRMapping mapping;
};

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
