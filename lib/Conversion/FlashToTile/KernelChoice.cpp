//===- KernelChoice.cpp - which kernel an attention in IR gets ----------------------------------------------------===//

#include "flashc/Conversion/ScheduleChoice.h"

using namespace mlir;
using namespace flashc;

/// Returns the array that stores keys or values: the cache if `array` is a view of a cache, else `array` itself.
static Value getStored(Value array) {
  auto view = array.getDefiningOp<flash::CacheViewOp>();
  return view ? view.getCache() : array;
}

/// Returns the Question by which the kernel is chosen, for an attention whose keys and values may be in a cache.
/// Extents of the cache that are not known are 0.
static Question makeQuestion(flash::AttentionOp op, StringRef target) {
  auto get = [](ShapedType type, int64_t dim) { return type.isDynamicDim(dim) ? 0 : type.getDimSize(dim); };
  Question question(KernelKind::Forward, target, op.getKType().getDimSize(3),
                    cast<ShapedType>(op.getV().getType()).getDimSize(3));
  question.group = op.getGroup();
  question.dtype = op.getQType().getElementType().isF16() ? "f16" : "bf16";
  if (int64_t queries = get(op.getQType(), 2))
    question.queries = queries;
  CacheQuestion &cache = question.cache.emplace();
  auto unpack = op.getQ().getDefiningOp<flash::UnpackRowsOp>();
  cache.hasPackedQueries = static_cast<bool>(unpack);
  cache.batches = std::max(get(op.getQType(), 0), get(op.getKType(), 0));
  cache.keyHeads = get(op.getKType(), 1), cache.keys = get(op.getKType(), 2);
  cache.isMaskedByHead = !op.getMask().empty() && !op.getMask().getArgument(1).use_empty();
  cache.multiprocessors = question.getTarget().multiprocessors;
  Type stored = getElementTypeOrSelf(getStored(op.getK()));
  cache.isWidened = stored != op.getKType().getElementType();
  cache.keyBytes = (question.d + question.dv) * stored.getIntOrFloatBitWidth() / 8;
  if (auto view = op.getK().getDefiningOp<flash::CacheViewOp>(); view && view.getTable())
    cache.pageRows = cast<ShapedType>(view.getCache().getType()).getDimSize(2);
  return question;
}

FailureOr<KernelPlan> flashc::chooseKernel(ModuleOp module, const ScheduleRequest &request) {
  llvm::Expected<ScheduleTable> table = ScheduleTable::parse(request.table, "schedule table");
  if (!table)
    return module.emitError() << llvm::toString(table.takeError());
  if (request.kind != KernelKind::Decode && !findFirst<flash::CacheViewOp>(module))
    return KernelPlan{};
  auto op = findFirst<flash::AttentionOp>(module);
  if (!op)
    return module.emitError("expected a flash.attention for a decoding kernel (algorithm split-kv), got none");
  const ScheduleTable *tables[] = {&*table, &ScheduleTable::getBuiltIn()};
  llvm::Expected<KernelPlan> plan =
      chooseKernel(makeQuestion(op, request.target), {request.overrides, tables, request.kind});
  if (!plan)
    return op.emitError() << "schedule: " << llvm::toString(plan.takeError());
  return std::move(*plan);
}
