//===- Compiler.cpp - from a module to a kernel -------------------------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "Lowering.h"
#include "MaskObserver.h"
#include "ShortSequences.h"
#include "Variants.h"
#include "flashc/Conversion/ExpandMath.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/Transforms/IndexPasses.h"
#include "flashc/Dialect/Flash/Transforms/Passes.h"
#include "flashc/Launch/Launch.h"
#include "flashc/Launch/Passes.h"
#include "flashc/Target/PTX.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace flashc;

/// Returns a timing scope for `step` inside `options.timing`. If `options.timing` is null, the scope does nothing.
static TimingScope nestTiming(const CompileOptions &options, StringRef step) {
  return options.timing ? options.timing->nest(step) : TimingScope();
}

LogicalResult flashc::addAlgorithm(OpPassManager &pm, const CompileOptions &options) {
  if (options.addAlgorithm)
    return options.addAlgorithm(pm);
  buildAlgorithmPipeline(pm, options.pipeline);
  return success();
}

LogicalResult flashc::runPasses(ModuleOp module, llvm::function_ref<LogicalResult(OpPassManager &)> build,
                                StringRef step, const CompileOptions &options) {
  TimingScope scope = nestTiming(options, step);
  PassManager pm(module.getContext());
  if ((options.configure && failed(options.configure(pm))) || failed(build(pm)))
    return failure();
  pm.enableTiming(scope);
  pm.enableVerifier(false); // verifying once after all passes saves a third of the time
  return failed(pm.run(module)) ? failure() : verify(module);
}

LogicalResult flashc::keepFunction(ModuleOp module, StringRef name, const CompileOptions &options) {
  if (name.empty())
    return success();
  auto kept = module.lookupSymbol<func::FuncOp>(name);
  if (!kept || kept.isExternal())
    return module.emitError("expected a function named '") << name << "', got none";
  for (auto function : module.getOps<func::FuncOp>())
    if (function != kept)
      function.setPrivate();
  kept.setPublic();
  return runPasses(
      module, [](OpPassManager &pm) { return pm.addPass(createSymbolDCEPass()), success(); }, "select the function",
      options);
}

LogicalResult flashc::checkTarget(ModuleOp module, StringRef target) {
  if (GPUTarget::lookup(target))
    return success();
  return module.emitError("expected the target to be one of ") << GPUTarget::getNames() << ", got '" << target << "'";
}

/// Checks the names of the target and the algorithm, which the back end would reject late or not at all.
static LogicalResult checkOptions(ModuleOp module, const PipelineOptions &pipeline) {
  if (failed(checkTarget(module, pipeline.target)))
    return failure();
  if (pipeline.algorithm != "fa2" && pipeline.algorithm != "split-kv")
    return module.emitError("expected algorithm fa2 or split-kv for a kernel, got '") << pipeline.algorithm << "'";
  return success();
}

bool flashc::hasOwnTiles(const CompileOptions &options) {
  return options.pipeline.qTile || options.pipeline.kvTile || options.addAlgorithm;
}

ScheduleRequest flashc::makeRequest(const CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  ScheduleRequest request{pipeline.target, pipeline.schedule, pipeline.scheduleTable,
                          /*mayVary=*/!hasOwnTiles(options)};
  if (pipeline.algorithm == "split-kv")
    request.kind = KernelKind::Decode;
  else if (options.addAlgorithm || !pipeline.mayDecode)
    request.kind = KernelKind::Forward;
  return request;
}

FailureOr<ScheduleDecision> flashc::decideSchedules(ModuleOp module, const CompileOptions &options) {
  // In the source, scores and masks may be regions of the attention or ops around it. They are fused first, so that
  // both forms get the same schedule.
  OwningOpRef<ModuleOp> fused = module.clone();
  auto fuse = [](OpPassManager &pm) {
    pm.addPass(flash::createWrapIndices());
    pm.addPass(flash::createFuse());
    pm.addPass(flash::createTabulateRows());
    return success();
  };
  if (!options.addAlgorithm && failed(runPasses(*fused, fuse, "fuse", options)))
    return failure();
  return decideSchedules(*fused, makeRequest(options));
}

CompileOptions flashc::withSchedule(const CompileOptions &options, const Schedule &schedule) {
  CompileOptions result = options;
  PipelineOptions &pipeline = result.pipeline;
  pipeline.splits = schedule.splits;
  if (schedule.kind == KernelKind::Decode) {
    pipeline.algorithm = "split-kv";
    pipeline.chunk = schedule.chunk;
    pipeline.schedule.clear(); // the function's attribute has the schedule
    return result;
  }
  pipeline.partsByWork = schedule.persistent && schedule.splits > 1;
  pipeline.residentTile = schedule.getQTile();
  pipeline.streamedTile = schedule.kvTile;
  pipeline.gradientTile = schedule.getGradientTile();
  pipeline.headTile = schedule.heads;
  pipeline.splitGradients = schedule.splitGradients;
  return result;
}

FailureOr<OwningOpRef<ModuleOp>> flashc::lowerToLoops(ModuleOp module, const CompileOptions &options) {
  OwningOpRef<ModuleOp> loops = module.clone();
  auto algorithm = [&](OpPassManager &pm) { return addAlgorithm(pm, options); };
  if (failed(runPasses(*loops, algorithm, "algorithm", options)))
    return failure();
  return loops;
}

/// Lowers the entry of a choice to L1, and sets choice.mask.
static FailureOr<OwningOpRef<ModuleOp>> lowerToLoops(ModuleOp module, ScheduleChoice &choice,
                                                     const CompileOptions &options) {
  OwningOpRef<ModuleOp> renamed;
  if (std::string entry = getVariantName(module, choice); !entry.empty()) {
    renamed = module.clone();
    renameEntry(*renamed, entry);
    module = *renamed;
  }
  func::FuncOp function = findFunction(module);
  std::optional<MaskExplanation> mask;
  auto loops = lowerToLoops(module, function ? observeMask(options, function, mask) : options);
  if (mask) {
    choice.mask = mask->maskClass;
    if (!mask->reasons.empty())
      choice.mask += ": " + llvm::join(mask->reasons, "; ");
  }
  return loops;
}

namespace {
/// An entry that is being lowered, and the choice that it is for.
struct Entry {
  OwningOpRef<ModuleOp> module;
  ScheduleChoice choice;
};
} // namespace

/// Lowers one choice of schedule to L1 and appends one or two entries to `entries`, in the order in which a launch
/// tests them: an entry for short packed sequences, and one for all others. It appends only one if there are no
/// conditions that tell short sequences, if it is known at compile time whether sequences are short, or if an earlier
/// choice already has an entry for short sequences. That entry also serves all later choices, since a tile for few
/// queries suits short sequences.
static LogicalResult addEntries(ModuleOp module, ScheduleChoice choice, const CompileOptions &options,
                                SmallVectorImpl<Entry> &entries) {
  CompileOptions tiled = withSchedule(options, choice.schedule);
  auto aligned = lowerToLoops(module, choice, tiled);
  if (failed(aligned))
    return failure();
  ShortSequences sequences;
  if (!hasOwnTiles(options))
    sequences = findShortSequences(module, **aligned);
  bool isFirst = llvm::all_of(entries, [](const Entry &entry) { return entry.choice.shortSequences.empty(); });
  if (!sequences.conditions.empty() && sequences.areShort != false && isFirst) {
    ScheduleChoice onGrid = choice;
    onGrid.queryTiles = kOnGrid.str();
    if (!sequences.areShort) {
      onGrid.shortSequences = sequences.conditions;
      onGrid.maxQueries.reset();
    }
    tiled.pipeline.alignQueries = false;
    auto grid = lowerToLoops(module, onGrid, tiled);
    if (failed(grid))
      return failure();
    entries.push_back({std::move(*grid), std::move(onGrid)});
  }
  if (sequences.areShort == true)
    return success();
  if (!sequences.conditions.empty())
    choice.queryTiles = "begin at packed sequences";
  entries.push_back({std::move(*aligned), std::move(choice)});
  return success();
}

LogicalResult flashc::lowerFromLoops(ModuleOp loops, const Schedule &schedule, const CompileOptions &options,
                                     KernelLevel level) {
  for (auto function : loops.getOps<func::FuncOp>())
    function->setAttr(kScheduleAttrName, schedule.getAttr(function.getContext()));
  auto build = [&](OpPassManager &pm) { return buildKernelPipeline(pm, options.pipeline, level), success(); };
  if (failed(runPasses(loops, build, "lower", options)))
    return failure();
  return level == KernelLevel::Expanded ? checkScalarCode(loops) : success();
}

/// Completes the schedule of an entry, and lowers the entry from L1 to `level`.
static LogicalResult lowerEntry(Entry &entry, const ScheduleDecision &decision, const CompileOptions &options,
                                KernelLevel level) {
  auto &[module, choice] = entry;
  if (failed(completeChoice(choice, *module, decision)))
    return failure();
  return lowerFromLoops(*module, choice.schedule, withSchedule(options, choice.schedule), level);
}

FailureOr<LoweredKernel> flashc::lowerToKernel(ModuleOp module, const CompileOptions &options, KernelLevel level) {
  if (failed(checkOptions(module, options.pipeline)))
    return failure();
  FailureOr<ScheduleDecision> decision = decideSchedules(module, options);
  if (failed(decision))
    return failure();
  SmallVector<Entry, 2> entries;
  for (const ScheduleChoice &choice : decision->choices)
    if (failed(addEntries(module, choice, options, entries)))
      return failure();
  decision->choices.clear();
  for (Entry &entry : entries) {
    if (failed(lowerEntry(entry, *decision, options, level)))
      return failure();
    decision->choices.push_back(entry.choice);
  }
  OwningOpRef<ModuleOp> kernel = std::move(entries.pop_back_val().module);
  for (Entry &entry : entries)
    addVariant(*kernel, std::move(entry.module), decision->queriesArgument, entry.choice);
  return LoweredKernel{std::move(kernel), std::move(*decision)};
}

FailureOr<std::string> flashc::translateKernel(ModuleOp kernel, const CompileOptions &options) {
  TimingScope scope = nestTiming(options, "translate to PTX");
  return translateToPTX(kernel, options.pipeline.target);
}

FailureOr<KernelDescription> flashc::describeKernel(const LoweredKernel &kernel) {
  FailureOr<std::string> manifest = exportManifest(*kernel.module);
  if (failed(manifest))
    return failure();
  std::string schedule = kernel.decision.question.kind == KernelKind::Plain ? "" : kernel.getSchedule();
  return KernelDescription{std::move(*manifest), std::move(schedule), describeDecisions(kernel)};
}

FailureOr<std::string> flashc::compileEntry(const LoweredKernel &kernel, size_t number, const CompileOptions &options) {
  OwningOpRef<ModuleOp> entry = selectEntry(*kernel.module, number);
  bool isFolded = number >= Launch::getAll(*kernel.module)->size(); // the order of Manifest::getEntry
  auto build = [&](OpPassManager &pm) {
    if (isFolded)
      pm.addPass(createFoldGrid());
    buildCodePipeline(pm, KernelLevel::LLVM);
    return success();
  };
  if (failed(runPasses(*entry, build, "lower", options)))
    return failure();
  return translateKernel(*entry, options);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Whole compilations
//===--------------------------------------------------------------------------------------------------------------===//

ArrayRef<StringRef> flashc::getLevelNames() {
  static const StringRef names[] = {"flash", "loops", "tile", "nvvm", "llvm"};
  return names;
}

static std::string print(ModuleOp module) { return llvm::to_string(module) + "\n"; }

FailureOr<std::string> flashc::printAtLevel(ModuleOp module, Level level, const CompileOptions &options) {
  if (level == Level::Flash)
    return print(module);
  if (level == Level::Loops) {
    auto loops = lowerToLoops(module, options);
    return failed(loops) ? FailureOr<std::string>() : print(**loops);
  }
  KernelLevel kernelLevel = level == Level::Tile   ? KernelLevel::Tile
                            : level == Level::NVVM ? KernelLevel::NVVM
                                                   : KernelLevel::LLVM;
  FailureOr<LoweredKernel> kernel = lowerToKernel(module, options, kernelLevel);
  if (failed(kernel))
    return failure();
  if (level != Level::LLVM)
    return print(*kernel->module);
  return translateToLLVMIR(*kernel->module, options.pipeline.target);
}

FailureOr<CompiledKernel> flashc::compile(ModuleOp module, const CompileOptions &options) {
  FailureOr<LoweredKernel> kernel = lowerToKernel(module, options, KernelLevel::LLVM);
  if (failed(kernel))
    return failure();
  FailureOr<std::string> ptx = translateKernel(*kernel->module, options);
  if (failed(ptx))
    return failure();
  FailureOr<KernelDescription> description = describeKernel(*kernel);
  if (failed(description))
    return failure();
  return CompiledKernel{std::move(*description), std::move(*ptx)};
}
