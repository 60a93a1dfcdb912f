//===- KernelFrame.h - what the kernel of every step has ----------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_KERNELFRAME_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_KERNELFRAME_H

#include "LoopNest.h"
#include "Regions/TileRegions.h"
#include "Rows/Rows.h"
#include "SeenRows.h"
#include "Units/Unit.h"
#include "Visits/Visits.h"
#include "flashc/Conversion/HostToKernel/KernelSignature.h"
#include "flashc/Conversion/HostToKernel/ScalarCloner.h"
#include "flashc/Dialect/Tile/IR/Tile.h"
#include "flashc/Schedule/Schedule.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace flashc {

class Source;
class TileStep;
class Walk;

/// Fills a kernel that has an empty entry block with the sequential program of a nest, which each unit runs:
///
///   rings of the operands' tiles; what the step allocates
///   program over the grid of work tiles {
///     positions; what score and mask regions compute of them
///     the resident operands' tiles are loaded
///     scf.for over streamed tiles, with the step's state { the step }
///     the step's outputs are stored
///   }
///
/// What happens to a tile, and what leaves the kernel, is the step's (TileStep). All else are four values, which know
/// each other by their interfaces only: who runs a tile (Unit), which rows it has (Rows), how each operand's tiles come
/// (Source), over what the kernel walks (Walk). The frame holds them, and where the unit is.
class KernelFrame {
public:
  KernelFrame(LoopNest &nest, const Schedule &schedule, mlir::gpu::GPUFuncOp kernel, KernelSignature &signature);
  ~KernelFrame();

  mlir::LogicalResult build(TileStep &step);
  /// Of a kernel that has been built: whether consumers visit the keys of their own rows.
  bool hasOwnKeys() const { return visits.getOwn() != nullptr; }

  //===------------------------------------------------------------------------------------------------------------===//
  // For steps
  //===------------------------------------------------------------------------------------------------------------===//

  /// The tile of a resident operand, of the unit's rows.
  mlir::Value getResident(llvm::StringRef name) const;
  /// The tile of a streamed operand from row `position` on.
  mlir::Value loadStreamed(llvm::StringRef name, mlir::Value position);
  /// The number of positions that an operand has (Source::emitExtent). Null after an error.
  mlir::Value emitExtent(llvm::StringRef name);
  /// What products of a streamed operand's tile at `position` have to be multiplied with, has been: the scores of keys,
  /// and the probabilities of values, where elements have scales. Null after an error.
  mlir::Value emitScaled(llvm::StringRef name, mlir::Value tile, mlir::Value position);
  /// The element of a streamed operand that is no matrix, at `position`; where that may not exist (`isMasked`, of the
  /// visit), that of the last one. Null after an error.
  mlir::Value loadStreamedElement(llvm::StringRef name, mlir::Value position, mlir::Value isMasked);
  /// Values for a tile that is visited: what `emitMasked` emits where the mask has a say, and `unmasked` elsewhere. It
  /// returns one value for each of those.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emitWhereMasked(mlir::Value visit, mlir::ValueRange unmasked,
                  llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>()> emitMasked);
  /// Whether data says which pairs the mask keeps, so that others may hold anything.
  bool hidesData() const { return static_cast<bool>(seenKeys) || static_cast<bool>(seenQueries); }
  /// Whether a visit is masked, as a value; null where all are, or none is.
  mlir::Value emitIsMasked(mlir::Value visit);

  /// Types of tiles that the program's rows have.
  mlir::RankedTensorType getAccType(int64_t cols) { return mlir::tile::getAccType(cols, b.getF32Type(), tileRows); }
  mlir::RankedTensorType getRowType() { return mlir::tile::getRowType(b.getF32Type(), tileRows); }
  mlir::RankedTensorType getLanePartialType() { return mlir::tile::getLanePartialType(b.getContext(), tileRows); }

  /// Stores a tile, or a value of each row, to a launch argument.
  void store(mlir::Value tile, unsigned argument, bool isMatrix);
  /// Whether the step's results are parts of those of the nest, which another kernel merges: then all of them are
  /// stored, by `storePart`.
  bool storesParts() const { return nest.findKernel(nest.parts.merge) != nullptr; }
  mlir::LogicalResult storePart(mlir::Value tile, unsigned result);
  /// The sinks that join the rows' sums here; null if there are none.
  mlir::Value getSinks();
  /// What `load` loads of its head, in each row. Null after an error.
  mlir::Value emitOfHeads(llvm::function_ref<mlir::Value(mlir::Value head)> load);

  /// The arrays that a result of the nest is stored to.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> getDestinations(unsigned result);

  //===------------------------------------------------------------------------------------------------------------===//
  // For sources
  //===------------------------------------------------------------------------------------------------------------===//

  /// Whether streamed operands have elements of 8 bits, which products widen.
  bool readsBytes() const;
  /// The keys that the mask lets some row of the work tile see.
  const SeenRows &getSeenKeys() const { return seenKeys; }

  const GPUTarget &getTarget() const { return GPUTarget::of(kernel); }
  mlir::Value index(int64_t value);
  /// The unit's first row of a tile of all units that begins with row `first`.
  mlir::Value emitUnitRow(mlir::Value first);
  mlir::Value splat(mlir::RankedTensorType type, double value);
  mlir::Value scale(mlir::Value values, double factor);

  LoopNest &nest;
  const Schedule &schedule;
  KernelSignature &signature;
  ScalarCloner scalars;
  mlir::ImplicitLocOpBuilder b;
  mlir::gpu::GPUFuncOp kernel;
  std::unique_ptr<Unit> unit;
  /// Of the unit in its CTA.
  mlir::Value unitNumber;
  /// Of a unit's tile.
  const int64_t tileRows;
  std::unique_ptr<Rows> rows;
  /// Where the unit is: its batch, its head, its first resident row, and the end of the rows that exist. Where a
  /// result's tiles are parts of longer rows, `columns` are the first one and the end of those that exist.
  mlir::Value batch, head, row, endOfRows;
  llvm::SmallVector<mlir::Value, 2> columns;
  /// The part of the keys that the CTA has; null where it has all.
  mlir::Value part;
  TileRegions regions;
  std::vector<std::unique_ptr<Source>> sources; // in the operands' order
  std::unique_ptr<Walk> walk;
  Visits visits;

private:
  Source &find(llvm::StringRef name) const;
  void emitRings(const TileStep &step);
  /// Which rows exist for the mask, and of which operands others are to become 0.
  mlir::LogicalResult emitSeen(const TileStep &step);

  SeenRows seenKeys, seenQueries;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_KERNELFRAME_H
