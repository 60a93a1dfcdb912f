//===- NamedShape.cpp - constraints that the verifiers of the flash ops share -------------------------------------===//

#include "NamedShape.h"
#include "mlir/IR/Operation.h"
#include <map>

using namespace mlir;
using namespace mlir::flash;

LogicalResult mlir::flash::verifyBuffers(Operation *op, ArrayRef<NamedShape> values) {
  const NamedShape &first = values.front();
  for (const NamedShape &value : values) {
    if (isa<RankedTensorType>(value.type) != isa<RankedTensorType>(first.type))
      return op->emitOpError() << "expected only tensors or only memrefs, got " << first.name << " of type "
                               << first.type << " and " << value.name << " of type " << value.type << " (C1)";
    auto memref = dyn_cast<MemRefType>(value.type);
    if (memref && memref.getRank() > 0 && memref.getStridesAndOffset().first.back() != 1)
      return op->emitOpError() << "expected " << value.name << " to be contiguous in the innermost dimension, got "
                               << memref << " (C1)";
  }
  return success();
}

LogicalResult mlir::flash::verifyRank(Operation *op, const NamedShape &value) {
  if (value.type.getRank() != int64_t(value.extents.size()))
    return op->emitOpError() << "expected " << value.name << " of rank " << value.extents.size() << ", got "
                             << value.type << " (C2)";
  return success();
}

LogicalResult mlir::flash::verifyElement(Operation *op, const NamedShape &value) {
  if (value.element && value.type.getElementType() != value.element)
    return op->emitOpError() << "expected " << value.name << " of element type " << value.element << ", got "
                             << value.type.getElementType() << " (C3)";
  return success();
}

LogicalResult mlir::flash::verifyExtents(Operation *op, ArrayRef<NamedShape> values,
                                         function_ref<StringRef(StringRef extent)> getConstraint) {
  // Maps the name of an extent to its size, and to the name of a value that has this extent.
  std::map<StringRef, std::pair<StringRef, int64_t>> known;
  for (const NamedShape &value : values)
    for (auto [extent, size] : llvm::zip_equal(value.extents, value.type.getShape())) {
      if (ShapedType::isDynamic(size))
        continue;
      auto &[other, otherSize] = known.try_emplace(extent, value.name, size).first->second;
      if (otherSize != size)
        return op->emitOpError() << "expected " << other << " and " << value.name << " to agree on " << extent
                                 << ", got " << otherSize << " and " << size << " (" << getConstraint(extent) << ")";
    }
  return success();
}

LogicalResult mlir::flash::verifyNumOutputs(Operation *op, size_t numInputs, size_t numOutputs) {
  size_t numResults = op->getNumResults(), numOuts = op->getNumOperands() - numInputs;
  bool isTensor = isa<RankedTensorType>(op->getOperand(0).getType());
  if ((isTensor ? numResults : numOuts) == numOutputs && (isTensor ? numOuts : numResults) == 0)
    return success();
  StringRef number = ArrayRef<StringRef>{"one", "two", "three", "four"}[numOutputs - 1];
  return op->emitOpError() << "expected " << number << " result" << (numOutputs == 1 ? "" : "s") << " on tensors, or "
                           << number << (numOutputs == 1 ? " of" : "") << " 'outs' and no result on memrefs, got "
                           << numResults << " results and " << numOuts << " outs (C10)";
}
