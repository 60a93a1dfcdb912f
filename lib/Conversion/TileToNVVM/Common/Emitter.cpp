//===- Emitter.cpp - inline PTX, and arithmetic around it ---------------------------------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc::tiletonvvm;

Value Emitter::i32(int64_t value) { return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value)); }
Value Emitter::i64(int64_t value) { return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value)); }

Value Emitter::index(int64_t value) { return arith::ConstantIndexOp::create(builder, loc, value); }

Value Emitter::constantLike(Value like, int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(like.getType(), value));
}

Value Emitter::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value Emitter::mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
Value Emitter::mul(Value a, int64_t b) { return mul(a, constantLike(a, b)); }
Value Emitter::shr(Value a, int64_t bits) { return arith::ShRUIOp::create(builder, loc, a, constantLike(a, bits)); }
Value Emitter::bitAnd(Value a, int64_t mask) { return arith::AndIOp::create(builder, loc, a, constantLike(a, mask)); }

Value Emitter::equal(Value a, int64_t b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, constantLike(a, b));
}

Value Emitter::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value Emitter::toI64(Value value) { return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value); }

Value Emitter::toI32(Value index) { return arith::IndexCastOp::create(builder, loc, builder.getI32Type(), index); }

Value Emitter::toIndex(Value value) { return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), value); }

static LLVM::InlineAsmOp createAsm(OpBuilder &builder, Location loc, TypeRange results, StringRef assembly,
                                   StringRef constraints, ValueRange operands, bool sideEffects) {
  return LLVM::InlineAsmOp::create(builder, loc, results, operands, assembly, constraints, sideEffects,
                                   /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                                   LLVM::AsmDialectAttr(), /*operand_attrs=*/ArrayAttr());
}

void Emitter::ptx(StringRef assembly, StringRef constraints, ValueRange operands) {
  createAsm(builder, loc, TypeRange(), assembly, constraints, operands, /*sideEffects=*/true);
}

Value Emitter::ptx(Type result, StringRef assembly, StringRef constraints, ValueRange operands, bool sideEffects) {
  return createAsm(builder, loc, result, assembly, constraints, operands, sideEffects).getResult(0);
}

SmallVector<Value> Emitter::ptx(ArrayRef<Type> results, StringRef assembly, StringRef constraints,
                                ValueRange operands) {
  auto structType = LLVM::LLVMStructType::getLiteral(builder.getContext(), results);
  Value packed =
      createAsm(builder, loc, structType, assembly, constraints, operands, /*sideEffects=*/true).getResult(0);
  SmallVector<Value> values;
  for (int64_t i = 0, e = results.size(); i < e; ++i)
    values.push_back(LLVM::ExtractValueOp::create(builder, loc, packed, i));
  return values;
}

Value Emitter::isSet(Value word, int64_t bit) {
  return ptx(builder.getI1Type(), "{\n .reg .b32 t;\n and.b32 t, $1, $2;\n setp.ne.b32 $0, t, 0;\n }", "=b,r,n",
             {word, i32(1u << bit)}, /*sideEffects=*/false);
}

Value Emitter::intrinsic(Type result, StringRef name, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(builder, loc, result, builder.getStringAttr(name), operands).getResult(0);
}

Value Emitter::makeUniform(Value value) {
  return ptx(builder.getI32Type(), "redux.sync.or.b32 $0, $1, 0xffffffff;", "=r,r", {value}, /*sideEffects=*/true);
}

Value Emitter::shuffleXor(Value value, int64_t mask) {
  StringRef name = value.getType().isF32() ? "llvm.nvvm.shfl.sync.bfly.f32" : "llvm.nvvm.shfl.sync.bfly.i32";
  return intrinsic(value.getType(), name, {i32(-1), value, i32(mask), i32(31)});
}
