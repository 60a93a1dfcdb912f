//===- GPUTarget.h - the facts of a GPU, as a value ---------------------------------------------------------------===//
//
// What verifiers, passes and schedules ask of the hardware. A target is a constant in a header of its own (Hopper.h),
// which gives each number's source; the list of GPUTarget.cpp makes it known. What the tile dialect chooses by itself,
// such as the rows of an encoding, is in Tile.h.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TARGET_GPUTARGET_H
#define FLASHC_TARGET_GPUTARGET_H

#include "mlir/IR/Operation.h"

namespace flashc {

/// The target where neither IR nor options name one.
constexpr llvm::StringLiteral kDefaultTarget = "sm_90a";

struct GPUTarget {
  /// As ptxas spells it.
  llvm::StringRef name;
  /// The PTX version for it, as a feature of LLVM's NVPTX back end.
  llvm::StringRef ptxFeature;
  /// The same for kernels that add vectors to device memory (tile.atomic_add).
  llvm::StringRef atomicAddFeature;

  /// Bytes of dynamic shared memory that a CTA may have.
  int64_t maxSharedMemory = 0;
  /// 32-bit registers.
  int64_t registersPerSM = 0;
  /// What a role may ask for a thread, in steps of 8.
  int64_t minRegisters = 0, maxRegisters = 0;
  /// Named barriers of a CTA.
  int64_t namedBarriers = 0;
  /// An mbarrier object.
  int64_t barrierBytes = 0;

  /// The threads that compute a product together; the rows of A and the elements of depth of one instruction; the
  /// columns of B come in such steps, up to the most.
  int64_t groupThreads = 0, productRows = 0, depthStep = 0, colStep = 0, maxCols = 0;

  /// Whether warpgroups compute products (wgmma), and CTAs form clusters.
  bool hasWarpgroupProducts = false, hasClusters = false;
  /// Whether there are conversions from float8 (PTX ISA, cvt).
  bool hasFloat8 = false;
  /// Whether tensor maps describe arrays in device memory, for copies of whole tiles; and the most rows of such a copy.
  bool hasTMA = false;
  int64_t maxBoxRows = 0;
  /// Multiprocessors of the GPU that schedules are chosen for where the one of the launch is not known.
  int64_t multiprocessors = 0;
  /// A slot is panels whose rows have this many bytes, swizzled; the pattern repeats at the alignment.
  int64_t swizzleBytes = 0, swizzleAlignment = 0;

  /// The registers that roles share: those that a CTA is launched with, which are as many for each of its threads as
  /// there can be, in steps of 8.
  constexpr int64_t getRegistersOfCTA(int64_t threads) const { return registersPerSM / threads / 8 * 8 * threads; }
  constexpr bool allowsRegisters(int64_t registers) const {
    return registers >= minRegisters && registers <= maxRegisters && registers % 8 == 0;
  }
  /// The rows after which the swizzle repeats.
  constexpr int64_t getSwizzleRows() const { return swizzleAlignment / swizzleBytes; }
  /// Whether a tile may have so many keys: columns of one product, depth of the next.
  constexpr bool allowsKeys(int64_t keys) const {
    return keys >= depthStep && keys <= maxCols && keys % depthStep == 0;
  }
  /// Columns of a panel of 16-bit elements.
  constexpr int64_t getPanelCols() const { return swizzleBytes / 2; }
  constexpr int64_t countPanels(int64_t cols) const { return (cols + getPanelCols() - 1) / getPanelCols(); }
  /// A tile of 16-bit elements in shared memory.
  constexpr int64_t getSlotBytes(int64_t rows, int64_t cols) const { return countPanels(cols) * rows * swizzleBytes; }
  /// A row of A or B for one step of depth, and a panel of ones for it.
  constexpr int64_t getStepRowBytes() const { return depthStep * 2; }
  constexpr int64_t getOnesBytes() const { return depthStep * swizzleBytes; }

  /// The target of that name; null if there is none.
  static const GPUTarget *lookup(llvm::StringRef name);
  /// All names, for diagnostics.
  static std::string getNames();

  /// The `targets` of a gpu.module for it: `[#nvvm.target<chip = "sm_90a", ...>]`, with `ptxFeature` unless another one
  /// is given.
  mlir::ArrayAttr getAttr(mlir::MLIRContext *context, llvm::StringRef feature = "") const;
  /// The PTX version that the gpu.module around `op`, or that module, names, as a feature; the target's where it names
  /// none.
  static llvm::StringRef getFeature(mlir::Operation *op);
  /// The target of the gpu.module around `op`, or of that module; the default where it names none, or one that `verify`
  /// refuses.
  static const GPUTarget &of(mlir::Operation *op);
  /// Whether the target that the gpu.module names is a known one.
  static llvm::LogicalResult verify(mlir::Operation *op);
};

} // namespace flashc

#endif // FLASHC_TARGET_GPUTARGET_H
