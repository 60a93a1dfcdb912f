//===- GPUTarget.h - the facts of a GPU, as a value ---------------------------------------------------------------===//
// The facts of a GPU that verifiers, passes and schedules need. Each target is a constant in its own header (such as
// Hopper.h), which names a source for each number. The list in GPUTarget.cpp has an entry for each target. Numbers that
// the tile dialect chooses itself, such as the rows of an encoding, are in Tile.h.
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
  /// The PTX version that is needed by kernels that add vectors to device memory (tile.atomic_add).
  llvm::StringRef atomicAddFeature;

  /// The most bytes of dynamic shared memory of a CTA.
  int64_t maxSharedMemory = 0;
  /// The number of 32-bit registers of a multiprocessor.
  int64_t registersPerSM = 0;
  /// The least and the most registers per thread that a role may have, in steps of 8.
  int64_t minRegisters = 0, maxRegisters = 0;
  /// The number of named barriers of a CTA.
  int64_t namedBarriers = 0;
  /// The bytes of an mbarrier object.
  int64_t barrierBytes = 0;

  /// The shape of one product instruction: the number of threads that compute it together, the rows of A, the depth,
  /// and the columns of B (a multiple of `colStep`, up to `maxCols`).
  int64_t groupThreads = 0, productRows = 0, depthStep = 0, colStep = 0, maxCols = 0;

  /// Whether there are products of warpgroups (wgmma), and clusters of CTAs.
  bool hasWarpgroupProducts = false, hasClusters = false;
  /// Whether there are conversions from float8 (PTX ISA, cvt).
  bool hasFloat8 = false;
  /// Whether tensor maps (TMA) can copy tiles, and the maximum number of rows of such a copy.
  bool hasTMA = false;
  int64_t maxBoxRows = 0;
  /// The number of multiprocessors for which schedules are chosen while the GPU of the launch is not known.
  int64_t multiprocessors = 0;
  /// In shared memory a tile is stored as panels (groups of adjacent columns). A row of a panel has `swizzleBytes`
  /// bytes, which are swizzled. The pattern repeats after `swizzleAlignment` bytes, and each tile begins at a multiple
  /// of `swizzleAlignment`.
  int64_t swizzleBytes = 0, swizzleAlignment = 0;

  /// Returns the number of registers of a CTA with this many threads, if it is launched with as many registers per
  /// thread as possible, in steps of 8. Its roles divide these registers.
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
  /// Return the bytes of one depth step (the depth of a product instruction): in a row of A or B, and in a panel of
  /// ones. (Products with the ones sum rows on the Tensor Cores.)
  constexpr int64_t getStepRowBytes() const { return depthStep * 2; }
  constexpr int64_t getOnesBytes() const { return depthStep * swizzleBytes; }

  /// Returns the target with the name `name`. Null if there is none.
  static const GPUTarget *lookup(llvm::StringRef name);
  /// Returns all names, for diagnostics.
  static std::string getNames();

  /// Returns the attribute `targets` of a gpu.module for this target, such as `[#nvvm.target<chip = "sm_90a", ...>]`.
  /// `feature` is the PTX version; if it is empty, `ptxFeature` is used.
  mlir::ArrayAttr getAttr(mlir::MLIRContext *context, llvm::StringRef feature = "") const;
  /// Returns the PTX version of the gpu.module at or around `op`, as a feature. If the module names no version, returns
  /// the version of the module's target.
  static llvm::StringRef getFeature(mlir::Operation *op);
  /// Returns the target of the gpu.module at or around `op`. If the module names none, or one that `verify` rejects,
  /// returns the default target.
  static const GPUTarget &of(mlir::Operation *op);
  /// Fails with an error if the target of the gpu.module is not known.
  static llvm::LogicalResult verify(mlir::Operation *op);
};

} // namespace flashc

#endif // FLASHC_TARGET_GPUTARGET_H
