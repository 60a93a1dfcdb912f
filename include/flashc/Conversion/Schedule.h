//===- Schedule.h - the choices that turn an attention into a kernel ----------------------------------------------===//
//
// A value type, chosen from one table by the head dimensions and then overridden from text. L1's tiles follow from it,
// so it is resolved before the algorithm pipeline is built, and again by `convert-flash-to-tile`.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_CONVERSION_SCHEDULE_H
#define FLASHC_CONVERSION_SCHEDULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <string>

namespace flashc {

/// See `#tile.schedule` for what each choice means.
struct Schedule {
  int64_t consumers;
  int64_t kvTile;
  int64_t stages;
  int64_t producerRegisters;
  int64_t consumerRegisters;
  bool overlap = true;
  bool pingPong = true;
  bool persistent = true;
  /// Slots of a consumer's ring of Q: with two, a persistent CTA loads the next tile's while this one's is in use.
  int64_t qStages = 1;
  /// The next tile's first product runs while this one is stored; by default wherever there is a second slot of Q.
  bool overlapEpilogue = false;
  /// The tensor cores sum the rows of P: eight columns of ones beside V.
  bool tensorSums = false;

  /// Query rows of a CTA: L1's q-tile.
  int64_t getQTile() const;
  /// Prints what `overrideSchedule` reads: `consumers=2,kv-tile=128,...`.
  std::string str() const;
};

/// The table: for 16-bit elements, head dimension `d` of queries and keys, `dv` of values. `readsPerElement`: a score or
/// mask region reads memory for every query and key (a bias tensor).
Schedule chooseSchedule(int64_t d, int64_t dv, bool readsPerElement);

/// Applies overrides such as `consumers=2,kv-tile=128,ping-pong=false`. The keys are those that Schedule::str prints.
/// Registers follow the number of consumers unless they are given too.
llvm::Error overrideSchedule(Schedule &schedule, llvm::StringRef overrides);

/// Why a kernel of this schedule would not fit the hardware (shared memory, registers), or success.
llvm::Error checkSchedule(const Schedule &schedule, int64_t d, int64_t dv);

/// The schedule for the one attention of a module in any form of L0 or L1: the table, overridden, checked. Emits an
/// error on the attention if there is none that fits.
mlir::FailureOr<Schedule> resolveSchedule(mlir::ModuleOp module, llvm::StringRef overrides);
/// The same for given dimensions; errors go to `op`.
mlir::FailureOr<Schedule> resolveSchedule(mlir::Operation *op, int64_t d, int64_t dv, mlir::Type element,
                                          llvm::StringRef overrides);

} // namespace flashc

#endif // FLASHC_CONVERSION_SCHEDULE_H
