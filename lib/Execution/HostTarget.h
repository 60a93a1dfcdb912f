//===- HostTarget.h - the processor that programs on the CPU are compiled for -------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_HOSTTARGET_H
#define FLASHC_LIB_EXECUTION_HOSTTARGET_H

#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"

namespace flashc {

/// Returns the processor for which the JIT compiles. By default this is the machine's processor. The environment
/// variable FLASHC_CPU may name another one, so that a test runs the code that another machine would compile: a level
/// of the x86-64 psABI (x86-64, x86-64-v2, x86-64-v3, x86-64-v4), or `native`, the default. The variable
/// FLASHC_CPU_OPT_LEVEL is 0 or 1, the default. At 0 code generation takes half the time, but the code runs several
/// times as long; this suits tests with few numbers. Fails if a variable has another value, or names a level that this
/// processor lacks.
llvm::Expected<llvm::orc::JITTargetMachineBuilder> getHostTarget();

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_HOSTTARGET_H
