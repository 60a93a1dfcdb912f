//===- Unit.h - who runs a tile -----------------------------------------------------------------------------------===//
//
// The threads that compute a tile together: how many rows it has, the program that they run, who loads for them, and
// how several of them merge their states. A kind of units is one file of this folder and one line of FrameKinds.def.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H
#define FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H

#include "NestKernel.h"
#include "flashc/Dialect/Tile/IR/Tile.h"

namespace flashc {

class KernelFrame;

/// A state of online softmax. Exponents are differences of maxima times `factor`, base 2.
struct SoftmaxState {
  mlir::Value acc, max, sum;
  double factor;
};

class Unit {
public:
  virtual ~Unit() = default;

  /// How many rows a tile has.
  virtual int64_t getRows() const = 0;
  /// Whether each unit loads the tiles that it reads itself, into rings of its own; else a producer loads them.
  virtual bool loadsItself() const = 0;
  /// Emits an error and fails if it has no code for what the nest asks for.
  virtual mlir::LogicalResult check(LoopNest &nest) const { return mlir::success(); }
  /// Makes the program over a grid of work tiles and goes into its body; returns the number of the unit in the CTA.
  virtual mlir::Value emitProgram(KernelFrame &frame, mlir::ValueRange grid, mlir::tile::WorkAttr work) const = 0;
  /// Makes one state of those that several units have of the same rows, of which this unit stores a part of the
  /// columns.
  virtual void emitMerged(KernelFrame &frame, SoftmaxState &state) const {}
  /// Describes the grid and the CTAs of a kernel that has been filled.
  virtual void describe(const NestKernel &kernel, ManifestKernel &info) const = 0;
};

/// The unit of a schedule: the first kind of FrameKinds.def that takes it.
std::unique_ptr<Unit> makeUnit(const Schedule &schedule);
/// Each is defined in the file of its kind.
#define UNIT(Name) std::unique_ptr<Unit> match##Name##Unit(const Schedule &schedule);
#include "FrameKinds.def"

} // namespace flashc

#endif // FLASHC_LIB_CONVERSION_FLASHTOTILE_UNITS_UNIT_H
