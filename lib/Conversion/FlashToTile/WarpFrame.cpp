//===- WarpFrame.cpp - the frame of a decoding kernel -------------------------------------------------------------===//

#include "WarpFrame.h"
#include "Steps/TileStep.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Schedule/Rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

/// Whether pages have scales of their own.
static bool hasPageScales(const NestOperand &operand) {
  flash::CacheTileOp cache = operand.cache;
  return cache && cache.getScales() && cast<ShapedType>(cache.getScales().getType()).getDimSize(0) != 1;
}

FailureOr<Schedule> flashc::completeDecodeSchedule(LoopNest &nest, std::optional<Schedule> carried, StringRef target,
                                                   StringRef overrides) {
  flash::StepOpInterface op = nest.getStep();
  if (!GPUTarget::lookup(target))
    return op->emitError() << "expected the target to be one of " << GPUTarget::getNames() << ", got '" << target
                           << "'";
  Question question;
  question.kind = KernelKind::Decode;
  question.target = target.str();
  question.d = nest.getOperand("k").getCols(), question.dv = nest.getOperand("v").getCols();
  question.cache.emplace().isWidened = nest.getOperand("k").getStoredType().getIntOrFloatBitWidth() == 8;
  ScheduleRow row;
  row.kind = KernelKind::Decode;
  row.overrides = carried ? carried->str() : "splits=1";
  llvm::Expected<Schedule> schedule = applyRow(row, question, overrides);
  if (!schedule)
    return op.emitError() << "schedule: " << llvm::toString(schedule.takeError());
  if (nest.streamedTile != DecodeSchedule::kKeys)
    return op.emitError() << "expected tiles of " << DecodeSchedule::kKeys << " keys, got " << nest.streamedTile;
  std::optional<int64_t> parts = getConstantIntValue(nest.parts.dim.extent);
  if (schedule->chunk == 0 && parts != schedule->splits)
    return op.emitError() << "expected " << schedule->splits << " parts of the keys (schedule " << schedule->str()
                          << ")";
  return *schedule;
}

FailureOr<std::array<GridFormula, 3>> flashc::getPackedExtents(LoopNest &nest) {
  auto get = [](const ParallelDim &dim) { return getFormula(dim.extent); };
  std::optional<GridFormula> parts = get(nest.parts.dim), heads = get(nest.head), queries = get(nest.resident),
                             batches = get(nest.batch);
  if (!parts || !heads || !queries || !batches)
    return nest.end->emitError() << "expected the extents of the parallel loop to be constants or extents of arguments";
  return std::array<GridFormula, 3>{
      *parts, ceilDiv(*heads, nest.packed->heads) * ceilDiv(*queries, nest.packed->tokens), *batches};
}

WarpFrame::WarpFrame(LoopNest &nest, const Schedule &schedule, gpu::GPUFuncOp kernel, KernelSignature &signature)
    : KernelFrame(nest, schedule, kernel, signature) {
  tileRows = tile::kWarpRows;
}

LogicalResult WarpFrame::checkOperands() {
  flash::StepOpInterface op = nest.getStep();
  if (nest.getDropout())
    return op.emitError() << "expected no dropout in a decoding kernel (algorithm split-kv)";
  if (!nest.elementType.isBF16() && !nest.elementType.isF16())
    return op.emitError() << "expected keys and values of bf16 or f16, got " << nest.elementType;
  areBytes = nest.getOperand("k").getStoredType() != nest.elementType;
  for (const Operand &operand : operands) {
    Type stored = operand.info.getStoredType();
    if (!operand.info.isStreamed)
      continue;
    if (stored != nest.getOperand("k").getStoredType())
      return op.emitError() << "expected keys and values of one type in their caches, got "
                            << nest.getOperand("k").getStoredType() << " and " << stored;
    if (areBytes && operand.info.getCols() % 16 != 0)
      return op.emitError() << "expected head dimensions of a multiple of 16 for caches of 8 bits, got "
                            << operand.info.getCols();
    if (!stored.isInteger() && areBytes && !getTarget().hasFloat8)
      return op.emitError() << "expected caches of i8 or 16 bits on " << getTarget().name
                            << ", which has no float8, got " << stored;
    if (hasPageScales(operand.info) && operand.info.getPageRows() % nest.streamedTile != 0)
      return op.emitError() << "expected pages of a multiple of " << nest.streamedTile
                            << " rows where each has a scale, got " << operand.info.getPageRows();
  }
  return success();
}

LogicalResult WarpFrame::build(TileStep &step) {
  if (failed(checkOperands()) || failed(step.check()))
    return failure();
  b.setInsertionPointToStart(&kernel.getBody().front());
  if (failed(emitRings()))
    return failure();
  step.emitAllocations();
  auto program = tile::WarpProgramOp::create(b, schedule.warps, schedule.getCluster());
  gpu::ReturnOp::create(b);
  Block *body = b.createBlock(&program.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  b.setInsertionPointToStart(body);
  warp = program.getWarp();
  column = index(0);
  if (failed(emitPositions(warp)) || failed(emitSeen(step)))
    return failure();
  FailureOr<ValueRange> state = emitLoop(step);
  if (failed(state))
    return failure();
  return step.emitOutputs(*state);
}

LogicalResult WarpFrame::emitRings() {
  for (Operand &operand : operands)
    if (operand.info.isStreamed && areBoxes(operand))
      operand.map = signature.getTensorMap(*operand.info.getArgument(), nest.streamedTile);
  for (Operand &operand : operands) {
    if (!operand.info.isStreamed)
      continue;
    auto type = tile::RingType::get(b.getContext(), schedule.stages, nest.streamedTile, operand.info.getCols(),
                                    operand.info.getStoredType(), /*isPrivate=*/true);
    operand.ring = tile::AllocRingOp::create(b, type);
  }
  return success();
}

/// Whether tiles of a streamed operand are boxes that TMA copies.
bool WarpFrame::areBoxes(const Operand &operand) {
  return getTarget().hasTMA && operand.info.getPageRows() % nest.streamedTile == 0;
}

/// Where the rows of an operand's sequence end, if its tiles have to be told.
FailureOr<Value> WarpFrame::emitEnd(const Operand &operand) {
  flash::CacheTileOp cache = operand.info.cache;
  if (cache && cache.getLengths()) {
    Value length = scalars.loadElement(b, cache, cache.getLengths(), batch);
    if (!length)
      return failure();
    return arith::IndexCastOp::create(b, b.getIndexType(), length).getResult();
  }
  if (!operand.info.isStreamed || areBoxes(operand))
    return Value(); // nothing but the array's end is, which TMA knows
  int64_t page = operand.info.getPageRows();
  Operation *op = cache ? cache.getOperation() : nest.getStep().getOperation();
  Value extent = page ? scalars.getExtent(b, op, cache.getTable(), 1) : scalars.getExtent(b, op, operand.info.array, 2);
  if (!extent)
    return failure();
  return page ? b.createOrFold<arith::MulIOp>(extent, index(page)) : extent;
}

LogicalResult WarpFrame::emitPositions(Value) {
  part = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value tile = gpu::BlockIdOp::create(b, gpu::Dimension::y);
  batch = gpu::BlockIdOp::create(b, gpu::Dimension::z);
  const PackedRows &packed = *nest.packed;
  Value heads = scalars.get(b, b.getLoc(), nest.head.extent);
  endOfRows = scalars.get(b, b.getLoc(), nest.resident.extent);
  if (!heads || !endOfRows)
    return failure();
  Value headTiles = b.createOrFold<arith::CeilDivUIOp>(heads, index(packed.heads));
  head = b.createOrFold<arith::MulIOp>(b.createOrFold<arith::RemUIOp>(tile, headTiles), index(packed.heads));
  row = b.createOrFold<arith::MulIOp>(b.createOrFold<arith::DivUIOp>(tile, headTiles), index(packed.tokens));
  std::pair<Value, Value> positions[] = {{nest.parts.dim.position, part},
                                         {nest.batch.position, batch},
                                         {nest.head.position, head},
                                         {nest.resident.position, row}};
  for (auto [inL1, here] : positions)
    if (isa_and_nonnull<BlockArgument>(inL1))
      scalars.map(inL1, here);
  for (Operand &operand : operands) {
    operand.batch = scalars.get(b, b.getLoc(), operand.info.batch);
    operand.head = scalars.get(b, b.getLoc(), operand.info.head);
    if (!operand.batch || !operand.head)
      return failure();
    FailureOr<Value> end = emitEnd(operand);
    if (failed(end))
      return failure();
    ends.push_back(*end);
    if (flash::CacheTileOp cache = operand.info.cache; cache && cache.getScales() && !hasPageScales(operand.info)) {
      Value scale = emitScale(operand, /*page=*/index(0));
      if (!scale)
        return failure();
      scales[operand.info.info.name] = scale;
    }
    if (operand.info.isStreamed)
      continue;
    auto type = RankedTensorType::get({tileRows, operand.info.getCols()}, nest.elementType,
                                      tile::OperandAAttr::get(b.getContext()));
    Value array = signature.getMemRef(*operand.info.getArgument(), /*alignment=*/4);
    operand.resident =
        tile::ReadRowsOp::create(b, type, array, batch, head, row, endOfRows, packed.heads, packed.tokens, areBytes);
  }
  return regions.emitInvariants(batch, {packed.heads, packed.tokens, head, row});
}

FailureOr<ValueRange> WarpFrame::emitLoop(TileStep &step) {
  visits = Visits::ofPositions(/*isMasked=*/nest.mask != nullptr);
  Value begin = scalars.get(b, b.getLoc(), nest.segments.front().begin),
        end = scalars.get(b, b.getLoc(), nest.segments.back().end);
  if (!begin || !end)
    return failure();
  // Read from memory, perhaps, but the same in all lanes.
  begin = tile::UniformOp::create(b, begin), end = tile::UniformOp::create(b, end);
  Value tile = index(nest.streamedTile);
  Value first = arith::AddIOp::create(b, begin, arith::MulIOp::create(b, warp, tile));
  SmallVector<Value> identity = step.emitIdentity();
  auto loop = scf::ForOp::create(b, first, end, index(nest.streamedTile * schedule.warps), identity);
  return fillLoop(loop, step);
}

Value WarpFrame::load(const Operand &operand, Value position) {
  return areBoxes(operand) ? loadBox(operand, position) : loadRows(operand, position);
}

static Type getSlotType(Value ring) {
  auto type = cast<tile::RingType>(ring.getType());
  return tile::SlotType::get(type.getContext(), type.getRows(), type.getCols(), type.getElementType());
}

/// The number of the page of a tile, which is part of one. Of a tile that is not there any page will do: it is read
/// ahead, and not used.
Value WarpFrame::emitPage(const Operand &operand, Value position) {
  flash::CacheTileOp cache = operand.info.cache;
  Value pages = scalars.getExtent(b, cache, cache.getTable(), 1);
  if (!pages)
    return {};
  Value number = arith::MinUIOp::create(b, arith::DivUIOp::create(b, position, index(operand.info.getPageRows())),
                                        arith::SubIOp::create(b, pages, index(1)));
  Value entry = scalars.loadElement(b, cache, cache.getTable(), {operand.batch, number});
  return entry ? arith::IndexCastOp::create(b, b.getIndexType(), entry).getResult() : Value();
}

/// Through the table of pages, if there is one. What lies behind the end of a sequence becomes zeros.
Value WarpFrame::loadBox(const Operand &operand, Value position) {
  Value outer = operand.batch, place = position;
  if (int64_t page = operand.info.getPageRows()) {
    outer = emitPage(operand, position);
    if (!outer)
      return {};
    place = arith::RemUIOp::create(b, position, index(page));
  }
  Value loaded =
      tile::LoadOp::create(b, getSlotType(operand.ring), operand.map, outer, operand.head, place, operand.ring);
  using Predicate = arith::CmpIPredicate;
  if (Value end = ends[&operand - operands.begin()]) {
    Value left = arith::SubIOp::create(b, end, position);
    clearIf(arith::CmpIOp::create(b, Predicate::slt, left, index(nest.streamedTile)), loaded, left, /*begin=*/Value());
  }
  if (Value begin = getCleared(operand, position).second)
    clearIf(arith::CmpIOp::create(b, Predicate::sgt, begin, index(0)), loaded, /*first=*/Value(), begin);
  return loaded;
}

void WarpFrame::clearIf(Value condition, Value slot, Value first, Value begin) {
  auto branch = scf::IfOp::create(b, TypeRange(), condition, /*addElseBlock=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  tile::ClearRowsOp::create(b, slot, first, begin);
}

/// Each row from its own page, if there are pages. Rows that no query sees are not read: their pages may be anything.
Value WarpFrame::loadRows(const Operand &operand, Value position) {
  Value outer = operand.batch, end = ends[&operand - operands.begin()];
  IntegerAttr size;
  if (int64_t page = operand.info.getPageRows()) {
    flash::CacheTileOp cache = operand.info.cache;
    Value pages = scalars.getExtent(b, cache, cache.getTable(), 1);
    BlockArgument table = flash::getRootArgument(cache.getTable());
    if (!pages)
      return {};
    auto type = tile::getRowType(b.getI32Type(), tileRows);
    outer = tile::ReadPagesOp::create(b, type, signature.getMemRef(table.getArgNumber()), operand.batch, position,
                                      pages, page);
    size = b.getI64IntegerAttr(page);
  }
  Value source = signature.getMemRef(*operand.info.getArgument(), /*alignment=*/16);
  return tile::LoadRowsOp::create(b, getSlotType(operand.ring), source, outer, operand.head, position, size,
                                  seenKeys.begin, end, operand.ring);
}

/// The scale of a page, for all rows.
Value WarpFrame::emitScale(const Operand &operand, Value page) {
  flash::CacheTileOp cache = operand.info.cache;
  bool isOfHead = cast<ShapedType>(cache.getScales().getType()).getDimSize(1) != 1;
  Value scale = scalars.loadElement(b, cache, cache.getScales(), {page, isOfHead ? operand.head : index(0)});
  if (!scale)
    return {};
  auto rows = tile::RowsOp::create(b, getRowType(), row);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&rows.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  tile::YieldOp::create(b, scale);
  return rows;
}

Value WarpFrame::emitScaled(StringRef name, Value tile, Value position) {
  const Operand &operand = find(name);
  flash::CacheTileOp cache = operand.info.cache;
  if (!cache || !cache.getScales())
    return tile;
  Value scale = scales.lookup(name);
  if (hasPageScales(operand.info)) {
    Value page = emitPage(operand, position);
    scale = page ? emitScale(operand, page) : Value();
  }
  return scale ? tile::ScaleRowsOp::create(b, tile.getType(), tile, scale).getResult() : Value();
}

void WarpFrame::emitMerged(Value &acc, Value &max, Value &sum, double factor) {
  int64_t cols =
      llvm::divideCeil(cast<RankedTensorType>(acc.getType()).getDimSize(1) / tile::kBlockCols, schedule.warps) *
      tile::kBlockCols;
  FloatAttr exponents = b.getF32FloatAttr(factor);
  RankedTensorType type = getAccType(cols);
  auto merged = tile::MergeWarpsOp::create(b, type, getRowType(), getRowType(), acc, max, sum, exponents);
  acc = merged.getMerged(), max = merged.getMergedMax(), sum = merged.getMergedSum();
  Value number = warp;
  if (schedule.getCluster() > 1) {
    auto ofCluster = tile::MergeClusterOp::create(b, TypeRange{type, getRowType(), getRowType(), b.getIndexType()}, acc,
                                                  max, sum, exponents);
    acc = ofCluster.getMerged(), max = ofCluster.getMergedMax(), sum = ofCluster.getMergedSum(),
    number = ofCluster.getPart();
  }
  column = arith::MulIOp::create(b, number, index(cols));
}

Value WarpFrame::getSinks() const {
  if (nest.parts.merge && !storesParts())
    return nest.parts.merge.getSinks();
  return KernelFrame::getSinks();
}

LogicalResult WarpFrame::storePart(Value tile, unsigned result) {
  FailureOr<PartPlace> place = emitPartPlace(result);
  if (failed(place))
    return failure();
  tile::WriteRowsOp::create(b, tile, place->array, place->batch, head, row, column, endOfRows, nest.packed->heads,
                            nest.packed->tokens, areBytes && result == 0);
  return success();
}

void WarpFrame::store(Value tile, unsigned argument, bool isMatrix) {
  Value dest = signature.getMemRef(argument, /*alignment=*/isMatrix ? 16 : 0);
  tile::WriteRowsOp::create(b, tile, dest, batch, head, row, column, endOfRows, nest.packed->heads, nest.packed->tokens,
                            areBytes && isMatrix);
}
