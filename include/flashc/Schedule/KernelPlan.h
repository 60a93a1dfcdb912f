//===- KernelPlan.h - which kernel an attention gets --------------------------------------------------------------===//
//
// Either a decoding kernel or the forward kernel reads keys in caches. chooseKernel alone decides which: the compiler
// asks it about IR; the C API and Python ask about extents before they compile.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_KERNELPLAN_H
#define FLASHC_SCHEDULE_KERNELPLAN_H

#include "flashc/Schedule/Rules.h"

namespace flashc {

/// What the caller wants, in addition to the question.
struct KernelWish {
  /// Overrides of fields. A field that only decoding kernels have, or that only other kernels have, chooses the kind of
  /// kernel.
  llvm::StringRef overrides;
  /// Schedule tables in order of precedence.
  llvm::ArrayRef<const ScheduleTable *> tables;
  /// The kind that the caller's algorithm implies (fa2, split-kv).
  std::optional<KernelKind> kind = std::nullopt;
  /// The number of parts of each sequence's keys. None: the number with which the kernel is fastest.
  std::optional<int64_t> splits = std::nullopt;
  /// Whether the bits of a row must depend only on the row's own sequence and on the number of queries, not on the rest
  /// of the batch.
  bool isBatchInvariant = false;
  /// Whether the extents are those of launches on a GPU with `CacheQuestion::multiprocessors`. If so, the estimated
  /// times of a decoding kernel and of a forward kernel are compared; otherwise the number of rows decides.
  bool isForDevice = false;
};

/// The chosen kernel.
struct KernelPlan {
  KernelKind kind = KernelKind::Forward;
  /// The overrides for compiling this plan: for a decoding kernel all fields; for another kernel the caller's
  /// overrides, the number of parts, and the fields of tiles that have the rows of a group.
  std::string overrides;
  /// The schedule of a decoding kernel.
  std::optional<Schedule> schedule = std::nullopt;
  ScheduleRow row = {};
  /// Text for people: why this kind of kernel was chosen, if there was a choice, and which rules changed the schedule.
  std::string why = {};
  llvm::SmallVector<FieldReason> reasons = {};
};

/// Chooses the kernel for `question`, whose kind is that of the op (Forward for attention with or without a cache).
/// Fails if the wish cannot be fulfilled.
llvm::Expected<KernelPlan> chooseKernel(const Question &question, const KernelWish &wish);

} // namespace flashc

#endif // FLASHC_SCHEDULE_KERNELPLAN_H
