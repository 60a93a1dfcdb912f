/*===- fake_cuda.c - a CUDA driver without a GPU, which loads any PTX and runs nothing ----------------------------===*\
|* It prints the entries of each module that it loads. Functions that return nothing to the caller are defined without
|* parameters; callers may pass arguments all the same.
\*===--------------------------------------------------------------------------------------------------------------===*/

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCEEDS(name)                                                                                                 \
  int name(void);                                                                                                      \
  int name(void) { return 0; }

SUCCEEDS(cuInit)
SUCCEEDS(cuDevicePrimaryCtxRelease_v2)
SUCCEEDS(cuCtxSetCurrent)
SUCCEEDS(cuCtxSynchronize)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuThreadExchangeStreamCaptureMode)
SUCCEEDS(cuTensorMapEncodeTiled)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuMemAlloc_v2)
SUCCEEDS(cuMemFree_v2)
SUCCEEDS(cuMemcpyHtoD_v2)
SUCCEEDS(cuMemcpyDtoH_v2)
SUCCEEDS(cuMemPoolCreate)
SUCCEEDS(cuMemPoolDestroy)
SUCCEEDS(cuMemPoolSetAttribute)
SUCCEEDS(cuMemAllocFromPoolAsync)
SUCCEEDS(cuMemFreeAsync)
SUCCEEDS(cuEventCreate)
SUCCEEDS(cuEventDestroy_v2)
SUCCEEDS(cuEventRecord)
SUCCEEDS(cuEventQuery)
SUCCEEDS(cuStreamWaitEvent)
SUCCEEDS(cuStreamIsCapturing)
SUCCEEDS(cuEventSynchronize)
SUCCEEDS(cuEventElapsedTime)
SUCCEEDS(cuGetErrorString)

#define ANSWERS(name, parameters, ...)                                                                                 \
  int name parameters;                                                                                                 \
  int name parameters {                                                                                                \
    __VA_ARGS__;                                                                                                       \
    return 0;                                                                                                          \
  }

ANSWERS(cuDeviceGetCount, (int *count), *count = 1)
ANSWERS(cuDeviceGet, (int *device, int ordinal), *device = ordinal)
ANSWERS(cuDeviceGetName, (char *name, int length, int device), snprintf(name, (size_t)length, "Fake %d", device))
ANSWERS(cuDeviceGetAttribute, (int *value, int attribute, int device), *value = attribute == 76 ? device : 9)
ANSWERS(cuDevicePrimaryCtxRetain, (void **context, int device), *context = (void *)(16 + (intptr_t)device))
ANSWERS(cuCtxGetCurrent, (void **context), *context = NULL)

/* A module is a copy of its text, and a function points into this text, at the name of the kernel. */
ANSWERS(cuModuleLoadDataEx, (void **module, const char *text), {
  *module = malloc(strlen(text) + 1);
  strcpy(*module, text);
  for (const char *at = text; (at = strstr(at, ".entry ")); ++at)
    printf("loads %.*s\n", (int)strcspn(at + 7, "("), at + 7);
})
ANSWERS(cuModuleGetFunction, (void **function, void *module, const char *name), *function = strstr(module, name))

/* Reads the size of a parameter from its line: .param .align 64 .b8 name[128], or .param .u64 name */
ANSWERS(cuFuncGetParamInfo, (const char *function, size_t index, size_t *offset, size_t *bytes), {
  const char *at = strstr(function, ".param ");
  for (*offset = 0; *offset < index; ++*offset)
    at = strstr(at + 1, ".param ");
  size_t length = strcspn(at, ",)");
  const char *array = memchr(at, '[', length), *wide = strstr(at, "64 ");
  *bytes = array ? (size_t)atoi(array + 1) : wide && wide < at + length ? 8 : 4;
})
