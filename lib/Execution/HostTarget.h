//===- HostTarget.h - the processor that programs on the CPU are compiled for -------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_HOSTTARGET_H
#define FLASHC_LIB_EXECUTION_HOSTTARGET_H

#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"

namespace flashc {

/// The processor for which the JIT compiles: this machine's, or the level of the x86-64 psABI that the environment
/// variable FLASHC_CPU names (x86-64, x86-64-v2, x86-64-v3, x86-64-v4; `native` is this processor), so that a test on
/// one machine runs the code that another one would compile. FLASHC_CPU_OPT_LEVEL is 0 or 1: at 0 code generation takes
/// half the time, and the code runs several times as long, which suits tests with few numbers. Fails if a variable has
/// another value, or names a level that this processor lacks.
llvm::Expected<llvm::orc::JITTargetMachineBuilder> getHostTarget();

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_HOSTTARGET_H
