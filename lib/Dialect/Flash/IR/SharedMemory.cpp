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

/// Whether the result of `op` may refer to the memory of an operand of type `type`. For an operand that is a memref
/// this is always assumed: the result may be the memref itself, or a view of it. For an operand that is a tensor it
/// holds only for the ops that are listed here.
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

/// Returns `memref` and all values to whose memory `memref` may refer: the sources of views, and the values from which
/// selects, branches and loops choose.
static llvm::SmallSetVector<Value, 8> findSources(Value memref) {
  llvm::SmallSetVector<Value, 8> values;
  values.insert(memref);
  for (size_t number = 0; number < values.size(); ++number) { // the loop adds values
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

/// Returns the first value of `sources` that is also in `others`. Null if there is none. Two memref.get_global ops
/// count as the same value if they name the same global.
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
/// The chain of views from an array to its buffer. The array is the first value, and the buffer is the last.
using ViewChain = SmallVector<Value, 4>;

struct ByteRange {
  int64_t begin, end;
};
} // namespace

/// If `array` is a view, returns the source of the view. Null for other arrays.
static Value getViewed(Value array) {
  if (auto transposed = array.getDefiningOp<memref::TransposeOp>())
    return transposed.getIn();
  auto view = array.getDefiningOp<ViewLikeOpInterface>();
  return view ? view.getViewSource() : Value();
}

/// Returns the chain of views from `array` to `buffer`. None if an op that is no view, such as a select, stands between
/// them.
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

/// In the chain, looks at the view that is next to the buffer, where casts do not count. Returns this view if it is a
/// subview: the array lies inside of it. Otherwise returns null.
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

/// Returns the range of bytes in which the array's elements lie, counted from the aligned pointer of the array's
/// buffer. None if the range is not static.
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
/// An array that an op reads or writes, and its name in diagnostics. If an op inside of a region reads the array,
/// `reader` is this inner op.
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

/// Attaches a note at the place of `array.reader`, or at the array's definition if there is no reader.
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
