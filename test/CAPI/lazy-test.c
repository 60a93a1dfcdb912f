/*===- lazy-test.c - a launch compiles the entry that it needs ----------------------------------------------------===*\
|* The argument is the path of the driver, which is built from Inputs/fake_cuda.c. It prints the entries that it loads,
|* which are those that were compiled.
\*===--------------------------------------------------------------------------------------------------------------===*/

#include "flashc-c/flashc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kThreads = 8, kDim = 128 };

static void expectOK(FlashcStatus status, const char *message, const char *what) {
  if (status == FLASHC_OK)
    return;
  fprintf(stderr, "%s: %s\n", what, message ? message : "failed");
  exit(1);
}

static FlashcLoadedKernel loaded;

static void launch(int64_t length) {
  int64_t extents[] = {1, 1, length, kDim}, strides[] = {length * kDim, length * kDim, kDim, 1};
  FlashcArgument argument = {.address = 4096, .rank = 4, .extents = extents, .strides = strides};
  FlashcArgument arguments[] = {argument, argument, argument, argument};
  char *message;
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 4, NULL, &message), message, "launch");
}

static void *launchShort(void *unused) {
  launch(1000);
  return unused;
}

int main(int argc, char **argv) {
  /* Its soname is libcuda.so.1, so it is the library that flashc then opens by that name. */
  if (argc != 2 || !dlopen(argv[1], RTLD_NOW))
    return fprintf(stderr, "%s: %s\n", argv[0], argc == 2 ? dlerror() : "expected the driver's path"), 1;
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  FlashcAttention causal = {.dtype = FLASHC_BF16,
                            .head_dim = kDim,
                            .value_dim = kDim,
                            .group_size = 1,
                            .scale = 0.1f,
                            .mask = FLASHC_MASK_CAUSAL,
                            .omit_lse = true};
  FlashcKernel kernel;
  char *message;
  expectOK(flashcCompileAttention(context, &causal, NULL, &kernel, &message), message, "compile");
  expectOK(flashcKernelLoad(kernel, 0, &loaded, &message), message, "load");
  flashcKernelDestroy(kernel);
  flashcContextDestroy(context);
  printf("loaded\n");
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, launchShort, NULL) != 0)
      return 1;
  for (int i = 0; i < kThreads; ++i)
    pthread_join(threads[i], NULL);
  printf("launched by all threads\n");
  expectOK(flashcLoadedKernelLoadAll(loaded, &message), message, "load all");
  launch(10000);
  printf("launched\n");
  flashcLoadedKernelDestroy(loaded);
  return 0;
}
