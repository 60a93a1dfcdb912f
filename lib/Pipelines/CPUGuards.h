//===- CPUGuards.h - what a program on the CPU must not do --------------------------------------------------------===//
#ifndef FLASHC_LIB_PIPELINES_CPUGUARDS_H
#define FLASHC_LIB_PIPELINES_CPUGUARDS_H

#include <memory>

namespace mlir {
class Pass;
} // namespace mlir

namespace flashc {

/// Puts a cf.assert in front of what reads or writes an element by its indices: tensor.extract, memref.load and
/// memref.store. Before tensors become buffers and linalg becomes loops: later ones are flashc's own.
std::unique_ptr<mlir::Pass> createGuardElementsPass();

/// The same in front of integer divisions by what is not a constant, and by zero: by zero, and of the least integer
/// by -1, which the processor traps on. Behind what makes divisions of other ops.
std::unique_ptr<mlir::Pass> createGuardDivisionsPass();

} // namespace flashc

#endif // FLASHC_LIB_PIPELINES_CPUGUARDS_H
