//===- RelaxedCapture.h - what no graph needs, while a stream may be captured -------------------------------------===//
#ifndef FLASHC_LIB_RUNTIME_RELAXEDCAPTURE_H
#define FLASHC_LIB_RUNTIME_RELAXEDCAPTURE_H

#include "flashc/Runtime/CUDADriver.h"

namespace flashc {

/// Relaxes the calling thread's stream capture mode, and restores it at the end of the scope.
class RelaxedCaptureGuard {
public:
  explicit RelaxedCaptureGuard(const cuda::Driver &driver) : driver(driver) {
    isExchanged = driver.threadExchangeStreamCaptureMode(&mode) == 0;
  }
  ~RelaxedCaptureGuard() {
    if (isExchanged)
      driver.threadExchangeStreamCaptureMode(&mode);
  }
  RelaxedCaptureGuard(const RelaxedCaptureGuard &) = delete;
  RelaxedCaptureGuard &operator=(const RelaxedCaptureGuard &) = delete;

private:
  const cuda::Driver &driver;
  int mode = cuda::kCaptureRelaxed;
  bool isExchanged;
};

} // namespace flashc

#endif // FLASHC_LIB_RUNTIME_RELAXEDCAPTURE_H
