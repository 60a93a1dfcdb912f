//===- Source.cpp - how the tiles of an operand are loaded --------------------------------------------------------===//

#include "Sources/Source.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace flashc;

void Source::allocateRing(int64_t stages, int64_t rows, bool isPrivate) {
  auto type = tile::RingType::get(b.getContext(), stages, rows, info.getCols(), info.getStoredType(), isPrivate);
  ring = tile::AllocRingOp::create(b, type);
}

LogicalResult Source::emitInvariants() {
  batch = scalars.get(b, b.getLoc(), info.batch);
  head = scalars.get(b, b.getLoc(), info.head);
  return success(batch && head);
}

Type Source::getSlotType() const {
  auto type = cast<tile::RingType>(ring.getType());
  return tile::SlotType::get(type.getContext(), type.getRows(), type.getCols(), type.getElementType());
}

std::pair<Value, Value> Source::getCleared(Value position) {
  auto get = [&](Value bound) { return bound ? arith::SubIOp::create(b, bound, position).getResult() : Value(); };
  return seen ? std::pair(get(seen->end), get(seen->begin)) : std::pair<Value, Value>();
}

Value Source::emitExtent() {
  int64_t page = info.getPageRows();
  if (!page)
    return scalars.getExtent(b, frame.nest.getStep(), info.array, 2);
  Value pages = scalars.getExtent(b, cache, cache.getTable(), 1);
  return pages ? b.createOrFold<arith::MulIOp>(pages, frame.index(page)) : Value();
}
