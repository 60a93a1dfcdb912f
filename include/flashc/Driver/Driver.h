//===- Driver.h - the flashc program ------------------------------------------------------------------------------===//
#ifndef FLASHC_DRIVER_DRIVER_H
#define FLASHC_DRIVER_DRIVER_H

namespace flashc {

/// Runs the program `flashc` on a command line. Returns the exit code: 0, or 1 after a diagnostic on standard error. A
/// program that registers its own passes before the call can name them in --passes. May be called several times, and
/// from any thread; concurrent calls wait for each other.
int runDriver(int argc, char **argv);

} // namespace flashc

#endif // FLASHC_DRIVER_DRIVER_H
