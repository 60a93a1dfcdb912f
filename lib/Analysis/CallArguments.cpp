//===- CallArguments.cpp - known shapes and values of the arguments of a call -------------------------------------===//

#include "CallArguments.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace flashc;

unsigned flashc::getBitWidth(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

std::optional<int64_t> flashc::toNumber(std::optional<uint64_t> bits, Type type) {
  bool isInteger = type.isIntOrIndex() && getBitWidth(type) <= 64;
  return bits && isInteger ? std::optional(llvm::SignExtend64(*bits, getBitWidth(type))) : std::nullopt;
}

Attribute flashc::makeConstant(Type type, uint64_t bits) {
  if (!type.isIntOrIndexOrFloat() || getBitWidth(type) > 64)
    return nullptr;
  APInt value(getBitWidth(type), bits, /*isSigned=*/false, /*implicitTrunc=*/true);
  if (auto floatType = dyn_cast<FloatType>(type))
    return FloatAttr::get(type, APFloat(floatType.getFloatSemantics(), value));
  return IntegerAttr::get(type, value);
}

std::optional<uint64_t> CallArguments::getScalar(Value argument) const {
  auto found = scalars.find(argument);
  return found == scalars.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> CallArguments::getExtent(Value argument, int64_t dim) const {
  auto found = shapes.find(argument);
  return found == shapes.end() ? std::nullopt : std::optional(found->second[dim]);
}

std::optional<uint64_t> CallArguments::read(Value argument, ArrayRef<int64_t> positions) const {
  auto found = elements.find(argument);
  auto shape = shapes.find(argument);
  if (found == elements.end() || shape == shapes.end())
    return std::nullopt;
  int64_t offset = 0;
  for (auto [position, extent, stride] : llvm::zip_equal(positions, shape->second, found->second.strides)) {
    if (position < 0 || position >= extent)
      return std::nullopt;
    offset += position * stride;
  }
  unsigned bytes = llvm::divideCeil(getBitWidth(cast<ShapedType>(argument.getType()).getElementType()), 8);
  uint64_t bits = 0;
  if (bytes > sizeof(bits))
    return std::nullopt;
  std::memcpy(&bits, found->second.first + offset * bytes, bytes); // bytes in memory are little-endian here and on GPUs
  return bits;
}
