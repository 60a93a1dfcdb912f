//===- CUDADriver.cpp - the CUDA driver, loaded at run time -------------------------------------------------------===//

#include "flashc/Runtime/CUDADriver.h"

#include <dlfcn.h>

using namespace flashc::cuda;
using namespace llvm;

/// Fills in the table of functions. Returns the reason if this fails, and otherwise an empty string.
static std::string loadFunctions(Driver &driver) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return std::string("no CUDA driver: ") + dlerror();
#define FLASHC_CUDA_LOAD(member, symbol, ...)                                                                          \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(library, symbol));                                   \
  if (!driver.member)                                                                                                  \
    return "the CUDA driver is too old: it has no " symbol;
  FLASHC_CUDA_FUNCTIONS(FLASHC_CUDA_LOAD)
#undef FLASHC_CUDA_LOAD
  if (Result result = driver.init(0))
    return toString(driver.check(result, "initialising the CUDA driver"));
  return "";
}

Expected<const Driver *> Driver::load() {
  static Driver driver;
  static const std::string error = loadFunctions(driver);
  if (!error.empty())
    return createStringError(Twine(error));
  return &driver;
}

Error Driver::check(Result result, const Twine &what) const {
  if (result == 0)
    return Error::success();
  const char *text = nullptr;
  if (!getErrorString || getErrorString(result, &text) != 0 || !text)
    text = "unknown error";
  return createStringError(what + " failed: " + text + " (CUDA error " + Twine(result) + ")");
}
