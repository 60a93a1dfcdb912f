//===- PairNest.h - the nest of a step of pairs -------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H

#include "NestKernel.h"
#include "flashc/Runtime/GridFormula.h"

namespace flashc {

/// What a kernel is to do for a step that L1 leaves whole (StepOpInterface::isTiled): without loops, with all of its
/// operands streamed, and tiles as the schedule says. Changes the step's regions so that tiles may stick out. Emits an
/// error and fails if its sums are not added up where code says, or an operand is no argument.
mlir::FailureOr<LoopNest> matchPairNest(mlir::func::FuncOp func, mlir::flash::AccumulateGradientsOp op);

/// The schedule of such a nest, and its tiles: as `schedule`, with as many slots as fit.
Schedule choosePairSchedule(LoopNest &nest, Schedule schedule);

/// The grid. Emits an error and fails if an extent is no formula.
mlir::FailureOr<std::array<GridFormula, 3>> getPairExtents(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
