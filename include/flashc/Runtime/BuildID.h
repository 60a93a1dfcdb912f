//===- BuildID.h - which build of flashc this is ------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_BUILDID_H
#define FLASHC_RUNTIME_BUILDID_H

#include <string>

namespace flashc {

/// The version, and what the linker noted in the program or library that this code is in (a GNU build ID: a hash of its
/// contents): two compilers that could compile differently do not share one. Empty if the linker noted nothing.
const std::string &getBuildID();

} // namespace flashc

#endif // FLASHC_RUNTIME_BUILDID_H
