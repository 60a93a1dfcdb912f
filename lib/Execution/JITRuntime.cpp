//===- JITRuntime.cpp - the symbols that compiled programs find in this process -----------------------------------===//

#include "JITRuntime.h"
#include "flashc/Execution/HostTensor.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/raw_ostream.h"

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace flashc;

/// Ends the program: JIT code cannot report a failure, and would write through the null pointer.
[[noreturn]] static void dieOutOfMemory(size_t size) {
  llvm::outs().flush();
  llvm::errs() << "flashc: error: out of memory: the program asked for " << size << " bytes\n";
  std::_Exit(1);
}

static thread_local std::jmp_buf *failureHandler = nullptr;
static thread_local std::string *failureMessage = nullptr;

/// What the failure of a cf.assert calls (ControlFlowToLLVM): first `puts` with its message, then `abort`.
static int keepMessage(const char *message) {
  if (failureMessage)
    *failureMessage = message;
  return 0;
}

/// Nothing of C++ lies between: code of the program alone, which has no destructors and loses its buffers.
[[noreturn]] static void endProgram() {
  if (!failureHandler)
    std::abort();
  std::longjmp(*failureHandler, 1);
}

bool flashc::callJITFunction(void (*function)(void **), void **slots, std::string &message) {
  std::jmp_buf here;
  failureMessage = &message;
  failureHandler = &here;
  bool isDone = setjmp(here) == 0;
  if (isDone)
    function(slots);
  failureHandler = nullptr;
  failureMessage = nullptr;
  return isDone;
}

/// A fresh buffer reads as NaN (see HostTensor::poison).
static void *poisonedMalloc(size_t size) {
  void *memory = std::malloc(size);
  if (!memory)
    dieOutOfMemory(size);
  std::memset(memory, 0xFF, size);
  return memory;
}

#if defined(__x86_64__)
// A half travels in the low 16 bits of xmm0 (x86-64 psABI), which is also where an __m128i does. Only processors
// without F16C call these.
static float extendHalf(__m128i half) {
  auto bits = static_cast<uint16_t>(_mm_cvtsi128_si32(half));
  return static_cast<float>(loadElement(DType::F16, &bits));
}

static __m128i truncateToHalf(float value) {
  uint16_t bits;
  storeElement(DType::F16, &bits, value);
  return _mm_cvtsi32_si128(bits);
}

static __m128i truncateDoubleToHalf(double value) {
  uint16_t bits;
  storeElement(DType::F16, &bits, value);
  return _mm_cvtsi32_si128(bits);
}
#endif

llvm::orc::SymbolMap flashc::getJITRuntimeSymbols(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap symbols;
  auto add = [&](llvm::StringRef name, auto *function) {
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  add("malloc", &poisonedMalloc);
  add("free", &std::free);
  add("puts", &keepMessage);
  add("abort", &endProgram);
#if defined(__x86_64__)
  add("__extendhfsf2", &extendHalf);
  add("__truncsfhf2", &truncateToHalf);
  add("__truncdfhf2", &truncateDoubleToHalf);
#endif
  return symbols;
}
