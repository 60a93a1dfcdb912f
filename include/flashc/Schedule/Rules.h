//===- Rules.h - what fields of a schedule ask of each other and of the attention ---------------------------------===//
//
// A table of rules for each kind of kernel, TiledRules.cpp and DecodeRules.cpp. It completes a schedule, checks one,
// says why it is as it is, and describes schedules.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_RULES_H
#define FLASHC_SCHEDULE_RULES_H

#include "flashc/Schedule/ScheduleTable.h"

namespace flashc {

/// A field, and why a rule has given it its value.
using FieldReason = std::pair<llvm::StringRef, llvm::StringRef>;

/// A row's schedule for an attention: with the overrides, with what follows from both, and checked. What a row says
/// holds where it can be had; an override that cannot be had is an error. `reasons`: what rules have decided.
llvm::Expected<Schedule> applyRow(const ScheduleRow &row, const Question &question, llvm::StringRef overrides,
                                  llvm::SmallVectorImpl<FieldReason> *reasons = nullptr);

/// Why a kernel of this schedule would not fit the hardware (shared memory, registers), or which field misses another
/// one, or success. What only the attention knows is not asked.
llvm::Error checkSchedule(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv);

/// The rules of a kind of kernel as a table in Markdown: docs/schedules.md has it.
std::string describeRules(KernelKind kind);

} // namespace flashc

#endif // FLASHC_SCHEDULE_RULES_H
