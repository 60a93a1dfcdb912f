//===- LaunchNest.cpp - the launch kernels of a nest, and where its results go ------------------------------------===//

#include "KernelBody.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Questions about a nest
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether `slice` comes from flash-tile, so that the whole output is stored. A slice of the user's own program may
/// select a part of the output, or insert the output into a larger array.
static bool isWholeSlice(const LaunchNest &nest, Operation *slice, const NestResult &result) {
  Operation *loop = nest.end->getParentOp();
  if (loop != nest.func)
    return slice->getParentOp() == loop;
  // Without a loop there is one tile. Then the slice of flash-tile only cuts off the padding.
  SmallVector<int64_t> whole(cast<ShapedType>(result.value.getType()).getShape());
  whole[2] = *getConstantIntValue(result.extents[2]);
  return cast<ShapedType>(slice->getResult(0).getType()).getShape() == ArrayRef(whole);
}

Value LaunchNest::getCarried(OpOperand &use, unsigned result) const {
  Operation *user = use.getOwner();
  auto getTied = [](Operation *inParallel, Value dest) -> Value {
    auto forall = cast<scf::ForallOp>(inParallel->getParentOp()->getParentOp());
    return forall.getTiedOpResult(forall.getTiedOpOperand(cast<BlockArgument>(dest)));
  };
  if (auto generic = dyn_cast<linalg::GenericOp>(user); generic && flash::isRounding(generic))
    return generic.getResult(0); // the kernel rounds when it stores
  if (isa<tensor::CastOp>(user) || (isa<tensor::ExtractSliceOp>(user) && isWholeSlice(*this, user, results[result])))
    return user->getResult(0);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(user);
      insert && insert.getSource() == use.get() && isWholeSlice(*this, user, results[result]))
    return insert.getResult();
  if (auto insert = dyn_cast<tensor::ParallelInsertSliceOp>(user); insert && insert.getSource() == use.get())
    return getTied(insert, insert.getDest());
  if (auto add = dyn_cast<flash::ParallelAddSliceOp>(user); add && add.getSource() == use.get())
    return getTied(add, add.getDest());
  return {};
}

SmallVector<OpOperand *> LaunchNest::getUses(unsigned result) const {
  SmallVector<OpOperand *> uses;
  SmallVector<Value> values{results[result].value};
  while (!values.empty())
    for (OpOperand &use : values.pop_back_val().getUses())
      if (Value carried = getCarried(use, result))
        values.push_back(carried);
      else
        uses.push_back(&use);
  return uses;
}

SmallVector<unsigned, 1> LaunchNest::getOutputs(unsigned result) const {
  SmallVector<unsigned, 1> arguments;
  for (const NestOutput &output : outputs)
    if (output.result == result)
      arguments.push_back(output.argument);
  return arguments;
}

std::string LaunchNest::getSuffix(unsigned result) const {
  return isOnly && results.size() == 1 ? "" : ("_" + results[result].info.name).str();
}

FailureOr<SmallVector<Value>> LaunchNest::getDestinations(unsigned result, OpBuilder &b, ScalarCloner &scalars) const {
  SmallVector<Value> destinations;
  for (const std::unique_ptr<LaunchKernel> &kernel : kernels)
    if (destinations.empty())
      destinations = kernel->getDestinations(*this, result, b, scalars);
  if (destinations.empty())
    for (unsigned output : getOutputs(result))
      destinations.push_back(scalars.getSignature().getMemRef(output));
  return llvm::is_contained(destinations, Value()) ? FailureOr<SmallVector<Value>>() : destinations;
}

const AddedSums *LaunchNest::getAddedSums(unsigned result) const {
  for (const std::unique_ptr<LaunchKernel> &kernel : kernels)
    if (const AddedSums *sums = kernel->getAddedSums(result))
      return sums;
  return nullptr;
}

const LaunchKernel *LaunchNest::findKernel(Operation *op) const {
  auto found = llvm::find_if(kernels, [&](const auto &kernel) { return kernel->getOp() == op; });
  return op && found != kernels.end() ? found->get() : nullptr;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Where results go
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<unsigned, 1> flashc::findOutputs(func::FuncOp func, Value value) {
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

/// Whether `op` only makes another value for the memory of its operand, without reading elements.
static bool isView(Operation *op) { return isa<bufferization::ToTensorOp, memref::CastOp, tensor::CastOp>(op); }

/// Emits an error if an op other than `write` reads or writes `array`. A kernel may write to the array while another
/// one still reads, so that a reader of the array might get new elements in place of old ones. Ops that read only the
/// extents of the array are allowed.
static LogicalResult checkDestination(bufferization::MaterializeInDestinationOp write, Value array) {
  for (Operation *user : array.getUsers()) {
    if (user == write || isa<memref::DimOp, tensor::DimOp>(user))
      continue;
    if (isView(user)) {
      if (failed(checkDestination(write, user->getResult(0))))
        return failure();
      continue;
    }
    InFlightDiagnostic diag = write.emitError() << "expected the output to be written to an argument that is used for "
                                                   "nothing else, got one that shares memory with another array";
    diag.attachNote(user->getLoc()) << "'" << user->getName() << "' reads or writes it";
    return failure();
  }
  return success();
}

static LogicalResult addWrite(LaunchNest &nest, bufferization::MaterializeInDestinationOp write, unsigned result) {
  auto dest = dyn_cast<BlockArgument>(write.getDest());
  if (!dest || !isa<func::FuncOp>(dest.getOwner()->getParentOp()))
    return write.emitError() << "expected the output to be written to a function argument";
  nest.outputs.push_back({result, dest.getArgNumber(), getElementTypeOrSelf(dest)});
  return checkDestination(write, dest);
}

/// Follows a result to where it is returned or written. Sets `isWritten` if it reaches an output.
static LogicalResult traceOutput(LaunchNest &nest, Value value, unsigned result, bool &isWritten) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    Value next = nest.getCarried(use, result);
    if (const LaunchKernel *kernel = nest.findKernel(user)) {
      isWritten |= !kernel->getOutputs().empty();
      if (!kernel->getOutputs().empty())
        continue;
      next = user->getResult(use.getOperandNumber());
    }
    if (isa<func::ReturnOp>(user)) {
      unsigned number = nest.func.getNumArguments() + use.getOperandNumber();
      nest.outputs.push_back({result, number, getElementTypeOrSelf(value)});
    } else if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(user)) {
      if (failed(addWrite(nest, write, result)))
        return failure();
    } else if (!next) {
      return user->emitError() << "expected result " << result << " of "
                               << nest.results[result].value.getDefiningOp()->getName()
                               << " to be returned or written to an argument only, got another use";
    } else if (failed(traceOutput(nest, next, result, isWritten))) {
      return failure();
    }
  }
  isWritten |= !nest.outputs.empty();
  return success();
}

/// Whether `op` may be in a function that becomes kernels. The ops in its regions are not checked here, but by calls of
/// their own.
static bool isPartOfAttention(Operation *op) {
  return isa<bufferization::MaterializeInDestinationOp, bufferization::ToTensorOp, tensor::ParallelInsertSliceOp,
             flash::ParallelAddSliceOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>() || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
         isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
}

void flashc::matchKernels(LaunchNest &nest) {
#define LAUNCH_KERNEL(Name) match##Name(nest);
#include "LaunchKernels.def"
}

LogicalResult flashc::matchLaunch(LaunchNest &nest) {
  matchKernels(nest);
  bool isWritten = false;
  for (auto [number, result] : llvm::enumerate(nest.results))
    if (failed(traceOutput(nest, result.value, number, isWritten)))
      return failure();
  if (!isWritten)
    return nest.func.emitError() << "expected the attention's outputs to be returned or written to an argument";
  WalkResult walk = nest.func.getBody().walk([](Operation *op) {
    if (isPartOfAttention(op))
      return WalkResult::advance();
    op->emitError() << "expected a function that computes an attention only, got another side effect";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}
