//===- KernelFrame.h - the common part of the kernels of all steps ------------------------------------------------===//
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

/// Emits the body of a kernel that has an empty entry block: the sequential program of a nest, which each unit runs:
///
///   rings of the operands' tiles; the step's allocations
///   program over the grid of work tiles {
///     positions; values of score and mask regions that depend only on them
///     the resident operands' tiles are loaded
///     scf.for over streamed tiles, with the step's state { the step }
///     the step's outputs are stored
///   }
///
/// The step (TileStep) decides what is computed from a tile, and what the kernel stores. The frame holds four values,
/// which use each other only by their interfaces: Unit (the threads that compute a tile), Rows (the rows of a tile),
/// Source (how the tiles of an operand are loaded) and Walk (the tiles that the kernel visits). The frame also has the
/// unit's position.
class KernelFrame {
public:
  /// `isSorted`: CTAs take work tiles from a list that another kernel sorts.
  KernelFrame(LoopNest &nest, const Schedule &schedule, bool isSorted, mlir::gpu::GPUFuncOp kernel,
              KernelSignature &signature);
  ~KernelFrame();

  mlir::LogicalResult build(TileStep &step);

  //===------------------------------------------------------------------------------------------------------------===//
  // For steps
  //===------------------------------------------------------------------------------------------------------------===//

  /// Returns the tile of a resident operand for the unit's rows.
  mlir::Value getResident(llvm::StringRef name) const;
  /// Loads the tile of a streamed operand from row `position` on.
  mlir::Value loadStreamed(llvm::StringRef name, mlir::Value position);
  /// Emits the number of positions that an operand has (Source::emitExtent). Null after an error.
  mlir::Value emitExtent(llvm::StringRef name);
  /// Applies the scales of a streamed operand's elements to `tile`: to scores for keys, to probabilities for values.
  /// `tile` holds products with the operand's tile at `position`, or factors of such products. Returns `tile` itself if
  /// the elements have no scales. Null after an error.
  mlir::Value emitScaled(llvm::StringRef name, mlir::Value tile, mlir::Value position);
  /// Loads the element at `position` of a streamed operand that is no matrix. In a masked visit (`isMasked`) the
  /// position may not exist; then loads the last element instead. Null after an error.
  mlir::Value loadStreamedElement(llvm::StringRef name, mlir::Value position, mlir::Value isMasked);
  /// Emits values for a visited tile: the values of `emitMasked` if the tile is masked, otherwise `unmasked`.
  /// `emitMasked` returns one value for each of `unmasked`.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emitWhereMasked(mlir::Value visit, mlir::ValueRange unmasked,
                  llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>()> emitMasked);
  /// Whether arrays decide which pairs the mask keeps. Operands may then hold any bits at positions that the mask
  /// hides.
  bool hidesData() const { return static_cast<bool>(seenKeys) || static_cast<bool>(seenQueries); }
  /// Emits whether a visit is masked. Null if all visits are masked, or if none is.
  mlir::Value emitIsMasked(mlir::Value visit);

  /// The types of tiles that have as many rows as a unit's tile.
  mlir::RankedTensorType getAccType(int64_t cols) { return mlir::tile::getAccType(cols, b.getF32Type(), tileRows); }
  mlir::RankedTensorType getRowType() { return mlir::tile::getRowType(b.getF32Type(), tileRows); }
  mlir::RankedTensorType getLanePartialType() { return mlir::tile::getLanePartialType(b.getContext(), tileRows); }

  /// Stores a tile, or one value for each row, to a launch argument.
  void store(mlir::Value tile, unsigned argument, bool isMatrix);
  /// Whether the step's results are parts that another kernel merges. If so, `storePart` stores all results.
  bool storesParts() const { return nest.findKernel(nest.parts.merge) != nullptr; }
  mlir::LogicalResult storePart(mlir::Value tile, unsigned result);
  /// Emits the results of a work tile that is a part of a tile. If the launch decides how many parts tiles have, a tile
  /// may have one part: `storeWhole` then stores its results to the outputs, and a mark in place of the log-sum-exp
  /// tells the merging kernel. Otherwise, and if sinks are still to be added, `storeParts` stores the results.
  mlir::LogicalResult storeWhereWhole(llvm::function_ref<mlir::LogicalResult()> storeWhole,
                                      llvm::function_ref<mlir::LogicalResult()> storeParts,
                                      mlir::RankedTensorType lseType);
  /// Returns the sinks that this kernel adds to the sums of its rows. Null if there are none, or if another kernel adds
  /// them.
  mlir::Value getSinks();
  /// Emits, for each row, the value that `load` loads for the head of that row. Null after an error.
  mlir::Value emitOfHeads(llvm::function_ref<mlir::Value(mlir::Value head)> load);

  /// The arrays to which a result of the nest is stored.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> getDestinations(unsigned result);

  //===------------------------------------------------------------------------------------------------------------===//
  // For sources
  //===------------------------------------------------------------------------------------------------------------===//

  /// Whether streamed operands have elements of 8 bits, which are widened before products.
  bool readsBytes() const;
  /// The keys that some row of the work tile may see.
  const SeenRows &getSeenKeys() const { return seenKeys; }

  const GPUTarget &getTarget() const { return GPUTarget::of(kernel); }
  mlir::Value index(int64_t value);
  /// The first row of the unit in a CTA's tile that begins with row `first`.
  mlir::Value emitUnitRow(mlir::Value first);
  mlir::Value splat(mlir::RankedTensorType type, double value);
  mlir::Value scale(mlir::Value values, double factor);

  LoopNest &nest;
  const Schedule &schedule;
  const bool isSorted;
  KernelSignature &signature;
  ScalarCloner scalars;
  mlir::ImplicitLocOpBuilder b;
  mlir::gpu::GPUFuncOp kernel;
  std::unique_ptr<Unit> unit;
  /// The number of the unit in its CTA.
  mlir::Value unitNumber;
  /// The rows of a unit's tile.
  const int64_t tileRows;
  std::unique_ptr<Rows> rows;
  /// The position of the unit: its batch, its head, its first resident row, and the end of the existing rows. `columns`
  /// is for units that store only some columns of a result: it holds the first of these, and the end of the existing
  /// columns.
  mlir::Value batch, head, row, endOfRows;
  llvm::SmallVector<mlir::Value, 2> columns;
  /// The number of the CTA's part of the keys. Null if the CTA has all keys.
  mlir::Value part;
  TileRegions regions;
  std::vector<std::unique_ptr<Source>> sources; // in the order of the operands
  std::unique_ptr<Walk> walk;
  Visits visits;

private:
  Source &find(llvm::StringRef name) const;
  mlir::FailureOr<mlir::Value> emitNumberOfParts();
  mlir::LogicalResult storeMissingParts(mlir::RankedTensorType type, mlir::Value array, mlir::Value batches);
  void emitRings(const TileStep &step);
  /// Emits the bounds of the rows that the mask may keep. Tells sources to clear the rows outside of these bounds if
  /// the step needs that.
  mlir::LogicalResult emitSeen(const TileStep &step);

  SeenRows seenKeys, seenQueries;
};

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_KERNELFRAME_H
