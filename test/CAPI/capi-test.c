/*===- capi-test.c - the C API from C -----------------------------------------------------------------------------===*\
|* capi-test <name of a test> [<folder of the disk cache>]. capi.test says what each test prints or checks.
\*===--------------------------------------------------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "flashc-c/flashc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const FlashcAttention causal = {.dtype = FLASHC_BF16,
                                       .head_dim = 128,
                                       .value_dim = 128,
                                       .group_size = 4,
                                       .scale = 0.0883883461f,
                                       .mask = FLASHC_MASK_CAUSAL,
                                       .key_heads = 2};

/* Ends the program unless the call succeeded. */
/* `message` is passed by address, since the call that sets it is an argument too, and arguments are evaluated in any
 * order. */
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

/* Prints the module of the gradients, with sinks, dropout and an array that the score reads. */
static void testVectors(FlashcContext context) {
  FlashcAttention attention = causal;
  FlashcCapture capture = {.name = "slope", .dtype = FLASHC_F32};
  char *text, *message;
  attention.operation = FLASHC_ATTENTION_BACKWARD;
  attention.sinks = true;
  attention.options = "dropout_p=0.25";
  attention.captures = &capture;
  attention.num_captures = 1;
  attention.score_code = "%t = arith.mulf %s, %slope : f32\nflash.yield %t : f32";
  expectOK(flashcAttentionGetText(context, &attention, &text, &message), &message, "flashcAttentionGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
}

/* Prints the module of the gradient of an array that the score reads. */
static void testCaptured(FlashcContext context) {
  int64_t any = FLASHC_ANY;
  FlashcAttention attention = causal;
  FlashcCapture captures[] = {{.name = "factor", .dtype = FLASHC_F32},
                              {.name = "slopes", .dtype = FLASHC_BF16, .rank = 1, .extents = &any}};
  char *text, *message;
  attention.operation = FLASHC_CAPTURED_GRADIENT;
  attention.captures = captures;
  attention.num_captures = 2;
  attention.captured = 1;
  attention.score_code =
      "%slope = tensor.extract %slopes[%h] : tensor<?xbf16>\n%wide = arith.extf %slope : bf16 to f32\n"
      "%x = arith.mulf %s, %wide : f32\n%t = arith.mulf %x, %factor : f32\nflash.yield %t : f32";
  expectOK(flashcAttentionGetText(context, &attention, &text, &message), &message, "flashcAttentionGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
}

/* Prints the same module as testText, but without lse. */
static void testOmit(FlashcContext context) {
  FlashcAttention attention = causal;
  char *text, *message;
  attention.omit_lse = true;
  expectOK(flashcAttentionGetText(context, &attention, &text, &message), &message, "flashcAttentionGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
}

/* Prints the parts of the kernel. The text of the same attention gives the same kernel. */
static void testBuilt(FlashcContext context) {
  FlashcKernel kernel = compileCausal(context, NULL), again, small;
  FlashcCompileOptions options = {.target = "sm_90a", .schedule = "kv-tile=64"};
  char *text, *message;
  printf("schedule %s\n%s%s", flashcKernelGetSchedule(kernel), flashcKernelGetManifest(kernel),
         flashcKernelGetPTX(kernel));
  expectOK(flashcAttentionGetText(context, &causal, &text, &message), &message, "flashcAttentionGetText");
  expectOK(flashcCompileText(context, text, strlen(text), NULL, &again, &message), &message, "flashcCompileText");
  expect(strcmp(flashcKernelGetPTX(kernel), flashcKernelGetPTX(again)) == 0, "the same PTX from text");
  expect(strcmp(flashcKernelGetManifest(kernel), flashcKernelGetManifest(again)) == 0, "the same manifest from text");
  small = compileCausal(context, &options);
  printf("overridden %s\n", flashcKernelGetSchedule(small));
  fputs(flashcKernelGetDecisions(small), stdout);
  flashcStringDestroy(text);
  flashcKernelDestroy(kernel);
  flashcKernelDestroy(again);
  flashcKernelDestroy(small);
}

/* Prints the parts of the kernel of column sums, which adds up the heads of a group. */
static void testSums(FlashcContext context) {
  FlashcAttention attention = causal;
  FlashcKernel kernel;
  char *message;
  attention.operation = FLASHC_GROUP_COLUMN_SUMS;
  expectOK(flashcCompileAttention(context, &attention, NULL, &kernel, &message), &message, "flashcCompileAttention");
  fputs(flashcKernelGetManifest(kernel), stdout);
  fputs(flashcKernelGetPTX(kernel), stdout);
  flashcKernelDestroy(kernel);
}

/* With one query and one key, the weight is 1 whatever the score is. So dv = do, and dq and dk come from dlse only. */
static void testGradients(FlashcContext context) {
  enum { kDepth = 8 };
  float q[kDepth], k[kDepth], v[kDepth], gradient[kDepth], dq[kDepth], dk[kDepth], dv[kDepth], lse = 0, dlse = 3;
  int64_t extents[] = {1, 1, 1, kDepth}, strides[] = {kDepth, kDepth, kDepth, 1}, rowStrides[] = {1, 1, 1};
  float *arrays[] = {q, k, v, v /* o */, &lse, gradient, &dlse, dq, dk, dv};
  FlashcArgument arguments[sizeof(arrays) / sizeof(arrays[0])];
  FlashcAttention attention = causal;
  FlashcCompileOptions options = {.target = "cpu"};
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  char *message;
  for (int i = 0; i < kDepth; ++i) {
    q[i] = (float)(i - 3), k[i] = (float)(2 * i), v[i] = (float)(5 - i), gradient[i] = (float)(i * i);
    lse += 0.5f * q[i] * k[i];
  }
  for (int i = 0; i < (int)(sizeof(arrays) / sizeof(arrays[0])); ++i) {
    bool isRow = arrays[i] == &lse || arrays[i] == &dlse;
    arguments[i] = (FlashcArgument){(uintptr_t)arrays[i], isRow ? 3 : 4, extents, isRow ? rowStrides : strides, 0};
  }
  attention.operation = FLASHC_ATTENTION_BACKWARD;
  attention.dtype = FLASHC_F32;
  attention.head_dim = attention.value_dim = kDepth;
  attention.key_heads = attention.group_size = 1;
  attention.scale = 0.5f;
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message, "compile");
  fputs(flashcKernelGetManifest(kernel), stdout);
  expectOK(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message), &message, "load");
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 10, NULL, &message), &message, "launch");
  for (int i = 0; i < kDepth; ++i)
    expect(dv[i] == gradient[i] && dq[i] == 0.5f * dlse * k[i] && dk[i] == 0.5f * dlse * q[i], "the gradients");
  flashcLoadedKernelDestroy(loaded);
  flashcKernelDestroy(kernel);
  /* Without dlse there is one argument less. */
  attention.omit_lse = true;
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message, "compile");
  printf("without: %s", flashcKernelGetManifest(kernel));
  flashcKernelDestroy(kernel);
  attention.score_code = "%x = arith.bitcast %s : f32 to i32\n%t = arith.bitcast %x : i32 to f32\nflash.yield %t : f32";
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message, "compile");
  expect(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message) == FLASHC_COMPILE_ERROR, "no derivative");
  printf("derivative: %s", message);
  flashcStringDestroy(message);
  flashcKernelDestroy(kernel);
}

/* A table of the user takes precedence over the built-in table. A kernel with another table is another kernel. */
static void testTable(FlashcContext context) {
  FlashcCompileOptions options = {.schedule_table = "# mine\nd<=128 mask=bounds: kv-tile=96\n"};
  FlashcKernel kernel = compileCausal(context, NULL), mine = compileCausal(context, &options), other;
  expect(strcmp(flashcKernelGetSchedule(kernel), flashcKernelGetSchedule(mine)) != 0, "another schedule");
  options.schedule_table = "# mine\nd<=128 mask=bounds: kv-tile=80\n"; /* has the length of the first table */
  other = compileCausal(context, &options);
  expect(strcmp(flashcKernelGetSchedule(other), flashcKernelGetSchedule(mine)) != 0, "another schedule again");
  expect(flashcContextGetStatistics(context).compilations == 3, "three compilations");
  fputs(flashcKernelGetDecisions(mine), stdout);
  flashcKernelDestroy(kernel);
  flashcKernelDestroy(mine);
  flashcKernelDestroy(other);
  expect(strlen(flashcContextGetCacheDirectory(context)) > 0, "a folder, even if nothing is kept there");
  expect(flashcContextGetCacheDirectory((FlashcContext){NULL}) == NULL, "no folder without a context");
  expect(flashcKernelGetDecisions((FlashcKernel){NULL}) == NULL, "no decisions without a kernel");
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

/* Makes every kind of mistake, and prints its status and message. */
static void testErrors(FlashcContext context) {
  FlashcAttention attention = causal;
  FlashcCompileOptions target = {.target = "sm_1"}, schedule = {.schedule = "kv-tile=banana"};
  FlashcCompileOptions table = {.schedule_table = "d<=128: kv-tile=96\nd<=x: stages=2"};
  FlashcCompileOptions function = {.function = "g"};
  FlashcCapture capture = {.name = "bias", .dtype = (FlashcDType)99};
  FlashcKernel kernel;
  FlashcContext none = {NULL};
  char *message = NULL;
  static char nested[100001];
  memset(nested, '(', sizeof(nested) - 1);
  attention.head_dim = 127;
  failAttention(context, "head_dim", attention);
  attention = causal;
  attention.group_size = 0;
  failAttention(context, "group_size", attention);
  attention = causal;
  attention.key_heads = -1;
  failAttention(context, "negative", attention);
  attention = causal;
  attention.captures = &capture;
  attention.num_captures = 1;
  failAttention(context, "capture", attention);
  attention = causal;
  attention.score_code = "%t = arith.addf %s, %bias : f32\nflash.yield %t : f32";
  failAttention(context, "code", attention);
  attention.score_code = "%x = arith.extf %s : f32 to f64\n%y = math.sin %x : f64\n"
                         "%t = arith.truncf %y : f64 to f32\nflash.yield %t : f32";
  failAttention(context, "instruction", attention);
  attention = causal;
  attention.dtype = (FlashcDType)8;
  failAttention(context, "dtype", attention);
  attention = causal;
  attention.mask = (FlashcMask)7;
  failAttention(context, "mask", attention);
  attention = causal;
  attention.operation = (FlashcOperation)7;
  failAttention(context, "operation", attention);
  attention.operation = FLASHC_ATTENTION_BACKWARD;
  attention.head_dim = attention.value_dim = 264;
  failAttention(context, "gradients", attention);
  attention = causal;
  attention.operation = FLASHC_CAPTURED_GRADIENT;
  failAttention(context, "captured", attention);
  FlashcCapture number = {.name = "factor", .dtype = FLASHC_F32};
  attention.captures = &number;
  attention.num_captures = 1;
  failAttention(context, "number", attention);
  failText(context, "syntax", "func.func @f(\n");
  failText(context, "empty", "");
  failText(context, "nesting", nested);
  failOptions(context, "target", target);
  failOptions(context, "schedule", schedule);
  failOptions(context, "table", table);
  failOptions(context, "function", function);
  FlashcStatus status = flashcCompileAttention(none, &causal, NULL, &kernel, &message);
  printFailure("context", status, kernel, message);
  /* A caller need not take the message. */
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

/* Alternates right and wrong compilations. Returns the task if a result is not as expected, and null otherwise. */
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

static void printStatistics(FlashcContext context) {
  FlashcStatistics s = flashcContextGetStatistics(context);
  printf("%d compilations, %d from memory, %d from disk, %d rejected, %d not written\n", (int)s.compilations,
         (int)s.memory_hits, (int)s.disk_hits, (int)s.disk_rejected, (int)s.disk_write_failures);
}

/* Many threads ask one context for the same kernel. It is compiled once, and equals the kernel of another context. */
static void testThreads(FlashcContext context) {
  pthread_t threads[kThreads];
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext other = flashcContextCreate(&options);
  FlashcKernel kernel = compileCausal(other, NULL);
  Task task = {context, flashcKernelGetPTX(kernel)};
  for (int i = 0; i < kThreads; ++i)
    expect(pthread_create(&threads[i], NULL, compileRepeatedly, &task) == 0, "a thread");
  for (int i = 0; i < kThreads; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    expect(!failed, "the same kernel in every thread");
  }
  flashcContextDestroy(other);
  flashcKernelDestroy(kernel);
  printStatistics(context);
}

/* Gets a kernel from the compiler or from the disk. The text of the same attention then gets it from memory. */
static void testCache(FlashcContext context) {
  FlashcKernel kernel = compileCausal(context, NULL), again;
  char *text, *message;
  expectOK(flashcAttentionGetText(context, &causal, &text, &message), &message, "flashcAttentionGetText");
  expectOK(flashcCompileText(context, text, strlen(text), NULL, &again, &message), &message, "flashcCompileText");
  const char *ptx = flashcKernelGetPTX(again);
  printStatistics(context);
  printf("%s", ptx);
  flashcStringDestroy(text);
  flashcKernelDestroy(kernel);
  flashcKernelDestroy(again);
}

/* Prints the levels of a kernel after its context has been destroyed. */
static void testLevels(FlashcContext unused) {
  static const char *const levels[] = {"flash", "loops", "tile", "nvvm", "llvm", "sass"};
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  FlashcKernel kernel = compileCausal(context, NULL);
  (void)unused;
  flashcContextDestroy(context);
  for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); ++i) {
    char *text, *message;
    if (flashcKernelGetIR(kernel, levels[i], &text, &message) == FLASHC_OK)
      printf("level %s\n%s", levels[i], text);
    else
      printf("%s\n", message);
    flashcStringDestroy(text);
    flashcStringDestroy(message);
  }
  flashcKernelDestroy(kernel);
}

/* Compiles the named function of a module with several functions. */
static void testFunction(FlashcContext context) {
  static const char text[] =
      "func.func @f(%q: tensor<2x8x?x64xf16>) -> (tensor<2x8x?x64xf16>, tensor<2x8x?xf32>) {\n"
      "  %o, %lse = flash.attention ins(%q, %q, %q : tensor<2x8x?x64xf16>, tensor<2x8x?x64xf16>, tensor<2x8x?x64xf16>)"
      " {scale = 1.0 : f32} -> tensor<2x8x?x64xf16>, tensor<2x8x?xf32>\n"
      "  return %o, %lse : tensor<2x8x?x64xf16>, tensor<2x8x?xf32>\n"
      "}\n"
      "func.func @other() { return }\n";
  FlashcCompileOptions options = {.function = "f"};
  FlashcKernel kernel;
  char *message;
  expectOK(flashcCompileText(context, text, strlen(text), &options, &kernel, &message), &message, "@f");
  printf("%s", flashcKernelGetManifest(kernel));
  flashcKernelDestroy(kernel);
}

enum { kBatch = 2, kQueryHeads = 8, kKeyHeads = 2, kQueries = 5, kKeys = 7, kDim = 8 };

/* Checks the output of testCPU. NaN fails too. */
static void expectMeans(const float *o) {
  for (int i = 0; i < kBatch * kQueryHeads * kQueries * kDim; ++i) {
    int row = i / (kDim * kQueryHeads) % kQueries, last = row + kKeys - kQueries;
    expect(o[i] > 0.5f * (float)last - 1e-4f && o[i] < 0.5f * (float)last + 1e-4f, "the mean of the visible rows");
  }
}

/* With q = 0 all scores are equal: o is the mean of the visible rows of v, and lse the logarithm of their number.
 * v[j] = j. */
static void testCPU(FlashcContext context) {
  static float q[kBatch * kQueryHeads * kQueries * kDim], k[kBatch * kKeyHeads * kKeys * kDim], v[sizeof(k) / 4];
  static float o[sizeof(q) / 4], lse[kBatch * kQueryHeads * kQueries];
  int64_t qExtents[] = {kBatch, kQueryHeads, kQueries, kDim}, kExtents[] = {kBatch, kKeyHeads, kKeys, kDim};
  /* k and v are [B, H, N, D]; q and o have the strides of [B, N, H, D]. */
  int64_t qStrides[] = {kQueries * kQueryHeads * kDim, kDim, kQueryHeads * kDim, 1};
  int64_t kStrides[] = {kKeyHeads * kKeys * kDim, kKeys * kDim, kDim, 1};
  int64_t lseStrides[] = {kQueryHeads * kQueries, kQueries, 1};
  FlashcArgument arguments[] = {{(uintptr_t)q, 4, qExtents, qStrides, 0},
                                {(uintptr_t)k, 4, kExtents, kStrides, 0},
                                {(uintptr_t)v, 4, kExtents, kStrides, 0},
                                {(uintptr_t)o, 4, qExtents, qStrides, 0},
                                {(uintptr_t)lse, 3, qExtents, lseStrides, 0}};
  FlashcAttention attention = causal;
  FlashcCompileOptions options = {.target = "cpu"};
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  FlashcCost cost, less;
  char *message;
  for (int i = 0; i < (int)(sizeof(v) / sizeof(float)); ++i)
    v[i] = (float)(i / kDim % kKeys);
  attention.dtype = FLASHC_F32;
  attention.head_dim = attention.value_dim = kDim;
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message, "compile");
  expect(flashcKernelGetPTX(kernel)[0] == '\0', "no PTX for the CPU");
  expectOK(flashcKernelGetCost(kernel, arguments, 5, &cost, &message), &message, "flashcKernelGetCost");
  expect(!flashcKernelGetManifest((FlashcKernel){NULL}), "no text of a null kernel");
  expect(flashcContextGetStatistics((FlashcContext){NULL}).compilations == 0, "no statistics of a null context");
  printf("%s%s FLOPs\n", flashcKernelGetManifest(kernel), cost.matmul_flops > 0 ? "some" : "no");
  expect(flashcKernelLoad(kernel, 0, &loaded, &message) == FLASHC_INVALID_ARGUMENT, "no GPU kernel");
  printf("%s\n", message);
  flashcStringDestroy(message);
  expectOK(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message), &message, "load");
  flashcKernelDestroy(kernel);
  expectOK(flashcLoadedKernelLoadAll(loaded, &message), &message, "everything is there");
  expect(flashcLoadedKernelLoadAll((FlashcLoadedKernel){NULL}, NULL) == FLASHC_INVALID_ARGUMENT, "a null kernel");
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message), &message, "launch");
  expectOK(flashcLoadedKernelLaunchPlanned(loaded, arguments, 5, 7, NULL, &message), &message, "launch with a plan");
  expectOK(flashcLoadedKernelForgetPlan(loaded, 7, &message), &message, "forget it");
  expect(flashcLoadedKernelForgetPlan(loaded, 0, NULL) == FLASHC_INVALID_ARGUMENT, "no plan");
  expect(flashcLoadedKernelForgetPlan((FlashcLoadedKernel){NULL}, 7, NULL) == FLASHC_INVALID_ARGUMENT, "a null kernel");
  FlashcMaskMaps maps = flashcLoadedKernelGetMaskMaps(loaded);
  expect(maps.maps + maps.bytes + maps.hits + maps.misses == 0, "maps on the CPU");
  maps = flashcLoadedKernelGetMaskMaps((FlashcLoadedKernel){NULL});
  expect(maps.maps == 0, "maps of a null kernel");
  expectMeans(o);
  /* Calls with too few arguments, a wrong rank, an array without memory, and a wrong extent. */
  expect(flashcLoadedKernelLaunch(loaded, arguments, 4, NULL, NULL) == FLASHC_ARGUMENT_MISMATCH, "too few");
  arguments[0].rank = 3;
  expect(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message) == FLASHC_ARGUMENT_MISMATCH, "a rank");
  printf("%s\n", message);
  flashcStringDestroy(message);
  arguments[0].rank = 4;
  arguments[4].address = 0;
  expect(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message) == FLASHC_ARGUMENT_MISMATCH, "an address");
  printf("%s\n", message);
  flashcStringDestroy(message);
  arguments[4].address = (uintptr_t)lse;
  kExtents[3] = 16;
  expect(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message) == FLASHC_ARGUMENT_MISMATCH, "an extent");
  printf("%s\n", message);
  flashcStringDestroy(message);
  kExtents[3] = kDim;
  /* No memory is large enough for these extents. */
  qExtents[0] = kExtents[0] = (int64_t)1 << 62;
  expect(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message) == FLASHC_ARGUMENT_MISMATCH, "elements");
  printf("%s\n", message);
  flashcStringDestroy(message);
  flashcLoadedKernelDestroy(loaded);
  qExtents[0] = kExtents[0] = kBatch;
  /* Without lse there is one argument less, and fewer bytes are written. */
  attention.omit_lse = true;
  memset(o, 0xff, sizeof(o));
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message, "compile");
  expectOK(flashcKernelGetCost(kernel, arguments, 4, &less, &message), &message, "flashcKernelGetCost");
  expect(cost.bytes_written - less.bytes_written == (int64_t)sizeof(lse), "what lse takes");
  expectOK(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message), &message, "load");
  expect(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, NULL) == FLASHC_ARGUMENT_MISMATCH, "too many");
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 4, NULL, &message), &message, "launch");
  expectMeans(o);
  flashcKernelDestroy(kernel);
  flashcLoadedKernelDestroy(loaded);
  printf("o is right\n");
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
  char *name = NULL;
  expect(flashcGetDeviceName(0, &name, &message) == status && (status == FLASHC_OK) == (name != NULL),
         "the name of a GPU where a kernel loads");
  flashcStringDestroy(name);
  flashcStringDestroy(message);
  expect(flashcGetDeviceName(0, NULL, NULL) == FLASHC_INVALID_ARGUMENT, "no name without a place for it");
  flashcLoadedKernelDestroy(loaded);
  flashcKernelDestroy(kernel);
}

/* Prints how long a compilation takes: the median of some compilations. */
static int compareTimes(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

static void measure(FlashcContext context) {
  enum { kRuns = 11 };
  double times[kRuns];
  for (int i = 0; i < kRuns; ++i) {
    FlashcAttention attention = causal;
    FlashcKernel kernel;
    struct timespec start, end;
    char *message;
    attention.scale *= (float)(i + 1); /* another kernel each time */
    clock_gettime(CLOCK_MONOTONIC, &start);
    expectOK(flashcCompileAttention(context, &attention, NULL, &kernel, &message), &message, "compile");
    clock_gettime(CLOCK_MONOTONIC, &end);
    flashcKernelDestroy(kernel);
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
  } tests[] = {
      {"text", testText}, {"omit", testOmit},           {"built", testBuilt},       {"table", testTable},
      {"sums", testSums}, {"errors", testErrors},       {"cache", testCache},       {"threads", testThreads},
      {"load", testLoad}, {"levels", testLevels},       {"function", testFunction}, {"cpu", testCPU},
      {"time", measure},  {"gradients", testGradients}, {"vectors", testVectors},   {"captured", testCaptured}};
  FlashcContextOptions options = {.disable_disk_cache = argc < 3, .cache_directory = argc < 3 ? NULL : argv[2]};
  FlashcContext context = flashcContextCreate(&options);
  size_t count = sizeof(tests) / sizeof(tests[0]), found = count;
  for (size_t i = 0; i < count; ++i)
    if (argc >= 2 && strcmp(argv[1], tests[i].name) == 0)
      found = i;
  expect(found < count, "the name of a test");
  if (strcmp(argv[1], "text") == 0)
    printf("// flashc %s\n", flashcGetVersion());
  tests[found].run(context);
  flashcContextDestroy(context);
  return 0;
}
