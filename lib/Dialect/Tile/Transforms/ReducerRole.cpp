//===- ReducerRole.cpp - the role that adds to sums in device memory ----------------------------------------------===//

#include "Roles.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
/// Emits the code of the reducer: the products that are added to device memory.
class ReducerEmitter : public RoleEmitter {
public:
  using RoleEmitter::RoleEmitter;

  /// Emits a block. At the end of the block, releases the slots for which the block has waited.
  void emit(Block &block) override {
    SmallVector<Value> outer = std::exchange(held, {});
    RoleEmitter::emit(block);
    for (Value slot : held)
      ReleaseOp::create(b, slot.getLoc(), slot);
    held = std::move(outer);
  }

private:
  Value wait(Location loc, Value ring, Value count, int64_t owner) {
    SlotType slot = cast<RingType>(ring.getType()).getSlotType();
    return WaitOp::create(b, loc, slot, ring, count, b.getI64IntegerAttr(owner));
  }

  void emitLoad(LoadOp load) override {
    if (llvm::none_of(load.getSlot().getUsers(), llvm::IsaPred<AddProductOp>))
      return;
    SmallVector<Value> &slots = loaded[load.getSlot()];
    slots.clear();
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner)
      slots.push_back(wait(load.getLoc(), load.getRing(), get(numbering.getCount(load)), owner));
    llvm::append_range(held, slots);
  }

  /// Emits the product as a loop over pieces of 64 rows and columns, which need few registers.
  void emitProduct(AddProductOp product) override {
    Location loc = product.getLoc();
    int64_t cols = GPUTarget::of(product).getPanelCols();
    int64_t rowPanels = product.getA().getType().getDimSize(1) / cols;
    int64_t colPanels = GPUTarget::of(product).countPanels(product.getB().getType().getCols());
    SmallVector<Value> shared;
    for (uint64_t owner = 0; owner < program.getConsumers(); ++owner)
      shared.push_back(wait(loc, product.getRing(), get(numbering.getCount(product)), owner));
    auto loop = scf::ForOp::create(b, loc, index(loc, 0), index(loc, rowPanels * colPanels), index(loc, 1));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value panels = index(loc, colPanels);
      Value rowPanel = b.createOrFold<arith::DivUIOp>(loc, loop.getInductionVar(), panels);
      Value colPanel = b.createOrFold<arith::RemUIOp>(loc, loop.getInductionVar(), panels);
      Value sum = emitPiece(product, shared, rowPanel, colPanel);
      Value first = arith::DivUIOp::create(b, loc, get(product.getRow()), index(loc, kTileRows));
      Value rows = arith::AddIOp::create(b, loc, first, rowPanel);
      AtomicAddOp::create(b, loc, sum, get(product.getSums()), get(product.getBatch()), get(product.getHead()), rows,
                          colPanel);
    }
    for (Value slot : shared)
      ReleaseOp::create(b, loc, slot);
  }

  Value emitPiece(AddProductOp product, ArrayRef<Value> shared, Value rowPanel, Value colPanel) {
    Location loc = product.getLoc();
    SlotType a = cast<SlotType>(shared.front().getType());
    int64_t cols = GPUTarget::of(product).getPanelCols();
    auto panel = SlotType::get(b.getContext(), a.getRows(), cols, a.getElementType());
    RankedTensorType type = getAccType(cols, b.getF32Type());
    Value sum; // the product over the rows of all consumers
    for (auto [ofA, ofB] : llvm::zip_equal(shared, loaded.lookup(product.getB()))) {
      Value panelOfA = PanelOp::create(b, loc, panel, ofA, rowPanel);
      Value panelOfB = PanelOp::create(b, loc, panel, ofB, colPanel);
      sum = MmaAsyncOp::create(b, loc, TokenType::get(b.getContext(), type), panelOfA, panelOfB, sum, /*ones=*/Value(),
                               /*slopes=*/Value(), /*columns=*/Value(), /*transpose_a=*/true, /*transpose_b=*/false,
                               /*stage=*/0);
    }
    sum = MmaWaitOp::create(b, loc, type, sum, /*pending=*/0);
    if (product.getScale().isExactlyValue(1.0))
      return sum;
    Value scale = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, product.getScale()));
    return arith::MulFOp::create(b, loc, sum, scale);
  }

  /// For the slot of each load: the slots that all consumers have for this load.
  llvm::DenseMap<Value, SmallVector<Value>> loaded;
  /// The slots to be released at the end of the block.
  SmallVector<Value> held;
};
} // namespace

void tile::emitReducer(ProgramOp program, const RolePlan &plan, const LoadNumbering &numbering, OpBuilder &b) {
  ReducerEmitter(program, plan, numbering, b).emit(program.getBody().front());
}
