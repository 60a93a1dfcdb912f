/*===- embed_c.c - flashc in a C program --------------------------------------------------------------------------===*\
|*
|* Compiles causal attention from plain values for a GPU, and runs it on the CPU.
|*
\*===--------------------------------------------------------------------------------------------------------------===*/

#include <flashc-c/flashc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the text up to the first character that is in `end`, without line breaks and indentation. */
static void print(const char *name, const char *text, const char *end) {
  size_t length = text ? strcspn(text, end) : 0;
  printf("%s: ", name);
  for (size_t index = 0; index < length; ++index)
    if (text[index] != '\n' && (index == 0 || text[index] != ' ' || text[index - 1] != ' '))
      putchar(text[index]);
  putchar('\n');
}

/* Ends the program with the library's message unless the call succeeded. `message` is passed by address, since the call
 * that sets it is an argument too, and arguments are evaluated in any order. */
static void expectOK(FlashcStatus status, char **message) {
  if (status == FLASHC_OK)
    return;
  fprintf(stderr, "flashc: status %d: %s\n", (int)status, *message);
  exit(1);
}

/* Compiles for a GPU and shows what a launch needs. */
static void compileForGPU(FlashcContext context, const FlashcAttention *attention) {
  FlashcKernel kernel;
  char *message;
  expectOK(flashcCompileAttention(context, attention, NULL, &kernel, &message), &message);
  print("PTX", strstr(flashcKernelGetPTX(kernel), ".version"), "\n");
  print("schedule", flashcKernelGetSchedule(kernel), "\n");
  /* The manifest is JSON, which a real program would parse; docs/manifest.md describes it. */
  print("manifest", strstr(flashcKernelGetManifest(kernel), "\"grid\""), "]");
  flashcKernelDestroy(kernel);
}

enum { kRows = 3, kDim = 8 };

/* Runs the same attention on this machine's processor, in f32, on three queries and keys of one head. A program makes
 * the same calls for a GPU, but passes the number of a device, addresses in the memory of the GPU, and a stream. */
static void runOnCPU(FlashcContext context, FlashcAttention attention) {
  float q[kRows][kDim] = {{0}}, k[kRows][kDim] = {{0}}, v[kRows][kDim], o[kRows][kDim], lse[kRows];
  const int64_t extents[] = {1, 1, kRows, kDim}, strides[] = {kRows * kDim, kRows * kDim, kDim, 1};
  const int64_t lseStrides[] = {kRows, kRows, 1};
  const FlashcArgument arguments[] = {{(uint64_t)(uintptr_t)q, 4, extents, strides, 0},
                                      {(uint64_t)(uintptr_t)k, 4, extents, strides, 0},
                                      {(uint64_t)(uintptr_t)v, 4, extents, strides, 0},
                                      {(uint64_t)(uintptr_t)o, 4, extents, strides, 0},
                                      {(uint64_t)(uintptr_t)lse, 3, extents, lseStrides, 0}};
  const FlashcCompileOptions options = {.target = "cpu"};
  FlashcKernel kernel;
  FlashcLoadedKernel loaded;
  char *message;
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kDim; ++column)
      v[row][column] = (float)(row + 1);
  attention.dtype = FLASHC_F32;
  attention.head_dim = attention.value_dim = kDim;
  expectOK(flashcCompileAttention(context, &attention, &options, &kernel, &message), &message);
  expectOK(flashcKernelLoad(kernel, FLASHC_DEVICE_CPU, &loaded, &message), &message);
  expectOK(flashcLoadedKernelLaunch(loaded, arguments, 5, NULL, &message), &message);
  /* All scores are 0, so row i of the output is the mean of rows 0 to i of the values. */
  for (int row = 0; row < kRows; ++row)
    printf("row %d: o %.3f, lse %.3f\n", row, o[row][0], lse[row]);
  flashcLoadedKernelDestroy(loaded);
  flashcKernelDestroy(kernel);
}

int main(void) {
  const FlashcAttention attention = {.dtype = FLASHC_BF16,
                                     .mask = FLASHC_MASK_CAUSAL,
                                     .head_dim = 128,
                                     .value_dim = 128,
                                     .group_size = 1,
                                     .scale = 0.0883883476f};
  FlashcContext context = flashcContextCreate(NULL);
  printf("flashc %s\n", flashcGetVersion());
  compileForGPU(context, &attention);
  runOnCPU(context, attention);
  flashcContextDestroy(context);
  return 0;
}
