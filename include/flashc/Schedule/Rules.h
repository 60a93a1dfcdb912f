//===- Rules.h - what fields of a schedule ask of each other and of the attention ---------------------------------===//
//
// Each kind of kernel has a table of rules (TiledRules.cpp, DecodeRules.cpp), which completes a schedule, checks it,
// explains it, and documents it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_RULES_H
#define FLASHC_SCHEDULE_RULES_H

#include "flashc/Schedule/ScheduleTable.h"

namespace flashc {

/// A field, and the reason why a rule changed it.
using FieldReason = std::pair<llvm::StringRef, llvm::StringRef>;

/// Makes the schedule of `row` for an attention: applies the overrides and the rules, and checks the result. If the
/// kernel cannot have the value of a field, the value is changed if it comes from the row, and refused with an error if
/// it comes from an override. `reasons` gets the rules that changed a field.
llvm::Expected<Schedule> applyRow(const ScheduleRow &row, const Question &question, llvm::StringRef overrides,
                                  llvm::SmallVectorImpl<FieldReason> *reasons = nullptr);

/// Fails if a kernel of this schedule does not fit the hardware (shared memory, registers), or if the values of two
/// fields exclude each other. Checks conditions on the loops, but none on the attention.
llvm::Error checkSchedule(const Schedule &schedule, const GPUTarget &target, int64_t d, int64_t dv,
                          LoopFacts loops = {});

/// The rules of a kind of kernel as a table in Markdown, which docs/schedules.md contains.
std::string describeRules(KernelKind kind);

} // namespace flashc

#endif // FLASHC_SCHEDULE_RULES_H
