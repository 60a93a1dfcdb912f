//===- TileOps.cpp - constraints of the tile ops ------------------------------------------------------------------===//

#include "flashc/Dialect/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#include <numeric>

using namespace mlir;
using namespace mlir::tile;

static bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }
/// Whether `type` is a type with 8 bits. Products of a warp widen elements of such a type as they read them.
static bool is8Bit(Type type) { return isa<Float8E4M3FNType>(type) || type.isInteger(8); }

/// Verifies that `number` is a multiple of `step`, at least `step` and at most `most`.
static LogicalResult verifyRange(Operation *op, StringRef what, int64_t number, int64_t step, int64_t most) {
  if (number >= step && number <= most && number % step == 0)
    return success();
  return op->emitOpError() << "expected " << step << " to " << most << " " << what << " in steps of " << step
                           << ", got " << number;
}

LogicalResult AllocRingOp::verify() {
  RingType ring = getRing().getType();
  const GPUTarget &target = GPUTarget::of(*this);
  bool isF32 = ring.getElementType().isF32();
  bool isWidened = is8Bit(ring.getElementType()) && ring.getIsPrivate() && ring.getRows() == kWarpRows;
  if (!is16Bit(ring.getElementType()) && !isF32 && !isWidened)
    return emitOpError() << "expected a 16-bit element type or f32, got " << ring.getElementType();
  if (isF32 && ring.getIsPrivate())
    return emitOpError() << "expected a ring of f32 that all consumers share";
  if (ring.getStages() < 1)
    return emitOpError() << "expected at least one stage, got " << ring.getStages();
  int64_t leastRows = isF32 ? 1 : target.getSwizzleRows();
  if (failed(verifyRange(*this, "rows", ring.getRows(), leastRows, target.maxBoxRows)))
    return failure();
  return verifyRange(*this, "columns", ring.getCols(), target.colStep, target.maxCols);
}

/// Verifies what a load with a table of pages, or with rows to be cleared, requires.
static LogicalResult verifyPages(LoadOp op) {
  RingType ring = op.getRing().getType();
  auto map = dyn_cast<TensorMapType>(op.getMap().getType());
  if (!map || op->getParentOfType<WarpProgramOp>())
    return op.emitOpError() << "expected pages and rows to be cleared only with a tensor map, in a tile.program";
  if (op.getTable() && (!op.getPageRows() || !op.getEnd()))
    return op.emitOpError() << "expected the number of rows of a page and the end of the sequence with a table";
  int64_t rows = op.getTable() ? std::gcd(int64_t(*op.getPageRows()), ring.getRows()) : ring.getRows();
  if (map.getRows() != rows || map.getElementType() != ring.getElementType())
    return op.emitOpError() << "expected a box of " << rows << " rows to match " << ring << ", got " << map;
  if (int64_t step = GPUTarget::of(op).getSwizzleRows(); rows % step != 0)
    return op.emitOpError() << "expected boxes of a multiple of " << step << " rows, got " << rows;
  return success();
}

LogicalResult ClearRowsOp::verify() {
  if (!getFirst() && !getBegin())
    return emitOpError() << "expected 'from' or 'before', got neither";
  return success();
}

LogicalResult LoadOp::verify() {
  RingType ring = getRing().getType();
  auto map = dyn_cast<TensorMapType>(getMap().getType());
  SlotType slot = getSlot().getType();
  if (slot != ring.getSlotType())
    return emitOpError() << "expected a slot of " << ring << ", got " << slot;
  auto array = dyn_cast<MemRefType>(getMap().getType());
  if (getTable() || getFirst() || getBegin())
    return verifyPages(*this);
  bool isOfHeads = map && map.getHeads() > 1; // the rows of a group need not fill the slot
  if (map ? (isOfHeads ? map.countRows() > ring.getRows() : map.getRows() != ring.getRows()) ||
                map.getElementType() != ring.getElementType()
          : !ring.getElementType().isF32() || array.getDimSize(0) != ring.getRows())
    return emitOpError() << "expected the box of " << getMap().getType() << " to match " << ring;
  return success();
}

namespace {
struct OperandShape {
  int64_t rows, depth;
  Type element;
};
} // namespace

static OperandShape getShapeOfA(Value a, bool isTransposed) {
  if (auto slot = dyn_cast<SlotType>(a.getType())) {
    if (isTransposed)
      return {slot.getCols(), slot.getRows(), slot.getElementType()};
    return {slot.getRows(), slot.getCols(), slot.getElementType()};
  }
  auto tensor = cast<RankedTensorType>(a.getType());
  return {tensor.getDimSize(0), tensor.getDimSize(1), tensor.getElementType()};
}

/// Verifies the slopes of a product of `cols` columns.
static LogicalResult verifySlopes(MmaAsyncOp op, int64_t cols) {
  if (!op.getSlopes() && !op.getColumns())
    return success();
  if (!op.getSlopes() || !op.getColumns() || !op.getTransposeB())
    return op.emitOpError() << "expected slopes, columns and transpose_b together";
  if (!hasRole(op.getSlopes(), SlotRole::Slopes) || !hasRole(op.getColumns(), SlotRole::Columns))
    return op.emitOpError() << "expected slopes of a tile.alloc_slot slopes and columns of a tile.alloc_slot columns";
  Type element = op.getB().getType().getElementType();
  const GPUTarget &target = GPUTarget::of(op);
  SlotType slopes = getSlopesType(target, element), columns = getColumnsType(target, cols, element);
  if (op.getSlopes().getType() != slopes)
    return op.emitOpError() << "expected slopes of type " << slopes << ", got " << op.getSlopes().getType();
  if (op.getColumns().getType() != columns)
    return op.emitOpError() << "expected columns of type " << columns << ", got " << op.getColumns().getType();
  return success();
}

MmaWaitOp MmaAsyncOp::getWait() {
  return getToken().hasOneUse() ? dyn_cast<MmaWaitOp>(*getToken().user_begin()) : MmaWaitOp();
}

LogicalResult MmaAsyncOp::verify() {
  const GPUTarget &target = GPUTarget::of(*this);
  SlotType b = getB().getType();
  int64_t depth = getTransposeB() ? b.getCols() : b.getRows();
  int64_t cols = getTransposeB() ? b.getRows() : b.getCols();
  if (getTransposeA() && !isa<SlotType>(getA().getType()))
    return emitOpError() << "expected a slot as A for transpose_a, got " << getA().getType();
  OperandShape a = getShapeOfA(getA(), getTransposeA());
  RankedTensorType result = getToken().getType().getResultType();
  bool isOfWarp = a.rows == kWarpRows && !isa<SlotType>(getA().getType()),
       isWidened = isOfWarp && is8Bit(b.getElementType());
  if ((a.element != b.getElementType() && !isWidened) || !is16Bit(a.element))
    return emitOpError() << "expected A and B of one 16-bit type, got " << a.element << " and " << b.getElementType();
  if (isWidened && (b.getCols() % 16 != 0 || b.getRows() % 16 != 0))
    return emitOpError() << "expected a B of 8 bits in steps of 16 x 16, got " << b;
  if (auto read = getA().getDefiningOp<ReadRowsOp>(); read && isWidened != read.getQuads())
    return emitOpError() << "expected A to have its columns in quads if and only if B has 8 bits";
  if ((a.rows != target.productRows && !isOfWarp) || a.depth != depth)
    return emitOpError() << "expected A of " << target.productRows << " x " << depth << ", got " << a.rows << " x "
                         << a.depth;
  if (getOnes()) {
    if (getTransposeB() || cols % target.getPanelCols() != 0)
      return emitOpError() << "expected a B of a multiple of " << target.getPanelCols()
                           << " columns with ones, not transposed";
    SlotType ones = getOnesType(target, b.getElementType());
    if (getOnes().getType() != ones)
      return emitOpError() << "expected ones of type " << ones << ", got " << getOnes().getType();
    cols += target.colStep;
  }
  if (result != getAccType(cols, Float32Type::get(getContext()), a.rows))
    return emitOpError() << "expected a result of " << a.rows << " x " << cols << " x f32 with encoding #tile.acc, got "
                         << result;
  Type acc = getAcc() ? getAcc().getType() : Type();
  if (acc && acc != result && acc != getToken().getType())
    return emitOpError() << "expected an accumulator of type " << result << ", got " << acc;
  if (acc && isa<TokenType>(acc) && !getAcc().hasOneUse())
    return emitOpError() << "expected the product that it continues to have no other use";
  if (!getTransposeB() && depth % target.depthStep != 0)
    return emitOpError() << "expected a depth in steps of " << target.depthStep << ", got " << depth;
  if (getLocalDescriptors() && !isa<SlotType>(getA().getType()))
    return emitOpError() << "expected A in a slot for local_descriptors, got " << getA().getType();
  return verifySlopes(*this, cols);
}

LogicalResult PanelOp::verify() {
  SlotType slot = getSlot().getType(), panel = getPanel().getType();
  int64_t cols = GPUTarget::of(*this).getPanelCols();
  if (panel == SlotType::get(getContext(), slot.getRows(), cols, slot.getElementType()))
    return success();
  return emitOpError() << "expected a panel of " << slot.getRows() << " x " << cols << " x " << slot.getElementType()
                       << ", got " << panel;
}

/// Verifies that a slot of `ring` can hold `source`, a consumer's tile of 64 rows that consists of whole panels.
static LogicalResult verifyShared(Operation *op, RingType ring, RankedTensorType source) {
  if (ring.getIsPrivate() && ring.getRows() == kTileRows && ring.getCols() == source.getDimSize(1) &&
      ring.getElementType() == source.getElementType() && ring.getCols() % GPUTarget::of(op).getPanelCols() == 0)
    return success();
  return op->emitOpError() << "expected a private ring of " << kTileRows << " x " << source.getDimSize(1) << " x "
                           << source.getElementType() << ", in panels of " << GPUTarget::of(op).getPanelCols()
                           << " columns, got " << ring;
}

/// Verifies the ring through which consumers pass a tile to each other.
static LogicalResult verifyPassed(Operation *op, RingType ring, Type tile) {
  auto type = cast<RankedTensorType>(tile);
  if (!ring.getIsPrivate() && ring.getElementType().isF32() &&
      type.getShape() == ArrayRef({ring.getRows(), ring.getCols()}))
    return success();
  return op->emitOpError() << "expected a ring of " << type.getDimSize(0) << " x " << type.getDimSize(1)
                           << " x f32 that all consumers share, got " << ring;
}

LogicalResult HandOverOp::verify() { return verifyPassed(*this, getRing().getType(), getSource().getType()); }
LogicalResult SendOp::verify() { return verifyPassed(*this, getRing().getType(), getSource().getType()); }
LogicalResult ReceiveOp::verify() { return verifyPassed(*this, getRing().getType(), getResult().getType()); }

LogicalResult ShareOp::verify() { return verifyShared(*this, getRing().getType(), getSource().getType()); }

LogicalResult AddProductOp::verify() {
  SlotType b = getB().getType();
  if (b.getRows() != kTileRows || b.getElementType() != getA().getType().getElementType())
    return emitOpError() << "expected B of " << kTileRows << " rows of " << getA().getType().getElementType()
                         << ", got " << b;
  return verifyShared(*this, getRing().getType(), getA().getType());
}

LogicalResult AtomicAddOp::verify() {
  const GPUTarget &target = GPUTarget::of(*this);
  RankedTensorType type = cast<RankedTensorType>(getSource().getType());
  MemRefType sums = getSums().getType();
  int64_t elements = kTileRows * target.getPanelCols(), panels = target.countPanels(type.getDimSize(1));
  if (type.getDimSize(0) != kTileRows)
    return emitOpError() << "expected a tile of " << kTileRows << " rows, got " << type;
  if (sums.getShape().back() != elements)
    return emitOpError() << "expected " << elements << " elements of each panel, got " << sums;
  if (panels == 1 || (sums.getDimSize(3) >= panels && sums.getStridesAndOffset().first[3] == elements))
    return success();
  return emitOpError() << "expected " << panels << " consecutive panels, got " << sums;
}

LogicalResult MmaWaitOp::verify() {
  if (getResult().getType() != getToken().getType().getResultType())
    return emitOpError() << "expected a result of type " << getToken().getType().getResultType() << ", got "
                         << getResult().getType();
  if (!getToken().hasOneUse())
    return emitOpError() << "expected its token to be waited for once";
  return success();
}

bool tile::hasRole(Value slot, SlotRole role) {
  auto alloc = slot.getDefiningOp<AllocSlotOp>();
  return alloc && alloc.getRoleAttr() && alloc.getRole() == role; // an op that is not verified yet may lack the role
}

int64_t AllocSlotOp::getBytes(const GPUTarget &target) {
  bool isOfSteps = getRole() == SlotRole::Slopes || getRole() == SlotRole::Columns;
  SlotType slot = getSlot().getType();
  return isOfSteps ? slot.getRows() * target.getStepRowBytes() : slot.getBytes(target);
}

LogicalResult AllocSlotOp::verify() {
  SlotType slot = getSlot().getType();
  int64_t rows = slot.getRows();
  const GPUTarget &target = GPUTarget::of(*this);
  if (getRole() == SlotRole::Output && rows != kTileRows)
    return emitOpError() << "expected " << kTileRows << " rows, got " << slot;
  if (getRole() == SlotRole::Output)
    return success();
  bool isOnes = getRole() == SlotRole::Ones, isColumns = getRole() == SlotRole::Columns;
  int64_t least = isOnes ? target.depthStep : isColumns ? target.colStep : kTileRows;
  int64_t most = isColumns ? target.maxCols : least, cols = isOnes ? target.getPanelCols() : target.depthStep;
  if (is16Bit(slot.getElementType()) && rows >= least && rows <= most && rows % least == 0 && slot.getCols() == cols)
    return success();
  InFlightDiagnostic diag = emitOpError() << "expected a slot of " << least;
  if (most > least)
    diag << " to " << most;
  return diag << " x " << cols << " elements of 16 bits, got " << slot;
}

LogicalResult StoreSlopesOp::verify() {
  if (!hasRole(getSlot(), SlotRole::Slopes))
    return emitOpError() << "expected a slot of tile.alloc_slot slopes";
  return success();
}

LogicalResult StoreOp::verify() {
  auto dest = cast<MemRefType>(getDest().getType());
  bool isRow = hasEncoding<RowAttr>(getSource().getType());
  RankedTensorType source = getSource().getType();
  bool mayLackBatch = !getColumns().empty() && (dest.getRank() == 2 || dest.getRank() == 3);
  if (dest.getRank() != (isRow ? 3 : 4) && !mayLackBatch)
    return emitOpError() << "expected a destination of rank " << (isRow ? 3 : 4) << ", got " << dest;
  if (!getColumns().empty() && (isRow || getColumns().size() != 2 || !dest.getElementType().isF32()))
    return emitOpError() << "expected the first column and the end of the columns for a tile that is stored in f32, "
                            "got "
                         << getColumns().size() << " numbers and " << dest;
  if (!isRow && getColumns().empty() && dest.getShape().back() != source.getDimSize(1))
    return emitOpError() << "expected " << source.getDimSize(1) << " columns in the destination, got " << dest;
  if ((getHeads() == 0) != (getTokens() == 0))
    return emitOpError() << "expected a number of heads together with a number of rows, got " << getHeads() << " and "
                         << getTokens();
  if (getHeads() != 0 && (!getColumns().empty() || static_cast<int64_t>(getHeads() * getTokens()) > kTileRows))
    return emitOpError() << "expected rows of heads within a tile of " << kTileRows << " rows, and all columns, got "
                         << getHeads() << " heads of " << getTokens() << " rows";
  return success();
}

LogicalResult ReleaseOp::verify() {
  if ((getElements() > 0) != static_cast<bool>(getAfter()) || static_cast<int64_t>(getElements()) < 0)
    return emitOpError() << "expected 'after' together with a positive number of elements";
  if (!getAfter())
    return success();
  int64_t held = getAfter().getType().getDimSize(1) / 2;
  if (static_cast<int64_t>(getElements()) <= held)
    return success();
  return emitOpError() << "expected at most the " << held << " elements that a thread holds, got " << getElements();
}

LogicalResult StoreAsyncOp::verify() {
  SlotType slot = getSlot().getType();
  int64_t cols = cast<RankedTensorType>(getSource().getType()).getDimSize(1);
  const GPUTarget &target = GPUTarget::of(*this);
  int64_t room = target.countPanels(slot.getCols()) * target.getPanelCols();
  if (slot.getRows() != kTileRows || cols > room)
    return emitOpError() << "expected a slot of " << kTileRows << " rows with panels for " << cols << " columns, got "
                         << slot;
  TensorMapType map = getMap().getType();
  bool fits = map.getHeads() > 1 ? map.countRows() <= kTileRows && !getLimit() : map.getRows() == kTileRows;
  if (map.getElementType() != slot.getElementType() || !fits)
    return emitOpError() << "expected a map of " << kTileRows << " rows of " << slot.getElementType() << ", got "
                         << map;
  auto wait = dyn_cast_or_null<StoreWaitOp>((*this)->getPrevNode());
  if (hasRole(getSlot(), SlotRole::Output) && !(wait && wait.getAll()))
    return emitOpError() << "expected tile.store_wait all before it: the store before goes through the same slot";
  if (!getLimit() != !getDest())
    return emitOpError() << "expected 'limit' and 'else' together, got one of them";
  if (getLimit() && !hasRole(getSlot(), SlotRole::Output))
    return emitOpError() << "expected the slot of tile.alloc_slot output with a limit: all threads read it";
  if (getDest() && cast<MemRefType>(getDest().getType()).getElementType() != slot.getElementType())
    return emitOpError() << "expected an array of " << slot.getElementType() << ", got " << getDest().getType();
  return success();
}

LogicalResult WorkAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Distribution distribution, ListScope,
                               int64_t numbers, int64_t own, int64_t parts) {
  if (numbers < 0 || own < 0)
    return emitError() << "expected counts of at least 0, got " << std::min(numbers, own);
  if (distribution != Distribution::List && numbers + own > 0)
    return emitError() << "expected a list for precomputed numbers, got " << numbers + own << " without one";
  if (parts < 1 || (parts > 1 && distribution != Distribution::List && distribution != Distribution::Sorted))
    return emitError() << "expected one part of each query tile, or several of a list, got " << parts;
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (getBody().getNumArguments() != 1 || !getBody().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one region argument, the warpgroup (index)";
  if (!getGrid().empty() && getGrid().size() != 3)
    return emitOpError() << "expected a grid of three extents, got " << getGrid().size();
  if (getWork() && getGrid().empty())
    return emitOpError() << "expected a grid together with a distribution of its work tiles";
  if (getSingle() && !isWork(Distribution::Paired) && !isWork(Distribution::Sorted) && !isWork(Distribution::List))
    return emitOpError() << "expected work tiles of a single grid to be paired, sorted or of a list";
  if (isWork(Distribution::List) != (getList() != nullptr))
    return emitOpError() << "expected a list and work tiles distributed by it, or neither";
  return success();
}

LogicalResult ListNumberOp::verify() {
  auto program = (*this)->getParentOfType<ProgramOp>();
  auto work = program ? program.getWork().value_or(WorkAttr()) : WorkAttr();
  int64_t numbers = work ? work.getNumbers() + work.getOwn() : 0, number = getNumber();
  if (number < 0 || number >= numbers)
    return emitOpError() << "expected a number of the " << numbers << " in the list, got " << number;
  return success();
}

LogicalResult DrawOp::verifyRegions() {
  if (getBody().getNumArguments() != 1 || !getBody().getArgument(0).getType().isIndex())
    return emitOpError() << "expected one region argument, the number (index)";
  auto drawn = cast<DrawnOp>(getBody().front().getTerminator());
  auto loop = cast<scf::ForOp>((*this)->getParentOp());
  if (getConstantIntValue(loop.getLowerBound()) != 0 || getConstantIntValue(loop.getStep()) != 1)
    return emitOpError() << "expected a loop from 0 with step 1, whose index is the number of the turn";
  if (drawn.getValues().size() != getNumResults())
    return drawn.emitOpError() << "expected " << getNumResults() << " values, got " << drawn.getValues().size();
  return success();
}

LogicalResult PublishOp::verify() {
  int64_t values = getValues().size() + getOwn().size();
  int64_t words = getOwn().empty() ? kPublishWords : kOwnPublishWords;
  if (1 + values > words)
    return emitOpError() << "expected at most " << words - 1 << " values, got " << values;
  return success();
}

#define GET_OP_CLASSES
#include "flashc/Dialect/Tile/IR/TileOps.cpp.inc"
