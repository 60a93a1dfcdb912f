/*===- memory-test.c - the C API where memory runs out ------------------------------------------------------------===*\
|* memory-test <call>: repeats the call, and lets one allocation fail, or that one and all later ones. Each time it is a
|* later allocation, until the call does not make as many. The allocator belongs to this program, and the library's C++
|* and LLVM call it too. Small allocations never fail, since MLIR does not check them (InterfaceMap::insertModel).
\*===--------------------------------------------------------------------------------------------------------------===*/

#include "flashc-c/flashc.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Allocations of at least `smallest` bytes are counted. The one numbered `firstToFail` fails, or it and all later ones.
 * The counter is atomic because threads compile the entries of a kernel. */
static size_t smallest = 4096;
static _Atomic long count, firstToFail = LONG_MAX;
static _Atomic int failsFromThenOn, hasFailed;

static int mayAllocate(size_t size) {
  if (size < smallest)
    return 1;
  long number = ++count;
  if (failsFromThenOn ? number < firstToFail : number != firstToFail)
    return 1;
  hasFailed = 1;
  return 0;
}

FLASHC_EXPORTED void *malloc(size_t size) { return mayAllocate(size) ? __libc_malloc(size) : NULL; }
FLASHC_EXPORTED void *calloc(size_t count, size_t size) {
  return mayAllocate(count * size) ? __libc_calloc(count, size) : NULL;
}
FLASHC_EXPORTED void *realloc(void *old, size_t size) { return mayAllocate(size) ? __libc_realloc(old, size) : NULL; }
FLASHC_EXPORTED void *aligned_alloc(size_t alignment, size_t size) {
  return mayAllocate(size) ? __libc_memalign(alignment, size) : NULL;
}
FLASHC_EXPORTED void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
FLASHC_EXPORTED int posix_memalign(void **result, size_t alignment, size_t size) {
  *result = aligned_alloc(alignment, size);
  return *result ? 0 : ENOMEM;
}

static void expect(int condition, const char *what, long number) {
  if (condition)
    return;
  fprintf(stderr, "expected %s where allocation %ld fails\n", what, number);
  exit(1);
}

enum { kQueries = 1000, kDim = 64 };
static int64_t shape[] = {1, 2, kQueries, kDim}, shapeOfLse[] = {1, 2, kQueries};
static const int64_t strides[] = {2 * kQueries * kDim, kQueries *kDim, kDim, 1}, stridesOfLse[] = {0, kQueries, 1};
static const FlashcArgument arguments[] = {{.rank = 4, .extents = shape, .strides = strides},
                                           {.rank = 4, .extents = shape, .strides = strides},
                                           {.rank = 4, .extents = shape, .strides = strides},
                                           {.rank = 4, .extents = shape, .strides = strides},
                                           {.rank = 3, .extents = shapeOfLse, .strides = stridesOfLse}};

static FlashcAttention attention = {
    .dtype = FLASHC_BF16, .head_dim = kDim, .value_dim = kDim, .group_size = 1, .scale = 1, .mask = FLASHC_MASK_CAUSAL};
static FlashcContext context;
static FlashcKernel kernel;

/* Each function makes a call, frees the result, and returns the status. A new scale gives a kernel that no cache has.
 */

static FlashcStatus text(char **message) {
  char *result = NULL;
  FlashcStatus status = flashcAttentionGetText(context, &attention, &result, message);
  expect(!result == (status != FLASHC_OK), "a text or none", firstToFail);
  flashcStringDestroy(result);
  return status;
}

static FlashcStatus compile(char **message) {
  FlashcKernel result = {NULL};
  attention.scale += 1;
  FlashcStatus status = flashcCompileAttention(context, &attention, NULL, &result, message);
  expect(!result.ptr == (status != FLASHC_OK), "a kernel or none", firstToFail);
  flashcKernelDestroy(result);
  return status;
}

static FlashcStatus cost(char **message) {
  FlashcCost result;
  return flashcKernelGetCost(kernel, arguments, 5, &result, message);
}

static FlashcStatus ir(char **message) {
  char *result = NULL;
  FlashcStatus status = flashcKernelGetIR(kernel, "loops", &result, message);
  flashcStringDestroy(result);
  return status;
}

static FlashcStatus explain(char **message) {
  FlashcExplanation result = {NULL};
  char *source = NULL;
  FlashcStatus status = flashcAttentionGetText(context, &attention, &source, message);
  if (status == FLASHC_OK)
    status = flashcExplainText(context, source, strlen(source), NULL, arguments, 5, &result, message);
  flashcStringDestroy(source);
  if (status == FLASHC_OK && !flashcExplanationGetTiles(result, 0, 1))
    status = FLASHC_OUT_OF_MEMORY;
  flashcExplanationDestroy(result);
  return status;
}

/* If an allocation for MLIR's storage or for a small table of LLVM's code generator fails, their destructors free
 * objects that were never made (StorageUniquer, SelectionDAGISel). So in compilations only larger allocations fail, and
 * in `cost`, which makes an MLIRContext, only those larger than a slab of MLIR's storage, which has 4096 bytes. */
static const struct {
  const char *name;
  FlashcStatus (*call)(char **message);
  size_t smallest;
} calls[] = {{"text", text, 4096},
             {"compile", compile, 16384},
             {"cost", cost, 4097},
             {"ir", ir, 4096},
             {"explain", explain, 4096}};

/* Makes the call with a failing allocation, and then again with enough memory. Returns whether the call made as many
 * allocations. */
static int failAt(FlashcStatus (*call)(char **message), long number, int fromThenOn) {
  char *message = NULL;
  hasFailed = 0;
  failsFromThenOn = fromThenOn;
  count = 0;
  firstToFail = number;
  FlashcStatus status = call(&message);
  firstToFail = LONG_MAX;
  int failed = hasFailed;
  expect(status == FLASHC_OUT_OF_MEMORY || (status == FLASHC_OK && (!failed || !fromThenOn)), "its status", number);
  expect(!message || strcmp(message, "out of memory") == 0, "its message", number);
  flashcStringDestroy(message);
  expect(!failed || call(&message) == FLASHC_OK, "the next call to succeed", number);
  return failed;
}

int main(int argc, char **argv) {
  FlashcContextOptions options = {.disable_disk_cache = true};
  context = flashcContextCreate(&options);
  expect(flashcCompileAttention(context, &attention, NULL, &kernel, NULL) == FLASHC_OK, "a kernel", 0);
  for (size_t which = 0; which < sizeof(calls) / sizeof(*calls); ++which) {
    if (argc != 2 || strcmp(argv[1], calls[which].name) != 0)
      continue;
    char *message;
    long number = 1, failures = 0;
    smallest = calls[which].smallest;
    expect(calls[which].call(&message) == FLASHC_OK, "the first call to succeed", 0);
    for (; failAt(calls[which].call, number, failures % 2); number += 1 + number * (long)smallest / 65536)
      ++failures;
    printf("%s outlived %s\n", argv[1], failures >= 20 ? "all failures" : "too few failures");
    flashcKernelDestroy(kernel);
    flashcContextDestroy(context);
    return 0;
  }
  fprintf(stderr, "expected the name of a call\n");
  return 1;
}
