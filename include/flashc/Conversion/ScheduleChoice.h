//===- ScheduleChoice.h - the schedules of an attention in IR -----------------------------------------------------===//
//
// L1's tiles follow from the schedule, so it is chosen before the algorithm's passes run; `convert-flash-to-tile` is
// then told all of it. Where the number of queries is not known there may be several: variants of one kernel, of which
// the launch takes one.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_SCHEDULECHOICE_H
#define FLASHC_CONVERSION_SCHEDULECHOICE_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Runtime/Manifest.h"
#include "flashc/Schedule/KernelPlan.h"
#include "mlir/IR/BuiltinOps.h"

namespace flashc {

/// What a user asks for.
struct ScheduleRequest {
  llvm::StringRef target = kDefaultTarget;
  /// Fields, whatever a table says.
  llvm::StringRef overrides;
  /// Text of a table that is looked at before the built-in one.
  llvm::StringRef table;
  /// Whether there may be variants. Not where somebody else decided on L1's tiles.
  bool mayVary = true;
};

/// A schedule, and the row that it came from.
struct ScheduleChoice {
  Schedule schedule;
  /// It is for up to so many queries; none: for any number.
  std::optional<int64_t> maxQueries;
  ScheduleRow row;
  /// If there are any: it is for launches with short packed sequences, which meet all of these (ShortSequences.h).
  llvm::SmallVector<LaunchCondition, 2> shortSequences = {};
  /// How well the loops over keys follow the mask, for people: "exact", "conservative: ...", "opaque: ..."; empty where
  /// nobody has looked.
  std::string mask = {};
  /// Where tiles of queries begin, for people; empty where there are no packed sequences to choose by.
  std::string queryTiles = {};
};

struct ScheduleDecision {
  Question question;
  /// Those of the request.
  std::string overrides;
  /// Why the mask is of its class.
  std::string maskReason;
  /// In the order in which a launch asks: by growing number of queries. The last is for every other launch.
  llvm::SmallVector<ScheduleChoice, 2> choices;
  /// The argument whose dimension 2 is the number of queries; only of use with several choices.
  unsigned queriesArgument = 0;
  /// Why keys in a cache are read by this kind of kernel; the schedule of a decoding kernel, which has no choices.
  KernelPlan plan = {};
};

/// The schedules for the one attention of a module in any form of L0 or L1: a row, overridden, checked. Emits an error
/// on the attention if one does not fit the hardware, and on the module for a table that cannot be read. A module with
/// a plain op instead gets one choice, of kind Plain, which says nothing.
mlir::FailureOr<ScheduleDecision> decideSchedules(mlir::ModuleOp module, const ScheduleRequest &request);

/// Says which row a schedule is of; an indented line.
void printRow(llvm::raw_ostream &os, const ScheduleRow &row);

/// Says why an entry has its schedule: the row, where each field comes from, the budgets; some indented lines.
void printChoice(llvm::raw_ostream &os, const ScheduleChoice &choice, const ScheduleDecision &decision);

/// The one schedule for an op or a step of given dimensions, by the built-in table; errors go to `op`. A step without
/// scores has the schedules of the forward pass without a mask.
mlir::FailureOr<Schedule> resolveSchedule(mlir::Operation *op, llvm::StringRef target, int64_t d, int64_t dv,
                                          mlir::Type element, const KernelOutputs &outputs, llvm::StringRef overrides);

} // namespace flashc

#endif // FLASHC_CONVERSION_SCHEDULECHOICE_H
