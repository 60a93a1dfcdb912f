//===- KernelSignature.cpp - kernel parameters and their manifest -------------------------------------------------===//

#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

using namespace mlir;
using namespace flashc;

Type KernelSignature::getType(unsigned argument) {
  unsigned numArguments = host.getNumArguments();
  return argument < numArguments ? host.getArgumentTypes()[argument] : host.getResultTypes()[argument - numArguments];
}

Value KernelSignature::get(Kind kind, unsigned argument, int64_t detail, Type type) {
  for (const Parameter &known : parameters)
    if (known.kind == kind && known.argument == argument && known.detail == detail &&
        (kind != Kind::TensorMap || known.value.getType() == type))
      return known.value;
  Value value = kernel.getBody().front().addArgument(type, host.getLoc());
  parameters.push_back({kind, argument, detail, value});
  return value;
}

Value KernelSignature::getTensorMap(unsigned argument, int64_t rows, int64_t heads) {
  Type element = cast<ShapedType>(getType(argument)).getElementType();
  return get(Kind::TensorMap, argument, rows, tile::TensorMapType::get(host.getContext(), rows, element, heads));
}

Value KernelSignature::getMemRef(unsigned argument, int64_t alignment, bool isOfBytes) {
  auto type = cast<ShapedType>(getType(argument));
  Type element = type.getElementType();
  if (element.isIndex()) // an index has 64 bits in memory and as a parameter, and 32 in the kernel
    element = IntegerType::get(host.getContext(), 64);
  if (isOfBytes)
    element = IntegerType::get(host.getContext(), 8);
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

std::vector<ManifestParameter> KernelSignature::getParameters() {
  using ManifestKind = ManifestParameter::Kind;
  const GPUTarget &target = GPUTarget::of(kernel);
  std::vector<ManifestParameter> result;
  auto add = [&](ManifestKind kind, unsigned argument, unsigned dim = 0) -> ManifestParameter & {
    return result.emplace_back(ManifestParameter{kind, argument, dim});
  };
  for (const Parameter &parameter : parameters) {
    unsigned argument = parameter.argument;
    switch (parameter.kind) {
    case Kind::TensorMap: {
      ManifestParameter &map = add(ManifestKind::TensorMap, argument);
      int64_t bits = cast<ShapedType>(getType(argument)).getElementTypeBitWidth();
      auto type = cast<tile::TensorMapType>(parameter.value.getType());
      map.box = {uint32_t(target.swizzleBytes * 8 / bits), uint32_t(type.getRows()), uint32_t(type.getHeads()), 1};
      map.swizzle = target.swizzleBytes;
      break;
    }
    case Kind::MemRef:
      add(ManifestKind::Pointer, argument).alignment = parameter.detail;
      for (int64_t outer = 0; outer + 1 < cast<ShapedType>(getType(argument)).getRank(); ++outer)
        add(ManifestKind::Stride, argument, outer);
      break;
    case Kind::Extent:
      add(ManifestKind::Extent, argument, parameter.detail);
      break;
    case Kind::Scalar:
      add(ManifestKind::Scalar, argument);
      break;
    case Kind::Table:
      add(tables.isInMaskMap(argument) ? ManifestKind::MaskMap : ManifestKind::Workspace, 0).offset =
          tables.getOffset(argument);
      break;
    }
  }
  return result;
}
