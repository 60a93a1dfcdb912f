//===- PTXText.h - several kernels in one text of PTX -------------------------------------------------------------===//
//
// Each kernel is emitted as a module of its own. The joined text has the directives of the first module, and then the
// text of each module without its directives.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_PTXTEXT_H
#define FLASHC_SUPPORT_PTXTEXT_H

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace flashc {

/// Joins `modules`, at least one, into one module. All must begin with the same directives.
std::string joinPTX(llvm::ArrayRef<std::string> modules);

} // namespace flashc

#endif // FLASHC_SUPPORT_PTXTEXT_H
