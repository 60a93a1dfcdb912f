//===- RoundKernel.cpp - the kernel that rounds what CTAs have added up -------------------------------------------===//

#include "flashc/Conversion/HostToKernel/RoundKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace flashc;

/// A panel, and how a warpgroup holds it: eight columns of a row are in a quad of lanes, two in each, beside those of the
/// row eight below.
static constexpr int64_t kPanel = 64, kElements = kPanel * kPanel, kBlock = 8, kBlockElements = kBlock * kPanel,
                         kQuadElements = 16, kThreads = 256;

int64_t AddedSums::getPanels() const { return llvm::divideCeil(depth, kPanel); }

FailureOr<TileTables::Table> AddedSums::getTable() const {
  std::optional<GridFormula> batches = getFormula(extents[0]), heads = getFormula(extents[1]), rows = getFormula(extents[2]);
  if (!batches || !heads || !rows) {
    emitError(result.getLoc(), "expected extents that are constants or those of arguments");
    return failure();
  }
  return TileTables::Table{result, *batches * *heads * ceilDiv(*rows, tile),
                           /*bytes=*/tile / kPanel * getPanels() * kElements * 4};
}

Value AddedSums::countPanelRows(OpBuilder &b, ScalarCloner &scalars) const {
  Location loc = result.getLoc();
  Value rows = scalars.get(b, loc, extents[2]);
  if (!rows)
    return {};
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value tiles = b.createOrFold<arith::CeilDivUIOp>(loc, rows, index(tile));
  return b.createOrFold<arith::MulIOp>(loc, tiles, index(tile / kPanel));
}

Value AddedSums::getArray(OpBuilder &b, KernelSignature &signature, ScalarCloner &scalars) const {
  Location loc = result.getLoc();
  SmallVector<Value> known;
  for (OpFoldResult extent : extents)
    known.push_back(scalars.get(b, loc, extent));
  if (llvm::is_contained(known, Value()))
    return {};
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value ofRows = index(getPanels() * kElements);
  known[2] = countPanelRows(b, scalars);
  Value ofHead = b.createOrFold<arith::MulIOp>(loc, known[2], ofRows);
  Value ofBatch = b.createOrFold<arith::MulIOp>(loc, known[1], ofHead);
  constexpr int64_t kAny = ShapedType::kDynamic;
  auto layout = StridedLayoutAttr::get(b.getContext(), /*offset=*/0, {kAny, kAny, getPanels() * kElements, kElements, 1});
  auto type = MemRefType::get({kAny, kAny, kAny, getPanels(), kElements}, b.getF32Type(), layout);
  SmallVector<OpFoldResult> sizes{known[0], known[1], known[2], b.getIndexAttr(getPanels()), b.getIndexAttr(kElements)};
  SmallVector<OpFoldResult> strides{ofBatch, ofHead, b.getIndexAttr(getPanels() * kElements), b.getIndexAttr(kElements),
                                    b.getIndexAttr(1)};
  Value table = signature.getTable(*signature.getTables().getNumber(result));
  return memref::ReinterpretCastOp::create(b, loc, type, table, b.getIndexAttr(0), sizes, strides);
}

/// The kernel's body: CTA (n, h, b) has panel n mod P of rows n / P, and thread t columns 8 (t mod 8) and following of
/// rows r and r + 8, with r = 16 (t / 64) + t / 8 mod 8.
static LogicalResult emitBody(ImplicitLocOpBuilder &b, KernelSignature &signature, const AddedSums &sums,
                              ArrayRef<unsigned> outputs) {
  ScalarCloner scalars(signature);
  Value array = sums.getArray(b, signature, scalars), numRows = scalars.get(b, b.getLoc(), sums.extents[2]);
  if (!array || !numRows)
    return failure();
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  auto add = [&](Value x, Value y) -> Value { return b.createOrFold<arith::AddIOp>(x, y); };
  auto mul = [&](Value x, int64_t y) -> Value { return b.createOrFold<arith::MulIOp>(x, index(y)); };
  auto div = [&](Value x, int64_t y) -> Value { return b.createOrFold<arith::DivUIOp>(x, index(y)); };
  auto rem = [&](Value x, int64_t y) -> Value { return b.createOrFold<arith::RemUIOp>(x, index(y)); };
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x), number = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value head = gpu::BlockIdOp::create(b, gpu::Dimension::y), batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  Value rows = div(number, sums.getPanels()), panel = rem(number, sums.getPanels());
  Value block = rem(thread, kBlock), pair = div(thread, kBlock), warp = div(pair, 8), inWarp = rem(pair, 8);
  Value column = add(mul(panel, kPanel), mul(block, kBlock)), row = add(mul(rows, kPanel), add(mul(warp, 16), inWarp));
  // What depends on the main kernel's results comes behind the wait that programmatic launch puts in front of reads.
  auto branch = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column, index(sums.depth)));
  b.setInsertionPointToStart(branch.thenBlock());
  Value first = add(mul(block, kBlockElements), add(mul(warp, 8 * kQuadElements), mul(inWarp, kQuadElements)));
  std::array<SmallVector<Value>, 2> elements; // of the two rows
  for (int64_t lane = 0; lane < 4; ++lane) {
    Value place = add(first, index(4 * lane));
    Value held = vector::LoadOp::create(b, VectorType::get({4}, b.getF32Type()), array,
                                        ValueRange{batch, head, rows, panel, place});
    for (int64_t e = 0; e < 4; ++e)
      elements[e / 2].push_back(vector::ExtractOp::create(b, held, e));
  }
  for (int64_t half : {0, 1}) {
    Value below = add(row, index(8 * half));
    auto exists = scf::IfOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, below, numRows));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(exists.thenBlock());
    for (unsigned output : outputs) {
      Value dest = signature.getMemRef(output, /*alignment=*/16);
      Type type = getElementTypeOrSelf(dest.getType());
      Value all = vector::FromElementsOp::create(b, VectorType::get({kBlock}, b.getF32Type()), elements[half]);
      if (!type.isF32())
        all = arith::TruncFOp::create(b, VectorType::get({kBlock}, type), all);
      vector::StoreOp::create(b, all, dest, ValueRange{batch, head, below, column});
    }
  }
  b.setInsertionPointAfter(branch);
  gpu::ReturnOp::create(b);
  return success();
}

FailureOr<ManifestKernel> flashc::emitRoundKernel(func::FuncOp host, gpu::GPUFuncOp main, StringRef name,
                                                  const TileTables &tables, const AddedSums &sums,
                                                  ArrayRef<unsigned> outputs) {
  auto emit = [&](gpu::GPUFuncOp kernel, KernelSignature &signature) {
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
    return emitBody(b, signature, sums, outputs);
  };
  FailureOr<ManifestKernel> info = emitPlainKernel(host, main, name, kThreads, tables, emit);
  if (succeeded(info))
    info->grid = {ceilDiv(*getFormula(sums.extents[2]), kPanel) * sums.getPanels(), *getFormula(sums.extents[1]),
                  *getFormula(sums.extents[0])};
  return info;
}
