//===- flashc-opt.cpp - every pass alone, like mlir-opt -----------------------------------------------------------===//

#include "flashc/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  flashc::registerAllDialects(registry);
  flashc::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "flashc optimizer driver\n", registry));
}
