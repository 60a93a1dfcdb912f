//===- PairNest.h - the nest of a step whose state is a score matrix ----------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H

#include "NestKernel.h"
#include "flashc/Runtime/GridFormula.h"

namespace flashc {

/// Matches a step that is not tiled at level L1 (StepOpInterface::isTiled) as a nest without loops. All operands of the
/// nest are streamed, and its tiles have the sizes that the schedule gives. Changes the step's regions so that tiles
/// may exceed the arrays. Emits an error and fails if no single flash.scatter_sum adds up the step's sums, or if an
/// operand is no argument.
mlir::FailureOr<LoopNest> matchPairNest(mlir::func::FuncOp func, mlir::flash::AccumulateGradientsOp op);

/// Returns the schedule of such a nest: `schedule` with tiles for pairs, and with as many slots as fit.
Schedule choosePairSchedule(LoopNest &nest, Schedule schedule, const GPUTarget &target);

/// The extents of the grid. Emits an error and fails if an extent is no formula.
mlir::FailureOr<std::array<GridFormula, 3>> getPairExtents(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_PAIRNEST_H
