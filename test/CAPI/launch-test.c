/*===- launch-test.c - the C API launches a kernel ----------------------------------------------------------------===*\
|* In causal attention of q = 0 all scores are equal: row i of the output is the mean of the first i + 1 rows of v, and
|* its log-sum-exp is log(i + 1). With v[j] = j the mean is i / 2. The arrays have the strides of [B, N, H, D].
\*===--------------------------------------------------------------------------------------------------------------===*/

#include "flashc-c/flashc.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatch = 2, kHeads = 4, kLength = 200, kDim = 64, kElements = kBatch * kLength * kHeads * kDim };

static void expect(int condition, const char *what, const char *message) {
  if (condition)
    return;
  fprintf(stderr, "%s: %s\n", what, message ? message : "failed");
  exit(1);
}

/* The functions of the CUDA driver that the test itself calls. */
static struct {
  int (*memAlloc)(uint64_t *, size_t), (*toDevice)(uint64_t, const void *, size_t);
  int (*toHost)(void *, uint64_t, size_t), (*retain)(void **, int), (*push)(void *), (*pop)(void **);
  int (*getCurrent)(void **), (*streamCreate)(void **, unsigned), (*streamSynchronize)(void *);
} cuda;

static void loadCUDA(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  const char *names[] = {"cuMemAlloc_v2",       "cuMemcpyHtoD_v2",    "cuMemcpyDtoH_v2", "cuDevicePrimaryCtxRetain",
                         "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetCurrent", "cuStreamCreate",
                         "cuStreamSynchronize"};
  expect(library != NULL, "libcuda.so.1", NULL);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    void *function = dlsym(library, names[i]);
    expect(function != NULL, names[i], NULL);
    memcpy((char *)&cuda + i * sizeof(function), &function, sizeof(function));
  }
}

static uint16_t toBF16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

static float fromBF16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

static uint64_t upload(const void *data, size_t bytes) {
  uint64_t address = 0;
  expect(cuda.memAlloc(&address, bytes) == 0 && cuda.toDevice(address, data, bytes) == 0, "upload", NULL);
  return address;
}

static FlashcLoadedKernel loadKernel(void) {
  FlashcAttention attention = {.dtype = FLASHC_BF16,
                               .head_dim = kDim,
                               .value_dim = kDim,
                               .group_size = 1,
                               .scale = 0.125f,
                               .mask = FLASHC_MASK_CAUSAL,
                               .key_heads = kHeads};
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  char *message;
  expect(flashcCompileAttention(context, &attention, NULL, &kernel, &message) == FLASHC_OK, "compile", message);
  expect(flashcKernelLoad(kernel, 0, &loaded, &message) == FLASHC_OK, "load", message);
  /* A loaded kernel needs neither its kernel nor its context. */
  flashcKernelDestroy(kernel);
  flashcContextDestroy(context);
  return loaded;
}

static void checkResults(const uint16_t *o, const float *lse) {
  for (int b = 0; b < kBatch; ++b)
    for (int i = 0; i < kLength; ++i)
      for (int h = 0; h < kHeads; ++h) {
        float row = lse[(b * kHeads + h) * kLength + i];
        expect(fabsf(row - logf((float)(i + 1))) < 1e-3f, "lse", NULL);
        for (int d = 0; d < kDim; ++d) {
          float value = fromBF16(o[((b * kLength + i) * kHeads + h) * kDim + d]);
          expect(fabsf(value - 0.5f * (float)i) <= 0.01f * (float)i, "o", NULL);
        }
      }
}

int main(void) {
  static uint16_t zeros[kElements], v[kElements], o[kElements];
  static float lse[kBatch * kHeads * kLength];
  static const int64_t extents[] = {kBatch, kHeads, kLength, kDim};
  static const int64_t strides[] = {kLength * kHeads * kDim, kDim, kHeads * kDim, 1};
  static const int64_t lseStrides[] = {kHeads * kLength, kLength, 1};
  void *context, *current, *stream;
  char *message;
  loadCUDA();
  FlashcLoadedKernel kernel = loadKernel();
  expect(cuda.getCurrent(&current) == 0 && !current, "the thread's CUDA context stays what it was", NULL);

  for (int index = 0; index < kElements; ++index)
    v[index] = toBF16((float)(index / (kHeads * kDim) % kLength));
  expect(cuda.retain(&context, 0) == 0 && cuda.push(context) == 0, "context", NULL);
  expect(cuda.streamCreate(&stream, /*CU_STREAM_NON_BLOCKING*/ 1) == 0, "stream", NULL);
  uint64_t q = upload(zeros, sizeof(zeros)), k = q, vAddress = upload(v, sizeof(v));
  uint64_t oAddress = upload(o, sizeof(o)), lseAddress = upload(lse, sizeof(lse));
  expect(cuda.pop(&current) == 0, "context", NULL);

  FlashcArgument arguments[] = {{q, 4, extents, strides, 0},
                                {k, 4, extents, strides, 0},
                                {vAddress, 4, extents, strides, 0},
                                {oAddress, 4, extents, strides, 0},
                                {lseAddress, 3, extents, lseStrides, 0}};
  expect(flashcLoadedKernelLaunch(kernel, arguments, 5, stream, &message) == FLASHC_OK, "launch", message);
  /* Loads the entries for other numbers of queries too. */
  expect(flashcLoadedKernelLoadAll(kernel, &message) == FLASHC_OK, "load all", message);
  /* Calls with too few arguments, and with a wrong extent. */
  expect(flashcLoadedKernelLaunch(kernel, arguments, 4, stream, NULL) == FLASHC_ARGUMENT_MISMATCH, "too few", NULL);
  arguments[0].rank = 3;
  expect(flashcLoadedKernelLaunch(kernel, arguments, 5, stream, &message) == FLASHC_ARGUMENT_MISMATCH, "rank", NULL);
  printf("%s\n", message);
  flashcStringDestroy(message);

  expect(cuda.push(context) == 0 && cuda.streamSynchronize(stream) == 0, "synchronize", NULL);
  expect(cuda.toHost(o, oAddress, sizeof(o)) == 0 && cuda.toHost(lse, lseAddress, sizeof(lse)) == 0, "download", NULL);
  checkResults(o, lse);
  flashcLoadedKernelDestroy(kernel);
  printf("launched: o and lse are right\n");
  return 0;
}
