//===- MaskObserver.h - what flash-bound-loops finds of a mask ----------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_MASKOBSERVER_H
#define FLASHC_LIB_COMPILER_MASKOBSERVER_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Compiler/Explain.h"

namespace flashc {

/// Returns `options`, extended such that lowering `function` to L1 also sets `mask`. If no pass bounds loops, `mask`
/// stays empty. `mask` must outlive the result.
CompileOptions observeMask(const CompileOptions &options, mlir::func::FuncOp function,
                           std::optional<MaskExplanation> &mask);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_MASKOBSERVER_H
