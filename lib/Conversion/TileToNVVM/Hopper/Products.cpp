//===- Products.cpp - asynchronous products as wgmma (PTX ISA 9.7.15) ---------------------------------------------===//
//
// Facts that LLVM and ptxas need:
//   - The accumulator is a tied operand of every wgmma and of the wait, so that no use of it can move above the wait.
//   - A wgmma.fence is before the first wgmma whose registers were just written. Without it ptxas adds one, or
//     serialises all products (C7519, C7510).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "Hopper.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

namespace {

/// The fixed fields of a matrix descriptor with the 128-byte swizzle (PTX ISA 9.7.15.5.1.2.2): leading and stride byte
/// offsets in units of 16 bytes, and layout type 1 in bits 62 and 63.
constexpr int64_t getDescriptorFields(int64_t leadingBytes, int64_t strideBytes) {
  return (int64_t(1) << 62) | (strideBytes >> 4) << 32 | (leadingBytes >> 4) << 16;
}

/// The bytes of eight rows of 128 bytes.
constexpr int64_t kSwizzleAtomBytes = 1024;
constexpr int64_t kRowBytes = 128;
/// One wgmma multiplies 16 elements of depth.
constexpr int64_t kDepthStep = 16;

/// Returns the descriptor of the step of depth that begins at `depth`.
Value getDescriptor(Emitter &emit, Value address, SlotType slot, bool depthIsColumn, int64_t depth) {
  int64_t panelBytes = slot.getRows() * kRowBytes;
  if (depthIsColumn) { // K-major: steps advance along the 128 bytes of a row, then to the next panel
    int64_t offset = depth / kHopper.getPanelCols() * panelBytes + depth % kHopper.getPanelCols() * 2;
    return emit.add(address, getDescriptorFields(16, kSwizzleAtomBytes) + (offset >> 4));
  }
  // MN-major: rows are the depth, and the leading offset leads to the next 64 columns
  return emit.add(address, getDescriptorFields(panelBytes, kSwizzleAtomBytes) + (depth * kRowBytes >> 4));
}

/// Returns the descriptor of an MN-major slot's last panel together with the panel of ones. The leading offset leads
/// from the beginning of the step to the ones, which are after all slots.
Value getDescriptorWithOnes(Emitter &emit, Value address, Value ones, SlotType slot, int64_t depth) {
  Value distance = arith::SubIOp::create(emit.builder, emit.loc, ones, address);
  Value leading = arith::ShLIOp::create(emit.builder, emit.loc, distance, emit.i64(16));
  int64_t panel = slot.getCols() / kHopper.getPanelCols() - 1;
  int64_t step = (panel * slot.getRows() + depth) * kRowBytes >> 4;
  return emit.add(emit.add(address, leading), getDescriptorFields(0, kSwizzleAtomBytes) + step - (step << 16));
}

/// Returns the descriptor of slopes or of numbers of columns. Both are K-major with one step of depth. Rows have 32
/// bytes, whose swizzle is layout type 3.
Value getDescriptorOfStep(Emitter &emit, Value address) {
  constexpr int64_t kEightRows = 8 * kHopper.getStepRowBytes();
  return emit.add(address, static_cast<int64_t>(uint64_t(3) << 62 | uint64_t(kEightRows >> 4) << 32 | 1 << 16));
}

/// Returns a list of `count` names: `prefix` with the numbers from `first` on.
std::string list(StringRef prefix, int64_t first, int64_t count) {
  std::string text;
  for (int64_t i = first; i < first + count; ++i)
    text += (i == first ? "" : ", ") + prefix.str() + std::to_string(i);
  return text;
}

/// Returns the constraints of `count` accumulators: `count` times "=f", and then, if `tied`, the numbers 0 to `count` -
/// 1.
std::string accumulatorConstraints(int64_t count, bool tied) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += i ? ",=f" : "=f";
  for (int64_t i = 0; tied && i < count; ++i)
    text += "," + std::to_string(i);
  return text;
}

/// Emits one wgmma of `cols` columns. `a` is a descriptor or four registers, `b` is a descriptor. With an empty `acc`
/// the sum starts from zero (scale-d false).
SmallVector<Value> emitWgmma(Emitter &emit, MmaAsyncOp op, ArrayRef<Value> acc, ValueRange a, Value b, int64_t cols) {
  int64_t count = cols / 2;
  int64_t next = acc.empty() ? count : 2 * count; // the number of the first operand after the accumulators
  bool isDescriptor = a.size() == 1;
  SmallVector<Value> operands(acc.begin(), acc.end());
  llvm::append_range(operands, a);
  operands.push_back(b);
  std::string constraints = accumulatorConstraints(count, !acc.empty()) + (isDescriptor ? ",l" : ",r,r,r,r") + ",l";
  std::string textA = list("$", next, a.size());
  if (!isDescriptor)
    textA = "{" + textA + "}";
  std::string type = op.getB().getType().getElementType().isBF16() ? "bf16" : "f16";
  std::string transposes = std::string(!isDescriptor        ? ""
                                       : op.getTransposeA() ? ", 1"
                                                            : ", 0") +
                           (op.getTransposeB() ? ", 0" : ", 1");
  std::string text = "{\n .reg .pred p;\n setp.ne.b32 p, " + std::string(acc.empty() ? "0" : "1") +
                     ", 0;\n wgmma.mma_async.sync.aligned.m64n" + std::to_string(cols) + "k16.f32." + type + "." +
                     type + " {" + list("$", 0, count) + "}, " + textA + ", $" + std::to_string(next + a.size()) +
                     ", p, 1, 1" + transposes + ";\n }";
  SmallVector<Type> results(count, emit.builder.getF32Type());
  return emit.ptx(results, text, constraints, operands);
}

/// Emits one step of depth. `valuesOfA` is the address of a slot, or registers.
SmallVector<Value> emitStep(Emitter &emit, MmaAsyncOp op, Adaptor<MmaAsyncOp> adaptor, ValueRange valuesOfA,
                            ArrayRef<Value> acc, int64_t depth) {
  SmallVector<Value> a;
  if (auto slot = dyn_cast<SlotType>(op.getA().getType()))
    a.push_back(getDescriptor(emit, valuesOfA[0], slot, /*depthIsColumn=*/!op.getTransposeA(), depth));
  else
    llvm::append_range(a, valuesOfA.slice(depth / 4, 4));
  SlotType slot = op.getB().getType();
  auto getB = [&] { return getDescriptor(emit, adaptor.getB()[0], slot, op.getTransposeB(), depth); };
  if (!op.getOnes())
    return emitWgmma(emit, op, acc, a, getB(), op.getTransposeB() ? slot.getRows() : slot.getCols());
  // The leading offset can lead to the next panel or to the ones, but not to both. So the panels before the last one
  // have a wgmma of their own.
  int64_t before = slot.getCols() - kHopper.getPanelCols();
  size_t held = acc.empty() ? 0 : before / 2; // elements of these panels
  SmallVector<Value> results;
  if (before > 0)
    results = emitWgmma(emit, op, acc.take_front(held), a, getB(), before);
  Value last = getDescriptorWithOnes(emit, adaptor.getB()[0], adaptor.getOnes()[0], slot, depth);
  constexpr int64_t kLastCols = kHopper.getPanelCols() + kHopper.colStep;
  llvm::append_range(results, emitWgmma(emit, op, acc.drop_front(held), a, last, kLastCols));
  return results;
}

TileValues lowerMmaAsync(MmaAsyncOp op, Adaptor<MmaAsyncOp> adaptor, Emitter &emit, KernelContext &kernel) {
  SlotType b = op.getB().getType();
  int64_t depth = op.getTransposeB() ? b.getCols() : b.getRows();
  if (!op.getAcc() || !isa<TokenType>(op.getAcc().getType())) // else no register was just written
    emit.ptx("wgmma.fence.sync.aligned;", "~{memory}", {});
  SmallVector<Value> acc, a = llvm::to_vector(adaptor.getA());
  if (op.getAcc())
    acc = llvm::to_vector(adaptor.getAcc());
  if (op.getLocalDescriptors()) // LLVM cannot hoist this instruction, nor the descriptors that are computed from it
    a[0] = emit.ptx(emit.builder.getI64Type(), "mov.b64 $0, $1;", "=l,l", a[0], /*sideEffects=*/true);
  for (int64_t step = 0; step < depth; step += kDepthStep)
    acc = emitStep(emit, op, adaptor, a, acc, step);
  if (op.getSlopes())
    acc = emitWgmma(emit, op, acc, getDescriptorOfStep(emit, adaptor.getSlopes()[0]),
                    getDescriptorOfStep(emit, adaptor.getColumns()[0]), b.getRows());
  emit.ptx("wgmma.commit_group.sync.aligned;", "~{memory}", {});
  return {acc};
}

TileValues lowerMmaWait(MmaWaitOp op, Adaptor<MmaWaitOp> adaptor, Emitter &emit, KernelContext &kernel) {
  ValueRange acc = adaptor.getToken();
  SmallVector<Type> results(acc.getTypes());
  std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
  SmallVector<Value> values =
      emit.ptx(results, text, accumulatorConstraints(acc.size(), /*tied=*/true) + ",~{memory}", acc);
  return {values};
}

TileValues lowerPanel(PanelOp op, Adaptor<PanelOp> adaptor, Emitter &emit, KernelContext &kernel) {
  Value distance = emit.mul(emit.toI32(op.getNumber()), op.getPanel().getType().getBytes(kHopper) >> 4);
  Value field =
      emit.add(adaptor.getSlot()[0],
               arith::ExtUIOp::create(emit.builder, emit.loc, emit.builder.getI64Type(), distance).getResult());
  SmallVector<Value> values = {field, adaptor.getSlot()[1]};
  return {values};
}

} // namespace

void flashc::tiletonvvm::populateProductPatterns(KernelPatterns &patterns) {
  patterns.add(lowerMmaAsync, lowerMmaWait, lowerPanel);
}
