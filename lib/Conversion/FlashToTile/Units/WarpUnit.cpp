//===- WarpUnit.cpp - a warp of 16 rows ---------------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "Units/Unit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

namespace {
/// All warps of a CTA, and of a cluster, have the same rows. Each warp visits keys of its own, and loads them itself.
class WarpUnit : public Unit {
public:
  int64_t getRows() const override { return tile::kWarpRows; }
  bool loadsItself() const override { return true; }
  LogicalResult check(LoopNest &nest) const override;
  Value emitProgram(KernelFrame &frame, ValueRange grid, tile::WorkAttr work) const override;
  void emitMerged(KernelFrame &frame, SoftmaxState &state) const override;
  void describe(const NestKernel &kernel, ManifestKernel &info) const override;
};
} // namespace

LogicalResult WarpUnit::check(LoopNest &nest) const {
  flash::StepOpInterface op = nest.getStep();
  if (nest.getDropout())
    return op.emitError() << "expected no dropout in a decoding kernel (algorithm split-kv)";
  if (!nest.elementType.isBF16() && !nest.elementType.isF16())
    return op.emitError() << "expected keys and values of bf16 or f16, got " << nest.elementType;
  auto *streamed = llvm::find_if(nest.operands, [](const NestOperand &operand) { return operand.isStreamed; });
  for (const NestOperand &operand : nest.operands)
    if (operand.isStreamed && operand.getStoredType() != streamed->getStoredType())
      return op.emitError() << "expected keys and values of one type in their caches, got " << streamed->getStoredType()
                            << " and " << operand.getStoredType();
  return success();
}

Value WarpUnit::emitProgram(KernelFrame &frame, ValueRange, tile::WorkAttr) const {
  ImplicitLocOpBuilder &b = frame.b;
  auto program = tile::WarpProgramOp::create(b, frame.schedule.warps, frame.schedule.getCluster());
  gpu::ReturnOp::create(b);
  b.setInsertionPointToStart(b.createBlock(&program.getBody(), {}, {b.getIndexType()}, {b.getLoc()}));
  return program.getWarp();
}

void WarpUnit::emitMerged(KernelFrame &frame, SoftmaxState &state) const {
  ImplicitLocOpBuilder &b = frame.b;
  auto &[acc, max, sum, factor] = state;
  int64_t cols =
      llvm::divideCeil(cast<RankedTensorType>(acc.getType()).getDimSize(1) / tile::kBlockCols, frame.schedule.warps) *
      tile::kBlockCols;
  FloatAttr exponents = b.getF32FloatAttr(factor);
  RankedTensorType type = frame.getAccType(cols), rowType = frame.getRowType();
  auto merged = tile::MergeWarpsOp::create(b, type, rowType, rowType, acc, max, sum, exponents);
  acc = merged.getMerged(), max = merged.getMergedMax(), sum = merged.getMergedSum();
  Value number = frame.unitNumber;
  if (frame.schedule.getCluster() > 1) {
    auto ofCluster =
        tile::MergeClusterOp::create(b, TypeRange{type, rowType, rowType, b.getIndexType()}, acc, max, sum, exponents);
    acc = ofCluster.getMerged(), max = ofCluster.getMergedMax(), sum = ofCluster.getMergedSum(),
    number = ofCluster.getPart();
  }
  frame.columns.front() = arith::MulIOp::create(b, number, frame.index(cols));
}

/// The grid has one CTA for each part of a tile's keys.
void WarpUnit::describe(const NestKernel &kernel, ManifestKernel &info) const {
  info.grid = kernel.extents;
  info.block[0] = 32 * kernel.schedule.warps;
  info.cluster[0] = kernel.schedule.getCluster();
}

std::unique_ptr<Unit> flashc::matchWarpUnit(const Schedule &schedule) {
  return schedule.kind == KernelKind::Decode ? std::make_unique<WarpUnit>() : nullptr;
}
