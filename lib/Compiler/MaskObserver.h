//===- MaskObserver.h - what flash-bound-loops finds of a mask ----------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_MASKOBSERVER_H
#define FLASHC_LIB_COMPILER_MASKOBSERVER_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Compiler/Explain.h"

namespace flashc {

/// Returns `options` with an observer of passes: when `function` is lowered to L1, the observer sets `mask`. If
/// flash-bound-loops does not run, `mask` stays empty. `mask` must outlive the result.
CompileOptions observeMask(const CompileOptions &options, mlir::func::FuncOp function,
                           std::optional<MaskExplanation> &mask);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_MASKOBSERVER_H
