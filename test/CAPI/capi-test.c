/*===- capi-test.c - the C API from C -------------------------------------------------------------------------------===*\
|* capi-test text|built|errors|threads|load|time: what each one prints or checks is in capi.test.
\*===--------------------------------------------------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "flashc-c/flashc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const FlashcAttention causal = {FLASHC_BF16, FLASHC_MASK_CAUSAL, 128, 128, 8, 2, 0.0883883461f};

/* Ends the program unless the call succeeded. */
/* By address: arguments are evaluated in any order, and the call sets the message. */
static void expectOK(FlashcStatus status, char **message, const char *what) {
  if (status == FLASHC_OK && !*message)
    return;
  fprintf(stderr, "%s: status %d: %s\n", what, (int)status, *message ? *message : "no message");
  exit(1);
}

static void expect(int condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "expected %s\n", what);
  exit(1);
}

static FlashcKernel compileCausal(FlashcContext context, const FlashcCompileOptions *options) {
  FlashcKernel kernel;
  char *message = NULL;
  expectOK(flashcCompileAttention(context, &causal, options, &kernel, &message), &message, "flashcCompileAttention");
  return kernel;
}

/* Prints the module that is built from plain arguments. */
static void testText(FlashcContext context) {
  char *text, *message;
  expectOK(flashcAttentionGetText(context, &causal, &text, &message), &message, "flashcAttentionGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
}

/* Prints what the kernel consists of; the text form of the same attention gives the same kernel. */
static void testBuilt(FlashcContext context) {
  FlashcKernel kernel = compileCausal(context, NULL), again, small;
  FlashcCompileOptions options = {"sm_90a", "kv-tile=64"};
  char *text, *message;
  printf("schedule %s\n%s%s", flashcKernelGetSchedule(kernel), flashcKernelGetManifest(kernel),
         flashcKernelGetPTX(kernel));
  expectOK(flashcAttentionGetText(context, &causal, &text, &message), &message, "flashcAttentionGetText");
  expectOK(flashcCompileText(context, text, strlen(text), NULL, &again, &message), &message, "flashcCompileText");
  expect(strcmp(flashcKernelGetPTX(kernel), flashcKernelGetPTX(again)) == 0, "the same PTX from text");
  expect(strcmp(flashcKernelGetManifest(kernel), flashcKernelGetManifest(again)) == 0, "the same manifest from text");
  small = compileCausal(context, &options);
  printf("overridden %s\n", flashcKernelGetSchedule(small));
  flashcStringDestroy(text);
  flashcKernelDestroy(kernel);
  flashcKernelDestroy(again);
  flashcKernelDestroy(small);
}

static void printFailure(const char *what, FlashcStatus status, FlashcKernel kernel, char *message) {
  expect(status != FLASHC_OK && message && !kernel.ptr, "a failure, its message and no kernel");
  printf("%s: %d: %s\n", what, (int)status, message);
  flashcStringDestroy(message);
}

static void failAttention(FlashcContext context, const char *what, FlashcAttention attention) {
  FlashcKernel kernel;
  char *message = NULL;
  FlashcStatus status = flashcCompileAttention(context, &attention, NULL, &kernel, &message);
  printFailure(what, status, kernel, message);
}

static void failText(FlashcContext context, const char *what, const char *text) {
  FlashcKernel kernel;
  char *message = NULL;
  FlashcStatus status = flashcCompileText(context, text, strlen(text), NULL, &kernel, &message);
  printFailure(what, status, kernel, message);
}

static void failOptions(FlashcContext context, const char *what, FlashcCompileOptions options) {
  FlashcKernel kernel;
  char *message = NULL;
  FlashcStatus status = flashcCompileAttention(context, &causal, &options, &kernel, &message);
  printFailure(what, status, kernel, message);
}

/* Prints every kind of mistake with its status and message. */
static void testErrors(FlashcContext context) {
  FlashcAttention attention = causal;
  FlashcCompileOptions target = {"sm_1", NULL}, schedule = {NULL, "kv-tile=banana"};
  FlashcKernel kernel;
  FlashcContext none = {NULL};
  char *message = NULL;
  static char nested[100001];
  memset(nested, '(', sizeof(nested) - 1);
  attention.head_dim = 127;
  failAttention(context, "head_dim", attention);
  attention = causal;
  attention.key_heads = 3;
  failAttention(context, "key_heads", attention);
  attention.key_heads = -2;
  failAttention(context, "negative", attention);
  attention = causal;
  attention.dtype = (FlashcDType)7;
  failAttention(context, "dtype", attention);
  attention = causal;
  attention.mask = (FlashcMask)7;
  failAttention(context, "mask", attention);
  failText(context, "syntax", "func.func @f(\n");
  failText(context, "empty", "");
  failText(context, "nesting", nested);
  failOptions(context, "target", target);
  failOptions(context, "schedule", schedule);
  FlashcStatus status = flashcCompileAttention(none, &causal, NULL, &kernel, &message);
  printFailure("context", status, kernel, message);
  /* The message is the caller's choice. */
  expect(flashcCompileText(context, "?", 1, NULL, &kernel, NULL) == FLASHC_COMPILE_ERROR, "a status without message");
  /* After the errors, the context still compiles. Null handles may be destroyed. */
  flashcKernelDestroy(compileCausal(context, NULL));
  flashcKernelDestroy(kernel);
  flashcContextDestroy(none);
  flashcStringDestroy(NULL);
  printf("still compiles\n");
}

enum { kThreads = 8, kRounds = 4 };

typedef struct {
  FlashcContext context;
  const char *ptx;
} Task;

/* Right and wrong compilations, in turns. Returns the task if something differs. */
static void *compileRepeatedly(void *argument) {
  Task *task = argument;
  for (int round = 0; round < kRounds; ++round) {
    FlashcKernel kernel;
    char *message = NULL;
    if (flashcCompileAttention(task->context, &causal, NULL, &kernel, &message) != FLASHC_OK ||
        strcmp(flashcKernelGetPTX(kernel), task->ptx) != 0)
      return task;
    flashcKernelDestroy(kernel);
    if (flashcCompileText(task->context, "?", 1, NULL, &kernel, &message) != FLASHC_COMPILE_ERROR || kernel.ptr)
      return task;
    flashcStringDestroy(message);
  }
  return NULL;
}

/* Many threads share one context; each gets the kernel that one thread gets. */
static void testThreads(FlashcContext context) {
  pthread_t threads[kThreads];
  FlashcKernel kernel = compileCausal(context, NULL);
  Task task = {context, flashcKernelGetPTX(kernel)};
  for (int i = 0; i < kThreads; ++i)
    expect(pthread_create(&threads[i], NULL, compileRepeatedly, &task) == 0, "a thread");
  for (int i = 0; i < kThreads; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    expect(!failed, "the same kernel in every thread");
  }
  flashcKernelDestroy(kernel);
  printf("%d compilations\n", kThreads * kRounds);
}

/* Prints why the kernel does not load. */
static void testLoad(FlashcContext context) {
  FlashcKernel kernel = compileCausal(context, NULL);
  FlashcLoadedKernel loaded;
  char *message = NULL;
  FlashcStatus status = flashcKernelLoad(kernel, 0, &loaded, &message);
  if (status == FLASHC_OK)
    printf("loaded\n");
  else
    printf("status %d: %s\n", (int)status, message);
  expect((status == FLASHC_OK) == (loaded.ptr != NULL), "a loaded kernel on success only");
  flashcStringDestroy(message);
  flashcLoadedKernelDestroy(loaded);
  flashcKernelDestroy(kernel);
}

/* Prints how long a compilation takes, the median of some. */
static int compareTimes(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

static void measure(FlashcContext context) {
  enum { kRuns = 11 };
  double times[kRuns];
  for (int i = 0; i < kRuns; ++i) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    flashcKernelDestroy(compileCausal(context, NULL));
    clock_gettime(CLOCK_MONOTONIC, &end);
    times[i] = 1e3 * (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_nsec - start.tv_nsec);
  }
  printf("first %.1f ms, ", times[0]);
  qsort(times, kRuns, sizeof(double), compareTimes);
  printf("median %.1f ms\n", times[kRuns / 2]);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(FlashcContext);
  } tests[] = {{"text", testText},       {"built", testBuilt}, {"errors", testErrors},
               {"threads", testThreads}, {"load", testLoad},   {"time", measure}};
  FlashcContext context = flashcContextCreate();
  size_t count = sizeof(tests) / sizeof(tests[0]), found = count;
  for (size_t i = 0; i < count; ++i)
    if (argc == 2 && strcmp(argv[1], tests[i].name) == 0)
      found = i;
  expect(found < count, "the name of a test");
  if (strcmp(argv[1], "text") == 0)
    printf("// flashc %s\n", flashcGetVersion());
  tests[found].run(context);
  flashcContextDestroy(context);
  return 0;
}
