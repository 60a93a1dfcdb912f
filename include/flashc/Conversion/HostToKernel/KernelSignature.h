//===- KernelSignature.h - the parameters of a kernel, made as they are needed ------------------------------------===//
#ifndef FLASHC_CONVERSION_HOSTTOKERNEL_KERNELSIGNATURE_H
#define FLASHC_CONVERSION_HOSTTOKERNEL_KERNELSIGNATURE_H

#include "flashc/Launch/TileTables.h"
#include "flashc/Runtime/Manifest.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace flashc {

/// Adds a parameter to a kernel for each value of the host function that it uses, in the order of first use, and
/// records how a launcher makes the parameter (docs/manifest.md). A launch argument is an argument of the host function
/// or, numbered after the arguments, one of its results.
class KernelSignature {
public:
  KernelSignature(mlir::func::FuncOp host, mlir::gpu::GPUFuncOp kernel, const TileTables &tables)
      : host(host), kernel(kernel), tables(tables) {}

  /// A TMA map with boxes of `rows` rows.
  mlir::Value getTensorMap(unsigned argument, int64_t rows);
  /// A memref with dynamic strides, contiguous in its innermost dimension. Its address and its other strides are
  /// multiples of `alignment` bytes (0: of an element). `isOfBytes`: elements of 8 bits have type i8.
  mlir::Value getMemRef(unsigned argument, int64_t alignment = 0, bool isOfBytes = false);
  /// A dynamic extent, of type index.
  mlir::Value getExtent(unsigned argument, unsigned dim);
  /// The value of a scalar in its own type; for an index i64, since an index parameter is an extent.
  mlir::Value getScalar(unsigned argument);
  /// A table (TileTables), as an array of one dimension.
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
