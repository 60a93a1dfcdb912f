//===- KernelBody.h - what the code of launch kernels has in common -----------------------------------------------===//
#ifndef FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H
#define FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H

#include "flashc/LaunchKernels/LaunchNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

/// Each match function is defined in the file of its kernel; it adds the kernels of its kind to a nest's list.
#define LAUNCH_KERNEL(Name) void match##Name(LaunchNest &nest);
#include "LaunchKernels.def"

constexpr int64_t kLanes = 32; // of a warp

/// Writes a kernel of plain loads and stores. A class for each kernel derives from it and adds `LogicalResult emit()`.
/// In a call, at most one argument may create an op: the order in which arguments are evaluated depends on the
/// compiler.
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
  /// Emits `emitThen` under a condition and returns its value, or `otherwise`. Null if it returns null.
  mlir::Value emitIf(mlir::Value condition, mlir::Value otherwise, llvm::function_ref<mlir::Value()> emitThen);
  void emitFor(mlir::Value begin, mlir::Value end, mlir::Value step, llvm::function_ref<void(mlir::Value)> body);
  /// Emits a loop with one iteration argument: `body` is given the position and the argument, and returns the next one,
  /// or null after an error. Returns the result of the loop, or null.
  mlir::Value emitFor(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::Value init,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);

  /// Returns the sum of `value` over groups of `lanes` consecutive lanes (a power of two up to 32), in each lane.
  mlir::Value emitLaneSum(mlir::Value value, int64_t lanes);
  /// Returns an array in shared memory with an f32 for each warp of the CTA.
  mlir::Value emitScratch(int64_t warps);
  /// Stores each warp's sum of `value` to `scratch`, and waits for all warps.
  void shareSum(mlir::Value value, mlir::Value thread, mlir::Value scratch);
  /// Returns the sum of the warps' sums in `scratch`.
  mlir::Value emitSharedSum(mlir::Value scratch);

  mlir::ImplicitLocOpBuilder b;
  mlir::gpu::GPUFuncOp kernel;
  KernelSignature &signature;
  ScalarCloner scalars;
};

/// Makes the kernel whose name is the host function's and `suffix`, with `threads` threads a CTA. `emitBody` writes its
/// body. Returns how it is launched, with a grid of one CTA, or fails after an error.
mlir::FailureOr<ManifestKernel>
emitPlainKernel(const LaunchContext &context, llvm::StringRef suffix, int64_t threads,
                llvm::function_ref<mlir::LogicalResult(mlir::gpu::GPUFuncOp, KernelSignature &)> emitBody);

/// Makes a kernel as emitPlainKernel does; `Body(kernel, signature, arguments...)` writes its body.
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

/// Returns the formula of an extent that is a constant or the extent of an argument.
inline GridFormula getSize(mlir::OpFoldResult extent) { return *getFormula(extent); }

/// Returns the table for an f32 value of these extents (two or more), row by row (ScalarCloner::getTableArray).
/// `isNumbered` means that a kernel numbers the elements in 32 bits; larger launches are then refused. Emits an error
/// and fails if an extent is no formula.
mlir::FailureOr<TileTables::Table> getArrayTable(mlir::Value value, mlir::ArrayRef<mlir::OpFoldResult> extents,
                                                 bool isNumbered = false);

/// Adds a table; fails if there is none, after an error.
inline mlir::LogicalResult addTable(TileTables &tables, mlir::FailureOr<TileTables::Table> table) {
  if (succeeded(table))
    tables.add(*table);
  return table;
}

} // namespace flashc

#endif // FLASHC_LIB_LAUNCHKERNELS_KERNELBODY_H
