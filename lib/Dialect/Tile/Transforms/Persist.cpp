//===- Persist.cpp - a loop over work tiles in each CTA -----------------------------------------------------------===//

#include "WorkTiles.h"
#include "flashc/Dialect/Tile/Transforms/Passes.h"
#include "flashc/Dialect/Tile/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::tile {
#define GEN_PASS_DEF_PERSIST
#include "flashc/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// Moves each load that fills a private ring of one slot once per work tile (the load of Q) down to the first op that
/// reads its tile. So the load comes after the first load of K, whose slot is empty earlier, while the consumers still
/// compute the previous work tile. A load into a ring of two slots or more stays, since the next slot of such a ring is
/// empty even earlier.
static void delayPrivateLoads(scf::ForOp items) {
  for (LoadOp load : llvm::to_vector(items.getOps<LoadOp>())) {
    RingType ring = load.getRing().getType();
    if (!ring.getIsPrivate() || ring.getStages() > 1)
      continue;
    Operation *first = nullptr;
    for (Operation *user : load->getUsers()) {
      Operation *ancestor = items.getBody()->findAncestorOpInBlock(*user);
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
    if (first)
      load->moveBefore(first);
  }
}

void tile::persistProgram(ProgramOp program) {
  Block &body = program.getBody().front();
  SmallVector<Operation *> ops = llvm::to_vector(llvm::make_pointer_range(body));
  ImplicitLocOpBuilder b = ImplicitLocOpBuilder::atBlockBegin(program.getLoc(), &body);
  std::unique_ptr<WorkTiles> workTiles = WorkTiles::create(program, b);
  scf::ForOp items = workTiles->emitLoop();
  if (items)
    b.setInsertionPointToStart(items.getBody());
  std::array<Value, 3> workTile = workTiles->emitWorkTile(items);
  for (Operation *op : ops) {
    if (items)
      op->moveBefore(items.getBody()->getTerminator());
    op->walk([&](Operation *nested) {
      if (auto id = dyn_cast<gpu::BlockIdOp>(nested))
        id.replaceAllUsesWith(workTile[static_cast<unsigned>(id.getDimension())]);
      else if (auto number = dyn_cast<ListNumberOp>(nested))
        number.replaceAllUsesWith(workTiles->getNumbers()[number.getNumber()]);
      else
        return;
      nested->erase();
    });
  }
  if (items)
    delayPrivateLoads(items);
  program.getGridMutable().clear();
  program.getListMutable().clear();
  program.setSingle(false);
  program.removeWorkAttr();
}

namespace {
struct Persist : tile::impl::PersistBase<Persist> {
  using PersistBase::PersistBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](ProgramOp program) {
      if (program.getGrid().empty())
        return WalkResult::advance();
      if (program.isWork(Distribution::Sorted)) {
        program.emitOpError() << "expected a list of its work tiles, which tile-order makes";
        return WalkResult::interrupt();
      }
      persistProgram(program);
      ++numPersistent;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
