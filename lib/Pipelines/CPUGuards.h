//===- CPUGuards.h - what a program on the CPU must not do --------------------------------------------------------===//
#ifndef FLASHC_LIB_PIPELINES_CPUGUARDS_H
#define FLASHC_LIB_PIPELINES_CPUGUARDS_H

#include <memory>

namespace mlir {
class Pass;
} // namespace mlir

namespace flashc {

/// Inserts a cf.assert before each op that reads or writes an element by indices: tensor.extract, memref.load and
/// memref.store. The pass runs before bufferization and before linalg becomes loops: accesses that these create are
/// flashc's own.
std::unique_ptr<mlir::Pass> createGuardElementsPass();

/// Inserts a cf.assert before each integer division whose divisor is not a nonzero constant: the divisor must not be
/// zero, nor -1 where the dividend is the least integer, a case in which the processor traps. The pass runs after the
/// passes that create divisions.
std::unique_ptr<mlir::Pass> createGuardDivisionsPass();

} // namespace flashc

#endif // FLASHC_LIB_PIPELINES_CPUGUARDS_H
