//===- Lowering.h - declarations shared by the files of convert-tile-to-nvvm --------------------------------------===//
//
// How four warps hold a tile (PTX ISA 9.7.15.5.1.1, the accumulator of wgmma; mma has the same 16 rows for each warp).
// Thread t of 128, lane = t mod 32, holds the elements e = 4 * block + 2 * half + word of a 64 x N tile, at
//     row    = 16 * (t / 32) + lane / 4 + 8 * half
//     column = 8 * block + 2 * (lane mod 4) + word.
// A #tile.row or #tile.lane_partial value has two elements, one for each half; a #tile.col value has one for each of
// the thread's columns, in order. A #tile.operand_a value has one 32-bit register for each pair of words, in the order
// of the accumulator. A #tile.flags value has one register for each block of eight columns: the flag of element e of
// the block is the sign of byte e.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_LIB_CONVERSION_TILETONVVM_COMMON_LOWERING_H
#define FLASHC_LIB_CONVERSION_TILETONVVM_COMMON_LOWERING_H

#include "flashc/Dialect/Tile/IR/SharedLayout.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/DialectConversion.h"

namespace flashc::tiletonvvm {

/// Values and offsets that the whole kernel shares. They are computed once, at its entry.
struct KernelContext {
  explicit KernelContext(mlir::gpu::GPUFuncOp kernel)
      : target(flashc::GPUTarget::of(kernel)),
        schedule(kernel->getAttrOfType<mlir::tile::ScheduleAttr>(mlir::tile::kScheduleAttrName)), layout(kernel),
        publishWords(mlir::tile::getPublishWords(kernel)) {}

  const flashc::GPUTarget &target;
  mlir::tile::ScheduleAttr schedule;
  /// Offsets from `sharedBase`.
  mlir::tile::KernelLayout layout;
  /// How many numbers one place for broadcasts holds.
  int64_t publishWords;
  /// The warps of a tile.warp_program, and the CTAs of its cluster.
  int64_t warps = 0, cluster = 0;

  mlir::Value sharedBase; // i32, aligned to the swizzle
  mlir::Value isThread0;  // i1, thread 0 of the CTA
  mlir::Value warpgroup;  // i32, uniform: 0 the producer, 1.. the consumers
  mlir::Value warp;       // i32, uniform: the warp of a tile.warp_program
  mlir::Value inGroup;    // i32, thread within the warpgroup
  mlir::Value row;        // i32, this thread's first row in a tile
  mlir::Value laneCol;    // i32, lane mod 4
};

/// Computes the context, and emits its values at the start of `kernel`.
KernelContext createKernelContext(mlir::gpu::GPUFuncOp kernel);

/// Emits PTX and small arithmetic on i32 at one insertion point.
class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b) { return b == 0 ? a : add(a, constantLike(a, b)); }
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value shr(mlir::Value a, int64_t bits);
  mlir::Value bitAnd(mlir::Value a, int64_t mask);
  mlir::Value equal(mlir::Value a, int64_t b);
  /// Emits whether bit `bit` of `word` is 1. Tests `word` with a mask; LLVM by itself would first shift the bit to the
  /// right.
  mlir::Value isSet(mlir::Value word, int64_t bit);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value toI64(mlir::Value i32);
  mlir::Value toI32(mlir::Value index);
  mlir::Value toIndex(mlir::Value i32);

  /// Emits inline PTX without a result.
  void ptx(llvm::StringRef assembly, llvm::StringRef constraints, mlir::ValueRange operands);
  /// Emits inline PTX with one result.
  mlir::Value ptx(mlir::Type result, llvm::StringRef assembly, llvm::StringRef constraints, mlir::ValueRange operands,
                  bool sideEffects);
  /// Emits inline PTX with `results.size()` results.
  llvm::SmallVector<mlir::Value> ptx(llvm::ArrayRef<mlir::Type> results, llvm::StringRef assembly,
                                     llvm::StringRef constraints, mlir::ValueRange operands);
  mlir::Value intrinsic(mlir::Type result, llvm::StringRef name, mlir::ValueRange operands);

  /// Returns an i32 that is the same in every lane, in a uniform register. ptxas cannot prove this for a value that
  /// threads have loaded or shuffled. It would keep all values that are computed from it per thread
  /// (docs/hopper-schedule.md).
  mlir::Value makeUniform(mlir::Value value);

  /// Exchanges a value with the lane whose number differs in the bits of `mask`.
  mlir::Value shuffleXor(mlir::Value value, int64_t mask);

  mlir::Value constantLike(mlir::Value like, int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Rounds two f32 values to 16 bits and packs them into an i32. `low` is in the low half.
mlir::Value packPair(Emitter &emit, mlir::Type element, mlir::Value low, mlir::Value high);

int64_t getElementsPerThread(mlir::RankedTensorType tile);

/// The position of an accumulator's element e relative to the thread's first element: getColumn(e) columns to the
/// right, and 8 * getHalf(e) rows below.
inline int64_t getHalf(int64_t element) { return element / 2 % 2; }
inline int64_t getColumn(int64_t element) { return 8 * (element / 4) + element % 2; }
/// Returns which element of a #tile.col value belongs to the column of an accumulator's element.
inline int64_t getColumnNumber(int64_t element) { return 2 * (element / 4) + element % 2; }

/// Converts the types of tiles and memrefs to the types of the values that hold them. A target adds conversions of
/// slots, rings and maps. Other types stay as they are.
class TileTypeConverter : public mlir::TypeConverter {
public:
  explicit TileTypeConverter(mlir::MLIRContext *context);
};

/// The values that hold each result of an op.
using TileValues = llvm::SmallVector<llvm::SmallVector<mlir::Value>>;

/// The operands of an op, each as the values that hold it.
template <typename OpTy> using Adaptor = typename OpTy::template GenericAdaptor<llvm::ArrayRef<mlir::ValueRange>>;

/// The function that lowers an op in its kernel.
template <typename OpTy>
using LowerOp = TileValues (*)(OpTy op, Adaptor<OpTy> adaptor, Emitter &emit, KernelContext &kernel);

/// Lowers every op of type `OpTy` by a function of type LowerOp.
template <typename OpTy> struct KernelPattern : mlir::OpConversionPattern<OpTy> {
  KernelPattern(TileTypeConverter &converter, mlir::MLIRContext *context, KernelContext &kernel, LowerOp<OpTy> lower)
      : mlir::OpConversionPattern<OpTy>(converter, context), kernel(kernel), lower(lower) {}

  llvm::LogicalResult matchAndRewrite(OpTy op, Adaptor<OpTy> adaptor,
                                      mlir::ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    rewriter.replaceOpWithMultiple(op, lower(op, adaptor, emit, kernel));
    return llvm::success();
  }

  KernelContext &kernel;
  LowerOp<OpTy> lower;
};

/// A set of patterns, and the objects with which each pattern is made.
struct KernelPatterns {
  TileTypeConverter &converter;
  mlir::RewritePatternSet &set;
  KernelContext &kernel;

  template <typename... OpTys> void add(TileValues (*...lower)(OpTys, Adaptor<OpTys>, Emitter &, KernelContext &)) {
    (set.add<KernelPattern<OpTys>>(converter, set.getContext(), kernel, lower), ...);
  }
};

void populateRegisterPatterns(KernelPatterns &patterns);
void populateMapPatterns(KernelPatterns &patterns);
void populateStorePatterns(KernelPatterns &patterns);
void populateDropoutPatterns(KernelPatterns &patterns);
/// Adds patterns for loads of array elements.
void populateLoadPatterns(TileTypeConverter &converter, mlir::RewritePatternSet &patterns);
/// Adds patterns for ops of kernels without tiles.
void populatePlainPatterns(TileTypeConverter &converter, mlir::RewritePatternSet &patterns);

/// Stores one, two or four `words` (32 bits each) at `pointer` if `predicate` (i32) is not 0.
void storeWords(Emitter &emit, mlir::Value pointer, llvm::ArrayRef<mlir::Value> words, mlir::Value predicate);

/// Converts every loop with a tile.repeat_if to an scf.while.
void expandRepeatedLoops(mlir::gpu::GPUFuncOp kernel);

/// Converts arrays in shared memory, which kernels without tiles have, to LLVM globals.
void convertSharedArrays(mlir::gpu::GPUModuleOp module);

/// Returns LLVM's number of the array's address space: 3 for shared memory, 1 for device memory.
unsigned getAddressSpace(mlir::MemRefType type);

/// Returns the address of the element at `indices` of a memref that is held as pointer and strides. Indices are i32,
/// but offsets have 64 bits.
mlir::Value getElementPointer(Emitter &emit, mlir::ValueRange memref, mlir::Type element,
                              llvm::ArrayRef<mlir::Value> indices);
/// Returns the address of the element at the indices of an op. Without indices it is the address of the only element.
mlir::Value getElementPointer(Emitter &emit, mlir::ValueRange memref, mlir::MemRefType type,
                              mlir::OperandRange indices);

/// Returns the column `distance` to the right of `col`. The sum is marked as not overflowing, so that LLVM folds
/// distances into addresses.
mlir::Value addColumn(Emitter &emit, mlir::Value col, int64_t distance);

/// Whether `load`, an op of `map`, reads an array along j. The index j may be clamped.
bool isReadAlongRow(mlir::tile::MapOp map, mlir::memref::LoadOp load);

/// Loads the values of a load for which isReadAlongRow holds: one for each element of the tile that a thread holds.
/// `rows` has the map's arguments at the first element in each of the thread's two rows. Two neighbours are loaded at
/// once if their address is aligned and no clamp moves a column. This depends on the address of the array, its strides
/// and the tile's first key, so the warp tests it. Values that both rows share are loaded once.
llvm::SmallVector<mlir::Value> readPairs(Emitter &emit, mlir::tile::MapOp map, mlir::memref::LoadOp load,
                                         std::array<mlir::IRMapping, 2> rows, int64_t elements);

/// Whether the region of `map` is too long to be repeated for every element that a thread holds: LLVM would need more
/// than about a second to compile the code. No mask or score for which a schedule was measured is so long.
bool isLargeMap(mlir::tile::MapOp map);

/// Expands a map for which isLargeMap holds as a loop over the elements of a row. Code that all elements share comes
/// before the loop. Returns the elements. Adds to `offsets` the values that must be added to whole rows.
llvm::SmallVector<mlir::Value> expandInLoops(mlir::tile::MapOp map, mlir::ValueRange source,
                                             llvm::ArrayRef<mlir::ValueRange> rows, const KernelContext &kernel,
                                             mlir::OpBuilder &b, llvm::SmallVector<mlir::Value> &offsets);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_COMMON_LOWERING_H
