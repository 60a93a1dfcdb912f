//===- Compiler.h - from a module to a kernel ---------------------------------------------------------------------===//
// The compiler as a library, for the driver, the C API and programs that embed flashc. No function prints anything or
// keeps state; errors go to the module's MLIRContext. Compilations in different contexts may run in parallel.
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
  /// If set, this adds the passes from L0 to L1. Then `pipeline.algorithm` is not used.
  std::function<mlir::LogicalResult(mlir::OpPassManager &)> addAlgorithm;
  /// If set, this is called with every pass manager before passes are added to it, to set options for printing, timing
  /// and verification.
  std::function<mlir::LogicalResult(mlir::PassManager &)> configure;
  /// If set, the timing scopes of the steps are inside this scope.
  mlir::TimingScope *timing = nullptr;
};

/// A description of a kernel at L2, as text.
struct KernelDescription {
  /// JSON; docs/manifest.md describes it.
  std::string manifest;
  /// The schedule, in the form that Schedule::str prints and `PipelineOptions::schedule` takes. If there are variants,
  /// it is the schedule of the entry for any number of queries.
  std::string schedule;
  /// The choices for every entry and their reasons, for people (docs/schedules.md).
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

/// Parses and verifies the module in the first buffer of `sources`, which is text or bytecode. Fails after a
/// diagnostic. Rejects text whose brackets nest so deeply that MLIR's parser would run out of stack.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(llvm::SourceMgr &sources, mlir::MLIRContext &context);

/// If `name` is not empty, removes all functions except for `name` and the functions that it calls. Fails after a
/// diagnostic.
mlir::LogicalResult keepFunction(mlir::ModuleOp module, llvm::StringRef name, const CompileOptions &options = {});

/// Adds the passes from L0 to L1: those of options.addAlgorithm if that is set, else those of
/// options.pipeline.algorithm.
mlir::LogicalResult addAlgorithm(mlir::OpPassManager &pm, const CompileOptions &options);

/// Runs the passes that `build` adds on `module`, configured by `options`. `step` is their name in the timing.
mlir::LogicalResult runPasses(mlir::ModuleOp module,
                              llvm::function_ref<mlir::LogicalResult(mlir::OpPassManager &)> build,
                              llvm::StringRef step, const CompileOptions &options);

/// Returns the PTX of a kernel that was lowered to KernelLevel::LLVM.
mlir::FailureOr<std::string> translateKernel(mlir::ModuleOp kernel, const CompileOptions &options);

/// Lowers a copy of `module` to `level` and prints it. Fails after a diagnostic.
mlir::FailureOr<std::string> printAtLevel(mlir::ModuleOp module, Level level, const CompileOptions &options);

/// Counts the cost of one call of `function` by the algorithm of `options`. `shapes` are the shapes of the arguments
/// (empty for scalars). If a kernel is made, tiles have the sizes of the kernel that a launch with these shapes takes.
/// Fails after a diagnostic.
mlir::FailureOr<Cost> countAlgorithmCost(mlir::func::FuncOp function,
                                         mlir::ArrayRef<mlir::SmallVector<int64_t, 4>> shapes,
                                         const CompileOptions &options);

/// Compiles the one attention of `module`. The module stays unchanged, and its context must have the dialects of
/// registerAllDialects. Fails after a diagnostic.
mlir::FailureOr<CompiledKernel> compile(mlir::ModuleOp module, const CompileOptions &options = {});

/// The name of the target for this machine's processor.
constexpr llvm::StringLiteral kCPUTarget = "cpu";

/// Checks that HostKernel can run the one attention of `module`. Returns a manifest of its arguments, and no code.
/// Fails after a diagnostic.
mlir::FailureOr<CompiledKernel> compileForCPU(mlir::ModuleOp module, const PipelineOptions &pipeline);

} // namespace flashc

#endif // FLASHC_COMPILER_COMPILER_H
