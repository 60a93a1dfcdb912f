//===- Passes.h - passes of the flash dialect; described in Passes.td ---------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_TRANSFORMS_PASSES_H
#define FLASHC_DIALECT_FLASH_TRANSFORMS_PASSES_H

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Pass/Pass.h"

namespace mlir::flash {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashc/Dialect/Flash/Transforms/Passes.h.inc"
} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_TRANSFORMS_PASSES_H
