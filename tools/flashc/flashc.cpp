//===- flashc.cpp - the compiler ----------------------------------------------------------------------------------===//

#include "flashc-c/flashc.h"

int main(int argc, char **argv) { return flashcMain(argc, argv); }
