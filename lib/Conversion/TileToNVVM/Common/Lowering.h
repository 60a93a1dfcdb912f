//===- Lowering.h - what the files of convert-tile-to-nvvm share --------------------------------------------------===//
//
// How four warps hold a tile (PTX ISA 9.7.15.5.1.1, wgmma's accumulator; mma's has the same 16 rows for each warp).
// Thread t of 128, lane = t mod 32, holds of a 64 x N tile the elements e = 4 * block + 2 * half + word, which lie in
//     row    = 16 * (t / 32) + lane / 4 + 8 * half
//     column = 8 * block + 2 * (lane mod 4) + word.
// A #tile.row or #tile.lane_partial value has two elements, one per half; a #tile.col value has those of the thread's
// columns, in order. An #tile.operand_a value has one 32-bit
// register per pair of words, in the accumulator's own order, a #tile.flags value one for each block of eight columns:
// element e of the block has the sign of byte e.
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

/// Values and offsets that the whole kernel shares; computed once, at its entry.
struct KernelContext {
  explicit KernelContext(mlir::gpu::GPUFuncOp kernel)
      : target(flashc::GPUTarget::of(kernel)),
        schedule(kernel->getAttrOfType<mlir::tile::ScheduleAttr>(mlir::tile::kScheduleAttrName)), layout(kernel),
        publishWords(mlir::tile::getPublishWords(kernel)) {}

  const flashc::GPUTarget &target;
  mlir::tile::ScheduleAttr schedule;
  /// From `sharedBase` on.
  mlir::tile::KernelLayout layout;
  /// Numbers of a place for broadcasts.
  int64_t publishWords;
  /// The warps of a tile.warp_program, and the CTAs of a cluster.
  int64_t warps = 0, cluster = 0;

  mlir::Value sharedBase; // i32, aligned to the swizzle
  mlir::Value isThread0;  // i1, thread 0 of the CTA
  mlir::Value warpgroup;  // i32, uniform: 0 the producer, 1.. the consumers
  mlir::Value warp;       // i32, uniform: of a tile.warp_program
  mlir::Value inGroup;    // i32, thread within the warpgroup
  mlir::Value row;        // i32, this thread's first row in a tile
  mlir::Value laneCol;    // i32, lane mod 4
};

/// Fills in the context and emits its values at the start of `kernel`.
KernelContext createKernelContext(mlir::gpu::GPUFuncOp kernel);

/// Emits PTX and small arithmetic on i32 at one place.
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
  /// Whether a bit of an i32 is 1. LLVM, left to itself, would shift it to the right first.
  mlir::Value isSet(mlir::Value word, int64_t bit);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value toI64(mlir::Value i32);
  mlir::Value toI32(mlir::Value index);
  mlir::Value toIndex(mlir::Value i32);

  /// Inline PTX with no result.
  void ptx(llvm::StringRef assembly, llvm::StringRef constraints, mlir::ValueRange operands);
  /// Inline PTX with one result.
  mlir::Value ptx(mlir::Type result, llvm::StringRef assembly, llvm::StringRef constraints, mlir::ValueRange operands,
                  bool sideEffects);
  /// Inline PTX with `results.size()` results.
  llvm::SmallVector<mlir::Value> ptx(llvm::ArrayRef<mlir::Type> results, llvm::StringRef assembly,
                                     llvm::StringRef constraints, mlir::ValueRange operands);
  mlir::Value intrinsic(mlir::Type result, llvm::StringRef name, mlir::ValueRange operands);

  /// An i32 that is the same in every lane, in a uniform register: ptxas does not know it of a value that threads have
  /// read or shifted, and would keep what follows from it per thread (docs/hopper-schedule.md).
  mlir::Value makeUniform(mlir::Value value);

  /// Exchange with the lane whose number differs in `mask`.
  mlir::Value shuffleXor(mlir::Value value, int64_t mask);

  mlir::Value constantLike(mlir::Value like, int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Two f32 values rounded to 16 bits and packed into an i32, `low` in the low half.
mlir::Value packPair(Emitter &emit, mlir::Type element, mlir::Value low, mlir::Value high);

/// Elements of `tile` that a thread holds.
int64_t getElementsPerThread(mlir::RankedTensorType tile);

/// Where element e of an accumulator lies, as seen from the thread's first one: rows 8 * getHalf(e) below, columns
/// getColumn(e) to the right.
inline int64_t getHalf(int64_t element) { return element / 2 % 2; }
inline int64_t getColumn(int64_t element) { return 8 * (element / 4) + element % 2; }
/// Which element of a #tile.col value its column is.
inline int64_t getColumnNumber(int64_t element) { return 2 * (element / 4) + element % 2; }

/// Tiles and memrefs become the values that hold them; a target adds its slots, rings and maps. Everything else stays.
class TileTypeConverter : public mlir::TypeConverter {
public:
  explicit TileTypeConverter(mlir::MLIRContext *context);
};

/// The values that hold each result of an op.
using TileValues = llvm::SmallVector<llvm::SmallVector<mlir::Value>>;

/// An op whose tiles are the values that hold them.
template <typename OpTy> using Adaptor = typename OpTy::template GenericAdaptor<llvm::ArrayRef<mlir::ValueRange>>;

/// What an op becomes in its kernel.
template <typename OpTy>
using LowerOp = TileValues (*)(OpTy op, Adaptor<OpTy> adaptor, Emitter &emit, KernelContext &kernel);

/// Always matches.
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

/// A set of patterns to add to, and what each pattern is given.
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
/// Elements of arrays.
void populateLoadPatterns(TileTypeConverter &converter, mlir::RewritePatternSet &patterns);
/// What kernels without tiles have.
void populatePlainPatterns(TileTypeConverter &converter, mlir::RewritePatternSet &patterns);

/// Stores one, two or four `words` (32 bits each) at `pointer` if `predicate` (i32) is not 0.
void storeWords(Emitter &emit, mlir::Value pointer, llvm::ArrayRef<mlir::Value> words, mlir::Value predicate);

/// Makes an scf.while of every loop that has a tile.repeat_if.
void expandRepeatedLoops(mlir::gpu::GPUFuncOp kernel);

/// Arrays in shared memory, which kernels without tiles have, become LLVM's.
void convertSharedArrays(mlir::gpu::GPUModuleOp module);

/// LLVM's number of the memory that an array lies in: 3 for shared memory, 1 for device memory.
unsigned getAddressSpace(mlir::MemRefType type);

/// The address of element (indices...) of a memref held as pointer and strides; indices are i32, offsets 64 bits.
mlir::Value getElementPointer(Emitter &emit, mlir::ValueRange memref, mlir::Type element,
                              llvm::ArrayRef<mlir::Value> indices);
/// The same of an op's indices; without any it is the only element.
mlir::Value getElementPointer(Emitter &emit, mlir::ValueRange memref, mlir::MemRefType type,
                              mlir::OperandRange indices);

/// A column `distance` to the right. Positions do not overflow: told so, LLVM makes distances parts of addresses.
mlir::Value addColumn(Emitter &emit, mlir::Value col, int64_t distance);

/// Whether a load of `map` reads an array in the order of j, kept between bounds or not.
bool isReadAlongRow(mlir::tile::MapOp map, mlir::memref::LoadOp load);

/// What such a load reads for each of a tile's elements that a thread holds. `rows`: the map's arguments at the first
/// element in each of the thread's two rows. Two neighbours are read at once where that is aligned, which depends on
/// the address of the array, its strides and the tile's first key, and where no bound moves a column: the warp asks.
/// What is the same for both rows is read once.
llvm::SmallVector<mlir::Value> readPairs(Emitter &emit, mlir::tile::MapOp map, mlir::memref::LoadOp load,
                                         std::array<mlir::IRMapping, 2> rows, int64_t elements);

/// Whether the region of `map`, once for every element that a thread holds, is more code than LLVM compiles in a second
/// or so. No mask or score that a schedule was measured for is.
bool isLargeMap(mlir::tile::MapOp map);

/// The elements of such a map, and what of each row is to be added to them: the region stands in a loop over the
/// elements of a row, and what is the same for all of them in front of it.
llvm::SmallVector<mlir::Value> expandInLoops(mlir::tile::MapOp map, mlir::ValueRange source,
                                             llvm::ArrayRef<mlir::ValueRange> rows, const KernelContext &kernel,
                                             mlir::OpBuilder &b, llvm::SmallVector<mlir::Value> &offsets);

} // namespace flashc::tiletonvvm

#endif // FLASHC_LIB_CONVERSION_TILETONVVM_COMMON_LOWERING_H
