//===- NestEnds.cpp - the function of a kernel, and where its nests end -------------------------------------------===//

#include "NestEnds.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

static bool isInPtxName(char c) { return llvm::isAlnum(c) || c == '_' || c == '$'; }

FailureOr<func::FuncOp> flashc::matchFunction(ModuleOp module) {
  func::FuncOp found;
  for (Operation &op : *module.getBody()) {
    auto func = dyn_cast<func::FuncOp>(op);
    if (!func || func.isExternal())
      return op.emitError() << "expected the module to hold one function with a body, got another op";
    if (found) {
      InFlightDiagnostic error = func.emitError() << "expected the module to hold one function, got a second one";
      error.attachNote(found.getLoc()) << "the first one";
      return failure();
    }
    found = func;
  }
  if (!found)
    return module.emitError() << "expected the module to hold one function with a body, got none";
  StringRef name = found.getName();
  if (name.empty() || llvm::isDigit(name[0]) || !llvm::all_of(name, isInPtxName))
    return found.emitError() << "expected a name of letters, digits, '_' and '$', as PTX has them, got '" << name
                             << "'";
  for (Type type : llvm::concat<const Type>(found.getArgumentTypes(), found.getResultTypes()))
    if (!type.isIntOrIndexOrFloat() && !isa<RankedTensorType, MemRefType>(type))
      return found.emitError() << "expected scalars and ranked tensors or memrefs to pass to a kernel, got " << type;
  if (!found.getBody().hasOneBlock())
    return found.emitError() << "expected a function of one block";
  return found;
}

FailureOr<NestEnds> flashc::findNestEnds(func::FuncOp func) {
  NestEnds ends;
  flash::EpilogueOpInterface &epilogue = ends.epilogue;
  // By the gradients that they compute.
  llvm::MapVector<std::pair<Attribute, Attribute>, flash::StepOpInterface> lastSteps;
  WalkResult result = func.walk([&](Operation *op) {
    if (isa<flash::ScoresOpInterface>(op) && !isa<flash::StepOpInterface>(op)) {
      op->emitError() << "expected the tiled loops of the algorithm fa2, got " << op->getName();
      return WalkResult::interrupt();
    }
    if (auto step = dyn_cast<flash::StepOpInterface>(op)) {
      auto gradients = dyn_cast<flash::AccumulateGradientsOp>(op);
      lastSteps[gradients ? std::pair<Attribute, Attribute>(gradients.getGradientsAttr(), gradients.getNumberAttr())
                          : std::pair<Attribute, Attribute>()] = step;
    }
    auto other = dyn_cast<flash::EpilogueOpInterface>(op);
    if (other && epilogue) {
      InFlightDiagnostic error = other.emitError() << "expected one attention per module, got a second one";
      error.attachNote(epilogue.getLoc()) << "the first one";
      return WalkResult::interrupt();
    }
    if (other)
      epilogue = other;
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (lastSteps.empty() && !epilogue)
    return func.emitError() << "expected an attention in the tiled loops of the algorithm fa2, got none";
  for (auto &[gradients, step] : lastSteps)
    ends.steps.push_back(step);
  if (ends.steps.empty()) // what the epilogue takes is no state of a step
    ends.steps.push_back({});
  return ends;
}

/// The arguments of a launch that a value of a function is written to, or results that it is.
static SmallVector<unsigned, 1> findOutputs(func::FuncOp func, Value value) {
  SmallVector<unsigned, 1> outputs;
  SmallVector<Value> values{value};
  while (!values.empty())
    for (OpOperand &use : values.pop_back_val().getUses()) {
      if (isa<func::ReturnOp>(use.getOwner()))
        outputs.push_back(func.getNumArguments() + use.getOperandNumber());
      else if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(use.getOwner()))
        outputs.push_back(cast<BlockArgument>(write.getDest()).getArgNumber());
      else if (auto cast = dyn_cast<tensor::CastOp>(use.getOwner()))
        values.push_back(cast);
    }
  return outputs;
}

/// What adds to the result of `op`.
static flash::ScatterSumOp getNext(flash::ScatterSumOp op) {
  for (OpOperand &use : op.getResult().getUses())
    if (auto next = dyn_cast<flash::ScatterSumOp>(use.getOwner()); next && use.get() == next.getInit())
      return next;
  return {};
}

unsigned flashc::countScattered(func::FuncOp func) {
  unsigned count = 0;
  func.walk([&](flash::ScatterSumOp op) { count += findOutputs(func, op.getResult()).size(); });
  return count;
}

void flashc::completeScatter(func::FuncOp func, ScatterSums &sums) {
  sums.isFirst = !sums.op.getInit().getDefiningOp<flash::ScatterSumOp>();
  flash::ScatterSumOp last = sums.op;
  while (flash::ScatterSumOp next = getNext(last))
    last = next;
  sums.outputs = findOutputs(func, last.getResult());
}

std::optional<SinkSums> flashc::findSinkSums(func::FuncOp func) {
  std::optional<SinkSums> found;
  func.walk([&](linalg::GenericOp op) {
    std::optional<flash::SinkGradients> sums = flash::matchSinkGradients(op.getResult(0));
    if (!sums)
      return;
    found = SinkSums{op, *sums, findOutputs(func, op.getResult(0))};
  });
  return found;
}
