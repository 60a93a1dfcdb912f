//===- FoldProducts.h - a step without scores ---------------------------------------------------------------------===//
#ifndef FLASHC_TEST_LIB_FOLDPRODUCTS_H
#define FLASHC_TEST_LIB_FOLDPRODUCTS_H

#include "mlir/IR/DialectRegistry.h"

namespace flashc::test {

/// Registers a dialect with one op, `test.fold_products`.
void registerTestDialect(mlir::DialectRegistry &registry);

} // namespace flashc::test

#endif // FLASHC_TEST_LIB_FOLDPRODUCTS_H
