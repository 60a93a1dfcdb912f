//===- TileStepInterface.td - the tile code of a step -------------------------------------------------------------===//
#ifndef FLASHC_TILE_STEP_INTERFACE_TD
#define FLASHC_TILE_STEP_INTERFACE_TD

include "mlir/IR/Interfaces.td"

def TileStepOpInterface : OpInterface<"TileStepOpInterface"> {
  let cppNamespace = "::flashc";
  let description = [{
    The crossing of a step (StepOpInterface) to L2. The ops of the flash dialect have external models of it, which
    TileStep.cpp attaches; a step of another dialect brings its own.
  }];
  let methods = [
    InterfaceMethod<"The algebra of the step on tiles, in a frame for its nest.",
                    "::std::unique_ptr<::flashc::TileStep>", "makeTileStep", (ins "::flashc::KernelFrame &":$frame)>,
    InterfaceMethod<"What the choice of a schedule goes by.",
                    "::flashc::StepShape", "getStepShape", (ins "const ::flashc::LoopNest &":$nest)>
  ];
}

#endif // FLASHC_TILE_STEP_INTERFACE_TD
