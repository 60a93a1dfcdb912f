//===- FoldProducts.h - a step without scores ---------------------------------------------------------------------===//
#ifndef FLASHC_TEST_LIB_FOLDPRODUCTS_H
#define FLASHC_TEST_LIB_FOLDPRODUCTS_H

#include "mlir/IR/DialectRegistry.h"

namespace flashc::test {

/// A dialect of one op, `test.fold_products`.
void registerTestDialect(mlir::DialectRegistry &registry);

} // namespace flashc::test

#endif // FLASHC_TEST_LIB_FOLDPRODUCTS_H
