//===- PTXText.h - several kernels in one text of PTX -------------------------------------------------------------===//
//
// Each kernel is emitted alone. The joined text is the directives of the first module, then what stands behind the
// directives of each.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_PTXTEXT_H
#define FLASHC_SUPPORT_PTXTEXT_H

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace flashc {

/// One module with the kernels of all `modules`, at least one, which begin with the same directives.
std::string joinPTX(llvm::ArrayRef<std::string> modules);

} // namespace flashc

#endif // FLASHC_SUPPORT_PTXTEXT_H
