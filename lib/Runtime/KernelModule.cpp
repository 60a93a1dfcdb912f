//===- KernelModule.cpp - kernels that are loaded together --------------------------------------------------------===//

#include "flashc/Runtime/KernelModule.h"
#include "RelaxedCapture.h"
#include "flashc/Runtime/KernelParameters.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <optional>

using namespace flashc;
using namespace llvm;

//===--------------------------------------------------------------------------------------------------------------===//
// Checks
//===--------------------------------------------------------------------------------------------------------------===//

Error flashc::blameProgram(Error error) {
  return createStringError(std::make_error_code(std::errc::executable_format_error), toString(std::move(error)));
}

bool flashc::isCompileError(std::error_code code) { return code == std::errc::executable_format_error; }

/// Returns the number of parameters of an entry in its PTX declaration (PTX ISA, ".entry"). None if the PTX has no such
/// entry.
static std::optional<size_t> countParameters(StringRef ptx, StringRef kernel) {
  for (size_t at = ptx.find(".entry"); at != StringRef::npos; at = ptx.find(".entry", at + 1)) {
    StringRef rest = ptx.substr(at).drop_front(strlen(".entry")).ltrim();
    if (!rest.consume_front(kernel))
      continue;
    rest = rest.ltrim();
    if (rest.consume_front("("))
      return rest.take_until([](char c) { return c == ')'; }).count(".param");
    if (rest.starts_with("{") || rest.starts_with(".")) // an entry without a list of parameters
      return 0;
  }
  return std::nullopt;
}

Error flashc::checkEntry(StringRef ptx, const ManifestKernel &kernel) {
  std::optional<size_t> count = countParameters(ptx, kernel.kernel);
  if (!count || *count == kernel.parameters.size())
    return Error::success();
  return createStringError("kernel " + kernel.kernel + ": expected " + Twine(kernel.parameters.size()) +
                           " parameters, got " + Twine(*count));
}

/// Checks that the loaded kernel has the parameters that the manifest lists, with the same sizes. Otherwise the kernel
/// would read garbage. Parameters of the kernel that the manifest does not list are found by checkEntry: here the
/// driver would have to be asked for a parameter that may not exist, which tools such as compute-sanitizer report as an
/// error.
static Error checkParameters(const cuda::Driver &driver, cuda::Function function, const Manifest &manifest,
                             const ManifestKernel &info) {
  size_t count = info.parameters.size(), offset, bytes;
  for (size_t index = 0; index < count; ++index) {
    if (driver.functionGetParamInfo(function, index, &offset, &bytes) != 0)
      return createStringError("kernel " + info.kernel + ": expected " + Twine(count) + " parameters, got " +
                               Twine(index));
    unsigned expected = getParameterBytes(manifest, info.parameters[index]);
    if (bytes != expected)
      return createStringError("kernel " + info.kernel + ": expected parameter " + Twine(index) + " to be " +
                               Twine(expected) + " bytes, got " + Twine(bytes));
  }
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// KernelModule
//===--------------------------------------------------------------------------------------------------------------===//

KernelModule::~KernelModule() {
  if (module)
    driver.moduleUnload(module);
}

Error KernelModule::loadOnce() {
  std::lock_guard<std::mutex> lock(mutex);
  if (isLoaded)
    return Error::success();
  Expected<std::string> code = getCode(number);
  if (!code)
    return blameProgram(code.takeError());
  auto kernels = manifest.getEntry(number).getKernels();
  for (const ManifestKernel *kernel : kernels)
    if (Error error = checkEntry(*code, *kernel)) // a cubin has no text with entries
      return error;
  RelaxedCaptureGuard guard(driver);
  if (Error error = loadCode(*code))
    return error;
  for (const ManifestKernel *kernel : kernels)
    if (Error error = loadKernel(*kernel)) {
      driver.moduleUnload(std::exchange(module, nullptr));
      return error;
    }
  isLoaded.store(true, std::memory_order_release);
  return Error::success();
}

Error KernelModule::loadCode(const std::string &code) {
  char log[8192] = "";
  int keys[] = {cuda::kJITErrorLogBuffer, cuda::kJITErrorLogBufferSizeBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  // PTX must end with a zero byte.
  cuda::Result result = driver.moduleLoadDataEx(&module, code.c_str(), 2, keys, values);
  Error error = driver.check(result, "loading " + manifest.getEntry(number).kernel);
  if (!error)
    return error;
  module = nullptr;
  StringRef details = StringRef(log).trim();
  return details.empty() ? std::move(error) : createStringError(toString(std::move(error)) + ": " + details);
}

/// The default limit of dynamic shared memory; more must be asked for (CUDA C++ Programming Guide, "Shared Memory").
static constexpr uint32_t kDefaultSharedMemory = 48 * 1024;

Error KernelModule::loadKernel(const ManifestKernel &info) {
  cuda::Function function = nullptr;
  cuda::Result result = driver.moduleGetFunction(&function, module, info.kernel.c_str());
  if (Error error = driver.check(result, "finding kernel " + info.kernel))
    return error;
  if (Error error = checkParameters(driver, function, manifest, info))
    return error;
  if (info.dynamicSharedMemory > kDefaultSharedMemory) {
    result = driver.functionSetAttribute(function, cuda::kMaxDynamicSharedSizeBytes, info.dynamicSharedMemory);
    if (Error error = driver.check(result, "asking for " + Twine(info.dynamicSharedMemory) + " bytes of shared memory"))
      return error;
  }
  functions[info.kernel] = function;
  return Error::success();
}
