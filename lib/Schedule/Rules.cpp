//===- Rules.cpp - what fields of a schedule ask of each other and of the attention -------------------------------===//

#include "RuleTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

/// Gives the rule's field in the draft's schedule its new value: `rule.value`, or what `rule.set` computes, if
/// `rule.value` only describes the value in words.
static void setValue(Draft &draft, const Rule &rule) {
  if (rule.set)
    rule.set(draft);
  else
    llvm::cantFail(overrideSchedule(draft.s, (rule.field + "=" + rule.value).str()));
}

static ArrayRef<Rule> getRules(KernelKind kind) {
  return kind == KernelKind::Decode ? getDecodeRules() : getTiledRules();
}

static llvm::Error check(const Draft &draft) {
  for (const Rule &rule : getRules(draft.s.kind))
    if (rule.refusal && rule.when(draft))
      return llvm::createStringError(rule.refusal(draft));
  return llvm::Error::success();
}

llvm::Expected<Schedule> flashc::applyRow(const ScheduleRow &row, const Question &question, StringRef overrides,
                                          SmallVectorImpl<FieldReason> *reasons) {
  Schedule schedule = row.getSchedule();
  Draft draft{schedule, question, row, overrides, schedule};
  if (llvm::Error error = overrideSchedule(schedule, overrides))
    return error;
  if (llvm::Error error = checkFields(schedule.kind, overrides))
    return error;
  for (const Rule &rule : getRules(schedule.kind)) {
    if (rule.value.empty() || draft.isAsked(rule.field) || !rule.when(draft))
      continue;
    Schedule before = schedule;
    setValue(draft, rule);
    for (auto [was, is] : llvm::zip_equal(before.getFields(), schedule.getFields()))
      if (reasons && was.second != is.second)
        reasons->push_back({is.first, rule.where});
  }
  if (llvm::Error error = check(draft))
    return error;
  return schedule;
}

llvm::Error flashc::checkSchedule(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv,
                                  LoopFacts loops) {
  Schedule checked = schedule;
  Question question(schedule.kind, target.name, d, dv); // of an attention for which every rule on attentions holds
  question.group = schedule.heads;
  question.rows = RowsClass::Bounded;
  question.outputs.hasLse = false;
  question.loops = loops;
  return check(Draft{checked, question, ScheduleRow(), ""});
}

std::string flashc::describeRules(KernelKind kind) {
  std::string text = "| field | where | becomes | given by an override |\n|---|---|---|---|\n";
  for (const Rule &rule : getRules(kind)) {
    std::string value = rule.value.contains(' ') ? rule.value.str() : ("`" + rule.value + "`").str();
    text += ("| `" + rule.field + "` | " + rule.where + " | " + (rule.value.empty() ? "" : value) + " | " +
             (rule.refusal ? "refused" : "stays") + " |\n")
                .str();
  }
  return text;
}
