//===- KernelBody.h - what the code of launch kernels has in common -----------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H
#define FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H

#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

/// Each match function is defined in the file of its kernel. It adds kernels of its kind to `nest.kernels`.
#define LAUNCH_KERNEL(Name) void match##Name(LaunchNest &nest);
#include "LaunchKernels.def"

constexpr int64_t kLanes = 32; // the number of lanes of a warp

/// Writes the body of a kernel of plain loads and stores. Each kernel has a class that derives from this one and adds
/// `LogicalResult emit()`. In a call, at most one argument may create an op: compilers differ in the order in which
/// they evaluate arguments.
class KernelBody {
public:
  KernelBody(mlir::gpu::GPUFuncOp kernel, KernelSignature &signature)
      : b(mlir::ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front())), kernel(kernel),
        signature(signature), scalars(signature) {}

protected:
  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); }
  mlir::Value constant(float value) { return mlir::arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  mlir::Value boolean(bool value) { return mlir::arith::ConstantOp::create(b, b.getBoolAttr(value)); }
  mlir::Value zeros(mlir::Type type) { return mlir::arith::ConstantOp::create(b, b.getZeroAttr(type)); }
  mlir::Value lowest() { return constant(-std::numeric_limits<float>::infinity()); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::AddIOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::SubIOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::MulIOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::DivUIOp>(x, y); }
  mlir::Value rem(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::RemUIOp>(x, y); }
  mlir::Value ceilDiv(mlir::Value x, mlir::Value y) { return b.createOrFold<mlir::arith::CeilDivUIOp>(x, y); }
  mlir::Value mul(mlir::Value x, int64_t y) { return mul(x, index(y)); }
  mlir::Value div(mlir::Value x, int64_t y) { return div(x, index(y)); }
  mlir::Value rem(mlir::Value x, int64_t y) { return rem(x, index(y)); }
  mlir::Value ceilDiv(mlir::Value x, int64_t y) { return ceilDiv(x, index(y)); }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, predicate, x, y);
  }
  mlir::Value isBelow(mlir::Value x, mlir::Value y) { return compare(mlir::arith::CmpIPredicate::ult, x, y); }
  mlir::Value isEqual(mlir::Value x, mlir::Value y) { return compare(mlir::arith::CmpIPredicate::eq, x, y); }
  mlir::Value isZero(mlir::Value x) { return isEqual(x, index(0)); }
  mlir::Value isLowest(mlir::Value x) {
    return mlir::arith::CmpFOp::create(b, mlir::arith::CmpFPredicate::OEQ, x, lowest());
  }
  mlir::Value addF(mlir::Value x, mlir::Value y) { return mlir::arith::AddFOp::create(b, x, y); }
  mlir::Value mulF(mlir::Value x, mlir::Value y) { return mlir::arith::MulFOp::create(b, x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, condition, x, y);
  }
  /// Rounds f32, a scalar or a vector, to another element type.
  mlir::Value round(mlir::Value x, mlir::Type element);
  /// Extends a scalar or vector to f32.
  mlir::Value widen(mlir::Value x);

  mlir::Value thread() { return mlir::gpu::ThreadIdOp::create(b, mlir::gpu::Dimension::x); }
  mlir::Value block(mlir::gpu::Dimension dim = mlir::gpu::Dimension::x) { return mlir::gpu::BlockIdOp::create(b, dim); }

  void emitIf(mlir::Value condition, llvm::function_ref<void()> body);
  /// Emits an scf.if whose result is the value of `emitThen` if `condition` holds, else `otherwise`. Returns null if
  /// `emitThen` does.
  mlir::Value emitIf(mlir::Value condition, mlir::Value otherwise, llvm::function_ref<mlir::Value()> emitThen);
  void emitFor(mlir::Value begin, mlir::Value end, mlir::Value step, llvm::function_ref<void(mlir::Value)> body);
  /// Emits a loop with one iteration argument. `body` is passed the position and the argument; it returns the next
  /// argument, or null after an error. Returns the result of the loop, or null if `body` failed.
  mlir::Value emitFor(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::Value init,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);

  /// Returns, in each lane, the sum of `value` over its group of `lanes` consecutive lanes. `lanes` is a power of two
  /// up to 32.
  mlir::Value emitLaneSum(mlir::Value value, int64_t lanes);
  /// Returns an array in shared memory with an f32 for each warp of the CTA.
  mlir::Value emitScratch(int64_t warps);
  /// Stores each warp's sum of `value` to `scratch`, and waits for all warps.
  void shareSum(mlir::Value value, mlir::Value thread, mlir::Value scratch);
  /// Returns the sum of the sums that `shareSum` stored in `scratch`, one for each warp.
  mlir::Value emitSharedSum(mlir::Value scratch);

  mlir::ImplicitLocOpBuilder b;
  mlir::gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  ScalarCloner scalars;
};

/// Makes the kernel whose name is the host function's name followed by `suffix`. A CTA has `threads` threads.
/// `emitBody` writes the body. Returns the description of the launch, with a grid of one CTA. Fails after an error.
mlir::FailureOr<ManifestKernel>
emitPlainKernel(const LaunchContext &context, llvm::StringRef suffix, int64_t threads,
                llvm::function_ref<mlir::LogicalResult(mlir::gpu::GPUFuncOp, KernelSignature &)> emitBody);

/// Makes a kernel as emitPlainKernel does, with the given grid. The class `Body`, made of the kernel, the signature and
/// `arguments`, writes the body.
template <typename Body, typename... Arguments>
mlir::FailureOr<ManifestKernel> emitKernel(const LaunchContext &context, llvm::StringRef suffix, int64_t threads,
                                           std::array<GridFormula, 3> grid, const Arguments &...arguments) {
  auto emit = [&](mlir::gpu::GPUFuncOp kernel, KernelSignature &signature) {
    return Body(kernel, signature, arguments...).emit();
  };
  mlir::FailureOr<ManifestKernel> info = emitPlainKernel(context, suffix, threads, emit);
  if (succeeded(info))
    info->grid = std::move(grid);
  return info;
}

/// Returns an extent as a formula. The extent must be a constant or the extent of an argument.
inline GridFormula getSize(mlir::OpFoldResult extent) { return *getFormula(extent); }

/// Returns a table that stores `value`, an f32 array with these two or more extents, row by row
/// (ScalarCloner::getTableArray). With `isNumbered`, a kernel numbers the elements in 32 bits, so launches with more
/// elements are refused. Emits an error and fails if an extent has no formula.
mlir::FailureOr<TileTables::Table> getArrayTable(mlir::Value value, mlir::ArrayRef<mlir::OpFoldResult> extents,
                                                 bool isNumbered = false);

/// Adds `table` to `tables`. Fails if `table` is a failure, whose error was emitted before.
inline mlir::LogicalResult addTable(TileTables &tables, mlir::FailureOr<TileTables::Table> table) {
  if (succeeded(table))
    tables.add(*table);
  return table;
}

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H
