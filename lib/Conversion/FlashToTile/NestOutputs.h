//===- NestOutputs.h - where the results of a nest go -------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTOUTPUTS_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTOUTPUTS_H

#include "LoopNest.h"

namespace flashc {

/// Follows the nest's results to where they are returned or written to arguments, and notes what merges, adds up or
/// scatters them on the way. Emits an error and fails where they are used otherwise, or nothing is written.
mlir::LogicalResult matchOutputs(LoopNest &nest);

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_NESTOUTPUTS_H
