//===- DividedKeys.h - quotients of the key's position by captured values, as bounds on the key -------------------===//
#ifndef FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
#define FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H

#include "flashc/Dialect/Flash/IR/Flash.h"

namespace mlir::flash {

/// Whether a mask divides a position by a value that is not constant.
bool dividesByCaptured(Region &mask);

/// Rewrites comparisons of a key's quotient as bounds on the key. For d > 0, `(j + c) floordiv d >= r` becomes `j >= r
/// * d - c`, and `(j + c) floordiv d <= r` becomes `j < (r + 1) * d - c`. For d < 0 the quotient descends with the key,
/// so `>=` becomes an upper bound and `<=` a lower bound. `r` is the same for all queries, or it is the quotient of the
/// query by the same d. In the second case r * d ascends with the query for either sign of d. In the same way,
/// comparisons of a query's quotient with a value that is the same for all pairs become bounds on the query.
void boundDividedKeys(Region &mask);

} // namespace mlir::flash

#endif // FLASHC_LIB_DIALECT_FLASH_TRANSFORMS_DIVIDEDKEYS_H
