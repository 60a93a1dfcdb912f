//===- PTXText.cpp - several kernels in one text of PTX -----------------------------------------------------------===//

#include "flashc/Support/PTXText.h"

using namespace flashc;
using namespace llvm;

/// The comment that names a kernel, in front of it.
static constexpr StringLiteral kKernelComment = "\n\t// .globl\t";

/// What stands behind the directives that begin a module (PTX ISA 11.1: .version, .target, .address_size).
static StringRef dropDirectives(StringRef ptx) {
  static constexpr StringLiteral last = ".address_size 64\n";
  size_t at = ptx.find(last);
  return at == StringRef::npos ? ptx : ptx.drop_front(at + last.size());
}

std::string flashc::joinPTX(ArrayRef<std::string> modules) {
  std::string ptx = modules.front();
  for (StringRef text : modules.drop_front())
    ptx += dropDirectives(text);
  return ptx;
}

/// Whether the kernel is all that `part` has to run.
static bool hasOnly(StringRef part, StringRef kernel) {
  return part.count(".entry") == 1 && part.contains((".entry " + kernel + "(").str()) && !part.contains(".func");
}

std::optional<std::vector<PTXKernel>> flashc::splitPTX(StringRef ptx) {
  StringRef rest = dropDirectives(ptx), directives = ptx.drop_back(rest.size());
  if (directives.empty() || !rest.starts_with(kKernelComment))
    return std::nullopt;
  std::vector<PTXKernel> kernels;
  while (!rest.empty()) {
    StringRef part = rest.take_front(rest.find(kKernelComment, 1));
    StringRef name = part.drop_front(kKernelComment.size()).take_until([](char c) { return c == '\n'; });
    if (!hasOnly(part, name))
      return std::nullopt;
    kernels.push_back({name.str(), (directives + part).str()});
    rest = rest.drop_front(part.size());
  }
  return kernels;
}
