//===- Place.h - where an op comes from, in words -----------------------------------------------------------------===//
#ifndef FLASHC_SUPPORT_PLACE_H
#define FLASHC_SUPPORT_PLACE_H

#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace flashc {

/// Returns `file:line:column: `, without the column where it is 0. Empty if `location` names no file.
inline std::string describePlace(mlir::Location location) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto place = location->findInstanceOf<mlir::FileLineColLoc>(); place && place.getLine() > 0) {
    os << place.getFilename().getValue() << ":" << place.getLine() << ":";
    if (place.getColumn() > 0)
      os << place.getColumn() << ":";
    os << " ";
  }
  return text;
}

} // namespace flashc

#endif // FLASHC_SUPPORT_PLACE_H
