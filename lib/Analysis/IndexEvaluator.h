//===- IndexEvaluator.h - index arithmetic with numbers -----------------------------------------------------------===//
#ifndef FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H
#define FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H

#include "TileRunList.h"
#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace flashc {

/// Evaluates integers and tensor extents, given the shapes of a function's arguments, the values of loop counters and,
/// as far as they are known, those of scalar arguments and of arrays' elements. What is computed from anything else is
/// none. An i1 that holds is -1.
class IndexEvaluator {
public:
  void setShape(mlir::Value argument, llvm::ArrayRef<int64_t> shape) {
    shapes[argument].assign(shape.begin(), shape.end());
  }
  /// Where the elements of an array with a shape lie in the memory of this process; strides are in elements.
  void setElements(mlir::Value argument, const void *first, llvm::ArrayRef<int64_t> strides) {
    elements[argument] = {static_cast<const char *>(first), {strides.begin(), strides.end()}};
  }
  /// A scalar argument's bytes in its own type, lowest first.
  void setScalar(mlir::Value argument, uint64_t bits);
  void setCounter(mlir::Value counter, int64_t value) {
    counters[counter] = value;
    known.clear();
  }

  std::optional<int64_t> get(mlir::Value value) const;
  std::optional<int64_t> get(mlir::OpFoldResult value) const;
  std::optional<int64_t> getExtent(mlir::Value tensor, int64_t dim) const;
  /// What the extent is the sum of.
  std::optional<llvm::SmallVector<mlir::OpFoldResult, 3>> getExtentTerms(mlir::Value tensor, int64_t dim) const;
  /// The product of the extents.
  std::optional<int64_t> getNumElements(mlir::Value tensor) const;

  /// What the search finds for `value` instead of its operand.
  std::optional<int64_t> countElements(mlir::flash::CountLeOp op, int64_t value) const;
  /// The least and the greatest element of a table of ends at `place`, with the tiles from there to `last`.
  std::optional<std::array<int64_t, 2>> findEnds(mlir::flash::TileMinMaxOp op, llvm::ArrayRef<int64_t> place,
                                                 int64_t last) const;
  /// The segment of a flash.segment_tile.
  struct Segment {
    int64_t number, begin, end;
  };
  /// That of the tile of this number instead of its operand.
  std::optional<Segment> findSegment(mlir::flash::SegmentTileOp op, int64_t tile) const;

  /// After none: the argument or the result of an op that had no value.
  mlir::Value getUnknown() const { return unknown; }
  void setUnknown(mlir::Value value) { unknown = value; }

private:
  struct Elements {
    const char *first;
    llvm::SmallVector<int64_t, 4> strides;
  };

  /// The value as a constant, of any scalar type; null if it has none.
  mlir::Attribute getConstant(mlir::Value value) const;
  mlir::Attribute evaluate(mlir::OpResult result) const;
  std::optional<int64_t> evaluateInteger(mlir::Operation *op) const;
  std::optional<int64_t> evaluateAffine(mlir::Operation *op) const;
  mlir::Attribute load(mlir::Value array, mlir::ValueRange indices) const;
  /// The element of one of the function's arrays at positions that may lie outside; null if they do.
  mlir::Attribute read(mlir::Value array, llvm::ArrayRef<int64_t> positions) const;
  std::optional<int64_t> evaluateSearch(mlir::flash::CountLeOp op) const;
  std::optional<int64_t> evaluateSearch(mlir::flash::NthOp op) const;
  std::optional<int64_t> evaluateRow(mlir::flash::RowTableOp op, llvm::ArrayRef<int64_t> place) const;
  std::optional<std::array<int64_t, 3>> evaluateSegmentTile(mlir::flash::SegmentTileOp op) const;
  std::optional<int64_t> evaluateMinMax(mlir::flash::TileMinMaxOp op, llvm::ArrayRef<int64_t> place) const;
  std::optional<int64_t> evaluateRuns(mlir::flash::TileRunsOp op, llvm::ArrayRef<int64_t> place) const;
  std::optional<TileRunList> computeRuns(mlir::flash::TileRunsOp op, llvm::ArrayRef<int64_t> place) const;
  std::optional<llvm::SmallVector<int64_t, 4>> getAll(mlir::ValueRange values) const;
  mlir::Attribute fold(mlir::OpResult result) const;

  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t, 4>> shapes;
  llvm::DenseMap<mlir::Value, Elements> elements;
  llvm::DenseMap<mlir::Value, mlir::Attribute> scalars;
  llvm::DenseMap<mlir::Value, int64_t> counters;
  /// Rows of tables of tiles, which loops read again and again; copies share them.
  struct Tables {
    using Place = std::pair<mlir::Operation *, std::vector<int64_t>>;
    std::map<Place, std::array<int64_t, 2>> minMax;
    /// By the last tile, too.
    std::map<std::pair<Place, int64_t>, std::array<int64_t, 2>> stretches;
    std::map<Place, TileRunList> runs;
  };
  std::shared_ptr<Tables> tables = std::make_shared<Tables>();
  /// Integers that were computed since a counter changed: what branches and joins again is computed once.
  mutable llvm::DenseMap<mlir::Value, int64_t> known;
  mutable mlir::Value unknown;
};

/// The tensor that `tensor` has the shape (and, in destination style, the memory) of: a loop's argument has those of
/// its initial value, a result those of its destination. Null if there is none.
mlir::Value getTiedValue(mlir::Value tensor);

/// Whether one of `values` is computed from `source` by ops inside `loop`.
bool isComputedFrom(mlir::ValueRange values, mlir::Value source, mlir::Operation *loop);

} // namespace flashc

#endif // FLASHC_LIB_ANALYSIS_INDEXEVALUATOR_H
