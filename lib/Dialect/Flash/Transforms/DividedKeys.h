//===- DividedKeys.h - quotients of the key's position by captured values, as bounds on the key -------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Whether a mask divides a position by a value that is not constant.
bool dividesByCaptured(Region &mask);

/// Rewrites comparisons of a key's quotient as bounds on the key: for d > 0, `(j + c) floordiv d >= r` is `j >= r * d -
/// c`, and `<= r` is `j < (r + 1) * d - c`; for d < 0 the other way around. `r` is the same for all queries, or the
/// quotient of the query by the same d; r * d then ascends with the query, whatever the sign of d. Comparisons of a
/// query's quotient with a value that is the same for all pairs become bounds on the query in the same way.
void boundDividedKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
