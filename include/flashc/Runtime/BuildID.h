//===- BuildID.h - which build of flashc this is ------------------------------------------------------------------===//
#ifndef FLASHC_RUNTIME_BUILDID_H
#define FLASHC_RUNTIME_BUILDID_H

#include <string>

namespace flashc {

/// Returns the version and the GNU build ID (a hash of the contents) of the program or library that contains this code.
/// So two compilers that could compile differently have different texts. Empty if the linker wrote no build ID.
const std::string &getBuildID();

} // namespace flashc

#endif // FLASHC_RUNTIME_BUILDID_H
