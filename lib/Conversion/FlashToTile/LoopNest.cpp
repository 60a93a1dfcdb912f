//===- LoopNest.cpp - the nests of a module -----------------------------------------------------------------------===//

#include "LoopNest.h"
#include "NestEnds.h"
#include "PairNest.h"
#include "TiledNest.h"

using namespace mlir;
using namespace flashc;

const NestOperand &LoopNest::getOperand(StringRef name) const {
  return *llvm::find_if(operands, [&](const NestOperand &operand) { return operand.info.name == name; });
}

const NestOperand &LoopNest::getOperand(flash::StepDim dim) const {
  return *llvm::find_if(operands, [&](const NestOperand &operand) { return operand.info.movesWith(dim); });
}

bool LoopNest::mayHaveEmptyRows() const {
  auto takesState = dyn_cast_or_null<flash::EpilogueOpInterface>(epilogue);
  return !takesState || takesState.mayHaveEmptyRows();
}

/// Checks that every result of the function is written, either by a nest's kernel or by a launch kernel.
static LogicalResult checkResults(func::FuncOp func, ArrayRef<LoopNest> nests) {
  llvm::SmallDenseSet<unsigned> written;
  for (const LoopNest &nest : nests) {
    for (const NestOutput &output : nest.outputs)
      written.insert(output.argument);
    for (const std::unique_ptr<LaunchKernel> &kernel : nest.kernels)
      written.insert_range(kernel->getOutputs());
  }
  if (llvm::count_if(written, [&](unsigned output) { return output >= func.getNumArguments(); }) ==
      func.getNumResults())
    return success();
  return func.emitError() << "expected every function result to be an output of the attention";
}

FailureOr<SmallVector<LoopNest, 1>> flashc::matchLoopNests(ModuleOp module) {
  FailureOr<func::FuncOp> func = matchFunction(module);
  FailureOr<NestEnds> ends = succeeded(func) ? findNestEnds(*func) : FailureOr<NestEnds>();
  if (failed(ends))
    return failure();
  SmallVector<LoopNest, 1> nests;
  for (flash::StepOpInterface step : ends->steps) {
    bool isWhole = step && !step.isTiled();
    FailureOr<LoopNest> nest = isWhole ? matchPairNest(*func, cast<flash::AccumulateGradientsOp>(step.getOperation()))
                                       : matchTiledNest(*func, step, ends->epilogue);
    if (failed(nest))
      return failure();
    nest->number = nests.size(), nest->isOnly = ends->steps.size() == 1;
    for (const NestOperand &operand : nest->operands)
      if (!operand.getArgument())
        nest->delta = operand.array, nest->lse = nest->getOperand("lse").array;
    if (failed(matchLaunch(*nest)))
      return failure();
    nests.push_back(std::move(*nest));
  }
  if (failed(checkResults(*func, nests)))
    return failure();
  return nests;
}
