//===- FlashInterfaces.td - what the passes ask of the flash ops --------------------------------------------------===//
#ifndef FLASHC_FLASH_INTERFACES_TD
#define FLASHC_FLASH_INTERFACES_TD

include "mlir/IR/Interfaces.td"

def Flash_ScoresOpInterface : OpInterface<"ScoresOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op that computes `S = score(scale * Q K^T) where mask`: `q [B, Hq, Nq, D]`, `k [B, Hk, Nk, D]`, and the two
    optional regions; one that computes gradients has the score's derivative as a third.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::Value", "getQ">,
    InterfaceMethod<"", "::mlir::Value", "getK">,
    InterfaceMethod<"", "::llvm::APFloat", "getScale">,
    InterfaceMethod<"", "::std::optional<uint64_t>", "getGroupSize">,
    InterfaceMethod<"", "::mlir::Region &", "getScore">,
    InterfaceMethod<"", "::mlir::Region &", "getMask">,
    InterfaceMethod<"The region for the score's derivative, of ops that compute gradients; null for others.",
                    "::mlir::Region *", "getDerivativeRegion", (ins), "", "return nullptr;">,
    InterfaceMethod<"What drops probabilities, if something does.",
                    "::std::optional<::mlir::flash::Dropout>", "getDropout", (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"The kind of kernel that computes it, as a table of schedules names it.",
                    "::llvm::StringRef", "getKernelKind", (ins), "", "return \"forward\";">,
    InterfaceMethod<"The values that P is multiplied with, `[B, Hk, Nk, Dv]`; null where there is no such product.",
                    "::mlir::Value", "getValues", (ins), "", "return $_op.getV();">,
    InterfaceMethod<"Whether each sum over pairs must have one order, so that equal arguments give equal bits.",
                    "bool", "isDeterministic", (ins), "", "return false;">
  ];
  let extraSharedClassDeclaration = [{
    bool hasScore() { return !$_op.getScore().empty(); }
    bool hasMask() { return !$_op.getMask().empty(); }
    /// Whether there is room for the derivative of a score, and nothing in it.
    bool lacksDerivative() {
      ::mlir::Region *derivative = $_op.getDerivativeRegion();
      return hasScore() && derivative && derivative->empty();
    }
    ::mlir::ShapedType getQType() { return ::llvm::cast<::mlir::ShapedType>($_op.getQ().getType()); }
    ::mlir::ShapedType getKType() { return ::llvm::cast<::mlir::ShapedType>($_op.getK().getType()); }
    /// Query heads per key head: what the attribute says, or else the types.
    int64_t getGroup() {
      ::std::optional<uint64_t> size = $_op.getGroupSize();
      return size ? *size : getQType().getDimSize(1) / getKType().getDimSize(1);
    }
  }];
}

def Flash_WholeOpInterface : OpInterface<"WholeOpInterface", [Flash_ScoresOpInterface]> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op of L0: on tensors, with results, or on memrefs, with an operand for each output behind the inputs. What the
    arrays of a launch are to it, and which of their extents agree, is known by this interface only.
  }];
  let methods = [
    InterfaceMethod<"What is read, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getInputs">,
    InterfaceMethod<"What is computed, in the order of the results. The numbers are those of operands, on memrefs.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getOutputs">
  ];
}

def Flash_PlainOpInterface : OpInterface<"PlainOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    An op of L0 without scores, which one kernel of plain loads and stores computes. On tensors it has results; on
    memrefs its outputs are operands.
  }];
  let methods = [
    InterfaceMethod<"What is read, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getInputs">,
    InterfaceMethod<"What is computed, in the order of the results. The numbers are those of operands, on memrefs.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getOutputs">,
    InterfaceMethod<"Whether elements of outputs keep their value where the op does not write them.",
                    "bool", "updatesOutputs", (ins), "", "return false;">
  ];
}

def Flash_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    One step of a loop nest at L1: it folds a block of its streamed dimension (keys or queries) into the state of a
    block of the other one, which is resident. `flash.online_attention` streams keys past queries. A step may have
    scores (ScoresOpInterface); one without scores has no regions, and all its tiles are alike.

    The op is a tile of a larger one. It implements TilingInterface over (b, h, i, j), of which the streamed dimension
    is a reduction, and AggregatedOpInterface. Its position operands say where its first element lies, and its regions
    see absolute positions. Passes and the crossing to L2 know a step by this interface only: which tiles there are,
    what they move with, and what is carried from step to step.
  }];
  let methods = [
    InterfaceMethod<"The dimension that is folded: `J` where keys are streamed, `I` where queries are.",
                    "::mlir::flash::StepDim", "getStreamedDim">,
    InterfaceMethod<"What is read, in the order of the operands.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getStepInputs">,
    InterfaceMethod<"What is carried from step to step, in the order of the results: operands that results replace.",
                    "::llvm::SmallVector<::mlir::flash::StepOperand>", "getStepState">,
    InterfaceMethod<"The operands b0, h0, i0, j0: where the tile's first element lies.",
                    "::mlir::OperandRange", "getPosition">,
    InterfaceMethod<"Query heads per key head.", "int64_t", "getGroup">,
    InterfaceMethod<"Whether flash.finalize makes the results of the state. Otherwise the state is the result.",
                    "bool", "needsFinalize", (ins), "", "return false;">,
    InterfaceMethod<"Whether L1 tiles it, with loops of the streamed dimension past the resident one. Otherwise it "
                    "stays an op on whole sequences.",
                    "bool", "isTiled", (ins), "", "return true;">
  ];
  let extraClassDeclaration = [{
    /// What the state is called: "acc, m and l".
    std::string getStateNames();
    /// The step as an op with scores; null if it has none.
    ::mlir::flash::ScoresOpInterface getScores() {
      return ::llvm::dyn_cast<::mlir::flash::ScoresOpInterface>(getOperation());
    }
    bool hasMask() { return getScores() && getScores().hasMask(); }
    /// The mask region of a step with scores.
    ::mlir::Region &getMask() { return getScores().getMask(); }
    bool hasScore() { return getScores() && getScores().hasScore(); }
    /// The first input that moves with a dimension, and the number of that dimension in it.
    ::std::pair<::mlir::Value, unsigned> getMoving(::mlir::flash::StepDim dim);
    /// How many positions of dimension B, H, I or J the tile has; may be dynamic.
    int64_t getTileExtent(::mlir::flash::StepDim dim);
  }];
  let extraSharedClassDeclaration = [{
    ::mlir::flash::StepDim getResidentDim() {
      return $_op.getStreamedDim() == ::mlir::flash::StepDim::J ? ::mlir::flash::StepDim::I : ::mlir::flash::StepDim::J;
    }
    /// Bounds of the loop over the streamed dimension are those of the mask in this view.
    ::mlir::flash::MaskView getMaskView() {
      return $_op.getStreamedDim() == ::mlir::flash::StepDim::J ? ::mlir::flash::MaskView::Primal
                                                                 : ::mlir::flash::MaskView::Dual;
    }
    /// Whether a part of the state moves with the streamed dimension: each step adds to another tile of it.
    bool addsToStreamed() {
      return ::llvm::any_of($_op.getStepState(), [&](const ::mlir::flash::StepOperand &carried) {
        return carried.movesWith($_op.getStreamedDim());
      });
    }
    /// Where the tile's first element lies in dimension B, H, I or J.
    ::mlir::Value getPositionIn(::mlir::flash::StepDim dim) { return $_op.getPosition()[static_cast<unsigned>(dim)]; }
  }];
}

def Flash_EpilogueOpInterface : OpInterface<"EpilogueOpInterface"> {
  let cppNamespace = "::mlir::flash";
  let description = [{
    What takes the state of a step when its loops have ended, and makes the results of it.
  }];
  let methods = [
    InterfaceMethod<"The state, in the order of the step's results.", "::mlir::OperandRange", "getState">,
    InterfaceMethod<"What is read beside the state.", "::llvm::SmallVector<::mlir::flash::StepOperand>",
                    "getEpilogueInputs">,
    InterfaceMethod<"What each result is.", "::llvm::SmallVector<::mlir::flash::StepOperand>", "getEpilogueResults">,
    InterfaceMethod<"Whether a resident position may have seen no streamed one, for all that is known.", "bool",
                    "mayHaveEmptyRows">
  ];
}

#endif // FLASHC_FLASH_INTERFACES_TD
