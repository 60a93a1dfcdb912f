//===- RoundKernel.cpp - the kernel that rounds what CTAs have added up -------------------------------------------===//

#include "KernelBody.h"
#include "flashc/LaunchKernels/AddedSums.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace flashc;

/// The shape of a panel. Its elements are in memory in the order of a warpgroup's registers: eight columns of a row are
/// in four consecutive lanes, and each lane holds two of these columns of the row, and the same two columns of the row
/// eight below.
static constexpr int64_t kPanel = 64, kElements = kPanel * kPanel, kBlock = 8, kBlockElements = kBlock * kPanel,
                         kQuadElements = 16, kThreads = 256;

int64_t AddedSums::getDepth() const { return *getConstantIntValue(extents[3]); }

int64_t AddedSums::getPanels() const { return llvm::divideCeil(getDepth(), kPanel); }

Value AddedSums::countPanelRows(OpBuilder &b, ScalarCloner &scalars) const {
  Location loc = result.getLoc();
  Value rows = scalars.get(b, loc, extents[2]);
  if (!rows)
    return {};
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value tiles = b.createOrFold<arith::CeilDivUIOp>(loc, rows, index(tile));
  return b.createOrFold<arith::MulIOp>(loc, tiles, index(tile / kPanel));
}

Value AddedSums::getArray(OpBuilder &b, ScalarCloner &scalars) const {
  Location loc = result.getLoc();
  SmallVector<Value> known;
  for (OpFoldResult extent : ArrayRef(extents).drop_back())
    known.push_back(scalars.get(b, loc, extent));
  if (llvm::is_contained(known, Value()))
    return {};
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, loc, value); };
  Value ofRows = index(getPanels() * kElements);
  known[2] = countPanelRows(b, scalars);
  Value ofHead = b.createOrFold<arith::MulIOp>(loc, known[2], ofRows);
  Value ofBatch = b.createOrFold<arith::MulIOp>(loc, known[1], ofHead);
  constexpr int64_t kAny = ShapedType::kDynamic;
  auto layout =
      StridedLayoutAttr::get(b.getContext(), /*offset=*/0, {kAny, kAny, getPanels() * kElements, kElements, 1});
  auto type = MemRefType::get({kAny, kAny, kAny, getPanels(), kElements}, b.getF32Type(), layout);
  SmallVector<OpFoldResult> sizes{known[0], known[1], known[2], b.getIndexAttr(getPanels()), b.getIndexAttr(kElements)};
  SmallVector<OpFoldResult> strides{ofBatch, ofHead, b.getIndexAttr(getPanels() * kElements), b.getIndexAttr(kElements),
                                    b.getIndexAttr(1)};
  KernelSignature &signature = scalars.getSignature();
  Value table = signature.getTable(*signature.getTables().getNumber(result));
  return memref::ReinterpretCastOp::create(b, loc, type, table, b.getIndexAttr(0), sizes, strides);
}

namespace {
/// CTA (n, h, b) has panel n mod P of the n / P-th row of panels, where a row has P panels. Thread t has columns 8 (t
/// mod 8) to 8 (t mod 8) + 7 of the panel's rows r and r + 8, where r = 16 (t / 64) + t / 8 mod 8.
class RoundBody : public KernelBody {
public:
  RoundBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const AddedSums &sums, ArrayRef<unsigned> outputs)
      : KernelBody(kernel, signature), sums(sums), outputs(outputs) {}

  LogicalResult emit() {
    Value array = sums.getArray(b, scalars), numRows = scalars.get(b, b.getLoc(), sums.extents[2]);
    if (!array || !numRows)
      return failure();
    Value ofThread = thread(), number = block(), head = block(gpu::Dimension::y), batch = block(gpu::Dimension::z);
    Value rows = div(number, sums.getPanels()), panel = rem(number, sums.getPanels());
    Value ofRow = rem(ofThread, kBlock), pair = div(ofThread, kBlock), warp = div(pair, 8), inWarp = rem(pair, 8);
    Value column = add(mul(panel, kPanel), mul(ofRow, kBlock));
    Value row = add(mul(rows, kPanel), add(mul(warp, 16), inWarp));
    // Programmatic launch inserts a wait for the main kernel before the first read. The code up to here does not depend
    // on the main kernel's results, so it runs before the wait.
    emitIf(isBelow(column, index(sums.getDepth())), [&] {
      Value first = add(mul(ofRow, kBlockElements), add(mul(warp, 8 * kQuadElements), mul(inWarp, kQuadElements)));
      std::array<SmallVector<Value>, 2> elements = load(array, {batch, head, rows, panel}, first);
      for (int64_t half : {0, 1}) {
        Value below = add(row, index(8 * half));
        emitIf(isBelow(below, numRows), [&] { store(elements[half], {batch, head, below, column}); });
      }
    });
    return success();
  }

private:
  /// Loads the elements of the thread's two rows.
  std::array<SmallVector<Value>, 2> load(Value array, ArrayRef<Value> panel, Value first) {
    std::array<SmallVector<Value>, 2> elements;
    for (int64_t lane = 0; lane < 4; ++lane) {
      SmallVector<Value> place(panel);
      place.push_back(add(first, index(4 * lane)));
      Value held = vector::LoadOp::create(b, VectorType::get({4}, b.getF32Type()), array, place);
      for (int64_t e = 0; e < 4; ++e)
        elements[e / 2].push_back(vector::ExtractOp::create(b, held, e));
    }
    return elements;
  }

  void store(ValueRange elements, ValueRange place) {
    for (unsigned output : outputs) {
      Value dest = signature.getMemRef(output, /*alignment=*/16);
      Value all = vector::FromElementsOp::create(b, VectorType::get({kBlock}, b.getF32Type()), elements);
      vector::StoreOp::create(b, round(all, getElementTypeOrSelf(dest.getType())), dest, place);
    }
  }

  const AddedSums &sums;
  ArrayRef<unsigned> outputs;
};

class RoundKernel : public LaunchKernel {
public:
  RoundKernel(unsigned result, AddedSums sums, Operation *op)
      : LaunchKernel(op), result(result), sums(std::move(sums)) {}

  LogicalResult addTables(const LaunchNest &, TileTables &tables) const override {
    std::optional<GridFormula> batches = getFormula(sums.extents[0]), heads = getFormula(sums.extents[1]);
    std::optional<GridFormula> rows = getFormula(sums.extents[2]);
    if (!batches || !heads || !rows)
      return emitError(sums.result.getLoc(), "expected extents that are constants or those of arguments");
    tables.add({sums.result, *batches * *heads * ceilDiv(*rows, sums.tile),
                /*bytes=*/sums.tile / kPanel * sums.getPanels() * kElements * 4});
    return success();
  }

  const AddedSums *getAddedSums(unsigned number) const override { return number == result ? &sums : nullptr; }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    std::string suffix = nest.getSuffix(result) + (op ? "_groups" : "");
    return emitKernel<RoundBody>(context, suffix, kThreads,
                                 {ceilDiv(getSize(sums.extents[2]), kPanel) * sums.getPanels(),
                                  getSize(sums.extents[1]), getSize(sums.extents[0])},
                                 sums, nest.getOutputs(result));
  }

private:
  unsigned result;
  AddedSums sums;
};
} // namespace

std::unique_ptr<LaunchKernel> flashc::makeRoundKernel(unsigned result, AddedSums sums, Operation *op) {
  return std::make_unique<RoundKernel>(result, std::move(sums), op);
}

/// Makes a kernel for each result to which several CTAs add because its elements depend on the streamed tile.
/// matchGroup makes the kernels of results that are summed over groups of heads.
void flashc::matchRound(LaunchNest &nest) {
  for (auto [number, result] : llvm::enumerate(nest.results))
    if (result.isAddedUp)
      nest.kernels.push_back(makeRoundKernel(number, {result.value, result.extents, nest.streamedTile}));
}
