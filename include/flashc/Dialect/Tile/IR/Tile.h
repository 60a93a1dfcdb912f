//===- Tile.h - the tile dialect (L2) -----------------------------------------------------------------------------===//
//
// Tiles with a layout, shared-memory rings, asynchronous copies and products, warpgroup roles. The types and
// encodings are described in TileDialect.td, the ops in TileOps.td.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_TILE_IR_TILE_H
#define FLASHC_DIALECT_TILE_IR_TILE_H

#include "flashc/Target/GPUTarget.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tile {
using flashc::GPUTarget;

/// Returns the bytes of a slot of `rows` x `cols` elements of 8 or 16 bits, or of f32.
int64_t getSlotBytes(const GPUTarget &target, int64_t rows, int64_t cols, Type element);
} // namespace mlir::tile

#include "flashc/Dialect/Tile/IR/TileOpsDialect.h.inc"
#include "flashc/Dialect/Tile/IR/TileOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "flashc/Dialect/Tile/IR/TileOpsTypes.h.inc"

#define GET_OP_CLASSES
#include "flashc/Dialect/Tile/IR/TileOps.h.inc"

namespace mlir::tile {
/// The rows of a warpgroup's tile. Each of the warpgroup's four warps holds a fragment of 16 rows.
constexpr int64_t kTileRows = 64;
/// The rows of a warp's tile (tile.warp_program): one fragment of 16 rows.
constexpr int64_t kWarpRows = 16;
/// The most consumer warpgroups of a CTA. With five of them and a producer a thread would have only 80 registers.
constexpr int64_t kMaxConsumers = 4;

/// The columns of a block of an accumulator. A thread holds the same two columns of every block.
constexpr int64_t kBlockCols = 8;

/// The number of places for broadcasts (tile.publish). There are more places than slots in the ring of Q.
constexpr int64_t kPublishPlaces = 4;
/// How many numbers a place holds next to its mbarrier: kPublishWords if every number is for all consumers, and
/// kOwnPublishWords if some numbers are for one consumer each.
constexpr int64_t kPublishWords = 16;
constexpr int64_t kOwnPublishWords = 32;
/// Returns the bytes of all places on `target`, where each place holds `words` numbers.
constexpr int64_t getPublishBytes(const GPUTarget &target, int64_t words) {
  return kPublishPlaces * (target.barrierBytes + 4 * words);
}

/// The name of the schedule attribute on a kernel.
constexpr llvm::StringLiteral kScheduleAttrName = "tile.schedule";

/// Whether `type` is a tensor with the encoding `Encoding`.
template <typename Encoding> bool hasEncoding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa_and_nonnull<Encoding>(tensor.getEncoding());
}

/// Whether `type` is a tile with the encoding `Encoding`: with 64 rows or a warp's 16 rows, and of rank 1 if the
/// encoding has one value for each row, otherwise of rank 2.
template <typename Encoding> bool isTile(Type type) {
  constexpr int64_t rank = llvm::is_one_of<Encoding, RowAttr, LanePartialAttr>::value ? 1 : 2;
  auto tensor = dyn_cast<RankedTensorType>(type);
  return hasEncoding<Encoding>(type) && tensor.getRank() == rank && tensor.hasStaticShape() &&
         (tensor.getDimSize(0) == kTileRows || tensor.getDimSize(0) == kWarpRows);
}

/// Whether `type` is a tile that has a value for each column.
bool isColTile(Type type);

/// Returns `tensor<rows x cols x element, #tile.acc>`.
RankedTensorType getAccType(int64_t cols, Type element, int64_t rows = kTileRows);
/// Returns `tensor<rows x element, #tile.row>`.
RankedTensorType getRowType(Type element, int64_t rows = kTileRows);
/// Returns `tensor<rows x f32, #tile.lane_partial>`.
RankedTensorType getLanePartialType(MLIRContext *context, int64_t rows = kTileRows);

/// Returns the tile.warp_program of `kernel`. Null if it has none.
WarpProgramOp getWarpProgram(gpu::GPUFuncOp kernel);

/// Returns the type of a slot of ones, which has as many elements as one step of a product reads.
SlotType getOnesType(const GPUTarget &target, Type element);
/// Return the type of a slot of slopes, and the type of a slot of columns for products of `cols` columns.
SlotType getSlopesType(const GPUTarget &target, Type element);
SlotType getColumnsType(const GPUTarget &target, int64_t cols, Type element);

/// Whether a tile.alloc_slot with the role `role` has allocated `slot`.
bool hasRole(Value slot, SlotRole role);

/// Returns after how many blocks of columns `condition` repeats along the keys; for `(i - j) mod 3 = 0` it is three.
/// None if the number is unknown, more than kMostRepeat, or more than the number of blocks in a tile of `cols` columns.
/// `key` is the argument of the condition's block that stands for the position j. Positions are assumed not to
/// overflow.
std::optional<int64_t> getRepeat(Value condition, BlockArgument key, int64_t cols);
constexpr int64_t kMostRepeat = 8;

/// Returns x if `op` computes |x|, as math.absi or as the maximum of x and 0 - x. Null otherwise.
Value getMagnitudeOperand(Operation *op);

/// Whether the CTAs of `kernel` use the dynamic tile scheduler (tile.draw), or will use it after tile-order has made a
/// work list.
bool drawsNumbers(gpu::GPUFuncOp kernel);

/// Whether a CTA of `kernel` has a reducer warpgroup, or will have one (tile.add_product).
bool hasReducer(gpu::GPUFuncOp kernel);

/// The least number of registers of the reducer's threads. With fewer, ptxas ignores setmaxnreg in all roles (C7507).
inline constexpr int64_t kReducerRegisters = 56;

/// Returns the number of registers of a reducer's thread. The reducer gets the registers of the CTA that the producer
/// and the consumers leave. Its threads get at most as many as a thread has at launch, and at most as many as a
/// consumer's thread.
int64_t getReducerRegisters(const GPUTarget &target, ScheduleAttr schedule);

/// Returns how many words (i32) of a work list an item with `numbers` numbers takes. The first part of the list has,
/// for each item, the item and its numbers. The second part has, for each item, its work and again its numbers. One
/// more word, after both parts, is the counter of `tile.draw`.
constexpr int64_t getListItemWords(int64_t numbers) { return 2 * (1 + numbers); }

/// Returns how many numbers a place for broadcasts (tile.publish) of `kernel` holds.
int64_t getPublishWords(gpu::GPUFuncOp kernel);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_TILE_H
