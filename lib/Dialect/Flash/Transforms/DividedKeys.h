//===- DividedKeys.h - quotients of the key's position by captured values, as bounds on the key -------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Whether a mask divides by what is no constant.
bool dividesByCaptured(Region &mask);

/// Makes bounds on the key of comparisons of its quotient: for d > 0, `(j + c) floordiv d >= r` is `j >= r * d - c`,
/// and `<= r` is `j < (r + 1) * d - c`; for d < 0 the other way around. `r` is the same for all queries, or the
/// quotient of the query by the same d: what it is times d ascends with the query, whatever the sign of d. In the same
/// way bounds on the query, of comparisons of its quotient with what is the same for all pairs.
void boundDividedKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
