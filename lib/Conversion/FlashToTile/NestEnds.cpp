//===- NestEnds.cpp - the function of a kernel, and where its nests end -------------------------------------------===//

#include "NestEnds.h"
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
  // For each set of gradients, the last step that computes it.
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
  if (ends.steps.empty()) // the epilogue takes values that are no step's state
    ends.steps.push_back({});
  return ends;
}
