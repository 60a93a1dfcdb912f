//===- JITRuntime.h - the symbols that compiled programs find in this process -------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_JITRUNTIME_H
#define FLASHC_LIB_EXECUTION_JITRUNTIME_H

#include "llvm/ExecutionEngine/Orc/CoreContainers.h"

#include <string>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace flashc {

/// Functions that the JIT cannot or must not take from the C library: an allocator that poisons its memory, and the
/// conversions of 16-bit floats that compilers keep in a static library.
llvm::orc::SymbolMap getJITRuntimeSymbols(llvm::orc::LLJIT &jit);

/// Calls a function of the program. Returns false, with the message, if a cf.assert of the program fails: the program
/// ends there, and leaks its buffers.
bool callJITFunction(void (*function)(void **), void **slots, std::string &message);

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_JITRUNTIME_H
