//===- FlashDialect.cpp - registration of the flash dialect -------------------------------------------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "flashc/Dialect/Flash/IR/FlashIndex.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::flash;

#include "flashc/Dialect/Flash/IR/FlashOpsDialect.cpp.inc"
#include "flashc/Dialect/Flash/IR/FlashOpsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Flash/IR/FlashOpsAttrs.cpp.inc"

void FlashDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "flashc/Dialect/Flash/IR/FlashOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "flashc/Dialect/Flash/IR/FlashIndexOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "flashc/Dialect/Flash/IR/FlashOpsAttrs.cpp.inc"
      >();
}
