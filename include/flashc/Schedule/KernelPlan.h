//===- KernelPlan.h - which kernel an attention gets --------------------------------------------------------------===//
//
// Keys in caches are read by a decoding kernel or by the forward one. This is the only place that decides: the compiler
// asks it about IR, the C API and Python about extents before they compile.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SCHEDULE_KERNELPLAN_H
#define FLASHC_SCHEDULE_KERNELPLAN_H

#include "flashc/Schedule/Rules.h"

namespace flashc {

/// What a caller asks for, whatever the choice would be.
struct KernelWish {
  /// Fields of a schedule. Fields that only decoding kernels have, or only others, choose the kind.
  llvm::StringRef overrides;
  /// Tables that are looked at in order.
  llvm::ArrayRef<const ScheduleTable *> tables;
  /// The kind that an algorithm is of (fa2, split-kv).
  std::optional<KernelKind> kind = std::nullopt;
  /// Parts of each sequence's keys; none: as many as pay.
  std::optional<int64_t> splits = std::nullopt;
  /// A row's bits depend on its own sequence and on the number of queries alone, whatever else is in the batch.
  bool isBatchInvariant = false;
  /// Whether the extents are those of launches on the GPU of `CacheQuestion::multiprocessors`, so that the times of
  /// both kernels are compared; without it the number of rows decides.
  bool isForDevice = false;
};

/// The kernel that is chosen.
struct KernelPlan {
  KernelKind kind = KernelKind::Forward;
  /// What a compilation of this plan takes as overrides: of decoding all fields; of other kinds the wish, and the parts
  /// of the keys.
  std::string overrides;
  /// The schedule of decoding, and its row.
  std::optional<Schedule> schedule = std::nullopt;
  ScheduleRow row = {};
  /// For people: why it is of this kind, empty where there is only one kind; what rules have decided of its schedule.
  std::string why = {};
  llvm::SmallVector<FieldReason> reasons = {};
};

/// The kernel for `question`, whose kind is that of the op: Forward for attention, with a cache or without. The error
/// is that of a schedule that cannot be had.
llvm::Expected<KernelPlan> chooseKernel(const Question &question, const KernelWish &wish);

} // namespace flashc

#endif // FLASHC_SCHEDULE_KERNELPLAN_H
