//===- CacheFrame.cpp - the frame of a kernel whose keys lie in a cache -------------------------------------------===//

#include "CacheFrame.h"
#include "Steps/TileStep.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace flashc;

bool flashc::readsCache(const LoopNest &nest) {
  return llvm::any_of(nest.operands, [](const NestOperand &operand) { return operand.cache != nullptr; });
}

/// Tiles begin at multiples of their size, so that rows as many as divide both lie in one page.
int64_t CacheFrame::getBoxRows(const Operand &operand, int64_t rows) const {
  int64_t page = operand.info.getPageRows();
  return page ? std::gcd(page, rows) : rows;
}

LogicalResult CacheFrame::build(TileStep &step) {
  int64_t least = getTarget().getSwizzleRows();
  for (const Operand &operand : operands) {
    if (Type stored = operand.info.getStoredType(); operand.info.cache && stored != nest.elementType)
      return nest.getStep().emitError() << "expected caches of " << nest.elementType
                                        << " in a forward kernel (algorithm fa2), got " << stored;
    if (int64_t page = operand.info.getPageRows(); page % least != 0)
      return nest.getStep().emitError() << "expected pages of a multiple of " << least << " rows, got " << page;
  }
  return KernelFrame::build(step);
}

/// The rows that the table has pages for; null after an error.
Value CacheFrame::emitCapacity(const NestOperand &operand) {
  flash::CacheTileOp cache = operand.cache;
  Value slots = scalars.getExtent(b, cache, cache.getTable(), 1);
  return slots ? arith::MulIOp::create(b, slots, index(operand.getPageRows())).getResult() : Value();
}

Value CacheFrame::getNumKeys() {
  const NestOperand &keys = nest.getOperand("k");
  return keys.getPageRows() ? emitCapacity(keys) : KernelFrame::getNumKeys();
}

LogicalResult CacheFrame::emitPositions(Value warpgroup) {
  if (failed(KernelFrame::emitPositions(warpgroup)))
    return failure();
  for (const Operand &operand : operands) {
    ends.push_back(operand.info.cache ? emitEnd(operand) : Value());
    if (operand.info.cache && !ends.back())
      return failure();
  }
  return success();
}

Value CacheFrame::emitEnd(const Operand &operand) {
  flash::CacheTileOp cache = operand.info.cache;
  Value capacity = cache.getTable() ? emitCapacity(operand.info) : Value();
  if (!cache.getLengths() || (cache.getTable() && !capacity))
    return capacity;
  Value length = scalars.loadElement(b, cache, cache.getLengths(), operand.batch);
  if (!length)
    return {};
  // Read from memory, but the same in all threads (see Visits).
  Value end = tile::UniformOp::create(b, arith::IndexCastOp::create(b, b.getIndexType(), length));
  if (!capacity)
    return end;
  return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, end, index(0)),
                                capacity); // whatever it is, no entry is missing
}

Value CacheFrame::load(const Operand &operand, Value position) {
  flash::CacheTileOp cache = operand.info.cache;
  if (!cache)
    return KernelFrame::load(operand, position);
  auto ring = cast<tile::RingType>(operand.ring.getType());
  Type slot = tile::SlotType::get(b.getContext(), ring.getRows(), ring.getCols(), ring.getElementType());
  Value end = ends[&operand - operands.begin()];
  // Without lengths sequences end where pages do, and those that are not there are zero.
  Value left = cache.getLengths() ? arith::SubIOp::create(b, end, position).getResult() : Value();
  Value table;
  if (cache.getTable())
    table = signature.getMemRef(flash::getRootArgument(cache.getTable()).getArgNumber());
  return tile::LoadOp::create(b, slot, operand.map, operand.batch, operand.head, position, table,
                              table ? b.getI64IntegerAttr(operand.info.getPageRows()) : IntegerAttr(),
                              table ? end : Value(), operand.ring, left, getCleared(operand, position).second);
}
