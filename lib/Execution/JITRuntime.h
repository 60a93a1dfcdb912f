//===- JITRuntime.h - the symbols that compiled programs find in this process -------------------------------------===//
#ifndef FLASHC_EXECUTION_JITRUNTIME_H
#define FLASHC_EXECUTION_JITRUNTIME_H

#include "llvm/ExecutionEngine/Orc/CoreContainers.h"

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace flashc {

/// Functions that the JIT must not, or cannot, take from the C library: an allocator that poisons what it returns, and
/// the conversions of half precision that compilers keep in a static library.
llvm::orc::SymbolMap getJITRuntimeSymbols(llvm::orc::LLJIT &jit);

} // namespace flashc

#endif // FLASHC_EXECUTION_JITRUNTIME_H
