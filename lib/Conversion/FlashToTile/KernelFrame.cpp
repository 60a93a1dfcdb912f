//===- KernelFrame.cpp - the sequential program of a nest ---------------------------------------------------------===//

#include "KernelFrame.h"
#include "Sources/Source.h"
#include "Steps/TileStep.h"
#include "Walks/Walk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;
using namespace flashc;

KernelFrame::KernelFrame(LoopNest &nest, const Schedule &schedule, bool isSorted, gpu::GPUFuncOp kernel,
                         KernelSignature &signature)
    : nest(nest), schedule(schedule), isSorted(isSorted), signature(signature), scalars(signature),
      b(nest.end->getLoc(), kernel.getContext()), kernel(kernel), unit(makeUnit(schedule)), tileRows(unit->getRows()),
      rows(makeRows(nest)), regions(*this) {}

KernelFrame::~KernelFrame() = default;

Value KernelFrame::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

Value KernelFrame::emitUnitRow(Value first) {
  Value before = b.createOrFold<arith::MulIOp>(unitNumber, index(rows->countPositions(*this)));
  return b.createOrFold<arith::AddIOp>(first, before);
}

Value KernelFrame::splat(RankedTensorType type, double value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, APFloat(static_cast<float>(value))));
}

Value KernelFrame::scale(Value values, double factor) {
  if (factor == 1.0)
    return values;
  return arith::MulFOp::create(b, values, splat(cast<RankedTensorType>(values.getType()), factor));
}

LogicalResult KernelFrame::build(TileStep &step) {
  for (const NestOperand &operand : nest.operands)
    sources.push_back(makeSource(*this, operand));
  walk = makeWalk(*this);
  auto isPossible = [](const std::unique_ptr<Source> &source) { return succeeded(source->check()); };
  if (failed(unit->check(nest)) || !llvm::all_of(sources, isPossible) || failed(step.check()))
    return failure();
  b.setInsertionPointToStart(&kernel.getBody().front());
  emitRings(step);
  step.emitAllocations();
  FailureOr<SmallVector<Value>> grid = walk->emitGrid();
  if (failed(grid))
    return failure();
  unitNumber = unit->emitProgram(*this, *grid, walk->getWork());
  if (failed(walk->emitPositions()) || failed(emitSeen(step)))
    return failure();
  FailureOr<ValueRange> state = walk->emitLoop(step);
  if (failed(state))
    return failure();
  return step.emitOutputs(*state);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Operands
//===--------------------------------------------------------------------------------------------------------------===//

Source &KernelFrame::find(StringRef name) const {
  return **llvm::find_if(sources, [&](const auto &source) { return source->info.info.name == name; });
}

Value KernelFrame::getResident(StringRef name) const { return find(name).resident; }

Value KernelFrame::emitExtent(StringRef name) { return find(name).emitExtent(); }

Value KernelFrame::loadStreamed(StringRef name, Value position) { return find(name).load(position); }

Value KernelFrame::emitScaled(StringRef name, Value tile, Value position) {
  return find(name).emitScaled(tile, position);
}

bool KernelFrame::readsBytes() const {
  return llvm::any_of(nest.operands, [&](const NestOperand &operand) {
    return operand.isStreamed && operand.getStoredType() != nest.elementType;
  });
}

/// Allocates the rings of the operands that products read from shared memory. Each unit gets its own ring for its
/// resident rows. The units share one ring for streamed tiles, unless each unit loads its own.
void KernelFrame::emitRings(const TileStep &step) {
  auto isRead = [&](const std::unique_ptr<Source> &source) {
    return source->hasRing() && source->info.isMatrix() && step.reads(source->info.info.name);
  };
  auto isOfRows = [&](const Source &source) { return source.info.info.movesWith(nest.getStep().getResidentDim()); };
  auto getRows = [&](const Source &source) { return isOfRows(source) ? tileRows : nest.streamedTile; };
  for (std::unique_ptr<Source> &source : llvm::make_filter_range(sources, isRead))
    source->addMap(getRows(*source));
  for (std::unique_ptr<Source> &source : llvm::make_filter_range(sources, isRead))
    source->allocateRing(source->info.isStreamed ? schedule.stages : schedule.qStages, getRows(*source),
                         unit->loadsItself() || (isOfRows(*source) && !unit->sharesRows()));
}

LogicalResult KernelFrame::emitSeen(const TileStep &step) {
  auto needs = [&](flash::StepDim dim) {
    return llvm::any_of(nest.operands, [&](const NestOperand &operand) {
      return step.addsUpRows(operand.info.name) && operand.info.movesWith(dim);
    });
  };
  for (auto [dim, seen] : {std::pair(flash::StepDim::J, &seenKeys), std::pair(flash::StepDim::I, &seenQueries)}) {
    if (!needs(dim) && !step.multipliesPairs())
      continue;
    FailureOr<SeenRows> rows = emitSeenRows(b, nest, scalars, dim);
    if (failed(rows))
      return failure();
    *seen = *rows;
    for (std::unique_ptr<Source> &source : sources)
      if (step.addsUpRows(source->info.info.name) && source->info.info.movesWith(dim))
        source->seen = seen;
  }
  return success();
}

Value KernelFrame::loadStreamedElement(StringRef name, Value position, Value isMasked) {
  const Source &source = find(name);
  Operation *step = nest.getStep();
  if (visits.hasMask()) {
    Value extent = scalars.getExtent(b, step, source.info.array, 2);
    if (!extent)
      return {};
    Value last = arith::SubIOp::create(b, extent, index(1));
    Value kept = arith::MinSIOp::create(b, position, last);
    position = isMasked ? arith::SelectOp::create(b, isMasked, kept, position).getResult() : kept;
  }
  return scalars.loadElement(b, step, source.info.array, {source.batch, source.head, position});
}

Value KernelFrame::getSinks() {
  if (storesParts())
    return {};
  return nest.parts.merge ? nest.parts.merge.getSinks() : cast<flash::FinalizeOp>(nest.epilogue).getSinks();
}

Value KernelFrame::emitOfHeads(llvm::function_ref<Value(Value)> load) {
  Value sharedHead = rows->getHead(*this), ofHead = sharedHead ? load(sharedHead) : Value();
  auto all = tile::RowsOp::create(b, getRowType(), rows->emitFirst(*this));
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&all.getBody(), {}, {b.getIndexType()}, {b.getLoc()});
  if (!sharedHead)
    ofHead = load(rows->emitHeadAndPosition(*this, body->getArgument(0)).first);
  if (!ofHead)
    return {};
  tile::YieldOp::create(b, ofHead);
  return all;
}

void KernelFrame::store(Value tile, unsigned argument, bool isMatrix) {
  // tile.store writes 16 bytes of the output at a time.
  rows->store(*this, tile, signature.getMemRef(argument, /*alignment=*/isMatrix ? 16 : 0), batch, isMatrix);
}

/// Stores a result of a part. The array has an entry for each part and batch. If the part has no key, the kernel has
/// visited a tile of another part, or no tile. Then all results but the first are stored as -inf.
LogicalResult KernelFrame::storePart(Value tile, unsigned result) {
  FailureOr<SmallVector<Value>> arrays = getDestinations(result);
  Value batches = scalars.get(b, b.getLoc(), nest.batch.extent);
  if (failed(arrays) || !batches)
    return failure();
  Value ofPart = arith::AddIOp::create(b, arith::MulIOp::create(b, part, batches), batch);
  auto type = cast<RankedTensorType>(tile.getType());
  if (result != 0 && visits.getCount()) {
    Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, visits.getCount(), index(1));
    tile = arith::SelectOp::create(b, isEmpty, splat(type, -std::numeric_limits<double>::infinity()), tile);
  }
  rows->store(*this, tile, arrays->front(), ofPart, /*isMatrix=*/result == 0);
  return result == 0 || !nest.parts.size ? success() : storeMissingParts(type, arrays->front(), batches);
}

/// Stores -inf for the parts that a tile does not have. No work tile computes them, so the tile's first part does it.
LogicalResult KernelFrame::storeMissingParts(RankedTensorType type, Value array, Value batches) {
  FailureOr<Value> number = emitNumberOfParts();
  if (failed(number))
    return failure();
  Value one = index(1), most = index(schedule.splits);
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part, index(0));
  auto loop = scf::ForOp::create(b, arith::SelectOp::create(b, isFirst, *number, most), most, one);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value ofPart = arith::AddIOp::create(b, arith::MulIOp::create(b, loop.getInductionVar(), batches), batch);
  rows->store(*this, splat(type, -std::numeric_limits<double>::infinity()), array, ofPart, /*isMatrix=*/false);
  return success();
}

FailureOr<Value> KernelFrame::emitNumberOfParts() {
  Value tiles = scalars.get(b, nest.parts.size.getTiles()), size = scalars.get(b, nest.parts.size.getSize());
  if (!tiles || !size)
    return failure();
  return arith::MaxSIOp::create(b, arith::CeilDivUIOp::create(b, tiles, size), index(1)).getResult();
}

LogicalResult KernelFrame::storeWhereWhole(function_ref<LogicalResult()> storeWhole,
                                           function_ref<LogicalResult()> storeParts, RankedTensorType lseType) {
  if (!nest.parts.size || nest.parts.merge.getSinks())
    return storeParts();
  FailureOr<Value> number = emitNumberOfParts();
  FailureOr<SmallVector<Value>> arrays = getDestinations(1);
  if (failed(number) || failed(arrays))
    return failure();
  Value isWhole = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, *number, index(1));
  auto branch = scf::IfOp::create(b, isWhole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  rows->store(*this, splat(lseType, kRowIsWhole), arrays->front(), batch, /*isMatrix=*/false);
  if (failed(storeWhole()))
    return failure();
  b.setInsertionPointToStart(branch.elseBlock());
  return storeParts();
}

FailureOr<SmallVector<Value>> KernelFrame::getDestinations(unsigned result) {
  return nest.getDestinations(result, b, scalars);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Masks
//===--------------------------------------------------------------------------------------------------------------===//

Value KernelFrame::emitIsMasked(Value visit) {
  return visits.hasMask() && visits.hasFull() ? visits.emitIsMasked(b, visit) : Value();
}

FailureOr<SmallVector<Value>>
KernelFrame::emitWhereMasked(Value visit, ValueRange unmasked,
                             llvm::function_ref<FailureOr<SmallVector<Value>>()> emitMasked) {
  if (!visits.hasMask())
    return SmallVector<Value>(unmasked);
  if (!visits.hasFull())
    return emitMasked();
  auto branch = scf::IfOp::create(b, unmasked.getTypes(), visits.emitIsMasked(b, visit), /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  FailureOr<SmallVector<Value>> masked = emitMasked();
  if (failed(masked))
    return failure();
  scf::YieldOp::create(b, *masked);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, unmasked);
  return SmallVector<Value>(branch.getResults());
}
