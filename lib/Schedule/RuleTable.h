//===- RuleTable.h - what a rule is, and the rules of each kind of kernel -----------------------------------------===//
#ifndef FLASHC_LIB_SCHEDULE_RULETABLE_H
#define FLASHC_LIB_SCHEDULE_RULETABLE_H

#include "flashc/Schedule/Rules.h"

namespace flashc {

/// A schedule on its way: the row and the overrides that it comes from.
struct Draft {
  Schedule &s;
  const Question &question;
  const ScheduleRow &row;
  llvm::StringRef overrides;
  Schedule ofRow = {};

  const GPUTarget &target() const { return question.getTarget(); }
  bool isForward() const { return question.kind == KernelKind::Forward; }
  bool isBackward() const { return question.kind == KernelKind::Backward; }
  bool hasReducer() const { return isBackward() && s.splitGradients == SplitGradients::None; }
  bool isAsked(llvm::StringRef field) const { return hasOverride(overrides, field); }
  bool isSaid(llvm::StringRef field) const { return isAsked(field) || hasOverride(row.overrides, field); }
  /// Overrides may have taken what the row had.
  bool isOverridden() const { return !overrides.empty(); }
  ScheduleNeeds needs() const { return getScheduleNeeds(s, target(), question.d, question.dv); }
  bool hasRoom() const { return needs().sharedMemoryBytes <= target().maxSharedMemory; }
  bool hasRoomWithoutSlot() const {
    Schedule least = s;
    if (s.store == Store::OwnSlot && !isAsked("store"))
      least.store = Store::Registers;
    return getScheduleNeeds(least, target(), question.d, question.dv).sharedMemoryBytes <= target().maxSharedMemory;
  }
  bool isListed() const { return question.rows == RowsClass::Listed; }
  bool mayList() const { return isListed() && s.persistent && s.order != Order::Closed; }
  /// A CTA has one part of one tile, and what leaves it is in f32, with its log-sum-exp.
  bool hasParts() const { return s.splits > 1; }
  bool isOverlapped() const { return s.epilogue != Epilogue::Plain; }
};

using Condition = bool (*)(const Draft &);
using Text = std::string (*)(const Draft &);

/// Where `when` holds, `field` becomes `value` unless an override gives it (an empty value: it stays), and is refused
/// as long as it holds, if there is a message for that. In order, each once.
struct Rule {
  llvm::StringRef field;
  /// For people: `when` in words, after "where".
  llvm::StringRef where;
  llvm::StringRef value;
  Condition when;
  Text refusal = nullptr;
  /// Sets a value that `value` has in words.
  void (*set)(Draft &) = nullptr;
};

/// The rules of kernels of products, and of decoding kernels.
llvm::ArrayRef<Rule> getTiledRules();
llvm::ArrayRef<Rule> getDecodeRules();

inline std::string print(int64_t number) { return std::to_string(number); }
inline bool isCount(int64_t number) { return number >= 1 && number <= 64; }

} // namespace flashc

#endif // FLASHC_LIB_SCHEDULE_RULETABLE_H
