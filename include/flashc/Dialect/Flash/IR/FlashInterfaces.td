//===- FlashInterfaces.td - the interfaces by which passes know the flash ops -------------------------------------===//
#ifndef FLASHC_FLASH_INTERFACES_TD
#define FLASHC_FLASH_INTERFACES_TD

include "mlir/IR/Interfaces.td"

def Flash_ScoresOpInterface : OpInterface<"ScoresOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op that computes `S = score(scale * Q K^T) where mask` from `q [B, Hq, Nq, D]`, `k [B, Hk, Nk, D]` and two
    optional regions, the score and the mask. An op that computes gradients has a third region, the score's derivative.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::Value", "getQ">,
    InterfaceMethod<"", "::mlir::Value", "getK">,
    InterfaceMethod<"", "::llvm::APFloat", "getScale">,
    InterfaceMethod<"", "::std::optional<uint64_t>", "getGroupSize">,
    InterfaceMethod<"", "::mlir::Region &", "getScore">,
    InterfaceMethod<"", "::mlir::Region &", "getMask">,
    InterfaceMethod<"The region for the score's derivative in ops that compute gradients; null for other ops.",
                    "::mlir::Region *", "getDerivativeRegion", (ins), "", "return nullptr;">,
    InterfaceMethod<"The dropout of the op; none if it has no dropout.",
                    "::std::optional<::mlir::flash::Dropout>", "getDropout", (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"The name of the kind of kernel in tables of schedules.",
                    "::llvm::StringRef", "getKernelKind", (ins), "", "return \"forward\";">,
    InterfaceMethod<"The operand v, `[B, Hk, Nk, Dv]`, which P is multiplied with; null if the op has no such product.",
                    "::mlir::Value", "getValues", (ins), "", "return $_op.getV();">,
    InterfaceMethod<"Whether each sum over pairs must have a fixed order, so that equal arguments give equal bits.",
                    "bool", "isDeterministic", (ins), "", "return false;">
  ];
  let extraSharedClassDeclaration = [{
    bool hasScore() { return !$_op.getScore().empty(); }
    bool hasMask() { return !$_op.getMask().empty(); }
    /// Whether the op has a score, and needs its derivative, but has an empty region for the derivative.
    bool lacksDerivative() {
      ::mlir::Region *derivative = $_op.getDerivativeRegion();
      return hasScore() && derivative && derivative->empty();
    }
    ::mlir::ShapedType getQType() { return ::llvm::cast<::mlir::ShapedType>($_op.getQ().getType()); }
    ::mlir::ShapedType getKType() { return ::llvm::cast<::mlir::ShapedType>($_op.getK().getType()); }
    /// The number of query heads per key head: `group_size` if the op has this attribute, otherwise the number of query
    /// heads divided by that of key heads.
    int64_t getGroup() {
      ::std::optional<uint64_t> size = $_op.getGroupSize();
      return size ? *size : getQType().getDimSize(1) / getKType().getDimSize(1);
    }
  }];
}

def Flash_WholeOpInterface : OpInterface<"WholeOpInterface", [Flash_ScoresOpInterface]> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op of L0 with scores. On tensors it has results; on memrefs it has an operand for each output, after the inputs.
    The roles of a launch's arrays, and which extents of the arrays agree, are known by this interface only.
  }];
  let methods = [
    InterfaceMethod<"The inputs, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getInputs">,
    InterfaceMethod<"The outputs, in the order of the results. `number` is the operand that an op on memrefs has.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getOutputs">
  ];
}

def Flash_PlainOpInterface : OpInterface<"PlainOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op of L0 without scores, which one memory-bound kernel of plain loads and stores computes. On tensors it has
    results; on memrefs its outputs are operands.
  }];
  let methods = [
    InterfaceMethod<"The inputs, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getInputs">,
    InterfaceMethod<"The outputs, in the order of the results. `number` is the operand that an op on memrefs has.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getOutputs">,
    InterfaceMethod<"Whether elements of outputs keep their value where the op does not write them.",
                    "bool", "updatesOutputs", (ins), "", "return false;">
  ];
}

def Flash_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    One step of a loop nest at L1. It folds a block of its streamed dimension (keys or queries) into the state of a
    block of the other dimension, which is resident: `flash.online_attention` streams keys past queries. A step may have
    scores (ScoresOpInterface). A step without scores has no regions, and all its tiles are alike.

    The op is a tile of a larger op. It implements AggregatedOpInterface, and TilingInterface over (b, h, i, j) with the
    streamed dimension as a reduction. Its position operands are the position of its first element, and its regions get
    absolute positions. The passes and the conversion to L2 (`convert-flash-to-tile`) use only this interface of a step:
    its tiles, the dimensions that they move with (StepDim), and the state that is carried from step to step.
  }];
  let methods = [
    InterfaceMethod<"The streamed dimension: `J` if tiles of keys are streamed, `I` if tiles of queries are streamed.",
                    "::mlir::flash::StepDim", "getStreamedDim">,
    InterfaceMethod<"The inputs, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getStepInputs">,
    InterfaceMethod<"The state, in the order of the results: the operands that the results replace in the next step.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getStepState">,
    InterfaceMethod<"The operands b0, h0, i0, j0: the position of the tile's first element.",
                    "::mlir::OperandRange", "getPosition">,
    InterfaceMethod<"Query heads per key head.", "int64_t", "getGroup">,
    InterfaceMethod<"Whether flash.finalize computes the results from the state. Otherwise the state is the result.",
                    "bool", "needsFinalize", (ins), "", "return false;">,
    InterfaceMethod<"Whether L1 tiles the step, in loops over the streamed and the resident dimension. Otherwise it "
                    "stays an op on whole sequences.",
                    "bool", "isTiled", (ins), "", "return true;">
  ];
  let extraClassDeclaration = [{
    /// The names of the state, such as "acc, m and l".
    std::string getStateNames();
    /// The step as an op with scores; null if it has none.
    ::mlir::flash::ScoresOpInterface getScores() {
      return ::llvm::dyn_cast<::mlir::flash::ScoresOpInterface>(getOperation());
    }
    bool hasMask() { return getScores() && getScores().hasMask(); }
    /// The mask region of a step with scores.
    ::mlir::Region &getMask() { return getScores().getMask(); }
    bool hasScore() { return getScores() && getScores().hasScore(); }
    /// The first input that has a dimension which moves with `dim` (StepDim), and the number of this dimension.
    ::std::pair<::mlir::Value, unsigned> getMoving(::mlir::flash::StepDim dim);
    /// The number of positions of the tile in dimension B, H, I or J; may be dynamic.
    int64_t getTileExtent(::mlir::flash::StepDim dim);
  }];
  let extraSharedClassDeclaration = [{
    ::mlir::flash::StepDim getResidentDim() {
      return $_op.getStreamedDim() == ::mlir::flash::StepDim::J ? ::mlir::flash::StepDim::I : ::mlir::flash::StepDim::J;
    }
    /// How the loop over the streamed dimension reads the mask: as it is, or with i and j exchanged.
    ::mlir::flash::MaskView getMaskView() {
      return $_op.getStreamedDim() == ::mlir::flash::StepDim::J ? ::mlir::flash::MaskView::Primal
                                                                 : ::mlir::flash::MaskView::Dual;
    }
    /// Whether a part of the state moves with the streamed dimension. Each step then adds to another tile of this part.
    bool addsToStreamed() {
      return ::llvm::any_of($_op.getStepState(), [&](const ::mlir::flash::StepOperand &carried) {
        return carried.movesWith($_op.getStreamedDim());
      });
    }
    /// The position of the tile's first element in dimension B, H, I or J.
    ::mlir::Value getPositionIn(::mlir::flash::StepDim dim) { return $_op.getPosition()[static_cast<unsigned>(dim)]; }
  }];
}

def Flash_EpilogueOpInterface : OpInterface<"EpilogueOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op that takes the state of a step after its loops, and computes the results from it.
  }];
  let methods = [
    InterfaceMethod<"The state, in the order of the step's results.", "::mlir::OperandRange", "getState">,
    InterfaceMethod<"The inputs other than the state.", "::llvm::SmallVector<::mlir::flash::StepOperand>",
                    "getEpilogueInputs">,
    InterfaceMethod<"The results, in their order.", "::llvm::SmallVector<::mlir::flash::StepOperand>",
                    "getEpilogueResults">,
    InterfaceMethod<"Whether there may be a resident position of which the mask has kept no pair.", "bool",
                    "mayHaveEmptyRows">
  ];
}

#endif // FLASHC_FLASH_INTERFACES_TD
