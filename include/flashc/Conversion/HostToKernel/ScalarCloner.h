//===- ScalarCloner.h - scalar code of L1, again inside the kernel ------------------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H

#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace flashc {

/// Copies the scalar code that a value hangs on into a kernel. It ends at: values that are mapped already, constants,
/// scalar arguments of the host function (scalar parameters), extents of its arrays (extent parameters), and elements
/// of its arrays, which are loaded from memref parameters. Affine ops become arith, searches of sorted arrays loops.
class ScalarCloner {
public:
  explicit ScalarCloner(KernelSignature &signature) : signature(signature) {}

  KernelSignature &getSignature() { return signature; }

  void map(mlir::Value from, mlir::Value to) { mapping.map(from, to); }
  /// The copy of `value` if there is one, else null.
  mlir::Value lookup(mlir::Value value) const { return mapping.lookupOrNull(value); }

  /// The copy of `value`, made at the builder's insertion point unless it is there already. Null after an error, which
  /// has been emitted.
  mlir::Value get(mlir::OpBuilder &b, mlir::Value value);
  mlir::Value get(mlir::OpBuilder &b, mlir::Location loc, mlir::OpFoldResult value);
  /// The copies of `values`, or failure if there is not one of each.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getAll(mlir::OpBuilder &b, mlir::ValueRange values);

  /// Copies what a score or mask region uses of its surroundings, and what it computes of that, b and h alone; of b
  /// alone, where `head` is null: rows have heads of their own. Done ahead of the loop over keys, this keeps it out of
  /// the loop.
  mlir::LogicalResult cloneInvariants(mlir::OpBuilder &b, mlir::Region &region, mlir::Value batch, mlir::Value head);

  /// The values of a region, after `cloneInvariants`, that depend on its arguments `rows`, but on no other, and that
  /// code which does depend on others reads; of the ones that cost more than a few instructions.
  llvm::SmallVector<mlir::Value> findRowValues(mlir::Region &region, mlir::ValueRange rows);

  /// Copies the rest of the region for these values of its arguments; returns the copy of what it yields. Where a tile
  /// sticks out, flash-tile has kept the region's loads inside their arrays.
  mlir::Value cloneRegion(mlir::OpBuilder &b, mlir::Region &region, mlir::ValueRange arguments);

  /// An extent of an array of the host function; null after an error at `op`.
  mlir::Value getExtent(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, int64_t dim);
  /// An element of such an array at `positions`, which are values of the kernel; null after an error at `op`.
  mlir::Value loadElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange positions);
  /// The table of shifts and `delta` (DeltaKernel.cpp of LaunchKernels) as an array; null after an error.
  mlir::Value getStatistics(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value delta);
  /// The table of a value of these extents, in f32 row by row, as an array; null after an error.
  mlir::Value getTableArray(mlir::OpBuilder &b, mlir::Value table, mlir::ArrayRef<mlir::OpFoldResult> extents);
  /// The extents of a table of tiles (TileTables), those in a row not among them; failure after an error.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>> getTableExtents(mlir::OpBuilder &b, mlir::Value table);
  /// The number of a row, at `positions` of L1; null after an error.
  mlir::Value getTableRow(mlir::OpBuilder &b, mlir::Value table, mlir::ValueRange positions);

private:
  mlir::Value getArgument(mlir::OpBuilder &b, mlir::BlockArgument argument);
  mlir::Value getDim(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value index);
  mlir::Value getElement(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::ValueRange indices);
  mlir::Value loadFromTable(mlir::OpBuilder &b, mlir::Operation *op, mlir::Value source, mlir::Value place);
  /// A flash.count_le or flash.nth: a search of the array.
  template <typename SortedReadOp> mlir::Value getSearch(mlir::OpBuilder &b, SortedReadOp op, mlir::Value argument);
  mlir::LogicalResult cloneSegmentTile(mlir::OpBuilder &b, mlir::flash::SegmentTileOp op);
  mlir::LogicalResult cloneOp(mlir::OpBuilder &b, mlir::Operation *op);
  mlir::LogicalResult cloneGeneric(mlir::OpBuilder &b, mlir::Operation *op);

  KernelSignature &signature;
  mlir::IRMapping mapping;
};

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_SCALARCLONER_H
