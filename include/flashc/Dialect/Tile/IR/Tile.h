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

/// The bytes of a slot of elements of 8 or 16 bits, or of f32.
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
/// Rows of a tile that four warps hold in fragments of 16 rows each: its encodings say where.
constexpr int64_t kTileRows = 64;
/// Rows of a tile that one warp holds in one such fragment (tile.warp_program).
constexpr int64_t kWarpRows = 16;
/// Warpgroups that compute in a CTA: five of them, and one that loads, would have 80 registers a thread.
constexpr int64_t kMaxConsumers = 4;

/// Neighbouring blocks of an accumulator's columns: a thread has the same two columns of each.
constexpr int64_t kBlockCols = 8;

/// Places for what the producer publishes, each of so many numbers and an mbarrier (tile.publish). The ring of Q has
/// fewer slots.
constexpr int64_t kPublishPlaces = 4;
constexpr int64_t kPublishWords = 16;
/// Where some of the numbers are for one consumer each.
constexpr int64_t kOwnPublishWords = 32;
/// All of them, on `target`.
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

/// Whether `type` is one of 64 rows, or of a warp's 16: of columns, or of a value for each row.
template <typename Encoding> bool isTile(Type type) {
  constexpr int64_t rank = llvm::is_one_of<Encoding, RowAttr, LanePartialAttr>::value ? 1 : 2;
  auto tensor = dyn_cast<RankedTensorType>(type);
  return hasEncoding<Encoding>(type) && tensor.getRank() == rank && tensor.hasStaticShape() &&
         (tensor.getDimSize(0) == kTileRows || tensor.getDimSize(0) == kWarpRows);
}

/// Whether `type` is a tile of a value for each column.
bool isColTile(Type type);

/// `tensor<64 x cols x element, #tile.acc>`, or of so many rows.
RankedTensorType getAccType(int64_t cols, Type element, int64_t rows = kTileRows);
/// `tensor<64 x element, #tile.row>`.
RankedTensorType getRowType(Type element, int64_t rows = kTileRows);
/// `tensor<64 x f32, #tile.lane_partial>`.
RankedTensorType getLanePartialType(MLIRContext *context, int64_t rows = kTileRows);

/// The program of warps of `kernel`; null if it has none.
WarpProgramOp getWarpProgram(gpu::GPUFuncOp kernel);

/// The slot of ones: what one step of a product reads.
SlotType getOnesType(const GPUTarget &target, Type element);
/// The slots of slopes and, for products of `cols` columns, of columns.
SlotType getSlopesType(const GPUTarget &target, Type element);
SlotType getColumnsType(const GPUTarget &target, int64_t cols, Type element);

/// Whether `slot` has been allocated in that role.
bool hasRole(Value slot, SlotRole role);

/// How many blocks of columns a thread sees before a condition on the keys repeats, as `(i - j) mod 3 = 0` does after
/// three: if that is known, few (kMostRepeat), and within a tile of `cols` columns. `key` is the position j among the
/// arguments of the condition's block. Positions are taken not to overflow.
std::optional<int64_t> getRepeat(Value condition, BlockArgument key, int64_t cols);
constexpr int64_t kMostRepeat = 8;

/// x, if `op` is its magnitude, as math.absi or as the maximum of x and 0 - x; otherwise null.
Value getMagnitudeOperand(Operation *op);

/// Whether the CTAs of `kernel` draw numbers of work tiles (tile.draw), or will when a list has been made.
bool drawsNumbers(gpu::GPUFuncOp kernel);

/// Whether a CTA of `kernel` has a warpgroup behind the consumers, which adds up what they share.
bool hasReducer(gpu::GPUFuncOp kernel);

/// The registers that a thread of the reducer needs at least: with fewer, ptxas lets no role change its number (C7507).
inline constexpr int64_t kReducerRegisters = 56;

/// The registers of a reducer's thread: what producer and consumers leave of the CTA's, at most those of the launch and
/// of a consumer's thread.
int64_t getReducerRegisters(const GPUTarget &target, ScheduleAttr schedule);

/// Words (i32) in the list of a program for each item with so many numbers: the item and these, and behind all of those
/// its work and its numbers again. The counter of `tile.draw` is the word behind the last item's.
constexpr int64_t getListItemWords(int64_t numbers) { return 2 * (1 + numbers); }

/// Numbers in a place for broadcasts (tile.publish).
int64_t getPublishWords(gpu::GPUFuncOp kernel);

} // namespace mlir::tile

#endif // FLASHC_DIALECT_TILE_IR_TILE_H
