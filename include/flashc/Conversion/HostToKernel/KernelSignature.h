//===- KernelSignature.h - the parameters of a kernel, made as they are needed ------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_KERNELSIGNATURE_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_KERNELSIGNATURE_H

#include "flashc/Launch/TileTables.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace flashc {

/// Adds parameters to a kernel: one for each value of the host function that the kernel uses, in the order of first
/// use. Also records how a launcher computes each parameter (docs/manifest.md). A launch argument is given by its
/// number: first the arguments of the host function are numbered, then its results.
class KernelSignature {
public:
  KernelSignature(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp kernel, const TileTables &tables)
      : host(host), kernel(kernel), tables(tables) {}

  /// Returns a TMA map with boxes of `rows` rows in each of `heads` heads.
  mlir::Value getTensorMap(unsigned argument, int64_t rows, int64_t heads = 1);
  /// Returns a memref with dynamic strides that is contiguous in its innermost dimension. The address and the other
  /// strides are multiples of `alignment` bytes, or of an element if `alignment` is 0. With `isOfBytes`, elements of 8
  /// bits have type i8.
  mlir::Value getMemRef(unsigned argument, int64_t alignment = 0, bool isOfBytes = false);
  /// Returns a dynamic extent, of type index.
  mlir::Value getExtent(unsigned argument, unsigned dim);
  /// Returns a scalar in its own type. A scalar of type index becomes an i64, since a parameter of type index is an
  /// extent.
  mlir::Value getScalar(unsigned argument);
  /// Returns a table (TileTables) as an array of one dimension.
  mlir::Value getTable(unsigned number);
  const TileTables &getTables() const { return tables; }

  /// Completes the kernel's type.
  void finish();

  /// The manifest's `parameters`.
  std::vector<ManifestParameter> getParameters();

private:
  enum class Kind { TensorMap, MemRef, Extent, Scalar, Table };
  struct Parameter {
    Kind kind;
    unsigned argument; // or the number of a table
    int64_t detail;    // rows of a tensor map, alignment of a memref, or dimension of an extent
    mlir::Value value;
  };

  mlir::Type getType(unsigned argument);
  mlir::Value get(Kind kind, unsigned argument, int64_t detail, mlir::Type type);

  mlir::func::FuncOp host;
  mlir::gpu::GPUFuncOp kernel;
  const TileTables &tables;
  mlir::SmallVector<Parameter> parameters;
};

} // namespace flashc

#endif // FLASHC_CONVERSION_HOSTTOKERNEL_KERNELSIGNATURE_H
