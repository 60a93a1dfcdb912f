//===- InitAll.h - everything that flashc's tools register --------------------------------------------------------===//
#ifndef FLASHC_INITALL_H
#define FLASHC_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace flashc {

/// Registers flashc's dialects, the upstream dialects that its input and its levels use, and the interfaces that its
/// passes need (bufferization, translation to LLVM IR).
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers flashc's passes and pipelines, and the upstream passes that go with them, for command lines.
void registerAllPasses();

} // namespace flashc

#endif // FLASHC_INITALL_H
