//===- PTXText.cpp - several kernels in one text of PTX -----------------------------------------------------------===//

#include "flashc/Support/PTXText.h"
#include "llvm/ADT/StringRef.h"

using namespace flashc;
using namespace llvm;

/// Returns the text after the directives that begin a module (PTX ISA 11.1: .version, .target, .address_size).
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
