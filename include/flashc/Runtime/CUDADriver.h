//===- CUDADriver.h - the CUDA driver, loaded at run time ---------------------------------------------------------===//
//
// The part of the driver API that a launch needs. It is declared here so that flashc builds without CUDA, and runs
// without a GPU until a launch needs one. Names, values and layouts are those of the CUDA Driver API reference
// (cuda.h).
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_CUDADRIVER_H
#define FLASHC_RUNTIME_CUDADRIVER_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>

namespace flashc::cuda {

using Result = int;
using Device = int;
using DevicePtr = uint64_t;
using Context = struct ContextImpl *;
using Module = struct ModuleImpl *;
using Function = struct FunctionImpl *;
using Stream = struct StreamImpl *;
using Event = struct EventImpl *;
using MemPool = struct MemPoolImpl *;

/// CUtensorMap: opaque, 128 bytes, aligned to 64.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

enum DeviceAttribute {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
};
enum JITOption { kJITErrorLogBuffer = 5, kJITErrorLogBufferSizeBytes = 6 };
enum FunctionAttribute { kMaxDynamicSharedSizeBytes = 8 };
enum StreamCaptureMode { kCaptureRelaxed = 2 };
enum EventFlags { kEventDisableTiming = 2 };
/// CUDA_ERROR_NOT_READY: work that was recorded before the event has not ended yet.
constexpr Result kNotReady = 600;
enum LaunchAttributeID { kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };
enum TensorMapDataType {
  kMapUInt8 = 0,
  kMapInt32 = 3,
  kMapInt64 = 5,
  kMapFloat16 = 6,
  kMapFloat32 = 7,
  kMapBFloat16 = 9
};
enum TensorMapL2Promotion { kL2Promotion128B = 2 };

/// CUlaunchAttribute. `value` is declared only for the attributes that flashc's launches use.
struct LaunchAttribute {
  int id;
  uint32_t padding;
  union {
    uint32_t cluster[3];
    int programmaticStreamSerialization;
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUmemPoolProps. The defaults describe a pool of plain memory of one device.
struct MemPoolProps {
  int allocationType = 1; // CU_MEM_ALLOCATION_TYPE_PINNED
  int handleTypes = 0;
  int locationType = 1; // CU_MEM_LOCATION_TYPE_DEVICE
  int location = 0;
  void *securityAttributes = nullptr;
  size_t maxSize = 0;
  unsigned char reserved[56] = {};
};
static_assert(sizeof(MemPoolProps) == 88);

enum MemPoolAttribute { kPoolReleaseThreshold = 4 };

/// CUlaunchConfig.
struct LaunchConfig {
  uint32_t grid[3], block[3];
  uint32_t sharedMemoryBytes;
  Stream stream;
  LaunchAttribute *attributes;
  uint32_t numAttributes;
};
static_assert(sizeof(LaunchConfig) == 56);

// X(member, symbol, parameter types). Every function returns a Result. For some functions cuda.h maps the plain name to
// a symbol with _v2 (since CUDA 3.2); the symbol here is then the one with _v2. The newest function here is
// cuFuncGetParamInfo, of CUDA 12.4.
#define FLASHC_CUDA_FUNCTIONS(X)                                                                                       \
  X(init, "cuInit", unsigned)                                                                                          \
  X(getErrorString, "cuGetErrorString", Result, const char **)                                                         \
  X(deviceGetCount, "cuDeviceGetCount", int *)                                                                         \
  X(deviceGet, "cuDeviceGet", Device *, int)                                                                           \
  X(deviceGetName, "cuDeviceGetName", char *, int, Device)                                                             \
  X(deviceGetAttribute, "cuDeviceGetAttribute", int *, int, Device)                                                    \
  X(primaryContextRetain, "cuDevicePrimaryCtxRetain", Context *, Device)                                               \
  X(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", Device)                                                     \
  X(contextGetCurrent, "cuCtxGetCurrent", Context *)                                                                   \
  X(contextSetCurrent, "cuCtxSetCurrent", Context)                                                                     \
  X(contextSynchronize, "cuCtxSynchronize")                                                                            \
  X(moduleLoadDataEx, "cuModuleLoadDataEx", Module *, const void *, unsigned, int *, void **)                          \
  X(moduleUnload, "cuModuleUnload", Module)                                                                            \
  X(moduleGetFunction, "cuModuleGetFunction", Function *, Module, const char *)                                        \
  X(functionGetParamInfo, "cuFuncGetParamInfo", Function, size_t, size_t *, size_t *)                                  \
  X(functionSetAttribute, "cuFuncSetAttribute", Function, int, int)                                                    \
  X(threadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", int *)                                       \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled", TensorMap *, int, uint32_t, void *, const uint64_t *,              \
    const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int)                                          \
  X(launchKernelEx, "cuLaunchKernelEx", const LaunchConfig *, Function, void **, void **)                              \
  X(memAlloc, "cuMemAlloc_v2", DevicePtr *, size_t)                                                                    \
  X(memFree, "cuMemFree_v2", DevicePtr)                                                                                \
  X(memcpyHtoD, "cuMemcpyHtoD_v2", DevicePtr, const void *, size_t)                                                    \
  X(memcpyDtoH, "cuMemcpyDtoH_v2", void *, DevicePtr, size_t)                                                          \
  X(memPoolCreate, "cuMemPoolCreate", MemPool *, const MemPoolProps *)                                                 \
  X(memPoolDestroy, "cuMemPoolDestroy", MemPool)                                                                       \
  X(memPoolSetAttribute, "cuMemPoolSetAttribute", MemPool, int, void *)                                                \
  X(memAllocFromPoolAsync, "cuMemAllocFromPoolAsync", DevicePtr *, size_t, MemPool, Stream)                            \
  X(memFreeAsync, "cuMemFreeAsync", DevicePtr, Stream)                                                                 \
  X(eventCreate, "cuEventCreate", Event *, unsigned)                                                                   \
  X(eventDestroy, "cuEventDestroy_v2", Event)                                                                          \
  X(eventRecord, "cuEventRecord", Event, Stream)                                                                       \
  X(eventQuery, "cuEventQuery", Event)                                                                                 \
  X(streamWaitEvent, "cuStreamWaitEvent", Stream, Event, unsigned)                                                     \
  X(streamIsCapturing, "cuStreamIsCapturing", Stream, int *)                                                           \
  X(eventSynchronize, "cuEventSynchronize", Event)                                                                     \
  X(eventElapsedTime, "cuEventElapsedTime", float *, Event, Event)

/// The driver's functions. Tests may supply their own.
struct Driver {
#define FLASHC_CUDA_MEMBER(member, symbol, ...) Result (*member)(__VA_ARGS__) = nullptr;
  FLASHC_CUDA_FUNCTIONS(FLASHC_CUDA_MEMBER)
#undef FLASHC_CUDA_MEMBER

  /// Loads libcuda.so.1 and initialises it, once per process. The error is one line, such as "no CUDA driver: ...".
  static llvm::Expected<const Driver *> load();

  /// Returns success, or an error that says which call failed (`what`) and why.
  llvm::Error check(Result result, const llvm::Twine &what) const;
};

} // namespace flashc::cuda

#endif // FLASHC_RUNTIME_CUDADRIVER_H
