//===- Bytes.cpp - conversion of 8-bit elements -------------------------------------------------------------------===//
//
// Elements of both 8-bit types are exact in f16. There is an instruction for float8_e4m3 (PTX ISA, cvt of .e4m3x2). For
// an i8 x, the byte with its sign flipped is the last byte of the f16 1024 + x + 128; then 1152 is subtracted. A bf16
// is computed by way of f32, in which NaN stays NaN.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Warp.h"

using namespace mlir;
using namespace flashc::tiletonvvm;

/// Moves the bytes `chosen` of a word to the lower half of the result, in this order.
static Value chooseBytes(Emitter &emit, Value word, std::array<int, 2> chosen) {
  if (chosen == std::array<int, 2>{0, 1})
    return word;
  int64_t selector = 0x4400 + 16 * chosen[1] + chosen[0]; // byte 4 is 0
  return emit.ptx(word.getType(), "prmt.b32 $0, $1, $2, $3;", "=r,r,n,n", {word, emit.i32(0), emit.i32(selector)},
                  /*sideEffects=*/false);
}

/// Converts the two elements `chosen` of a word to a pair of f16.
static Value widenToHalf(Emitter &emit, Type bytes, Value word, std::array<int, 2> chosen) {
  Type i32 = emit.builder.getI32Type();
  if (!bytes.isInteger())
    return emit.ptx(i32, "{\n .reg .b16 low, high;\n mov.b32 {low, high}, $1;\n cvt.rn.f16x2.e4m3x2 $0, low;\n }",
                    "=r,r", {chooseBytes(emit, word, chosen)}, /*sideEffects=*/false);
  Value unsigned_ = LLVM::XOrOp::create(emit.builder, emit.loc, word, emit.i32(0x80808080));
  int64_t selector = 0x4040 + 0x100 * chosen[1] + chosen[0]; // byte 4 is 0x64
  Value pair = emit.ptx(i32, "prmt.b32 $0, $1, $2, $3;", "=r,r,n,n", {unsigned_, emit.i32(0x64), emit.i32(selector)},
                        /*sideEffects=*/false);
  return emit.ptx(i32, "sub.rn.f16x2 $0, $1, $2;", "=r,r,r", {pair, emit.i32(0x64806480)}, /*sideEffects=*/false);
}

Value flashc::tiletonvvm::widenBytes(Emitter &emit, Type bytes, Type element, Value word, std::array<int, 2> chosen) {
  Value half = widenToHalf(emit, bytes, word, chosen);
  if (element.isF16())
    return half;
  return emit.ptx(half.getType(),
                  "{\n .reg .b16 low, high;\n .reg .f32 x, y;\n mov.b32 {low, high}, $1;\n cvt.f32.f16 x, low;\n"
                  " cvt.f32.f16 y, high;\n cvt.rn.bf16x2.f32 $0, y, x;\n }",
                  "=r,r", {half}, /*sideEffects=*/false);
}
