//===- SharedMemory.cpp - the memory that an op on memrefs reads and writes ---------------------------------------===//

#include "SharedMemory.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mlir::flash;

//===--------------------------------------------------------------------------------------------------------------===//
// Where memory comes from
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether the result of `op` may refer to the memory of its operand of type `type`. A result may be a view of any
/// memref, or that memref itself; of ops on tensors, only the ones listed here pass their operand's memory on.
static bool passesMemoryOn(Operation *op, Type type) {
  return isa<BaseMemRefType>(type) || isa<bufferization::ToBufferOp, tensor::CastOp, AssumeSortedOp>(op);
}

static void addOperands(Operation *op, llvm::SmallSetVector<Value, 8> &values) {
  for (Value operand : op->getOperands())
    if (passesMemoryOn(op, operand.getType()))
      values.insert(operand);
}

/// Adds the operands of the terminators of a region's blocks.
static void addTerminators(Region &region, llvm::SmallSetVector<Value, 8> &values) {
  for (Block &block : region)
    if (block.mightHaveTerminator())
      addOperands(block.getTerminator(), values);
}

/// `memref` and every value whose memory it may refer to: the buffers of views, and the operands that selects, branches
/// and loops choose from.
static llvm::SmallSetVector<Value, 8> findSources(Value memref) {
  llvm::SmallSetVector<Value, 8> values;
  values.insert(memref);
  for (size_t number = 0; number < values.size(); ++number) { // the set grows on the way
    Value value = values[number];
    if (Operation *op = value.getDefiningOp()) {
      addOperands(op, values);
      for (Region &region : op->getRegions())
        addTerminators(region, values);
      continue;
    }
    Operation *parent = value.getParentBlock()->getParentOp();
    if (!parent || (isa<FunctionOpInterface>(parent) && value.getParentBlock()->isEntryBlock()))
      continue;
    addOperands(parent, values);
    addTerminators(*value.getParentRegion(), values);
  }
  return values;
}

/// The first of `sources` that is also one of `others`; null if there is none. Two memref.get_global of one global are
/// the same source.
static Value findCommonSource(const llvm::SmallSetVector<Value, 8> &sources,
                              const llvm::SmallSetVector<Value, 8> &others) {
  for (Value source : sources) {
    auto global = source.getDefiningOp<memref::GetGlobalOp>();
    auto isSame = [&](Value other) {
      auto otherGlobal = other.getDefiningOp<memref::GetGlobalOp>();
      return source == other || (global && otherGlobal && global.getNameAttr() == otherGlobal.getNameAttr());
    };
    if (llvm::any_of(others, isSame))
      return source;
  }
  return {};
}

//===--------------------------------------------------------------------------------------------------------------===//
// Parts of one buffer
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// The chain of views from an array to its buffer, the array first and the buffer last.
using ViewChain = SmallVector<Value, 4>;

struct ByteRange {
  int64_t begin, end;
};
} // namespace

/// The source of the view that `array` is; null if it is not a view.
static Value getViewed(Value array) {
  if (auto transposed = array.getDefiningOp<memref::TransposeOp>())
    return transposed.getIn();
  auto view = array.getDefiningOp<ViewLikeOpInterface>();
  return view ? view.getViewSource() : Value();
}

/// The chain of views from `array` to `buffer`; none if another op, such as a select, stands between them.
static std::optional<ViewChain> findViews(Value array, Value buffer) {
  ViewChain chain{array};
  while (chain.back() != buffer) {
    Value viewed = getViewed(chain.back());
    if (!viewed)
      return std::nullopt;
    chain.push_back(viewed);
  }
  return chain;
}

/// The subview of the chain's buffer, or of casts of it, that contains the array; null if there is none.
static memref::SubViewOp getOuterSlice(ArrayRef<Value> chain) {
  for (Value view : llvm::reverse(chain.drop_back())) {
    if (auto slice = view.getDefiningOp<memref::SubViewOp>())
      return slice;
    if (!view.getDefiningOp<memref::CastOp>())
      return {};
  }
  return {};
}

static bool areApartAsSlices(ArrayRef<Value> chain, ArrayRef<Value> other) {
  memref::SubViewOp slice = getOuterSlice(chain), otherSlice = getOuterSlice(other);
  if (!slice || !otherSlice)
    return false;
  FailureOr<bool> overlap = ValueBoundsConstraintSet::areOverlappingSlices(
      slice.getContext(), HyperrectangularSlice(slice), HyperrectangularSlice(otherSlice));
  return succeeded(overlap) && !*overlap;
}

/// The range of bytes from the array's first element to its last one, counted from its buffer's aligned pointer; none
/// if it is not static.
static std::optional<ByteRange> getBytes(ArrayRef<Value> chain) {
  auto type = dyn_cast<MemRefType>(chain.front().getType());
  SmallVector<int64_t> strides;
  int64_t first, last = 0, moved = 0;
  if (!type || !type.hasStaticShape() || !type.getElementType().isIntOrFloat() ||
      failed(type.getStridesAndOffset(strides, first)) || ShapedType::isDynamic(first))
    return std::nullopt;
  for (auto [stride, extent] : llvm::zip_equal(strides, type.getShape())) {
    if (ShapedType::isDynamic(stride) || stride < 0)
      return std::nullopt;
    last += stride * std::max<int64_t>(extent - 1, 0);
  }
  for (Value view : chain.drop_back())
    if (auto bytes = view.getDefiningOp<memref::ViewOp>()) {
      std::optional<int64_t> shift = getConstantIntValue(bytes.getByteShift());
      if (!shift)
        return std::nullopt;
      moved += *shift;
    }
  int64_t size = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  return ByteRange{moved + first * size, moved + (first + last + 1) * size};
}

static bool areApartAsBytes(ArrayRef<Value> chain, ArrayRef<Value> other) {
  std::optional<ByteRange> bytes = getBytes(chain), otherBytes = getBytes(other);
  return bytes && otherBytes && (bytes->end <= otherBytes->begin || otherBytes->end <= bytes->begin);
}

bool mlir::flash::mayShareMemory(Value first, Value second) {
  Value common = findCommonSource(findSources(first), findSources(second));
  if (!common)
    return false;
  std::optional<ViewChain> chain = findViews(first, common), other = findViews(second, common);
  return !chain || !other || !(areApartAsSlices(*chain, *other) || areApartAsBytes(*chain, *other));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Outputs
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// An array that an op reads or writes: its name, the array, and the op inside that reads it, if one does.
struct NamedArray {
  std::string name;
  Value array;
  Operation *reader = nullptr;
};
} // namespace

/// Whether `op` may read elements of an operand of type `type`.
static bool readsElements(Operation *op, Type type) {
  return isa<BaseMemRefType>(type) ? !isMemoryEffectFree(op) : isa<TensorType>(type) && !isa<tensor::DimOp>(op);
}

/// Adds the arrays whose elements the regions of `op` read.
static void addCaptures(Operation *op, SmallVectorImpl<NamedArray> &arrays) {
  for (Region &region : op->getRegions())
    region.walk([&](Operation *reader) {
      for (Value operand : reader->getOperands())
        if (readsElements(reader, operand.getType()))
          arrays.push_back({"the operand of '" + reader->getName().getStringRef().str() + "'", operand, reader});
    });
}

/// Attaches a note at the op in a region that reads the array, or else at the array's definition.
static void attachPlace(InFlightDiagnostic &diag, const NamedArray &array) {
  diag.attachNote(array.reader ? array.reader->getLoc() : array.array.getLoc())
      << (array.reader ? array.name + " is here" : array.name + " is this");
}

LogicalResult mlir::flash::verifyOutputsAreApart(Operation *op, ArrayRef<StepOperand> inputs,
                                                 ArrayRef<StepOperand> outputs) {
  if (!isa<BaseMemRefType>(op->getOperand(0).getType()))
    return success();
  SmallVector<NamedArray> others;
  for (const StepOperand &input : inputs)
    others.push_back({input.name.str(), op->getOperand(input.number)});
  addCaptures(op, others);
  for (const StepOperand &info : outputs) {
    NamedArray output{info.name.str(), op->getOperand(info.number)};
    for (const NamedArray &other : others) {
      if (!mayShareMemory(output.array, other.array))
        continue;
      bool isOne = output.array == other.array;
      InFlightDiagnostic diag =
          op->emitOpError() << "expected " << output.name << " to share no memory with " << other.name << ", got "
                            << (isOne ? "one array" : "views of one array that are not known to be apart") << " (C14)";
      attachPlace(diag, output);
      attachPlace(diag, other);
      return failure();
    }
    others.push_back(output);
  }
  return success();
}
