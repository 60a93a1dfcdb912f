/*===- explain-test.c - explanations through the C API ------------------------------------------------------------===*\
|* explain.test says what this program prints.
\*===--------------------------------------------------------------------------------------------------------------===*/

#include "flashc-c/flashc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatch = 2, kHeads = 1, kQueries = 64, kKeys = 192, kDim = 8 };

static void expect(int condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "expected %s\n", what);
  exit(1);
}

/* The keys of a batch end at the length of the batch. */
static const int64_t lengthExtents[] = {FLASHC_ANY};
static const FlashcCapture lengths = {.name = "lengths", .dtype = FLASHC_I32, .rank = 1, .extents = lengthExtents};
static const FlashcAttention padded = {.dtype = FLASHC_F32,
                                       .head_dim = kDim,
                                       .value_dim = kDim,
                                       .group_size = 1,
                                       .scale = 1,
                                       .mask_code = "%0 = tensor.extract %lengths[%b] : tensor<?xi32>\n"
                                                    "%1 = arith.index_cast %0 : i32 to index\n"
                                                    "%2 = arith.cmpi slt, %j, %1 : index\n"
                                                    "flash.yield %2 : i1",
                                       .captures = &lengths,
                                       .num_captures = 1,
                                       .key_heads = kHeads,
                                       .omit_lse = true};

/* The extents of q, k, v, lengths and o. The mask reads elements of lengths only. */
static int64_t queries[] = {kBatch, kHeads, kQueries, kDim}, keys[] = {kBatch, kHeads, kKeys, kDim}, batch[] = {kBatch};
static const int64_t strides[] = {0, 0, kDim, 1}, one[] = {1};
static FlashcArgument arguments[] = {{.rank = 4, .extents = queries, .strides = strides},
                                     {.rank = 4, .extents = keys, .strides = strides},
                                     {.rank = 4, .extents = keys, .strides = strides},
                                     {.rank = 1, .extents = batch, .strides = one},
                                     {.rank = 4, .extents = queries, .strides = strides}};

static void fail(FlashcContext context, const char *what, const char *text, const FlashcCompileOptions *options,
                 size_t count, FlashcStatus want) {
  FlashcExplanation explanation = {&explanation};
  char *message = NULL;
  FlashcStatus status =
      flashcExplainText(context, text, strlen(text), options, arguments, count, &explanation, &message);
  expect(status == want && message && !explanation.ptr, what);
  printf("%s: %s\n", what, message);
  flashcStringDestroy(message);
}

static void testMistakes(FlashcContext context, const char *text) {
  FlashcCompileOptions target = {.target = "sm_1"}, function = {.function = "g"};
  uint64_t address = arguments[3].address;
  fail(context, "target", text, &target, 5, FLASHC_COMPILE_ERROR);
  fail(context, "function", text, &function, 5, FLASHC_COMPILE_ERROR);
  fail(context, "syntax", "func.func", NULL, 5, FLASHC_COMPILE_ERROR);
  fail(context, "nothing", "module {}", NULL, 5, FLASHC_COMPILE_ERROR);
  fail(context, "count", text, NULL, 4, FLASHC_ARGUMENT_MISMATCH);
  arguments[3].address = 0;
  fail(context, "elements", text, NULL, 5, FLASHC_COMPILE_ERROR);
  arguments[3].address = address;
  keys[2] = 0;
  fail(context, "no keys", text, NULL, 5, FLASHC_COMPILE_ERROR);
  keys[2] = kKeys;
  expect(flashcExplainText(context, text, strlen(text), NULL, NULL, 5, NULL, NULL) == FLASHC_INVALID_ARGUMENT,
         "a place for the explanation");
  expect(flashcExplainAttention(context, NULL, NULL, arguments, 5, NULL, NULL) == FLASHC_INVALID_ARGUMENT,
         "an attention");
}

static void testExplanation(FlashcExplanation explanation) {
  fputs(flashcExplanationGetText(explanation), stdout);
  printf("%s\n", flashcExplanationGetJSON(explanation));
  for (int64_t b = 0; b < kBatch; ++b) {
    const uint8_t *tiles = flashcExplanationGetTiles(explanation, b, 0);
    printf("batch %d: %d %d %d\n", (int)b, tiles[0], tiles[1], tiles[2]);
  }
  expect(!flashcExplanationGetTiles(explanation, kBatch, 0) && !flashcExplanationGetTiles(explanation, 0, -1),
         "no tiles of heads that do not exist");
}

int main(void) {
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  FlashcExplanation explanation, null = {NULL};
  int32_t data[kBatch] = {70, 128};
  char *text, *message = NULL;
  arguments[3].address = (uintptr_t)data;
  expect(flashcAttentionGetText(context, &padded, &text, NULL) == FLASHC_OK, "a text");
  testMistakes(context, text);
  if (flashcExplainText(context, text, strlen(text), NULL, arguments, 5, &explanation, &message) != FLASHC_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  flashcStringDestroy(text);
  FlashcExplanation same;
  expect(flashcExplainAttention(context, &padded, NULL, arguments, 5, &same, NULL) == FLASHC_OK &&
             strcmp(flashcExplanationGetJSON(same), flashcExplanationGetJSON(explanation)) == 0,
         "the same explanation of the description");
  flashcExplanationDestroy(same);
  flashcContextDestroy(context);
  testExplanation(explanation);
  flashcExplanationDestroy(explanation);
  flashcExplanationDestroy(null);
  expect(!flashcExplanationGetText(null) && !flashcExplanationGetJSON(null) && !flashcExplanationGetTiles(null, 0, 0),
         "nothing about a null explanation");
  return 0;
}
