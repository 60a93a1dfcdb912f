//===- HostTarget.h - the processor that programs on the CPU are compiled for -------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_HOSTTARGET_H
#define FLASHC_LIB_EXECUTION_HOSTTARGET_H

#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"

namespace flashc {

/// This machine's processor, or the level of the x86-64 psABI that the environment variable FLASHC_CPU names (x86-64,
/// x86-64-v2, x86-64-v3, x86-64-v4; `native` is this processor), so that a test on one machine runs what others would
/// compile. FLASHC_CPU_OPT_LEVEL says how well code is generated, 0 or 1: at 0 that takes half the time, and the code
/// several times as long, as suits tests of few numbers. Fails if a variable says anything else, or names a level that
/// this processor does not have.
llvm::Expected<llvm::orc::JITTargetMachineBuilder> getHostTarget();

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_HOSTTARGET_H
