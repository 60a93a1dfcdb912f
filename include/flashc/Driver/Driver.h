//===- Driver.h - the flashc program ------------------------------------------------------------------------------===//
#ifndef FLASHC_DRIVER_DRIVER_H
#define FLASHC_DRIVER_DRIVER_H

namespace flashc {

/// Runs the program `flashc` with a command line. Returns the exit code: 0, or 1 after a diagnostic on standard error.
/// If a program registers passes of its own before the call, the command line can name them in --passes. The function
/// may be called several times, and from any thread; concurrent calls wait for each other.
int runDriver(int argc, char **argv);

} // namespace flashc

#endif // FLASHC_DRIVER_DRIVER_H
