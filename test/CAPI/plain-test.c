/*===- plain-test.c - merges and appends from C -------------------------------------------------------------------===*\
|* plain-test <name of a test>. plain.test says what each test prints or checks.
\*===--------------------------------------------------------------------------------------------------------------===*/

#include "flashc-c/flashc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const FlashcMergeStates merge = {.parts_dtype = FLASHC_F32, .dtype = FLASHC_F32, .value_dim = 2, .sinks = true};
static const FlashcAppendKV append = {.dtype = FLASHC_F32,
                                      .head_dim = 2,
                                      .value_dim = 1,
                                      .paged = true,
                                      .counts = true,
                                      .rotary_dim = 2,
                                      .rotary_dtype = FLASHC_F32,
                                      .interleaved = true};

static void expect(int condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "expected %s\n", what);
  exit(1);
}

/* `message` is passed by address, since the call that sets it is an argument too, and arguments are evaluated in any
 * order. */
static void expectOK(FlashcStatus status, char **message, const char *what) {
  if (status == FLASHC_OK && !*message)
    return;
  fprintf(stderr, "%s: status %d: %s\n", what, (int)status, *message ? *message : "no message");
  exit(1);
}

/* Prints the text of a merge, and then the text of an append. */
static void testText(FlashcContext context) {
  char *text, *message;
  expectOK(flashcMergeStatesGetText(context, &merge, &text, &message), &message, "flashcMergeStatesGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
  expectOK(flashcAppendKVGetText(context, &append, &text, &message), &message, "flashcAppendKVGetText");
  fputs(text, stdout);
  flashcStringDestroy(text);
}

/* Prints the parts of the kernels for a GPU. */
static void testBuilt(FlashcContext context) {
  FlashcAppendKV even = append;
  FlashcKernel kernel;
  char *message;
  expectOK(flashcCompileMergeStates(context, &merge, NULL, &kernel, &message), &message, "flashcCompileMergeStates");
  printf("%s%sschedule '%s'\n%s", flashcKernelGetManifest(kernel), flashcKernelGetPTX(kernel),
         flashcKernelGetSchedule(kernel), flashcKernelGetDecisions(kernel));
  flashcKernelDestroy(kernel);
  even.value_dim = 8;
  expectOK(flashcCompileAppendKV(context, &even, NULL, &kernel, &message), &message, "flashcCompileAppendKV");
  printf("%s%s", flashcKernelGetManifest(kernel), flashcKernelGetPTX(kernel));
  flashcKernelDestroy(kernel);
}

static FlashcLoadedKernel load(FlashcKernel kernel) {
  FlashcLoadedKernel loaded;
  char *message;
  expectOK(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message), &message, "load");
  flashcKernelDestroy(kernel);
  return loaded;
}

/* Merges two parts of equal weight and an empty part, with a sink that has the weight of both parts together. */
static void runMerge(FlashcContext context) {
  float o[3][2] = {{2, 4}, {NAN, NAN}, {6, 8}}, lse[3] = {1, -INFINITY, 1}, sink = 1 + logf(2), out[2], whole;
  int64_t extents[] = {3, 1, 1, 1, 2}, strides[] = {2, 2, 2, 2, 1}, ones[] = {1, 1, 1, 1};
  FlashcArgument arguments[] = {{(uintptr_t)o, 5, extents, strides, 0},
                                {(uintptr_t)lse, 4, extents, ones, 0},
                                {(uintptr_t)&sink, 1, ones, ones, 0},
                                {(uintptr_t)out, 4, extents + 1, strides + 1, 0},
                                {(uintptr_t)&whole, 3, ones, ones, 0}};
  FlashcCompileOptions options = {.target = "cpu"};
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  char *message;
  expectOK(flashcCompileMergeStates(context, &merge, &options, &kernel, &message), &message, "compile");
  loaded = load(kernel);
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message), &message, "launch");
  expect(fabsf(out[0] - 2) < 1e-5f && fabsf(out[1] - 3) < 1e-5f, "half of (4, 6)");
  expect(fabsf(whole - 1 - logf(4)) < 1e-5f, "the log-sum-exp of four parts");
  flashcLoadedKernelDestroy(loaded);
}

/* Appends the first two of three tokens, on both sides of the end of a page. Keys at odd positions are rotated by a
 * right angle. */
static void runAppend(FlashcContext context) {
  float k[3][2] = {{1, 2}, {3, 4}, {5, 6}}, v[3] = {7, 8, 9}, cosines[4] = {1, 0, 1, 0}, sines[4] = {0, 1, 0, 1};
  float kCache[2][2][2] = {{{0}}}, vCache[2][2] = {{0}};
  int32_t position = 1, count = 2, table[2] = {1, 0};
  int64_t news[] = {1, 3, 1, 2}, values[] = {1, 3, 1, 1}, caches[] = {2, 2, 1, 2}, valueCaches[] = {2, 2, 1, 1};
  int64_t strides[] = {6, 2, 2, 1}, valueStrides[] = {3, 1, 1, 1}, cacheStrides[] = {4, 2, 2, 1},
          valueCacheStrides[] = {2, 1, 1, 1}, one[] = {1}, slots[] = {1, 2}, slotStrides[] = {2, 1}, angles[] = {4, 1},
          angleStrides[] = {1, 1};
  FlashcArgument arguments[] = {{(uintptr_t)k, 4, news, strides, 0},
                                {(uintptr_t)v, 4, values, valueStrides, 0},
                                {(uintptr_t)&position, 1, one, one, 0},
                                {(uintptr_t)&count, 1, one, one, 0},
                                {(uintptr_t)table, 2, slots, slotStrides, 0},
                                {(uintptr_t)cosines, 2, angles, angleStrides, 0},
                                {(uintptr_t)sines, 2, angles, angleStrides, 0},
                                {(uintptr_t)kCache, 4, caches, cacheStrides, 0},
                                {(uintptr_t)vCache, 4, valueCaches, valueCacheStrides, 0}};
  FlashcCompileOptions options = {.target = "cpu"};
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  char *message;
  expectOK(flashcCompileAppendKV(context, &append, &options, &kernel, &message), &message, "compile");
  loaded = load(kernel);
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 9, NULL, &message), &message, "launch");
  expect(kCache[1][1][0] == -2 && kCache[1][1][1] == 1 && vCache[1][1] == 7, "token 0, turned, at the end of page 1");
  expect(kCache[0][0][0] == 3 && kCache[0][0][1] == 4 && vCache[0][0] == 8, "token 1 at the begin of page 0");
  expect(kCache[0][1][0] == 0 && vCache[0][1] == 0 && kCache[1][0][0] == 0 && vCache[1][0] == 0, "no other token");
  flashcLoadedKernelDestroy(loaded);
}

static void testCPU(FlashcContext context) {
  runMerge(context);
  runAppend(context);
  printf("both are right\n");
}

static void report(const char *name, FlashcStatus status, char *message) {
  printf("%s: %d: %s\n", name, (int)status, message);
  flashcStringDestroy(message);
}

static void testErrors(FlashcContext context) {
  FlashcMergeStates other = merge;
  FlashcAppendKV cache = append;
  FlashcCompileOptions options = {.schedule = "kv-tile=64"};
  FlashcKernel kernel;
  char *text, *message;
  FlashcStatus status;
  other.value_dim = 0;
  status = flashcCompileMergeStates(context, &other, NULL, &kernel, &message);
  report("value_dim", status, message);
  other = merge;
  other.parts_dtype = FLASHC_I8;
  status = flashcMergeStatesGetText(context, &other, &text, &message);
  report("parts_dtype", status, message);
  status = flashcCompileMergeStates(context, &merge, &options, &kernel, &message);
  report("schedule", status, message);
  cache.rotary_dim = 3;
  status = flashcCompileAppendKV(context, &cache, NULL, &kernel, &message);
  report("rotary_dim", status, message);
  cache.rotary_dim = 4;
  status = flashcAppendKVGetText(context, &cache, &text, &message);
  report("rotated", status, message);
  cache = append;
  cache.rotary_dtype = FLASHC_F64;
  status = flashcCompileAppendKV(context, &cache, NULL, &kernel, &message);
  report("rotary_dtype", status, message);
  status = flashcCompileAppendKV(context, &append, NULL, &kernel,
                                 &message); /* a value of one column cannot be interleaved */
  report("interleaved", status, message);
  status = flashcCompileAppendKV(context, NULL, NULL, &kernel, &message);
  report("null", status, message);
  expect(!kernel.ptr, "no kernel after an error");
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(FlashcContext);
  } tests[] = {{"text", testText}, {"built", testBuilt}, {"cpu", testCPU}, {"errors", testErrors}};
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  for (size_t i = 0; argc > 1 && i < sizeof(tests) / sizeof(tests[0]); ++i)
    if (strcmp(argv[1], tests[i].name) == 0) {
      tests[i].run(context);
      flashcContextDestroy(context);
      return 0;
    }
  fprintf(stderr, "expected the name of a test\n");
  return 1;
}
