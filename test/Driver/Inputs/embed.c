/* The smallest program that embeds flashc. */
#include <flashc-c/flashc.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  FlashcAttention attention = {
      .dtype = FLASHC_F16, .head_dim = 64, .value_dim = 64, .group_size = 1, .scale = 0.125f, .key_heads = 4};
  FlashcContextOptions options = {.disable_disk_cache = true};
  FlashcContext context = flashcContextCreate(&options);
  FlashcKernel kernel;
  char *message;
  if (flashcCompileAttention(context, &attention, NULL, &kernel, &message) != FLASHC_OK) {
    fprintf(stderr, "%s\n", message);
    flashcStringDestroy(message);
    return 1;
  }
  const char *entry = strstr(flashcKernelGetPTX(kernel), ".visible .entry");
  printf("compiled by flashc %s for %.8s: %.26s\n", flashcGetVersion(),
         strstr(flashcKernelGetManifest(kernel), "\"sm_"), entry ? entry : "no kernel");
  flashcKernelDestroy(kernel);
  flashcContextDestroy(context);
  return 0;
}
