//===- JITRuntime.h - the symbols that compiled programs find in this process -------------------------------------===//
#ifndef FLASHC_LIB_EXECUTION_JITRUNTIME_H
#define FLASHC_LIB_EXECUTION_JITRUNTIME_H

#include "llvm/ExecutionEngine/Orc/CoreContainers.h"

#include <string>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace flashc {

/// Functions that the JIT must not, or cannot, take from the C library: an allocator that poisons what it returns, and
/// the conversions of 16-bit floats that compilers keep in a static library.
llvm::orc::SymbolMap getJITRuntimeSymbols(llvm::orc::LLJIT &jit);

/// Calls a function of the program. False with its message if a cf.assert of the program fails: the program ends there,
/// and the buffers that it has are lost.
bool callJITFunction(void (*function)(void **), void **slots, std::string &message);

} // namespace flashc

#endif // FLASHC_LIB_EXECUTION_JITRUNTIME_H
