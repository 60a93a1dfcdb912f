//===- GPUTarget.h - the facts of a GPU, as a value ---------------------------------------------------------------===//
// The facts of a GPU that verifiers, passes and schedules need. A target is a constant in its own header (Hopper.h),
// which gives the source of each number, and an entry in the list of GPUTarget.cpp. Choices of the tile dialect itself,
// such as the rows of an encoding, are in Tile.h.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TARGET_GPUTARGET_H
#define FLASHC_TARGET_GPUTARGET_H

#include "mlir/IR/Operation.h"

namespace flashc {

/// The target if neither the IR nor the options name one.
constexpr llvm::StringLiteral kDefaultTarget = "sm_90a";

struct GPUTarget {
  /// The name that ptxas takes.
  llvm::StringRef name;
  /// The PTX version, as a feature of LLVM's NVPTX back end.
  llvm::StringRef ptxFeature;
  /// The PTX version for kernels that add vectors to device memory (tile.atomic_add).
  llvm::StringRef atomicAddFeature;

  /// The most bytes of dynamic shared memory of a CTA.
  int64_t maxSharedMemory = 0;
  /// The number of 32-bit registers of a multiprocessor.
  int64_t registersPerSM = 0;
  /// The range of registers per thread that a role may have, in steps of 8.
  int64_t minRegisters = 0, maxRegisters = 0;
  /// The number of named barriers of a CTA.
  int64_t namedBarriers = 0;
  /// The bytes of an mbarrier object.
  int64_t barrierBytes = 0;

  /// The shape of one product instruction: the threads that compute it together, the rows of A, the depth, and the step
  /// and the maximum of the columns of B.
  int64_t groupThreads = 0, productRows = 0, depthStep = 0, colStep = 0, maxCols = 0;

  /// Whether there are products of warpgroups (wgmma), and clusters of CTAs.
  bool hasWarpgroupProducts = false, hasClusters = false;
  /// Whether there are conversions from float8 (PTX ISA, cvt).
  bool hasFloat8 = false;
  /// Whether there are copies of tiles by tensor maps (TMA), and the most rows of such a copy.
  bool hasTMA = false;
  int64_t maxBoxRows = 0;
  /// The number of multiprocessors that schedules are chosen for if the launch's GPU is not known.
  int64_t multiprocessors = 0;
  /// The bytes of a row of a panel of a slot, which are swizzled, and the alignment, after which the pattern repeats.
  int64_t swizzleBytes = 0, swizzleAlignment = 0;

  /// Returns the registers that the roles of a CTA share: the most that a CTA of this many threads can be launched
  /// with, in steps of 8 per thread.
  constexpr int64_t getRegistersOfCTA(int64_t threads) const { return registersPerSM / threads / 8 * 8 * threads; }
  constexpr bool allowsRegisters(int64_t registers) const {
    return registers >= minRegisters && registers <= maxRegisters && registers % 8 == 0;
  }
  /// Returns the number of rows after which the swizzle repeats.
  constexpr int64_t getSwizzleRows() const { return swizzleAlignment / swizzleBytes; }
  /// Whether a tile may have this many keys, which are the columns of one product and the depth of the next.
  constexpr bool allowsKeys(int64_t keys) const {
    return keys >= depthStep && keys <= maxCols && keys % depthStep == 0;
  }
  /// Returns the number of columns of a panel of 16-bit elements.
  constexpr int64_t getPanelCols() const { return swizzleBytes / 2; }
  constexpr int64_t countPanels(int64_t cols) const { return (cols + getPanelCols() - 1) / getPanelCols(); }
  /// Returns the bytes of a tile of 16-bit elements in shared memory.
  constexpr int64_t getSlotBytes(int64_t rows, int64_t cols) const { return countPanels(cols) * rows * swizzleBytes; }
  /// Returns the bytes of a row of A or B for one step of depth, and of a panel of ones for such a step.
  constexpr int64_t getStepRowBytes() const { return depthStep * 2; }
  constexpr int64_t getOnesBytes() const { return depthStep * swizzleBytes; }

  /// Returns the target of that name; null if there is none.
  static const GPUTarget *lookup(llvm::StringRef name);
  /// Returns all names, for diagnostics.
  static std::string getNames();

  /// Returns the `targets` of a gpu.module for this target: `[#nvvm.target<chip = "sm_90a", ...>]`, with `feature` as
  /// the PTX version, or `ptxFeature` if it is empty.
  mlir::ArrayAttr getAttr(mlir::MLIRContext *context, llvm::StringRef feature = "") const;
  /// Returns the PTX version that the gpu.module at or around `op` names, as a feature; the target's if it names none.
  static llvm::StringRef getFeature(mlir::Operation *op);
  /// Returns the target of the gpu.module at or around `op`; the default if it names none, or one that `verify`
  /// rejects.
  static const GPUTarget &of(mlir::Operation *op);
  /// Whether the gpu.module's target is known.
  static llvm::LogicalResult verify(mlir::Operation *op);
};

} // namespace flashc

#endif // FLASHC_TARGET_GPUTARGET_H
