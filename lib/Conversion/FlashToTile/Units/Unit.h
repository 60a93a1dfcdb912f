//===- Unit.h - the threads that compute a tile together ----------------------------------------------------------===//
//
// The threads that compute a tile together: the number of its rows, the program that they run, whether a producer loads
// for them, and how several units merge their states. A kind of units is one file of this folder and one line of
// FrameKinds.def.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H

#include "NestKernel.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

class KernelFrame;

/// A state of online softmax. To merge states, each is multiplied by 2 to the power of `factor` times a difference of
/// maxima.
struct SoftmaxState {
  mlir::Value acc, max, sum;
  double factor;
};

class Unit {
public:
  virtual ~Unit() = default;

  /// The number of rows of a tile.
  virtual int64_t getRows() const = 0;
  /// Whether each unit loads its tiles itself, into rings of its own. Otherwise a producer loads the tiles.
  virtual bool loadsItself() const = 0;
  /// Whether the units of a CTA have the same rows, and each computes some of the step's products
  /// (tile-divide-products).
  virtual bool sharesRows() const { return false; }
  /// Emits an error and fails if the unit lacks code for the nest.
  virtual mlir::LogicalResult check(LoopNest &nest) const { return mlir::success(); }
  /// Emits the program over a grid of work tiles, and moves the insertion point into its body. Returns the number of
  /// the unit in the CTA.
  virtual mlir::Value emitProgram(KernelFrame &frame, mlir::ValueRange grid, mlir::tile::WorkAttr work) const = 0;
  /// Merges the states of several units that have the same rows into one state. This unit then stores a part of the
  /// columns of the merged state.
  virtual void emitMerged(KernelFrame &frame, SoftmaxState &state) const {}
  /// Describes the grid and the CTAs of a kernel whose body is emitted.
  virtual void describe(const NestKernel &kernel, ManifestKernel &info) const = 0;
};

/// Makes the unit of a schedule: of the first kind in FrameKinds.def that applies.
std::unique_ptr<Unit> makeUnit(const Schedule &schedule);
/// The function of each kind is defined in the kind's file.
#define UNIT(Name) std::unique_ptr<Unit> match##Name##Unit(const Schedule &schedule);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H
