//===- JITRuntime.cpp - the symbols that compiled programs find in this process -----------------------------------===//

#include "JITRuntime.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/raw_ostream.h"

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace flashc;

/// Ends the program: JIT code cannot report a failed allocation, and would write through the null pointer.
[[noreturn]] static void dieOutOfMemory(size_t size) {
  llvm::outs().flush();
  llvm::errs() << "flashc: error: out of memory: the program asked for " << size << " bytes\n";
  std::_Exit(1);
}

static thread_local std::jmp_buf *failureHandler = nullptr;
static thread_local std::string *failureMessage = nullptr;

/// Takes the place of `puts`. The code of a cf.assert that fails (ControlFlowToLLVM) calls `puts` with the assertion's
/// message, and then `abort`.
static int keepMessage(const char *message) {
  if (failureMessage)
    *failureMessage = message;
  return 0;
}

/// Jumps out of the program. The jump leaves only code of the program, which has no destructors. The buffers of the
/// program leak.
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

/// Allocates a buffer whose elements are NaN (see HostTensor::poison).
static void *poisonedMalloc(size_t size) {
  void *memory = std::malloc(size);
  if (!memory)
    dieOutOfMemory(size);
  std::memset(memory, 0xFF, size);
  return memory;
}

#if defined(__x86_64__)
// The functions of compiler-rt that LLVM calls to convert 16-bit floats where a processor has no instruction for it:
// processors below x86-64-v3 have none for f16 (F16C), and processors without AVX512-BF16 have none for bf16. A 16-bit
// float is passed in the low 16 bits of xmm0 (x86-64 psABI), like an __m128i.
using Semantics = const llvm::fltSemantics &();

static __m128i toRegister(const llvm::APFloat &value) {
  return _mm_cvtsi32_si128(static_cast<int>(value.bitcastToAPInt().getZExtValue()));
}

template <Semantics type> static float extend(__m128i bits) {
  llvm::APFloat value(type(), llvm::APInt(16, static_cast<uint16_t>(_mm_cvtsi128_si32(bits))));
  return value.convertToFloat();
}

template <Semantics type> static double extendToDouble(__m128i bits) { return extend<type>(bits); }

/// Converts like fptosi and fptoui: if the integer type cannot hold the value, the result is undefined.
template <Semantics type, typename Integer> static Integer toInteger(__m128i bits) {
  return static_cast<Integer>(extend<type>(bits));
}

/// Converts an f32 or f64 with one rounding.
template <Semantics type, typename Float> static __m128i truncate(Float value) {
  llvm::APFloat result(value);
  bool losesInfo;
  result.convert(type(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return toRegister(result);
}

template <Semantics type, typename Integer> static __m128i fromInteger(Integer value) {
  constexpr bool isSigned = std::is_signed_v<Integer>;
  llvm::APFloat result(type());
  result.convertFromAPInt(llvm::APInt(8 * sizeof(Integer), static_cast<uint64_t>(value), isSigned), isSigned,
                          llvm::APFloat::rmNearestTiesToEven);
  return toRegister(result);
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
  constexpr Semantics &half = llvm::APFloat::IEEEhalf, &bfloat = llvm::APFloat::BFloat;
  add("__extendhfsf2", &extend<half>);
  add("__extendbfsf2", &extend<bfloat>);
  add("__extendhfdf2", &extendToDouble<half>);
  add("__truncsfhf2", &truncate<half, float>);
  add("__truncdfhf2", &truncate<half, double>);
  add("__truncsfbf2", &truncate<bfloat, float>);
  add("__truncdfbf2", &truncate<bfloat, double>);
  add("__fixhfsi", &toInteger<half, int32_t>);
  add("__fixhfdi", &toInteger<half, int64_t>);
  add("__fixunshfsi", &toInteger<half, uint32_t>);
  add("__fixunshfdi", &toInteger<half, uint64_t>);
  add("__floatsihf", &fromInteger<half, int32_t>);
  add("__floatdihf", &fromInteger<half, int64_t>);
  add("__floatunsihf", &fromInteger<half, uint32_t>);
  add("__floatundihf", &fromInteger<half, uint64_t>);
  add("__floatdibf", &fromInteger<bfloat, int64_t>);
  add("__floatundibf", &fromInteger<bfloat, uint64_t>);
#endif
  return symbols;
}
