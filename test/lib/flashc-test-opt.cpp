//===- flashc-test-opt.cpp - flashc-opt with the steps of test/lib ------------------------------------------------===//

#include "FoldProducts.h"
#include "flashc/InitAll.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  flashc::registerAllDialects(registry);
  flashc::test::registerTestDialect(registry);
  flashc::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "flashc's test driver\n", registry));
}
