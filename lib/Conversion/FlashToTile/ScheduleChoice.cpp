//===- ScheduleChoice.cpp - the schedules of an attention in IR ---------------------------------------------------===//

#include "flashc/Conversion/ScheduleChoice.h"
#include "PlainLaunch.h"
#include "Regions/ScoreMap.h"
#include "flashc/Analysis/MaskProver.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Schedule/Rules.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// The mask's class
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
struct MaskFinding {
  MaskClass mask;
  std::string reason;
};
} // namespace

/// Returns an op by which the score of `op`, or of another attention in the same function, reads an array for every
/// key. Null if there is none. Reads that depend on the query alone do not count: they happen once for each row of a
/// tile, before the loop over keys.
static Operation *findRead(Operation *op) {
  Operation *function = op->getParentOfType<FunctionOpInterface>(), *read = nullptr;
  (function ? function : op)->walk([&](Operation *nested) {
    if (auto scores = dyn_cast<flash::ScoresOpInterface>(nested))
      for (Region &region : nested->getRegions())
        if (&region != &scores.getMask())
          read = read ? read : flash::findReadForKeys(region);
    return read ? WalkResult::interrupt() : WalkResult::advance();
  });
  return read;
}

/// Returns the reason why `op`, an operation of a mask on the query, cannot become part of a loop bound. Empty if it
/// can. Bounds come from signed comparisons (less or greater) of the query plus or minus a value, and from conditions
/// that do not depend on the query.
static std::string getUnboundedKind(Operation *op) {
  if (isa<arith::AddIOp, arith::SubIOp, arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp, arith::AndIOp,
          flash::YieldOp>(op))
    return "";
  std::string name = op->getName().getStringRef().str();
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return name;
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::sgt:
    return "";
  default:
    return name + " " + arith::stringifyCmpIPredicate(compare.getPredicate()).str();
  }
}

/// Whether `op`, an operation on the key, is part of a condition that bounds the key. A kernel computes the bits of
/// such conditions for many columns at once.
static bool isPartOfBounds(Operation *op) {
  if (isa<arith::AddIOp, arith::SubIOp, arith::IndexCastOp, arith::ExtSIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp,
          flash::YieldOp>(op))
    return true;
  if (isa<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp>(op))
    return matchPattern(op->getOperand(1), m_Constant()) &&
           llvm::all_of(op->getUsers(), [](Operation *user) { return isa<arith::CmpIOp>(user); });
  auto compare = dyn_cast<arith::CmpIOp>(op);
  return compare && (compare.getPredicate() <= arith::CmpIPredicate::sge); // eq, ne, and the signed ones
}

/// Returns the operations of `mask` that are part of conditions which repeat along the keys. The period is at most
/// `most` blocks of kBlockCols keys. A kernel computes the bits of such conditions for many columns at once, as it does
/// for conditions that bound the key.
static llvm::SetVector<Operation *> findRepeated(Region &mask, int64_t most) {
  namespace tile = mlir::tile;
  llvm::SetVector<Operation *> repeated;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.filter = [&](Operation *op) { return op->getParentRegion() == &mask; };
  for (auto compare : mask.getOps<arith::CmpIOp>())
    if (tile::getRepeat(compare, mask.getArgument(3), most * tile::kBlockCols))
      (void)getBackwardSlice(compare.getOperation(), &repeated, options);
  return repeated;
}

static MaskFinding classifyMask(flash::ScoresOpInterface op) {
  if (Operation *read = findRead(op))
    return {MaskClass::Memory, (read->getName().getStringRef() + " reads memory for every key").str()};
  Region &mask = op.getMask();
  llvm::SetVector<Operation *> ofQuery, ofKey, repeated;
  if (!mask.empty()) {
    getForwardSlice(mask.getArgument(2), &ofQuery);
    getForwardSlice(mask.getArgument(3), &ofKey);
    repeated = findRepeated(mask, /*most=*/1);
    ofKey.set_subtract(repeated);
  }
  llvm::SetVector<Operation *> ofEachKey = ofKey;
  if (!mask.empty())
    ofEachKey.set_subtract(findRepeated(mask, mlir::tile::kMostRepeat));
  for (Operation *user : ofEachKey)
    if (isa<arith::MulIOp, arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
            arith::RemSIOp, arith::RemUIOp>(user) &&
        !isPartOfBounds(user))
      return {MaskClass::Arithmetic, (user->getName().getStringRef() + " of the key").str()};
  if (auto attention = dyn_cast<flash::AttentionOp>(op.getOperation()))
    if (int64_t keys = attention.getKType().getDimSize(2); keys > 128 && keys < 256)
      return {MaskClass::Constants, ("of " + Twine(keys) +
                                     " keys LLVM knows most of the second tile to be masked, and keeps "
                                     "constants in registers")
                                        .str()};
  if (mask.empty())
    return {MaskClass::None, "there is no mask"};
  for (Operation *user : ofQuery)
    if (user->getNumRegions() > 0)
      return {MaskClass::Code, (user->getName().getStringRef() + " is control flow on the query").str()};
  for (Operation *user : ofKey)
    if (!isPartOfBounds(user))
      return {MaskClass::Code, (user->getName().getStringRef() + " of the key, which is no part of a bound").str()};
  int64_t comparisons = llvm::count_if(ofQuery, [](Operation *user) { return isa<arith::CmpIOp>(user); });
  auto several = [&](const Twine &reason) -> MaskFinding {
    if (repeated.empty())
      return {MaskClass::Several, reason.str()};
    return {MaskClass::Periodic,
            ("a condition repeats along the keys within " + Twine(mlir::tile::kBlockCols) + " of them").str()};
  };
  if (comparisons > 1)
    return several(Twine(comparisons) + " comparisons of the query (arith.cmpi)");
  for (Operation *user : ofQuery)
    if (std::string kind = getUnboundedKind(user); !kind.empty())
      return several(kind + " of the query, which becomes no loop bound");
  return {MaskClass::Bounds, "at most one comparison of the query (arith.cmpi), which becomes loop bounds"};
}

/// Returns the most keys that a query sees, if the mask only compares positions. None if unknown.
static std::optional<int64_t> getMostKeys(flash::ScoresOpInterface op) {
  Region &mask = op.getMask();
  if (mask.empty())
    return std::nullopt;
  return flash::getMostKeys(flash::readMask(mask));
}

/// Whether the result of `score` is more than the score times a constant, plus what does not depend on the score. The
/// derivative, which the step asks for constants, does not exist yet, so a branch on the score counts as curved.
static bool isCurved(Region &score) {
  llvm::SetVector<Operation *> ofScore;
  getForwardSlice(score.getArgument(0), &ofScore);
  auto isConstant = [](Value value) { return matchPattern(value, m_Constant()); };
  return !llvm::all_of(ofScore, [&](Operation *op) {
    if (isa<arith::MulFOp>(op))
      return isConstant(op->getOperand(0)) || isConstant(op->getOperand(1));
    if (isa<arith::DivFOp>(op))
      return isConstant(op->getOperand(1));
    return isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp, flash::YieldOp>(op);
  });
}

/// Returns the class of the score. With a log-sum-exp or dropout its bound is of no use.
static ScoreClass classifyScore(flash::ScoresOpInterface op, const KernelOutputs &outputs) {
  Region &score = op.getScore();
  if (score.empty())
    return ScoreClass::None;
  if (op.getKernelKind() == getKindName(KernelKind::Backward))
    return isCurved(score) ? ScoreClass::Curved : ScoreClass::Code;
  std::optional<double> bound = outputs.hasLse || op.getDropout() ? std::nullopt : getScoreBound(score);
  return bound && *bound <= kUnifiedMaxBound ? ScoreClass::Bounded : ScoreClass::Code;
}

static bool hasSlopesInScore(flash::ScoresOpInterface op) {
  Region &score = op.getScore();
  auto scale = op->getAttrOfType<FloatAttr>("scale");
  return !score.empty() && scale && hasSlopes(score, scale.getValueAsDouble());
}

/// Returns the steps of level L1, of which only some may have the mask (flash-bound-loops). Level L0 has no steps.
static SmallVector<flash::OnlineAttentionOp> findSteps(flash::ScoresOpInterface op) {
  SmallVector<flash::OnlineAttentionOp> steps;
  op->getParentOfType<ModuleOp>()->walk([&](flash::OnlineAttentionOp step) { steps.push_back(step); });
  return steps;
}

/// Returns the facts about the loops of level L1.
static LoopFacts readLoops(flash::ScoresOpInterface op) {
  LoopFacts loops;
  SmallVector<flash::OnlineAttentionOp> steps = findSteps(op);
  if (steps.empty())
    return loops;
  loops.hasSegments = steps.front().getI0().getDefiningOp<flash::SegmentTileOp>() != nullptr;
  loops.isMasked = llvm::any_of(steps, [](flash::OnlineAttentionOp step) { return step.hasMask(); });
  return loops;
}

/// Returns the class of the mask by the keys that a few rows see (RowsClass). At level L1, flash-bound-loops may have
/// left no loop with the mask. Then all rows see all keys, and the result is Bounded, which allows own-keys.
static RowsClass classifyRows(flash::ScoresOpInterface op) {
  if (op.getKernelKind() != getKindName(KernelKind::Forward))
    return RowsClass::None;
  SmallVector<flash::OnlineAttentionOp> steps = findSteps(op); // their tiles of queries may follow packed sequences
  if (steps.empty())
    return flash::hasRowBounds(op.getMask())       ? RowsClass::Bounded
           : flash::hasReadRowBounds(op.getMask()) ? RowsClass::Listed
                                                   : RowsClass::None;
  auto isBounded = [](flash::OnlineAttentionOp step) { return flash::hasRowBounds(step.getMask()); };
  auto isListed = [](flash::OnlineAttentionOp step) { return flash::hasReadRowBounds(step); };
  return !readLoops(op).isMasked || llvm::any_of(steps, isBounded) ? RowsClass::Bounded
         : llvm::any_of(steps, isListed)                           ? RowsClass::Listed
                                                                   : RowsClass::None;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Choosing
//===--------------------------------------------------------------------------------------------------------------===//

/// Sets the schedule of a choice to that of its row. Errors are emitted on `op`.
static LogicalResult resolveRow(Operation *op, ScheduleChoice &choice, const Question &question, StringRef overrides) {
  choice.reasons.clear();
  llvm::Expected<Schedule> schedule = applyRow(choice.row, question, overrides, &choice.reasons);
  if (!schedule)
    return (op->emitError() << "schedule: " << llvm::toString(schedule.takeError())).attachNote()
           << choice.row.table << ", line " << choice.row.line << ": " << choice.row.text;
  choice.schedule = *schedule;
  return success();
}

/// All choices for a question, without duplicates. Errors are emitted on `op`.
static FailureOr<SmallVector<ScheduleChoice, 2>> choose(Operation *op, const Question &question,
                                                        ArrayRef<const ScheduleTable *> tables, StringRef overrides,
                                                        bool mayVary) {
  llvm::Expected<SmallVector<RowChoice, 2>> rows = findRows(tables, question, mayVary);
  if (!rows)
    return op->emitError() << "schedule: " << llvm::toString(rows.takeError());
  SmallVector<ScheduleChoice, 2> choices;
  for (const RowChoice &row : *rows) {
    ScheduleChoice choice{{}, row.maxQueries, *row.row};
    if (failed(resolveRow(op, choice, question, overrides)))
      return failure();
    if (!choices.empty() && choices.back().schedule == choice.schedule)
      choices.pop_back(); // bounds on queries ascend: the next choice covers this one
    choices.push_back(std::move(choice));
  }
  return choices;
}

/// Adds facts about scores and their regions to the question.
static void addScores(flash::ScoresOpInterface op, Question &question) {
  question.kind = *lookupKind(op.getKernelKind());
  question.group = op.getGroup();
  question.mask = classifyMask(op).mask;
  question.keys = getMostKeys(op);
  question.score = classifyScore(op, question.outputs);
  question.hasSlopes = hasSlopesInScore(op);
  question.hasDropout = op.getDropout().has_value();
  question.rows = classifyRows(op);
  question.isDeterministic = op.isDeterministic();
  question.loops = readLoops(op);
}

static FailureOr<Question> makeQuestion(Operation *op, int64_t d, int64_t dv, Type element, StringRef target,
                                        const KernelOutputs &outputs) {
  if (!GPUTarget::lookup(target))
    return op->emitError() << "expected the target to be one of " << GPUTarget::getNames() << ", got '" << target
                           << "'";
  if (!GPUTarget::lookup(target)->hasWarpgroupProducts)
    return op->emitError() << "expected a decoding kernel (algorithm split-kv) on " << target
                           << ", whose warpgroups compute no products";
  if (!element.isBF16() && !element.isF16())
    return op->emitError() << "expected bf16 or f16 on " << target << ", got " << element;
  Question question(KernelKind::Forward, target, d, dv);
  question.dtype = element.isBF16() ? "bf16" : "f16";
  question.outputs = outputs;
  if (auto scores = dyn_cast<flash::ScoresOpInterface>(op))
    addScores(scores, question);
  return question;
}

FailureOr<Schedule> flashc::resolveSchedule(Operation *op, StringRef target, int64_t d, int64_t dv, Type element,
                                            const KernelOutputs &outputs, StringRef overrides) {
  FailureOr<Question> question = makeQuestion(op, d, dv, element, target, outputs);
  if (failed(question))
    return failure();
  auto choices = choose(op, *question, &ScheduleTable::getBuiltIn(), overrides, /*mayVary=*/false);
  if (failed(choices))
    return failure();
  return choices->front().schedule;
}

/// The depth of the product with values. 0 if there is none.
static int64_t getValueDepth(flash::ScoresOpInterface op) {
  Value values = op.getValues();
  return values ? cast<ShapedType>(values.getType()).getDimSize(3) : 0;
}

/// Returns the type of O: the type of a result on tensors, or of an `outs` operand on memrefs.
static ShapedType getOutputType(flash::AttentionOp op) {
  return cast<ShapedType>((op->getNumResults() ? op->getResult(0) : op.getOuts()[0]).getType());
}

/// Makes the decision for a kernel without tiles, which has no fields to choose.
static FailureOr<ScheduleDecision> decidePlain(flash::PlainOpInterface op, const ScheduleRequest &request) {
  if (!request.overrides.empty())
    return op->emitOpError() << "expected no schedule for a kernel without tiles, got '" << request.overrides << "'";
  ScheduleDecision decision;
  decision.question = Question(KernelKind::Plain, request.target);
  decision.choices.push_back({});
  return decision;
}

FailureOr<ScheduleDecision> flashc::decideSchedules(ModuleOp module, const ScheduleRequest &request) {
  FailureOr<KernelPlan> plan = chooseKernel(module, request);
  if (failed(plan))
    return failure();
  ScheduleDecision decision;
  decision.why = plan->why;
  if (plan->kind == KernelKind::Decode) {
    decision.question = Question(plan->kind, request.target);
    decision.choices.push_back({*plan->schedule, /*maxQueries=*/std::nullopt, plan->row, plan->reasons});
    return decision;
  }
  if (flash::PlainOpInterface plain = findPlainOp(module))
    return decidePlain(plain, request);
  auto op = findFirst<flash::ScoresOpInterface>(module);
  if (!op)
    return module.emitError() << "expected an attention in the module, got none";
  auto q = cast<ShapedType>(op.getQ().getType());
  KernelOutputs outputs;
  auto attention = dyn_cast<flash::AttentionOp>(op.getOperation());
  if (attention) {
    outputs.hasLse = attention->getNumResults() == 0 || !attention->getResult(1).use_empty();
    outputs.hasInputType = getOutputType(attention).getElementType() == q.getElementType();
  }
  FailureOr<Question> question =
      makeQuestion(op, q.getDimSize(3), getValueDepth(op), q.getElementType(), request.target, outputs);
  if (failed(question))
    return failure();
  decision.question = *question;
  decision.overrides = request.overrides.str();
  decision.maskReason = classifyMask(op).reason;

  // The tile of a step does not depend on the number of queries.
  bool mayVary = false;
  if (attention || isa<flash::AttentionBackwardOp, flash::CapturedGradientOp>(op)) {
    if (!q.isDynamicDim(2))
      decision.question.queries = q.getDimSize(2);
    if (BlockArgument argument = flash::getRootArgument(op.getQ())) {
      mayVary = request.mayVary;
      decision.queriesArgument = argument.getArgNumber();
    }
  }
  // chooseKernel has checked the table.
  ScheduleTable table = llvm::cantFail(ScheduleTable::parse(request.table, "schedule table"));
  const ScheduleTable *tables[] = {&table, &ScheduleTable::getBuiltIn()};
  auto choices = choose(op, decision.question, tables, request.overrides, mayVary);
  if (failed(choices))
    return failure();
  decision.choices = std::move(*choices);
  return decision;
}

LogicalResult flashc::completeChoice(ScheduleChoice &choice, ModuleOp loops, const ScheduleDecision &decision) {
  if (decision.question.kind != KernelKind::Forward) // the loops decide no field of other kinds
    return success();
  auto op = findFirst<flash::ScoresOpInterface>(loops);
  if (!op) // an extent is 0: convert-flash-to-tile finds no loops, and says so
    return success();
  Question question = decision.question;
  question.loops = readLoops(op);
  return resolveRow(op, choice, question, decision.overrides);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Printing
//===--------------------------------------------------------------------------------------------------------------===//

/// Describes where the value of a field comes from. `asked` is the value of the override, `inRow` that of the row,
/// `initial` that of the default. `reason` is the reason of the rule that changed the field, if any.
static std::string getOrigin(StringRef key, StringRef value, StringRef asked, StringRef inRow, StringRef initial,
                             StringRef reason, const ScheduleChoice &choice, StringRef overrides) {
  std::string why = "it cannot here";
  if (!reason.empty())
    llvm::copy_if(reason, (why.clear(), std::back_inserter(why)), [](char c) { return c != '`'; });
  if (hasOverride(overrides, key) && asked != "auto")
    return value == asked ? "override" : "override, but it cannot here";
  if (hasOverride(choice.row.overrides, key))
    return value == inRow ? "row" : "row, but " + why;
  return value == initial ? "default" : reason.empty() ? "follows from the rest" : "where " + why;
}

void flashc::printRow(llvm::raw_ostream &os, const ScheduleRow &row) {
  os << "  row: " << row.table << ", line " << row.line << ": " << row.text << "\n";
}

void flashc::printChoice(llvm::raw_ostream &os, const ScheduleChoice &choice, const ScheduleDecision &decision) {
  printRow(os, choice.row);
  Schedule asked(choice.schedule.kind);
  llvm::cantFail(overrideSchedule(asked, decision.overrides));
  for (auto [field, wish, inRow, initial] :
       llvm::zip(choice.schedule.getFields(), asked.getFields(), choice.row.getSchedule().getFields(),
                 Schedule(choice.schedule.kind).getFields())) {
    auto &[key, value] = field;
    auto isOfField = [&key = key](const FieldReason &of) { return of.first == key; };
    auto *reason = llvm::find_if(llvm::reverse(choice.reasons), isOfField).base();
    std::string origin =
        getOrigin(key, value, wish.second, inRow.second, initial.second,
                  reason == choice.reasons.begin() ? "" : std::prev(reason)->second, choice, decision.overrides);
    os << "  " << key << " = " << value << " (" << origin << ")\n";
  }
  const GPUTarget &target = decision.question.getTarget();
  const Question &question = decision.question;
  bool hasSlopes = question.hasSlopes && canAddSlopes(choice.schedule, target, question.d, question.dv);
  ScheduleNeeds needs =
      getScheduleNeeds(choice.schedule, target, question.d, question.dv, {/*isSorted=*/false, hasSlopes});
  os << "  shared memory: " << needs.sharedMemoryBytes << " of " << target.maxSharedMemory << " bytes\n"
     << "  registers: " << needs.ctaRegisters << " of " << needs.mostRegisters << " for a CTA, " << needs.tileRegisters
     << " of " << choice.schedule.getRegisters().consumer << " for the tiles of a consumer thread\n";
  if (question.hasSlopes)
    os << "  slopes along the keys: added " << (hasSlopes ? "by the tensor cores\n" : "in registers\n");
}
