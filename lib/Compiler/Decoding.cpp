//===- Decoding.cpp - which kernel an attention gets, and the way to a decoding kernel ----------------------------===//

#include "Lowering.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace flashc;

/// Returns the array that stores keys or values: the cache if `array` is a view of a cache, else `array` itself.
static Value getStored(Value array) {
  auto view = array.getDefiningOp<flash::CacheViewOp>();
  return view ? view.getCache() : array;
}

/// Returns the question about an attention whose keys and values may be in a cache. Unknown extents are 0 in it.
static Question makeQuestion(flash::AttentionOp op, const GPUTarget &target) {
  auto get = [](ShapedType type, int64_t dim) { return type.isDynamicDim(dim) ? 0 : type.getDimSize(dim); };
  Question question(KernelKind::Forward, target.name, op.getKType().getDimSize(3),
                    cast<ShapedType>(op.getV().getType()).getDimSize(3));
  question.dtype = op.getQType().getElementType().isF16() ? "f16" : "bf16";
  if (int64_t queries = get(op.getQType(), 2))
    question.queries = queries;
  CacheQuestion &cache = question.cache.emplace();
  cache.batches = std::max(get(op.getQType(), 0), get(op.getKType(), 0));
  cache.keyHeads = get(op.getKType(), 1), cache.keys = get(op.getKType(), 2);
  cache.groupSize = op.getGroup();
  cache.multiprocessors = target.multiprocessors;
  Type stored = getElementTypeOrSelf(getStored(op.getK()));
  cache.isWidened = stored != op.getKType().getElementType();
  cache.keyBytes = (question.d + question.dv) * stored.getIntOrFloatBitWidth() / 8;
  if (auto view = op.getK().getDefiningOp<flash::CacheViewOp>(); view && view.getTable())
    cache.pageRows = cast<ShapedType>(view.getCache().getType()).getDimSize(2);
  return question;
}

FailureOr<KernelPlan> flashc::chooseKernel(ModuleOp module, const CompileOptions &options) {
  const PipelineOptions &pipeline = options.pipeline;
  llvm::Expected<ScheduleTable> table = ScheduleTable::parse(pipeline.scheduleTable, "schedule table");
  if (!table)
    return module.emitError() << llvm::toString(table.takeError());
  bool isSplit = pipeline.algorithm == "split-kv";
  bool readsCache = bool(findFirst<flash::CacheViewOp>(module));
  auto op = findFirst<flash::AttentionOp>(module);
  if (!op && (isSplit || readsCache))
    return module.emitError("expected a flash.attention for a decoding kernel (algorithm split-kv), got none");
  if (!isSplit && !readsCache)
    return KernelPlan{};
  const ScheduleTable *tables[] = {&*table, &ScheduleTable::getBuiltIn()};
  KernelWish wish{pipeline.schedule, tables};
  if (isSplit)
    wish.kind = KernelKind::Decode;
  else if (options.addAlgorithm || !pipeline.mayDecode)
    wish.kind = KernelKind::Forward;
  llvm::Expected<KernelPlan> plan = chooseKernel(makeQuestion(op, *GPUTarget::lookup(pipeline.target)), wish);
  if (!plan)
    return op.emitError() << "schedule: " << llvm::toString(plan.takeError());
  return std::move(*plan);
}

FailureOr<LoweredKernel> flashc::lowerDecoding(ModuleOp module, const KernelPlan &plan, const CompileOptions &options,
                                               KernelLevel level) {
  CompileOptions tiled = withSchedule(options, *plan.schedule);
  auto loops = lowerToLoops(module, tiled);
  if (failed(loops) || failed(lowerFromLoops(**loops, *plan.schedule, tiled, level)))
    return failure();
  LoweredKernel kernel{std::move(*loops), {}};
  kernel.decision.question.kind = plan.kind;
  kernel.decision.why = plan.why;
  kernel.decision.choices.push_back({*plan.schedule, /*maxQueries=*/std::nullopt, plan.row, plan.reasons});
  return kernel;
}
