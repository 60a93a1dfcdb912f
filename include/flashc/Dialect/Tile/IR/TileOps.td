//===- TileOps.td - the ops of the tile dialect (L2) --------------------------------------------------------------===//
#ifndef FLASHC_TILE_OPS_TD
#define FLASHC_TILE_OPS_TD

include "flashc/Dialect/Tile/IR/TileDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

//===--------------------------------------------------------------------------------------------------------------===//
// Programs
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_ProgramOp : Tile_Op<"program", [SingleBlock, NoTerminator, RecursiveMemoryEffects, AttrSizedOperandSegments,
                                         HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "what one consumer warpgroup does, loads included";
  let description = [{
    The body runs once per consumer warpgroup `%w` in `[0, consumers)` of the CTA; every consumer runs the same loops
    with the same trip counts. `tile-specialize` turns it into `tile.warp_specialize`.

    The body does the work of one point `(gpu.block_id x, y, z)` of a grid. Without `grid`, that is the grid of the
    launch, one CTA a point. With `grid(%nx, %ny, %nz)` it is this one, the launch may have any number of CTAs along x,
    and `tile-persist` spreads the points over them. `paired` says that points take the less time the larger x is, so
    that one with x and one with nx - 1 - x take about as long as any other two of the kind (causal masks).
    `rotated`: a CTA does not take the pair at the same place in every round. `grouped` says that points take about as
    long as those beside them and the last x are the shortest (a window), so that pairs would be of unequal time.

    `sorted` says that how long a point takes is anything, and asks for a list of them, the longest first, which
    `tile-order` has another kernel make: `list(%list : memref<?xi32>) of tiles`. An item of the list stands for the
    points that take equally long:

    | of | items | item |
    |---|---|---|
    | `tiles` | nx | x, of every head and batch |
    | `batches` | nx * nz | x + nx * z, of every head |
    | `heads` | nx * ny * nz | x + nx * (y + ny * z) |

    An entry of the list is the item and, behind it, as many `numbers` of it: scalars that `tile-order` has computed
    beforehand. `tile.list_number` reads them.

    A program with a grid is at most one of `paired`, `grouped`, `sorted` and with a list.
  }];
  let arguments = (ins I64Attr:$consumers, Variadic<Index>:$grid, UnitAttr:$paired, UnitAttr:$rotated,
                       UnitAttr:$grouped, UnitAttr:$sorted, Optional<MemRefRankOf<[I32], [1]>>:$list,
                       OptionalAttr<Tile_ListScope>:$scope,
                       DefaultValuedAttr<I64Attr, "0">:$numbers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $consumers (`grid` `(` $grid^ `)`)? (`paired` $paired^)? (`rotated` $rotated^)? (`grouped` $grouped^)?
    (`sorted` $sorted^)? (`list` `(` $list^ `:` type($list) `)` `of` $scope)? (`numbers` $numbers^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Value getWarpgroup() { return getBody().getArgument(0); }
  }];
}

def Tile_ListNumberOp : Tile_Op<"list_number", [Pure]> {
  let summary = "a number of the point's item in the list";
  let description = [{
    The value that `tile-order` has put behind the item in the list of the `tile.program` around this op: number 0 to
    `numbers` - 1, signed. The same for all points of an item. `tile-persist` turns it into a load.

    Example:
    ```mlir
    %total = tile.list_number 0
    ```
  }];
  let arguments = (ins I64Attr:$number);
  let results = (outs Index:$result);
  let assemblyFormat = "$number attr-dict";
  let hasVerifier = 1;
}

def Tile_WarpSpecializeOp : Tile_Op<"warp_specialize", [SingleBlock, NoTerminator, RecursiveMemoryEffects,
                                                        HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "a producer warpgroup and its consumers";
  let description = [{
    Warpgroup 0 runs `producer` on one thread; warpgroups 1 to `consumers` run `consumer(%w)`. The registers are
    reallocated with `setmaxnreg` (PTX ISA 9.7.20.5).

    Ring protocol (checked): the producer acquires a slot and fills it; a consumer waits for a slot, reads it by
    products, and releases it exactly once, after the wait of the last product that reads it.
  }];
  let arguments = (ins I64Attr:$consumers, I64Attr:$producer_registers, I64Attr:$consumer_registers);
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer);
  let assemblyFormat = [{
    $consumers `registers` `(` $producer_registers `,` $consumer_registers `)` attr-dict-with-keyword
    `producer` $producer `consumer` $consumer
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Value getWarpgroup() { return getConsumer().getArgument(0); }
  }];
}

//===--------------------------------------------------------------------------------------------------------------===//
// Rings
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_AllocRingOp : Tile_Op<"alloc_ring", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a ring in shared memory, for the life of the kernel";
  let results = (outs Tile_Ring:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Tile_AllocOnesOp : Tile_Op<"alloc_ones", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a panel of ones in shared memory, for the life of the kernel";
  let description = [{
    16 rows of 128 bytes, every element 1: whatever the swizzle, a product finds ones. See `tile.mma_async`.
  }];
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_AllocColumnsOp : Tile_Op<"alloc_columns", [MemoryEffects<[MemAlloc]>]> {
  let summary = "the numbers of a tile's columns in shared memory, for the life of the kernel";
  let description = [{
    A row of 16 elements for each column n of a product, which `tile.store_slopes` makes a partner for:

    ```
    64 n, n / 32, n / 32, 0, 0, 0, 0, 0, 64 n, n / 32, n / 32, 0, 0, 0, 0, 0
    ```
    All are exact in 16 bits, since n is below 256. Rows are 32 bytes apart; their halves are the same, whatever the
    swizzle.
  }];
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_AllocSlopesOp : Tile_Op<"alloc_slopes", [MemoryEffects<[MemAlloc]>]> {
  let summary = "shared memory of each consumer's own for the slopes of its rows, for the life of the kernel";
  let description = [{
    64 rows of 16 elements, 32 bytes apart. `tile.store_slopes` fills it, before each product that reads it.
  }];
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_StoreSlopesOp : Tile_Op<"store_slopes", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "write a number of each row where a product multiplies it with the numbers of columns";
  let description = [{
    A slope becomes three numbers of 16 bits, each of what the ones before it leave (exactly, in f32), for the first step of
    depth of a `tile.alloc_columns`:

    ```
    slope = 64 hi + mid / 32 + lo / 32          hi, mid, lo, 0, ..., 0
    ```
    Of bf16 three are 24 bits, all that f32 has. Of f16 they are 24 bits or multiples of 2^-29, where slopes are small
    (times n below 2^-21, 2.4e-7, off); slopes of 2^22 and more are infinite.

    Products that read the slot must have been waited for. They find what is written here: all warps of the consumer meet
    before and behind it.
  }];
  let arguments = (ins AnyRankedTensor:$source, Tile_Slot:$slot);
  let assemblyFormat = "$source `into` $slot attr-dict `:` type($source) `,` type($slot)";
  let hasVerifier = 1;
}

def Tile_AllocOutputOp : Tile_Op<"alloc_output", [MemoryEffects<[MemAlloc]>]> {
  let summary = "shared memory of each consumer's own for its output, for the life of the kernel";
  let description = [{
    A slot that no ring has, and nobody loads: `tile.store_async` goes through it. What the one before has written there
    must have been read: `tile.store_wait all` stands right in front of each.
  }];
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the next slot of a ring, filled with a tile of device memory";
  let description = [{
    `map[b, h, row]`: `rows` rows from `row` on, all columns; what lies beyond the tensor reads as zero. Splits into
    `tile.acquire` and `tile.copy_async` in the producer, and `tile.wait` in the consumers.
  }];
  let arguments = (ins Tile_TensorMap:$map, Index:$b, Index:$h, Index:$row, Tile_Ring:$ring);
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "$map `[` $b `,` $h `,` $row `]` `into` $ring attr-dict `:` type($map) `,` type($ring) `->` type($slot)";
  let hasVerifier = 1;
}

def Tile_AcquireOp : Tile_Op<"acquire", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "producer: wait until the slot of load number `count` is empty";
  let arguments = (ins Tile_Ring:$ring, Index:$count, OptionalAttr<I64Attr>:$owner);
  let assemblyFormat = "$ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($ring)";
}

def Tile_CopyAsyncOp : Tile_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "producer: fill the slot of load number `count`, and announce it full when the bytes have arrived";
  let arguments = (ins Tile_TensorMap:$map, Index:$b, Index:$h, Index:$row, Tile_Ring:$ring, Index:$count,
                       OptionalAttr<I64Attr>:$owner);
  let assemblyFormat = [{
    $map `[` $b `,` $h `,` $row `]` `into` $ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($map) `,` type($ring)
  }];
}

def Tile_WaitOp : Tile_Op<"wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: wait until the slot of load number `count` is full";
  let arguments = (ins Tile_Ring:$ring, Index:$count);
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "$ring `[` $count `]` attr-dict `:` type($ring) `->` type($slot)";
}

def Tile_ReleaseOp : Tile_Op<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: this warpgroup has done with the slot";
  let description = [{
    With `after`, not before `elements` elements of that tile are known, evenly spread, none of them negative. ptxas moves a
    wait for a product far up, above code that could run beside the product; it does not move it above a release.
  }];
  let arguments = (ins Tile_Slot:$slot, Optional<AnyRankedTensor>:$after, DefaultValuedAttr<I64Attr, "0">:$elements);
  let builders = [OpBuilder<(ins "::mlir::Value":$slot), [{ build($_builder, $_state, slot, Value(), 0); }]>];
  let assemblyFormat = "$slot (`after` $after^ `:` type($after))? attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Products
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_MmaAsyncOp : Tile_Op<"mma_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "start acc + A B, or A B^T with transpose_b";
  let description = [{
    A is a slot or an `#tile.operand_a` tensor, B a slot, 16 bits; the accumulator is f32 and begins at zero where it
    is not given. Lowers to `wgmma.mma_async` over the common dimension in steps of 16, and one commit (PTX ISA 9.7.15).

    With `ones` (a `tile.alloc_ones`) B has eight more columns, of ones: the last eight columns of the result are the row
    sums of A, which `tile.split_sums` takes off. B is then one panel of 64 columns, and the ones are the second: the
    descriptor's leading offset leads from each step's rows of B to the same ones.

    With `slopes` (a `tile.alloc_slopes`) `times` a `tile.alloc_columns` one more step of depth adds slope * n to column n
    of each row of A B^T.

    Example:
    ```mlir
    tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !slopes
    %t = tile.mma_async %q, %k slopes %slopes times %columns : !slopes, !columns transpose_b : !q, !k -> !tile.token<!s>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Tile_Slot, AnyRankedTensor]>:$a, Tile_Slot:$b, Optional<AnyRankedTensor>:$acc,
                       Optional<Tile_Slot>:$ones, Optional<Tile_Slot>:$slopes, Optional<Tile_Slot>:$columns,
                       UnitAttr:$transpose_b);
  let results = (outs Tile_Token:$token);
  let builders = [OpBuilder<(ins "::mlir::Type":$token, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$acc,
                                 "::mlir::Value":$ones, "bool":$transpose_b), [{
    build($_builder, $_state, token, a, b, acc, ones, /*slopes=*/Value(), /*columns=*/Value(), transpose_b);
  }]>];
  let assemblyFormat = [{
    $a `,` $b (`ones` $ones^ `:` type($ones))?
    (`slopes` $slopes^ `times` $columns `:` type($slopes) `,` type($columns))?
    (`into` $acc^ `:` type($acc))? (`transpose_b` $transpose_b^)?
    attr-dict `:` type($a) `,` type($b) `->` type($token)
  }];
  let hasVerifier = 1;
}

def Tile_MmaWaitOp : Tile_Op<"mma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the value of a product, once at most `pending` younger ones are in flight";
  let arguments = (ins Tile_Token:$token, DefaultValuedAttr<I64Attr, "0">:$pending);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$token attr-dict `:` type($token) `->` type($result)";
  let hasVerifier = 1;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tiles in registers
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_RowReduceOp : Tile_Op<"row_reduce", [Pure]> {
  let summary = "reduce an accumulator along its columns";
  let description = [{
    `max` gives `#tile.row` (a local tree and two butterfly shuffles) or, as `sum` does, `#tile.row_partial` (the local
    tree only; `tile.combine` goes over the lanes). A NaN does not count in `max`, and is the result of `maximum`.
  }];
  let arguments = (ins Tile_ReduceKind:$kind, AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_CombineOp : Tile_Op<"combine", [Pure]> {
  let summary = "reduce a row_partial over its four lanes: add, if nothing else is said";
  let arguments = (ins DefaultValuedAttr<Tile_ReduceKind, "::mlir::tile::ReduceKind::Sum">:$kind,
                       AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$source), [{
    build($_builder, $_state, type, ReduceKind::Sum, source);
  }]>];
  let assemblyFormat = "($kind^)? $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SplitSumsOp : Tile_Op<"split_sums", [Pure]> {
  let summary = "an accumulator without its last eight columns, and the row sums that those hold";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$columns, AnyRankedTensor:$sums);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($columns) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "a row value in every column of an accumulator, or in every lane of the row";
  let description = [{
    `#tile.row` becomes `#tile.acc` or `#tile.row_partial`; `#tile.row_partial` becomes `#tile.acc`, each lane's value
    in the columns that the lane holds.
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_Exp2Op : Tile_Op<"exp2", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "2^(factor * s + offset of the row), some of it on the FMA pipe";
  let description = [{
    `math.exp2` of a multiply-add (the offset may differ between the lanes of a row), where `fma` of every 16 elements
    that a thread holds, evenly spread, do not use the multi-function unit (16 exponentials per clock and
    multiprocessor; multiply-adds: 128), but a polynomial: the range reduction of Cody and Waite (Software Manual for
    the Elementary Functions, 1980) by adding a large number, as FlashAttention-4 does it (Zadouri et al. 2026).

    ```
    y = saturate(factor / 256 * s + (offset + 127) / 256)       in [0, 1]: the exponent x, from -127 to 129
    t = y + (49152 - 127 / 256)                                  multiples of 1 / 256: its low bits are n = round(x)
    f = y - (t - (49152 - 127 / 256))                            exact: (x - n) / 256, x - n in [-1/2, 1/2]
    p = 1 + f (c1 + f (c2 + f c3))                               2^(x - n)
    result = bits of p + (n << 23)
    ```
    Eight instructions in place of two. The relative error is below 2^-13; P is then rounded by up to 2^-11 (f16) or 2^-8
    (bf16). An exponent of -127 or less, -inf among them, gives exactly 0; one of 128 or more is not to be
    (the running maximum keeps exponents at 8 or less). A NaN gives 0 too, so that whoever makes the offset must see it
    (`tile.row_reduce maximum`).

    Without `offset`, all exponents lie between -126 and 127, nothing is saturated, and there is one instruction less:

    ```
    t = factor * s + 1.5 * 2^23                                  its low bits are n = round(x)
    f = factor * s - (t - 1.5 * 2^23)                            x - n
    ```
    A NaN then gives the largest number of f32, which is infinite in 16 bits.

    1. `factor` is positive and finite.
    2. `fma` is 1 to 16.
  }];
  let arguments = (ins AnyRankedTensor:$source, Optional<AnyRankedTensor>:$offset, F32Attr:$factor, I64Attr:$fma);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source (`,` $offset^)? attr-dict `:` type($source) (`,` type($offset)^)?";
  let hasVerifier = 1;
}

def Tile_ScaleRowsOp : Tile_Op<"scale_rows", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "multiply every row of an accumulator, or of a row_partial, by its factor";
  let description = [{
    Factors are finite: zeros stay zeros, whatever the factor (the fold of what the first key tile scales).
  }];
  let arguments = (ins AnyRankedTensor:$source, AnyRankedTensor:$factor);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `,` $factor attr-dict `:` type($source) `,` type($factor)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tile_ToOperandAOp : Tile_Op<"to_operand_a", [Pure]> {
  let summary = "round an accumulator to 16 bits, as the A operand of a product (no shuffle)";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_VoteAnyOp : Tile_Op<"vote_any", []> {
  let summary = "whether any row of this warp says yes; uniform within the warp";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs I1:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def Tile_IsAlignedOp : Tile_Op<"is_aligned", []> {
  let summary = "whether an element's address is a multiple of `bytes`, in every thread of the warp";
  let description = [{
    The threads may ask for different elements. A vote, so that the answer is the same for all of them, and code that
    branches on it does not diverge. `bytes` is a power of two.
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices, I64Attr:$bytes);
  let results = (outs I1:$result);
  let assemblyFormat = "$memref `[` $indices `]` `to` $bytes attr-dict `:` type($memref)";
  let hasVerifier = 1;
}

def Tile_ReadPairOp : Tile_Op<"read_pair", [MemoryEffects<[MemRead]>]> {
  let summary = "an element of an array and the one behind it in the innermost dimension";
  let description = [{
    One instruction if the pair is `aligned`: the address is a multiple of the size of both. Elements have 16 bits or
    more.
  }];
  let arguments = (ins AnyMemRef:$memref, Variadic<Index>:$indices, UnitAttr:$aligned);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = "$memref `[` $indices `]` (`aligned` $aligned^)? attr-dict `:` type($memref) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_UniformOp : Tile_Op<"uniform", [Pure, SameOperandsAndResultType]> {
  let summary = "a scalar that is the same in every thread of a warp, as ptxas can see";
  let description = [{
    Whatever passes through a general register, a quotient for one, ptxas takes for different in every thread; loops
    bounded by it would keep their counters and descriptors per thread (docs/hopper-schedule.md). In a consumer this is
    a `redux.sync`, which writes a uniform register (PTX ISA 9.7.13.11); the producer, one thread, has no need of it.
  }];
  let arguments = (ins Index:$source);
  let results = (outs Index:$result);
  let assemblyFormat = "$source attr-dict";
}

def Tile_RowsOp : Tile_Op<"rows", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "scalar code once per row of a tile";
  let description = [{
    The region sees the row's position `i`, absolute: the tile's first row is `row`. What a score or mask region computes
    of b, h and i becomes this op, in front of the loop over keys; a `tile.map` reads it.

    Example:
    ```mlir
    %penalty = tile.rows at(%row) {
    ^bb0(%i: index):
      %p = memref.load %penalties[%b, %i] : memref<2x1024xf32, strided<[?, 1]>>
      tile.yield %p : f32
    } : tensor<64xf32, #tile.row>
    ```
  }];
  let arguments = (ins Index:$row);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`at` `(` $row `)` attr-dict-with-keyword $body `:` type($result)";
  let hasRegionVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [SingleBlock, RecursiveMemoryEffects,
                                 AllTypesMatch<["source", "result"]>]> {
  let summary = "apply scalar code to every element of an accumulator";
  let description = [{
    The region sees the element and its position `(s, i, j)`, absolute: the tile's first element is at `(row, col)`. Behind
    them it sees the element's row of each of `rows`, which are `#tile.row`. Score and mask regions become this op.

    With a second result the region yields two values, and the tile is their sum: the second one is the same for all
    elements of a row that one thread holds, and there is one of it for each row and lane. What varies along a row as a
    multiple of j does so within the thread's columns by a constant of each element, which costs one multiply-add
    (`tile.first_column`); the rest is in the second result, which nobody adds to the elements: a maximum takes it
    behind the local tree, an exponential as part of its offset.

    Example:
    ```mlir
    // s + slope * (j - i)
    %u, %rest = tile.map %s at(%row, %col) {
    ^bb0(%e: f32, %i: index, %j: index):
      %first = tile.first_column %j
      %inThread = arith.subi %j, %first : index
      ... // %x = f32 of %inThread, %d = f32 of %first - %i
      %r = math.fma %slope, %x, %e : f32
      %h = arith.mulf %slope, %d : f32
      tile.yield %r, %h : f32, f32
    } : tensor<64x128xf32, #tile.acc>, tensor<64xf32, #tile.row_partial>
    ```

    Canonical form: bounds on functions of j are bounds on j (`i - j <= n` is `j >= i - n`, `j floordiv 4 <= n` is
    `j <= 4 n + 3`, an equality is two); of several that a conjunction puts on j from one side, one is left, the least or
    the greatest (`j <= i + n and j < nk`: a comparison less for every row). The bounds themselves, plus or minus one, are
    indices, and positions are below 2^30.

    A thread's columns ascend with its elements, so a bound on j keeps the first elements of a row, or all but those: a
    condition of bounds, joined by and, or and exclusive or, is computed for 32 elements at once, as the bits of a word. So is
    one that repeats along the keys, as `(i - j) mod 3 = 0`, after at most eight of a thread's blocks of columns: it is
    computed once for each element before it repeats.
  }];
  let arguments = (ins AnyRankedTensor:$source, Variadic<AnyRankedTensor>:$rows, Index:$row, Index:$col);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$offset);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::mlir::Value":$row, "::mlir::Value":$col), [{
    build($_builder, $_state, source.getType(), /*offset=*/::mlir::Type(), source, ::mlir::ValueRange(), row, col);
  }]>];
  let assemblyFormat = [{
    $source (`rows` `(` $rows^ `:` type($rows) `)`)? `at` `(` $row `,` $col `)` attr-dict-with-keyword $body
    `:` type($source) (`,` type($offset)^)?
  }];
  let hasCanonicalizer = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Of the tile of elements.
    ::mlir::RankedTensorType getType() { return ::llvm::cast<::mlir::RankedTensorType>(getResult().getType()); }
    /// Whether `value` is the same for all elements of a row: no code of the region computes it from the element or from j.
    bool isSameInRow(::mlir::Value value);
    /// The same for the elements of a row that one thread holds: j may come in through tile.first_column.
    bool isSameInThread(::mlir::Value value);
    /// An integer of the region as a sum of multiples of i and j, and of what is the same in the whole tile. Without
    /// `i`, that part of it is any function of the row.
    struct Linear {
      std::optional<int64_t> i;
      int64_t j;
    };
    /// The sum that `value` is, if it is one and of 32 bits or more all the way.
    std::optional<Linear> getLinear(::mlir::Value value);
    /// A comparison of the region as a bound on j, the same for all elements of a row: j <= limit + offset, or
    /// j >= limit + offset.
    struct Bound {
      bool isUpper;
      ::mlir::Value limit;
      int64_t offset;
    };
    /// The bound that `condition` is, if it is one.
    std::optional<Bound> getBound(::mlir::Value condition);
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["MapOp", "RowsOp"]>]> {
  let summary = "the new element of a tile.map and what it is to be added to, or the row of a tile.rows";
  let arguments = (ins AnyType:$value, Optional<AnyType>:$offset);
  let builders = [OpBuilder<(ins "::mlir::Value":$value), [{ build($_builder, $_state, value, /*offset=*/Value()); }]>];
  let assemblyFormat = "attr-dict $value (`,` $offset^)? `:` type($value) (`,` type($offset)^)?";
}

def Tile_FirstColumnOp : Tile_Op<"first_column", [Pure, HasParent<"MapOp">]> {
  let summary = "the first column that the element's thread holds";
  let description = [{
    Of a `tile.map`'s position j. How far an element lies behind it, `j - tile.first_column j`, is a constant of the
    element: 8 n or 8 n + 1 (PTX ISA 9.7.15.5.1.1).
  }];
  let arguments = (ins Index:$column);
  let results = (outs Index:$result);
  let assemblyFormat = "$column attr-dict";
  let hasVerifier = 1;
}

def Tile_OutsideOp : Tile_Op<"outside", [Pure]> {
  let summary = "whether an index lies outside `[lower, upper)`";
  let description = [{
    Marks what only some iterations of a loop need (masked tiles). `tile-split-loops` splits the loop at the bounds, so
    that the answer is known in each part.
  }];
  let arguments = (ins Index:$index, Index:$lower, Index:$upper);
  let results = (outs I1:$result);
  let assemblyFormat = "$index `of` `[` $lower `,` $upper `)` attr-dict";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Output and turns
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a tile to device memory, the rows below `limit` only";
  let description = [{
    An `#tile.acc` tile goes to `dest[b, h, row .. row+63, :]`, rounded to the element type; an `#tile.row` tile goes to
    `dest[b, h, row .. row+63]`. Rows from `limit` on are not written. The stores are predicated, never branched around:
    a divergent branch in a consumer's loop makes ptxas keep loop state per thread.
  }];
  let arguments = (ins AnyRankedTensor:$source, AnyMemRef:$dest, Index:$b, Index:$h, Index:$row, Index:$limit);
  let assemblyFormat = "$source `,` $dest `[` $b `,` $h `,` $row `]` `limit` $limit attr-dict `:` type($source) `,` type($dest)";
  let hasVerifier = 1;
}

def Tile_StoreAsyncOp : Tile_Op<"store_async", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "start writing a tile to device memory, through a slot";
  let description = [{
    An `#tile.acc` tile, rounded to the slot's element type, goes to `map[b, h, row .. row+63, :]`; what lies beyond the
    tensor's extents is not written. The slot is one that the consumer waited for and whose products are complete (Q's):
    the tile passes through it, panel by panel, in the same swizzle. `tile.store_wait` stands before its release. Or it
    is that of `tile.alloc_output`. With `limit` rows from there on are not written, as by `tile.store`: a tile that has
    such rows goes to `dest`, the array of the map, by the threads themselves, out of the slot, which then is
    `tile.alloc_output`'s: they have read it when all have passed the next `tile.store_wait all`.
    Lowers to `stmatrix` (PTX ISA 9.7.15.5.13), one barrier of the warpgroup and a bulk tensor copy per panel (PTX ISA
    9.7.9.25.5), and behind a limit to predicated loads and stores of 16 bytes.
  }];
  let arguments = (ins AnyRankedTensor:$source, Tile_TensorMap:$map, Index:$b, Index:$h, Index:$row, Tile_Slot:$slot,
                       Optional<Index>:$limit, Optional<AnyMemRef>:$dest);
  let assemblyFormat = [{
    $source `,` $map `[` $b `,` $h `,` $row `]` `through` $slot (`limit` $limit^)? (`else` $dest^)? attr-dict
    `:` type($source) `,` type($map) `,` type($slot) (`,` type($dest)^)?
  }];
  let hasVerifier = 1;
}

def Tile_StoreWaitOp : Tile_Op<"store_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait until this warpgroup's tile.store_async have read their slots";
  let description = [{
    Only the thread that started them waits, which also releases slots. With `all`, a barrier holds the whole warpgroup.
  }];
  let arguments = (ins UnitAttr:$all);
  let assemblyFormat = "(`all` $all^)? attr-dict";
}

def Tile_TurnWaitOp : Tile_Op<"turn_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ping-pong: wait for this consumer's turn at the tensor cores (bar.sync 1 + w)";
  let arguments = (ins Index:$warpgroup);
  let assemblyFormat = "$warpgroup attr-dict";
}

def Tile_TurnPassOp : Tile_Op<"turn_pass", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ping-pong: hand the turn to the next consumer (bar.arrive 1 + (w + 1) mod consumers)";
  let arguments = (ins Index:$warpgroup);
  let assemblyFormat = "$warpgroup attr-dict";
}

#endif // FLASHC_TILE_OPS_TD
