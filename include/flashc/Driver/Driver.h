//===- Driver.h - the flashc program ------------------------------------------------------------------------------===//
#ifndef FLASHC_DRIVER_DRIVER_H
#define FLASHC_DRIVER_DRIVER_H

namespace flashc {

/// The program `flashc`: parses the command line and does what it says. Returns the exit code: 0, or 1 after a
/// diagnostic on standard error. A program that registers passes of its own before the call can name them in --passes.
/// May be called again, and by any thread; calls wait for each other.
int runDriver(int argc, char **argv);

} // namespace flashc

#endif // FLASHC_DRIVER_DRIVER_H
