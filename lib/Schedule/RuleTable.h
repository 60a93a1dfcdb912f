//===- RuleTable.h - what a rule is, and the rules of each kind of kernel -----------------------------------------===//
#ifndef FLASHC_LIB_SCHEDULE_RULETABLE_H
#define FLASHC_LIB_SCHEDULE_RULETABLE_H

#include "flashc/Schedule/Rules.h"

namespace flashc {

/// A schedule to which rules are applied, with the row and the overrides that it comes from.
struct Draft {
  Schedule &s;
  const Question &question;
  const ScheduleRow &row;
  llvm::StringRef overrides;
  Schedule ofRow = {};

  const GPUTarget &target() const { return question.getTarget(); }
  bool isForward() const { return question.kind == KernelKind::Forward; }
  bool isBackward() const { return question.kind == KernelKind::Backward; }
  bool isAsked(llvm::StringRef field) const { return hasOverride(overrides, field); }
  bool isSaid(llvm::StringRef field) const { return isAsked(field) || hasOverride(row.overrides, field); }
  /// Whether there are overrides. They may need shared memory that the row needs too.
  bool isOverridden() const { return !overrides.empty(); }
  ScheduleNeeds needs(bool withSlopes = false) const {
    return getScheduleNeeds(s, target(), question.d, question.dv, {question.loops.isSorted, withSlopes});
  }
  /// Whether the Tensor Cores are to add slopes: the score has slopes, and shared memory has room for them, if need be
  /// in place of the output's slot.
  bool wantsSlopes() const {
    Schedule least = s;
    if (s.store == Store::OwnSlot && !isAsked("store"))
      least.store = Store::Registers;
    return question.hasSlopes && canAddSlopes(least, target(), question.d, question.dv);
  }
  /// Whether shared memory has room for the tiles, and for the slopes if they are wanted.
  bool hasRoom() const { return needs(wantsSlopes()).sharedMemoryBytes <= target().maxSharedMemory; }
  bool isListed() const { return question.rows == RowsClass::Listed; }
  bool mayList() const { return isListed() && s.persistent && s.heads == 1; }
  /// Whether a CTA computes only one part of one tile. It stores the part's result and the part's log-sum-exp in f32.
  bool hasParts() const { return s.splits > 1; }
  bool isOverlapped() const { return s.epilogue != Epilogue::Plain; }
};

using Condition = bool (*)(const Draft &);
using Text = std::string (*)(const Draft &);

/// A rule: if `when` holds, `field` becomes `value`, unless an override sets the field or `value` is empty. If `when`
/// still holds, and the rule has a message, the schedule is refused. Rules are applied in order, once each.
struct Rule {
  llvm::StringRef field;
  /// `when` in words, for people.
  llvm::StringRef where;
  llvm::StringRef value;
  Condition when;
  Text refusal = nullptr;
  /// Sets a value that `value` describes in words.
  void (*set)(Draft &) = nullptr;
};

/// The rules of each kind: getDecodeRules has those of decoding kernels, getTiledRules those of all other kernels with
/// tiles.
llvm::ArrayRef<Rule> getTiledRules();
llvm::ArrayRef<Rule> getDecodeRules();

inline std::string print(int64_t number) { return std::to_string(number); }
inline bool isCount(int64_t number) { return number >= 1 && number <= 64; }

} // namespace flashc

#endif // FLASHC_LIB_SCHEDULE_RULETABLE_H
