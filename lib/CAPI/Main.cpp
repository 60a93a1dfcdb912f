//===- Main.cpp - the flashc program, in the library --------------------------------------------------------------===//

#include "Support.h"
#include "flashc/Driver/Driver.h"

#include <cstdio>

int flashcMain(int argc, char **argv) {
  int result = EXIT_FAILURE;
  char *message = nullptr;
  flashc::capi::guard(&message, [&] {
    result = flashc::runDriver(argc, argv);
    return FLASHC_OK;
  });
  if (message)
    std::fprintf(stderr, "flashc: error: %s\n", message);
  flashcStringDestroy(message);
  return result;
}
