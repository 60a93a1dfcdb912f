//===- MapLoops.cpp - large user code on tiles: a loop over a thread's elements -----------------------------------===//

#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tile;
using namespace flashc::tiletonvvm;

/// The most ops of a map, counted for all its elements. A kernel has four to eight maps. LLVM takes about 20 us for
/// each op of each map, and ptxas takes as long again.
static constexpr int64_t kMostOps = 8192;

/// Finds the ops of the region whose results may differ between a thread's elements in one row. Such an op depends on
/// the element or on j, other than through tile.first_column.
static llvm::SmallPtrSet<Operation *, 32> findVaryingOps(MapOp map) {
  llvm::SmallPtrSet<Operation *, 32> varying;
  Block &body = map.getBody().front();
  auto varies = [&](Value value) {
    return value == body.getArgument(0) || value == body.getArgument(2) || varying.contains(value.getDefiningOp());
  };
  for (Operation &op : body.without_terminator())
    if (!isa<FirstColumnOp>(op) && (op.getNumRegions() > 0 || llvm::any_of(op.getOperands(), varies)))
      varying.insert(&op);
  return varying;
}

bool flashc::tiletonvvm::isLargeMap(MapOp map) {
  if (llvm::any_of(map.getRows().getTypes(), isColTile)) // they are in registers, which a loop cannot index
    return false;
  int64_t ops = 0;
  for (Operation *op : findVaryingOps(map))
    op->walk([&](Operation *) { ++ops; });
  return ops * getElementsPerThread(map.getType()) > kMostOps;
}

namespace {

/// Emits the loop over one row.
class RowLoop {
public:
  RowLoop(MapOp map, OpBuilder &b, Value col)
      : map(map), body(map.getBody().front()), yield(cast<tile::YieldOp>(body.getTerminator())), b(b), col(col),
        varying(findVaryingOps(map)) {}

  /// Returns the new elements in the order of their columns. `row` maps the region's arguments other than the element
  /// and its column.
  SmallVector<Value> emit(SmallVector<Value> elements, IRMapping row, SmallVector<Value> &offsets) {
    for (Operation &op : body.without_terminator()) {
      if (isa<FirstColumnOp>(op))
        row.map(op.getResult(0), col);
      else if (!varying.contains(&op))
        b.clone(op, row);
    }
    if (yield.getOffset())
      offsets.push_back(row.lookupOrDefault(yield.getOffset()));
    // Registers cannot be indexed, so the loop rotates the elements that it carries. Each iteration takes the first
    // element, and yields the new element as the last. After the loop all elements are in their original order.
    Emitter at(b, map.getLoc());
    auto loop = scf::ForOp::create(b, map.getLoc(), at.index(0), at.index(elements.size()), at.index(1), elements,
                                   [&](OpBuilder &nested, Location loc, Value number, ValueRange carried) {
                                     SmallVector<Value> next(carried.drop_front());
                                     next.push_back(emitElement(nested, carried.front(), number, row));
                                     scf::YieldOp::create(nested, loc, next);
                                   });
    return loop.getResults();
  }

private:
  Value emitElement(OpBuilder &nested, Value element, Value number, IRMapping mapping) {
    Emitter at(nested, map.getLoc());
    // Element number 2 n is in column 8 n, and element 2 n + 1 in column 8 n + 1, like getColumn.
    Value column = at.add(at.mul(at.shr(number, 1), 8), at.bitAnd(number, 1));
    mapping.map(body.getArgument(0), element);
    mapping.map(body.getArgument(2), at.add(col, column));
    for (Operation &op : body.without_terminator())
      if (varying.contains(&op))
        nested.clone(op, mapping);
    return mapping.lookupOrDefault(yield.getValue());
  }

  MapOp map;
  Block &body;
  tile::YieldOp yield;
  OpBuilder &b;
  Value col;
  const llvm::SmallPtrSet<Operation *, 32> varying;
};

} // namespace

SmallVector<Value> flashc::tiletonvvm::expandInLoops(MapOp map, ValueRange source, ArrayRef<ValueRange> rows,
                                                     const KernelContext &kernel, OpBuilder &b,
                                                     SmallVector<Value> &offsets) {
  Emitter emit(b, map.getLoc());
  RowLoop loop(map, b, emit.add(map.getCol(), emit.toIndex(emit.mul(kernel.laneCol, 2))));
  Value first = emit.add(map.getRow(), emit.toIndex(kernel.row));
  SmallVector<Value> results(source.size());
  for (int64_t half = 0; half < 2; ++half) {
    IRMapping row;
    row.map(map.getBody().getArgument(1), emit.add(first, 8 * half));
    for (auto [argument, values] : llvm::zip_equal(map.getBody().getArguments().drop_front(3), rows))
      row.map(argument, values[half]);
    SmallVector<int64_t> numbers;
    for (int64_t e = 0, n = source.size(); e < n; ++e)
      if (getHalf(e) == half)
        numbers.push_back(e);
    SmallVector<Value> elements = llvm::map_to_vector(numbers, [&](int64_t e) -> Value { return source[e]; });
    for (auto [e, result] : llvm::zip_equal(numbers, loop.emit(elements, row, offsets)))
      results[e] = result;
  }
  return results;
}
