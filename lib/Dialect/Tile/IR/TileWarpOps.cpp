//===- TileWarpOps.cpp - constraints of the ops of warp programs --------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tile;

LogicalResult WarpProgramOp::verifyRegions() {
  if (getBody().getNumArguments() != 1 || !getBody().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one region argument, the warp (index)";
  WalkResult walk = getBody().walk([&](Operation *op) {
    for (Type type :
         llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes()))) {
      auto ring = dyn_cast<RingType>(type);
      if (ring && !ring.getIsPrivate()) {
        op->emitOpError() << "expected private rings in a tile.warp_program, got " << ring;
        return WalkResult::interrupt();
      }
      auto tile = dyn_cast<RankedTensorType>(type);
      if (tile && tile.getEncoding() && !hasEncoding<ColAttr>(tile) && tile.getDimSize(0) != kWarpRows) {
        op->emitOpError() << "expected tiles of " << kWarpRows << " rows in a tile.warp_program, got " << tile;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Verifies that `tile` has 16 rows, and that `heads` times `tokens` packed rows fit into them.
static LogicalResult verifyPacked(Operation *op, RankedTensorType tile, uint64_t heads, uint64_t tokens) {
  if (tile.getDimSize(0) != kWarpRows)
    return op->emitOpError() << "expected a tile of " << kWarpRows << " rows, got " << tile;
  if (heads * tokens > static_cast<uint64_t>(kWarpRows))
    return op->emitOpError() << "expected at most " << kWarpRows << " rows, got " << heads << " heads of " << tokens
                             << " tokens";
  return success();
}

LogicalResult ReadRowsOp::verify() {
  auto tile = cast<RankedTensorType>(getResult().getType());
  auto source = cast<MemRefType>(getSource().getType());
  if (source.getElementType() != tile.getElementType() || source.getShape().back() != tile.getDimSize(1))
    return emitOpError() << "expected rows of " << tile.getDimSize(1) << " x " << tile.getElementType() << ", got "
                         << source;
  if (tile.getDimSize(1) % kBlockCols != 0)
    return emitOpError() << "expected a multiple of " << kBlockCols << " columns, got " << tile.getDimSize(1);
  return verifyPacked(*this, tile, getHeads(), getTokens());
}

LogicalResult WriteRowsOp::verify() {
  auto tile = cast<RankedTensorType>(getSource().getType());
  auto dest = cast<MemRefType>(getDest().getType());
  int64_t rank = hasEncoding<RowAttr>(tile) ? 3 : 4;
  if (dest.getRank() != rank)
    return emitOpError() << "expected a destination of rank " << rank << ", got " << dest;
  if (rank == 4 && dest.isDynamicDim(3))
    return emitOpError() << "expected a destination of a known number of columns, got " << dest;
  return verifyPacked(*this, tile, getHeads(), getTokens());
}

LogicalResult ReadPagesOp::verify() {
  if (cast<RankedTensorType>(getPages().getType()).getDimSize(0) != kWarpRows)
    return emitOpError() << "expected pages of " << kWarpRows << " rows, got " << getPages().getType();
  return success();
}

LogicalResult LoadRowsOp::verify() {
  RingType ring = getRing().getType();
  SlotType slot = getSlot().getType();
  auto source = cast<MemRefType>(getSource().getType());
  if (slot != ring.getSlotType())
    return emitOpError() << "expected a slot of " << ring << ", got " << slot;
  if (source.getElementType() != ring.getElementType() || source.getShape().back() != ring.getCols())
    return emitOpError() << "expected rows of " << ring.getCols() << " x " << ring.getElementType() << ", got "
                         << source;
  if (ring.getRows() != kWarpRows)
    return emitOpError() << "expected a ring of " << kWarpRows << " rows, got " << ring;
  if (getSize().has_value() != isa<RankedTensorType>(getB().getType()))
    return emitOpError() << "expected a page for each row if and only if there is a page size";
  return success();
}

/// Verifies the state of a merge: the state must have 16 rows, and the merge must be in a tile.warp_program.
static LogicalResult verifyState(Operation *op, RankedTensorType acc, RankedTensorType merged) {
  auto program = op->getParentOfType<WarpProgramOp>();
  if (!program)
    return op->emitOpError() << "expected to be part of a tile.warp_program";
  if (acc.getDimSize(0) != kWarpRows || merged.getDimSize(0) != kWarpRows)
    return op->emitOpError() << "expected tiles of " << kWarpRows << " rows, got " << acc;
  return success();
}

LogicalResult MergeWarpsOp::verify() {
  auto acc = cast<RankedTensorType>(getAcc().getType()), merged = cast<RankedTensorType>(getMerged().getType());
  if (failed(verifyState(*this, acc, merged)))
    return failure();
  int64_t warps = (*this)->getParentOfType<WarpProgramOp>().getWarps();
  int64_t cols = llvm::divideCeil(acc.getDimSize(1) / kBlockCols, warps) * kBlockCols;
  if (merged.getDimSize(1) != cols)
    return emitOpError() << "expected " << cols << " of " << acc.getDimSize(1) << " columns for each of " << warps
                         << " warps, got " << merged;
  return success();
}

LogicalResult MergeClusterOp::verify() {
  auto acc = cast<RankedTensorType>(getAcc().getType()), merged = cast<RankedTensorType>(getMerged().getType());
  if (failed(verifyState(*this, acc, merged)))
    return failure();
  auto program = (*this)->getParentOfType<WarpProgramOp>();
  if (merged != acc)
    return emitOpError() << "expected a result of type " << acc << ", got " << merged;
  if (program.getCluster() < 2 || program.getWarps() % program.getCluster() != 0)
    return emitOpError() << "expected a cluster size of at least 2 that divides the number of warps, got "
                         << program.getCluster() << " for " << program.getWarps() << " warps";
  return success();
}
