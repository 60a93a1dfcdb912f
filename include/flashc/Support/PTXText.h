//===- PTXText.h - several kernels in one text of PTX -------------------------------------------------------------===//
//
// Who writes PTX joins the kernels, each emitted alone; who loads it takes them apart again. Only here is it known what
// the joined text looks like: the directives of the first module, then what stands behind the directives of each. That
// begins with the comment in which LLVM's back end names the kernel, and holds its one `.entry` and its variables.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_PTXTEXT_H
#define FLASHC_SUPPORT_PTXTEXT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace flashc {

/// A kernel, and a module with it alone.
struct PTXKernel {
  std::string name, text;
};

/// One module with the kernels of all `modules`, at least one, which begin with the same directives.
std::string joinPTX(llvm::ArrayRef<std::string> modules);

/// The inverse: the kernels of a joined text, in order. None if `ptx` is something else: machine code, or PTX whose
/// kernels cannot be told apart or might share functions.
std::optional<std::vector<PTXKernel>> splitPTX(llvm::StringRef ptx);

} // namespace flashc

#endif // FLASHC_SUPPORT_PTXTEXT_H
