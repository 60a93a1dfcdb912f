//===- flashc.cpp - the compiler ----------------------------------------------------------------------------------===//

#include "flashc/Driver/Driver.h"

int main(int argc, char **argv) { return flashc::runDriver(argc, argv); }
