//===- CacheSource.cpp - tiles of a cache in boxes, by a block table ----------------------------------------------===//

#include "Sources/Source.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace flashc;

namespace {
/// A producer loads each tile of a cache (flash.cache_tile) by TMA, in boxes whose rows are in one page. Pages after
/// the sequence's last one are not looked up, and read as zeros. Rows after the sequence's end may hold any bits, and
/// are cleared in shared memory.
class CacheSource : public Source {
public:
  using Source::Source;

  LogicalResult check() override;
  void addMap(int64_t rows) override;
  LogicalResult emitEnd() override;
  Value load(Value position) override;

private:
  /// The end of the sequence's rows.
  Value end;
};
} // namespace

LogicalResult CacheSource::check() {
  Type stored = info.getStoredType(), expected = frame.nest.elementType;
  if (stored != expected)
    return frame.nest.getStep().emitError()
           << "expected caches of " << expected << " in a forward kernel (algorithm fa2), got " << stored;
  int64_t page = info.getPageRows(), least = frame.getTarget().getSwizzleRows();
  if (page % least != 0)
    return frame.nest.getStep().emitError() << "expected pages of a multiple of " << least << " rows, got " << page;
  return success();
}

/// Tiles begin at multiples of their size. So a box whose size divides both the tile and the page lies in one page.
void CacheSource::addMap(int64_t rows) {
  int64_t page = info.getPageRows();
  map = frame.signature.getTensorMap(*info.getArgument(), page ? std::gcd(page, rows) : rows);
}

LogicalResult CacheSource::emitEnd() {
  Value capacity = cache.getTable() ? emitExtent() : Value();
  if (cache.getTable() && !capacity)
    return failure();
  end = capacity;
  if (!cache.getLengths())
    return success();
  Value length = scalars.loadElement(b, cache, cache.getLengths(), batch);
  if (!length)
    return failure();
  // The length comes from memory, so ptxas cannot know that it is the same in all threads.
  end = tile::UniformOp::create(b, arith::IndexCastOp::create(b, b.getIndexType(), length));
  if (capacity) // the table has no pages for more rows
    end = arith::MinSIOp::create(b, arith::MaxSIOp::create(b, end, frame.index(0)), capacity);
  return success();
}

Value CacheSource::load(Value position) {
  // Without lengths the sequences fill their pages. Pages that do not exist read as zeros.
  Value left = cache.getLengths() ? arith::SubIOp::create(b, end, position).getResult() : Value();
  Value table;
  if (cache.getTable())
    table = frame.signature.getMemRef(flash::getRootArgument(cache.getTable()).getArgNumber());
  return tile::LoadOp::create(b, getSlotType(), map, batch, head, position, table,
                              table ? b.getI64IntegerAttr(info.getPageRows()) : IntegerAttr(), table ? end : Value(),
                              ring, left, getCleared(position).second);
}

std::unique_ptr<Source> flashc::matchCacheSource(KernelFrame &frame, const NestOperand &operand) {
  return operand.cache ? std::make_unique<CacheSource>(frame, operand) : nullptr;
}
