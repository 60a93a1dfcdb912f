//===- MaskObserver.h - what flash-bound-loops finds of a mask ----------------------------------------------------===//
#ifndef FLASHC_LIB_COMPILER_MASKOBSERVER_H
#define FLASHC_LIB_COMPILER_MASKOBSERVER_H

#include "flashc/Compiler/Compiler.h"
#include "flashc/Compiler/Explain.h"

namespace flashc {

/// Returns options with which the lowering of `function` to L1 sets `mask`, if its passes bound loops. `mask` must
/// outlive the options.
CompileOptions observeMask(const CompileOptions &options, mlir::func::FuncOp function,
                           std::optional<MaskExplanation> &mask);

} // namespace flashc

#endif // FLASHC_LIB_COMPILER_MASKOBSERVER_H
