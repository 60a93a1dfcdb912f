//===- NestRoles.cpp - the roles of launch arguments in a nest ----------------------------------------------------===//

#include "NestKernel.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

/// Adds the roles of the arguments that are inputs of the epilogue, as a whole or as slices.
static void addRoles(flash::EpilogueOpInterface epilogue, LaunchRoles &result) {
  for (const flash::StepOperand &info : epilogue.getEpilogueInputs()) {
    Value value = epilogue->getOperand(info.number);
    if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>())
      value = slice.getSource();
    if (BlockArgument argument = flash::getRootArgument(value))
      result.roles.push_back({info, {argument.getArgNumber()}, /*isOutput=*/false});
  }
}

/// Adds the role of the argument with the seed and offset of dropout.
static void addDropoutRole(Value philox, LaunchRoles &result) {
  if (BlockArgument argument = flash::getRootArgument(philox))
    result.roles.push_back({{"philox", 0, {flash::StepDim::Whole}},
                            {argument.getArgNumber()},
                            /*isOutput=*/false,
                            /*depth=*/2});
}

LaunchRoles flashc::getRoles(const LoopNest &nest) {
  LaunchRoles result;
  result.groupSize = nest.groupSize;
  auto addKernelRoles = [&](bool areBefore) {
    for (const std::unique_ptr<LaunchKernel> &kernel : nest.kernels)
      if ((kernel->getTime() == LaunchKernel::Time::Before) == areBefore)
        kernel->addRoles(result);
  };
  auto getInfo = [&](const flash::StepOperand &info) { return nest.sequence ? getPacked(info) : info; };
  for (const NestOperand &operand : nest.operands)
    if (flash::CacheTileOp cache = operand.cache)
      addCacheRoles(operand.info.name, cache.getCache(), cache.getLengths(), cache.getTable(), cache.getScales(),
                    result);
    else if (std::optional<unsigned> argument = operand.getArgument())
      result.roles.push_back({isConstantIntValue(operand.batch, 0) ? getInfo(operand.info) : operand.info,
                              {*argument},
                              /*isOutput=*/false,
                              operand.getCols()});
  if (nest.sequence)
    addPackedRole(flash::SegmentTileOp(nest.segmentTile).getSorted(), result);
  addKernelRoles(/*areBefore=*/true);
  if (auto epilogue = dyn_cast_or_null<flash::EpilogueOpInterface>(nest.epilogue))
    addRoles(epilogue, result);
  if (std::optional<flash::Dropout> dropout = nest.getDropout())
    addDropoutRole(dropout->philox, result);
  for (auto [number, output] : llvm::enumerate(nest.results)) {
    int64_t depth = cast<ShapedType>(output.value.getType()).getShape().back();
    result.roles.push_back({getInfo(output.info), nest.getOutputs(number), /*isOutput=*/true, depth});
  }
  addKernelRoles(/*areBefore=*/false);
  return result;
}
