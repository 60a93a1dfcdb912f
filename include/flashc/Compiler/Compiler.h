//===- Compiler.h - from a module to a kernel ---------------------------------------------------------------------===//
//
// The compiler as a library: the driver, the C API and programs that embed flashc call the same functions. Nothing here
// prints or keeps state; errors go to the module's MLIRContext. Compilations in different contexts may run at once.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_COMPILER_COMPILER_H
#define FLASHC_COMPILER_COMPILER_H

#include "flashc/Analysis/Cost.h"
#include "flashc/Pipelines/Pipelines.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <string>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir {
class OpPassManager;
class PassManager;
class TimingScope;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace flashc {

struct CompileOptions {
  PipelineOptions pipeline;
  /// If set: adds the passes from L0 to L1 instead of those of `pipeline.algorithm`.
  std::function<mlir::LogicalResult(mlir::OpPassManager &)> addAlgorithm;
  /// If set: called on every pass manager before passes are added (printing, timing and verification options).
  std::function<mlir::LogicalResult(mlir::PassManager &)> configure;
  /// If set: the steps' times go below it.
  mlir::TimingScope *timing = nullptr;
};

/// What is known of a kernel at L2, as text.
struct KernelDescription {
  /// JSON; docs/manifest.md describes it.
  std::string manifest;
  /// What Schedule::str prints: the choices that were made, in the form that `PipelineOptions::schedule` takes. Of
  /// several variants, that for any number of queries.
  std::string schedule;
  /// What was chosen for every entry and why, for people (docs/schedules.md).
  std::string decisions;
};

/// Everything that a launch needs, as text.
struct CompiledKernel : KernelDescription {
  std::string ptx;
};

/// The levels of a program: flash (L0), loops (L1), tile (L2), nvvm and llvm (L3).
enum class Level { Flash, Loops, Tile, NVVM, LLVM };

/// The names of the levels, in order.
llvm::ArrayRef<llvm::StringRef> getLevelNames();

/// The module in the first buffer of `sources`, text or bytecode, verified. Fails after a diagnostic, also for text
/// that nests so deep that MLIR's parser would run out of stack.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(llvm::SourceMgr &sources, mlir::MLIRContext &context);

/// Leaves the function `name` of `module`, and what it calls; everything, if `name` is empty. Fails after a diagnostic.
mlir::LogicalResult keepFunction(mlir::ModuleOp module, llvm::StringRef name, const CompileOptions &options = {});

/// Adds the passes from L0 to L1: those of the algorithm, or the options' own.
mlir::LogicalResult addAlgorithm(mlir::OpPassManager &pm, const CompileOptions &options);

/// Runs the passes that `build` adds on `module`, under the options' configuration; `step` names them in the timing.
mlir::LogicalResult runPasses(mlir::ModuleOp module,
                              llvm::function_ref<mlir::LogicalResult(mlir::OpPassManager &)> build,
                              llvm::StringRef step, const CompileOptions &options);

/// PTX of a kernel that was lowered to KernelLevel::LLVM.
mlir::FailureOr<std::string> translateKernel(mlir::ModuleOp kernel, const CompileOptions &options);

/// `module`, which is left as it is, at a level, as text. Fails after a diagnostic.
mlir::FailureOr<std::string> printAtLevel(mlir::ModuleOp module, Level level, const CompileOptions &options);

/// What one call of `function` costs by the algorithm of `options`, with arguments of `shapes` (empty for scalars).
/// Tiles are those of the kernel that such a launch takes, if there is one. Fails after a diagnostic.
mlir::FailureOr<Cost> countAlgorithmCost(mlir::func::FuncOp function,
                                         mlir::ArrayRef<mlir::SmallVector<int64_t, 4>> shapes,
                                         const CompileOptions &options);

/// The one attention of `module`, which is left as it is, as a kernel. Fails after a diagnostic. The module's context
/// has the dialects of registerAllDialects.
mlir::FailureOr<CompiledKernel> compile(mlir::ModuleOp module, const CompileOptions &options = {});

/// The name of the target that is this machine's processor.
constexpr llvm::StringLiteral kCPUTarget = "cpu";

/// The one attention of `module` for HostKernel: checked, with a manifest of its arguments and no code. Fails after a
/// diagnostic.
mlir::FailureOr<CompiledKernel> compileForCPU(mlir::ModuleOp module, const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_COMPILER_COMPILER_H
