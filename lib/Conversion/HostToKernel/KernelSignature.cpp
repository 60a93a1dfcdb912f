//===- KernelSignature.cpp - kernel parameters and their manifest -------------------------------------------------===//

#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Launch/LaunchInterface.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace flashc;

Type KernelSignature::getType(unsigned argument) {
  unsigned numArguments = host.getNumArguments();
  return argument < numArguments ? host.getArgumentTypes()[argument] : host.getResultTypes()[argument - numArguments];
}

Value KernelSignature::get(Kind kind, unsigned argument, int64_t detail, Type type) {
  for (const Parameter &known : parameters)
    if (known.kind == kind && known.argument == argument && known.detail == detail)
      return known.value;
  Value value = kernel.getBody().front().addArgument(type, host.getLoc());
  parameters.push_back({kind, argument, detail, value});
  return value;
}

Value KernelSignature::getTensorMap(unsigned argument, int64_t rows) {
  Type element = cast<ShapedType>(getType(argument)).getElementType();
  return get(Kind::TensorMap, argument, rows, tile::TensorMapType::get(host.getContext(), rows, element));
}

Value KernelSignature::getMemRef(unsigned argument, int64_t alignment) {
  auto type = cast<ShapedType>(getType(argument));
  Type element = type.getElementType();
  if (element.isIndex()) // 64 bits in memory, as in scalar parameters; an index has 32 in the kernel.
    element = IntegerType::get(host.getContext(), 64);
  MemRefLayoutAttrInterface layout;
  if (type.getRank() > 0) {
    SmallVector<int64_t> strides(type.getRank(), ShapedType::kDynamic);
    strides.back() = 1;
    layout = StridedLayoutAttr::get(host.getContext(), /*offset=*/0, strides);
  }
  return get(Kind::MemRef, argument, alignment, MemRefType::get(type.getShape(), element, layout));
}

Value KernelSignature::getExtent(unsigned argument, unsigned dim) {
  return get(Kind::Extent, argument, dim, IndexType::get(host.getContext()));
}

Value KernelSignature::getScalar(unsigned argument) {
  Type type = getType(argument);
  return get(Kind::Scalar, argument, 0, type.isIndex() ? IntegerType::get(host.getContext(), 64) : type);
}

Value KernelSignature::getTable(unsigned number) {
  return get(Kind::Table, number, 0, MemRefType::get({ShapedType::kDynamic}, tables.getElementType(number)));
}

void KernelSignature::finish() {
  TypeRange types = kernel.getBody().front().getArgumentTypes();
  kernel.setFunctionType(FunctionType::get(host.getContext(), types, {}));
}

//===--------------------------------------------------------------------------------------------------------------===//
// The manifest
//===--------------------------------------------------------------------------------------------------------------===//

ArrayAttr KernelSignature::getParameters() {
  Builder b(host.getContext());
  SmallVector<Attribute> result;
  auto add = [&](StringRef kind, unsigned argument, ArrayRef<NamedAttribute> more = {}) {
    SmallVector<NamedAttribute> fields{b.getNamedAttr("kind", b.getStringAttr(kind)),
                                       b.getNamedAttr("argument", b.getI64IntegerAttr(argument))};
    fields.append(more.begin(), more.end());
    result.push_back(b.getDictionaryAttr(fields));
  };
  for (const Parameter &parameter : parameters) {
    NamedAttribute dim = b.getNamedAttr("dim", b.getI64IntegerAttr(parameter.detail));
    switch (parameter.kind) {
    case Kind::TensorMap:
      add("tensor_map", parameter.argument,
          {b.getNamedAttr("box", b.getI64ArrayAttr({GPUTarget::of(kernel).getPanelCols(), parameter.detail, 1, 1})),
           b.getNamedAttr("swizzle", b.getI64IntegerAttr(GPUTarget::of(kernel).swizzleBytes))});
      break;
    case Kind::MemRef:
      if (parameter.detail)
        add("pointer", parameter.argument, b.getNamedAttr("alignment", b.getI64IntegerAttr(parameter.detail)));
      else
        add("pointer", parameter.argument);
      for (int64_t outer = 0; outer + 1 < cast<ShapedType>(getType(parameter.argument)).getRank(); ++outer)
        add("stride", parameter.argument, b.getNamedAttr("dim", b.getI64IntegerAttr(outer)));
      break;
    case Kind::Extent:
      add("extent", parameter.argument, dim);
      break;
    case Kind::Scalar:
      add("scalar", parameter.argument);
      break;
    case Kind::Table:
      result.push_back(describeWorkspace(b, tables.getOffset(parameter.argument)));
      break;
    }
  }
  return b.getArrayAttr(result);
}
