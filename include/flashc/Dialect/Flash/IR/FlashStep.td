//===- FlashStep.td - the declarations that all steps of L1 share -------------------------------------------------===//
//
// Every op that is a step (StepOpInterface) has these traits and implements tiling by these functions. The op may be of
// another dialect.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_STEP_TD
#define FLASHC_FLASH_STEP_TD

include "mlir/Dialect/Linalg/IR/LinalgInterfaces.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/TilingInterface.td"
include "flashc/Dialect/Flash/IR/FlashInterfaces.td"

class Flash_StepParts {
  list<Trait> traits = [
    DestinationStyleOpInterface, Flash_StepOpInterface,
    DeclareOpInterfaceMethods<AggregatedOpInterface, ["decomposeOperation"]>,
    DeclareOpInterfaceMethods<TilingInterface, [
      "getIterationDomain", "getLoopIteratorTypes", "getTiledImplementation", "getResultTilePosition"]>];
  string positionFormat = "`at` `(` $b0 `,` $h0 `,` $i0 `,` $j0 `)` ";
  code definition = [{
    ::mlir::SmallVector<::mlir::Range> $cppClass::getIterationDomain(::mlir::OpBuilder &b) {
      return ::mlir::flash::getStepDomain(b, *this);
    }
    ::mlir::SmallVector<::mlir::utils::IteratorType> $cppClass::getLoopIteratorTypes() {
      return ::mlir::flash::getStepIterators(*this);
    }
    ::mlir::FailureOr<::mlir::TilingResult> $cppClass::getTiledImplementation(
        ::mlir::OpBuilder &b, ::mlir::ArrayRef<::mlir::OpFoldResult> offsets,
        ::mlir::ArrayRef<::mlir::OpFoldResult> sizes) {
      return ::mlir::flash::emitStepTile(b, *this, offsets, sizes);
    }
    ::mlir::LogicalResult $cppClass::getResultTilePosition(
        ::mlir::OpBuilder &b, unsigned number, ::mlir::ArrayRef<::mlir::OpFoldResult> offsets,
        ::mlir::ArrayRef<::mlir::OpFoldResult> sizes, ::mlir::SmallVector<::mlir::OpFoldResult> &resultOffsets,
        ::mlir::SmallVector<::mlir::OpFoldResult> &resultSizes) {
      ::mlir::flash::getStatePosition(b, *this, number, offsets, sizes, resultOffsets, resultSizes);
      return ::mlir::success();
    }
  }];
}
def Flash_Step : Flash_StepParts;

#endif // FLASHC_FLASH_STEP_TD
