//===- CallArguments.cpp - what is known of the arguments of a call -----------------------------------------------===//

#include "CallArguments.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace flashc;

unsigned flashc::getBitWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

Attribute flashc::makeConstant(Type type, uint64_t bits) {
  if (!type.isIntOrIndexOrFloat() || getBitWidth(type) > 64)
    return nullptr;
  APInt value(getBitWidth(type), bits, /*isSigned=*/false, /*implicitTrunc=*/true);
  if (auto floatType = dyn_cast<FloatType>(type))
    return FloatAttr::get(type, APFloat(floatType.getFloatSemantics(), value));
  return IntegerAttr::get(type, value);
}

void CallArguments::setScalar(Value argument, uint64_t bits) {
  if (Attribute constant = makeConstant(argument.getType(), bits))
    scalars[argument] = constant;
}

std::optional<int64_t> CallArguments::getExtent(Value argument, int64_t dim) const {
  auto found = shapes.find(argument);
  return found == shapes.end() ? std::nullopt : std::optional(found->second[dim]);
}

Attribute CallArguments::read(Value argument, ArrayRef<int64_t> positions) const {
  auto found = elements.find(argument);
  auto shape = shapes.find(argument);
  if (found == elements.end() || shape == shapes.end())
    return nullptr;
  int64_t offset = 0;
  for (auto [position, extent, stride] : llvm::zip_equal(positions, shape->second, found->second.strides)) {
    if (position < 0 || position >= extent)
      return nullptr;
    offset += position * stride;
  }
  Type type = cast<ShapedType>(argument.getType()).getElementType();
  unsigned bytes = llvm::divideCeil(getBitWidth(type), 8);
  uint64_t bits = 0;
  if (bytes <= sizeof(bits))
    std::memcpy(&bits, found->second.first + offset * bytes, bytes); // this machine is little-endian, as GPUs are
  return makeConstant(type, bits);
}
