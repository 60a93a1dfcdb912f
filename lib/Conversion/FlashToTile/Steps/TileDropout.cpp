//===- TileDropout.cpp - dropout on tiles -------------------------------------------------------------------------===//

#include "Steps/TileDropout.h"
#include "flashc/Support/Philox.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

LogicalResult TileDropout::check() const {
  if (!dropout)
    return success();
  LoopNest &nest = frame.nest;
  if (nest.segmentTile)
    return nest.segmentTile.emitError()
           << "expected tiles of queries from 0 on for dropout, got tiles that follow packed sequences";
  bool hasWholeBlocks = nest.getStep().getStreamedDim() == flash::StepDim::J && nest.streamedTile % kPhiloxKeys == 0;
  int64_t block = hasWholeBlocks ? kPhiloxKeys : kPhiloxQueries;
  for (Segment &segment : nest.segments)
    if (std::optional<int64_t> begin = getConstantIntValue(segment.begin); begin && *begin % block != 0)
      return segment.op.emitError() << "expected tiles from a multiple of " << block << " on for dropout, got "
                                    << *begin;
  return success();
}

void TileDropout::emitReads() {
  if (!dropout)
    return;
  for (auto [number, value] : {std::pair(0, &seed), std::pair(1, &offset)})
    *value = frame.scalars.loadElement(frame.b, frame.nest.getStep(), dropout->philox, frame.index(number));
}

FailureOr<Value> TileDropout::emitMask(Value position) {
  if (!dropout)
    return Value();
  if (!seed || !offset)
    return failure();
  bool isOfKeys = frame.nest.getStep().getResidentDim() == flash::StepDim::J;
  auto type = RankedTensorType::get({frame.tileRows, frame.nest.streamedTile}, frame.b.getI1Type(),
                                    tile::FlagsAttr::get(frame.b.getContext()));
  Value query = isOfKeys ? position : frame.row, key = isOfKeys ? frame.row : position;
  return tile::DropoutMaskOp::create(frame.b, type, seed, offset, frame.batch, frame.head, query, key,
                                     dropout->getThreshold(), isOfKeys)
      .getResult();
}

Value TileDropout::clearDropped(Value values, Value mask) {
  return mask ? tile::KeepOp::create(frame.b, values.getType(), values, mask).getResult() : values;
}
