//===- TiledNest.h - the nest of a tiled step, read off the IR ----------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_TILEDNEST_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_TILEDNEST_H

#include "LoopNest.h"

namespace flashc {

/// Matches the nest that ends with `last`, or with the epilogue that takes its state. Emits an error that says what was
/// expected, and fails, if the loops are not those of the algorithm fa2.
mlir::FailureOr<LoopNest> matchTiledNest(mlir::func::FuncOp func, mlir::flash::StepOpInterface last,
                                         mlir::flash::EpilogueOpInterface epilogue);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_TILEDNEST_H
