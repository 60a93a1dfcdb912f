//===- ScheduleChoice.h - the schedules of an attention in IR -----------------------------------------------------===//
//
// The schedule determines the sizes of the tiles at level L1. So the schedule is chosen before the algorithm's passes
// make the tiles, and is passed on to `convert-flash-to-tile`. If the number of queries is not known, there may be
// several schedules. They are variants of one kernel, and a launch takes one of them.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_SCHEDULECHOICE_H
#define FLASHC_CONVERSION_SCHEDULECHOICE_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Runtime/Manifest.h"
#include "flashc/Schedule/KernelPlan.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// What the user asks for.
struct ScheduleRequest {
  llvm::StringRef target = kDefaultTarget;
  /// Overrides of fields.
  llvm::StringRef overrides;
  /// Text of a table that has precedence over the built-in one.
  llvm::StringRef table;
  /// Whether there may be variants. There are none if the user chose the tiles of level L1.
  bool mayVary = true;
  /// The kind that the user's algorithm implies (KernelWish::kind).
  std::optional<KernelKind> kind = std::nullopt;
};

/// A schedule, and the row that it came from.
struct ScheduleChoice {
  Schedule schedule;
  /// The most queries for which the choice holds. None: any number.
  std::optional<int64_t> maxQueries;
  ScheduleRow row;
  /// The rules that changed a field.
  llvm::SmallVector<FieldReason> reasons = {};
  /// Conditions on packed sequences (ShortSequences.h). If there are any, the choice is only for launches with short
  /// sequences, which meet all of them.
  llvm::SmallVector<LaunchCondition, 2> shortSequences = {};
  /// A text for people that says how exactly the loops over keys follow the mask: "exact", "conservative: ...",
  /// "opaque: ...". Empty if this is not analysed.
  std::string mask = {};
  /// A text for people that says where tiles of queries begin. Empty if there are no packed sequences.
  std::string queryTiles = {};
};

struct ScheduleDecision {
  Question question;
  /// The overrides of the request.
  std::string overrides;
  /// The reason for the mask's class.
  std::string maskReason;
  /// Choices in the order in which a launch tests them: by ascending number of queries. The last one is for every other
  /// launch. A decoding kernel has one choice.
  llvm::SmallVector<ScheduleChoice, 2> choices;
  /// The argument whose dimension 2 is the number of queries; used only if there are several choices.
  unsigned queriesArgument = 0;
  /// The reason for the kind of kernel that reads keys in a cache. Empty if no keys are in a cache.
  std::string why = {};
};

/// Returns the first op of a kind in `module`, or null.
template <typename Op> Op findFirst(mlir::ModuleOp module) {
  Op found;
  module.walk([&](Op op) {
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

/// Chooses the kind of kernel for the only attention of a module at level L0. This is the forward kernel if no keys are
/// in a cache and the request does not ask for decoding. Fails after a diagnostic.
mlir::FailureOr<KernelPlan> chooseKernel(mlir::ModuleOp module, const ScheduleRequest &request);

/// Chooses the kernel (`chooseKernel`) and the schedules for the only attention of a module, which is at level L0 or
/// L1, and checks the schedules. A schedule is the row of a table, with the overrides applied to it. Emits an error on
/// the attention if a schedule does not fit the hardware, and on the module if a table cannot be parsed. For a module
/// with a plain op, the result is one choice of kind Plain without fields.
mlir::FailureOr<ScheduleDecision> decideSchedules(mlir::ModuleOp module, const ScheduleRequest &request);

/// Completes the schedule of a choice by facts about `loops`, the module at level L1. Emits an error and fails if an
/// override does not fit these facts.
mlir::LogicalResult completeChoice(ScheduleChoice &choice, mlir::ModuleOp loops, const ScheduleDecision &decision);

/// Prints the row of a schedule as an indented line.
void printRow(llvm::raw_ostream &os, const ScheduleRow &row);

/// Prints, in several indented lines, why an entry has its schedule: the row, the origin of each field, and how much of
/// the hardware's resources is used.
void printChoice(llvm::raw_ostream &os, const ScheduleChoice &choice, const ScheduleDecision &decision);

/// Returns the schedule that the built-in table has for an op or a step of the given dimensions. Emits errors on `op`.
/// A step without scores gets the schedule of a forward pass without a mask.
mlir::FailureOr<Schedule> resolveSchedule(mlir::Operation *op, llvm::StringRef target, int64_t d, int64_t dv,
                                          mlir::Type element, const KernelOutputs &outputs, llvm::StringRef overrides);

} // namespace flashc

#endif // FLASHC_CONVERSION_SCHEDULECHOICE_H
