//===- CPUGuards.h - what a program on the CPU must not do --------------------------------------------------------===//
#ifndef FLASHC_LIB_PIPELINES_CPUGUARDS_H
#define FLASHC_LIB_PIPELINES_CPUGUARDS_H

#include <memory>

namespace mlir {
class Pass;
} // namespace mlir

namespace flashc {

/// Inserts a cf.assert before each op that reads or writes an element by indices (such as tensor.extract, memref.load
/// and memref.store), and before each tensor.dim and memref.dim. The pass runs before bufferization and before linalg
/// becomes loops, because the accesses that these two steps create are correct and need no guard.
std::unique_ptr<mlir::Pass> createGuardElementsPass();

/// Inserts a cf.assert before each integer division whose divisor is not a constant, or is the constant 0 or -1. The
/// divisor must not be 0. It must also not be -1 where the dividend is the least integer, because the processor traps
/// in this case. The pass runs after the passes that create divisions.
std::unique_ptr<mlir::Pass> createGuardDivisionsPass();

} // namespace flashc

#endif // FLASHC_LIB_PIPELINES_CPUGUARDS_H
