//===- Main.cpp - the flashc program, in the library --------------------------------------------------------------===//

#include "flashc-c/flashc.h"
#include "flashc/Driver/Driver.h"

int flashcMain(int argc, char **argv) { return flashc::runDriver(argc, argv); }
