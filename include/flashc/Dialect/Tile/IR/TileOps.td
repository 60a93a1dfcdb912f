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
  let summary = "the program of one consumer warpgroup, loads included";
  let description = [{
    The body runs once per consumer warpgroup `%w` in `[0, consumers)` of the CTA. All consumers run the same loops with
    the same trip counts, except for the iterations that a consumer skips (`tile.own_visits`). `tile-specialize` turns
    the op into `tile.warp_specialize`.

    The body computes one work tile, `(gpu.block_id x, y, z)` of a grid:

    - Without `grid`, the grid is that of the launch, with one CTA for each work tile.
    - With `grid(%nx, %ny, %nz)`, the launch may have any number of CTAs along x, and `tile-persist` distributes the
      work tiles of this grid over the CTAs: evenly, or as the `#tile.work` attribute after `by` says. If a work list
      orders the work tiles, the list is an operand: `list(%list : memref<?xi32>) by <list of heads>`.
    - A `single` grid is the grid of the launch, with one CTA for each work tile; `tile-persist` decides which CTA
      computes which work tile.
  }];
  let arguments = (ins I64Attr:$consumers, Variadic<Index>:$grid, UnitAttr:$single,
                       Optional<MemRefRankOf<[I32], [1]>>:$list, OptionalAttr<Tile_WorkAttr>:$work);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $consumers (`single` $single^)? (`grid` `(` $grid^ `)`)? (`list` `(` $list^ `:` type($list) `)`)? (`by` $work^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Value getWarpgroup() { return getBody().getArgument(0); }
    /// Whether `distribution` is the way in which the work tiles of the grid are distributed.
    bool isWork(Distribution distribution) { return getWork() && getWork()->getDistribution() == distribution; }
  }];
}

def Tile_ListNumberOp : Tile_Op<"list_number", [Pure]> {
  let summary = "a precomputed number of the work tile, from the work list";
  let description = [{
    Reads a number that `tile-order` has stored after the work tile's item in the work list of the `tile.program` around
    this op. Numbers 0 to `numbers` - 1 (signed) are the same for all warpgroups; the numbers from `numbers` on are the
    warpgroup's own. All work tiles of an item have the same numbers. `tile-persist` turns the op into a load.

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

def Tile_PartSizeOp : Tile_Op<"part_size", [Pure]> {
  let summary = "how many tiles of keys a part of the work tile has";
  let description = [{
    Gives the number of key tiles in each part of a query tile with `rows` rows, whose keys are `tiles` key tiles. The
    body of a `tile.program` with `#tile.work<sorted parts P>` has one such op, whose operands do not depend on the
    part. `tile-order` chooses the size, so that all parts of all query tiles take about equally long, and stores it in
    the work list. There are at most P parts.

    Example:
    ```mlir
    %size = tile.part_size of %tiles rows %rows
    ```
  }];
  let arguments = (ins Index:$tiles, Index:$rows);
  let results = (outs Index:$size);
  let assemblyFormat = "`of` $tiles `rows` $rows attr-dict";
}

def Tile_OwnVisitsOp : Tile_Op<"own_visits", [Pure]> {
  let summary = "the bounds of a loop for this warpgroup (per-warpgroup key range)";
  let description = [{
    Gives the bounds of a loop that stands for a loop from 0 to `total`: the producer loads for all `total` iterations,
    and each consumer runs the iterations `[first, last)` that it needs. `first` and `last` may differ between
    consumers, with 0 <= first < last <= total. A `tile.advance_ring` before the loop and one after the loop account for
    the loads of the iterations that the consumer skips.

    `tile-specialize` gives the producer's loop the bounds 0 and `total`. `listed` says that `first` and `last` depend
    on values in memory, so that `tile-order` precomputes them as numbers of a work list (`tile.list_number`).

    Example:
    ```mlir
    %begin, %end = tile.own_visits %first to %last of %total
    tile.advance_ring %begin of %k, %v : !ring, !ring
    scf.for %u = %begin to %end step %one { ... tile.load ... into %k ... tile.load ... into %v ... }
    %rest = arith.subi %total, %end : index
    tile.advance_ring %rest of %k, %v : !ring, !ring
    ```
  }];
  let arguments = (ins Index:$first, Index:$last, Index:$total, UnitAttr:$listed);
  let results = (outs Index:$begin, Index:$end);
  let assemblyFormat = "$first `to` $last `of` $total (`listed` $listed^)? attr-dict";
}

def Tile_AdvanceRingOp : Tile_Op<"advance_ring", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "skip the next `count` loads of each ring";
  let description = [{
    Accounts for the iterations of a loop that this warpgroup skips (`tile.own_visits`): all consumers must take equally
    many slots and ping-pong turns. `tile-specialize` turns the op into a loop that waits for each slot and releases it,
    and with `turns` (set by `tile-ping-pong`) passes each turn at the tensor cores on. One thread releases the slot for
    all four warps; since no product synchronises the warps here, a `tile.warpgroup_barrier` comes before the release.
    The producer loads for all iterations and needs no code for this op.
  }];
  let arguments = (ins Index:$count, Variadic<Tile_Ring>:$rings, UnitAttr:$turns);
  let assemblyFormat = "$count `of` $rings attr-dict `:` type($rings)";
}

def Tile_WarpSpecializeOp : Tile_Op<"warp_specialize", [SingleBlock, NoTerminator, RecursiveMemoryEffects,
                                                        HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "a producer warpgroup, consumer warpgroups and, optionally, a reducer warpgroup";
  let description = [{
    Warpgroup 0 runs `producer` on one thread; warpgroups 1 to `consumers` run `consumer(%w)`; the last warpgroup runs
    `reducer`, if there is one, which adds products of the consumers' tiles to device memory. The registers are
    reallocated with `setmaxnreg` (PTX ISA 9.7.20.5).

    Ring protocol (verified): the producer acquires a slot and fills it; a consumer waits for a slot, reads it in
    products, and releases it exactly once, after the wait of the last product that reads it. The reducer follows the
    consumers' rule for the slots of a ring that consumers fill (`tile.share`).
  }];
  let arguments = (ins I64Attr:$consumers, I64Attr:$producer_registers, I64Attr:$consumer_registers,
                       OptionalAttr<I64Attr>:$reducer_registers);
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer, AnyRegion:$reducer);
  let assemblyFormat = [{
    $consumers `registers` `(` $producer_registers `,` $consumer_registers (`,` $reducer_registers^)? `)`
    attr-dict-with-keyword `producer` $producer `consumer` $consumer (`reducer` $reducer^)?
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Value getWarpgroup() { return getConsumer().getArgument(0); }
  }];
}

include "flashc/Dialect/Tile/IR/TileRingOps.td"

//===--------------------------------------------------------------------------------------------------------------===//
// Products
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_MmaAsyncOp : Tile_Op<"mma_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "start acc + A B, or A B^T with transpose_b";
  let description = [{
    Starts a product. A is a slot or an `#tile.operand_a` tensor, and B is a slot; both have elements of 16 bits. The
    accumulator is f32; without `into` it begins at zero. Lowers to `wgmma.mma_async` over the common dimension in steps
    of 16, and one commit (PTX ISA 9.7.15).

    With `ones` (a slot of `tile.alloc_slot ones`) B has eight more columns, all ones, so that the last eight columns of
    the result are the row sums of A; `tile.split_sums` separates them. B then consists of panels of 64 columns, and the
    ones follow the last panel. The last panel and the ones are a `wgmma` of their own: the leading offset of its
    descriptor leads, in each step of depth, from the step's rows of the panel to the same ones. In the `wgmma` of the
    other panels the leading offset leads from panel to panel.

    With `slopes %slopes times %columns` (both slots of `tile.alloc_slot`) one more step of depth adds `slope * n` to
    column n of each row of A B^T, with the slope of the row.

    Example:
    ```mlir
    tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !slopes
    %t = tile.mma_async %q, %k slopes %slopes times %columns : !slopes, !columns transpose_b : !q, !k -> !tile.token<!s>
    ```

    An accumulator that is a token is a product in flight, which this product continues: there is no wait between the
    two, and the wait for this product is the wait for both.

    With `transpose_a` A is a slot whose rows are the common dimension and whose 64 columns are the rows of the result.

    `stage` is the pipeline stage of the product: `tile-pipeline` runs a product of stage s that many iterations later
    than the products of stage 0, so that stage 0 of one tile overlaps stage 1 of the tile before it.

    In a `tile.warp_program` B may have elements of 8 bits, `f8E4M3FN` or `i8`, which are widened exactly to A's type as
    they are read. The columns of A in A B^T, and the columns of the result of A B, are then in the order of quads that
    `tile.read_rows` describes.

    With `local_descriptors`, the descriptors of A are computed at the product. Without it, LLVM hoists the descriptors
    of a resident A out of the loop, one for each step of depth, and ptxas spills if there are many.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Slot, Tile_OperandATile]>:$a, Tile_Slot:$b,
                       Optional<AnyTypeOf<[AnyRankedTensor, Tile_Token]>>:$acc, Optional<Tile_Slot>:$ones,
                       Optional<Tile_Slot>:$slopes, Optional<Tile_Slot>:$columns, UnitAttr:$transpose_a,
                       UnitAttr:$transpose_b, DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$stage,
                       UnitAttr:$local_descriptors);
  let results = (outs Tile_Token:$token);
  let builders = [OpBuilder<(ins "::mlir::Type":$token, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$acc,
                                 "::mlir::Value":$ones, "bool":$transpose_b, "int64_t":$stage), [{
    build($_builder, $_state, token, a, b, acc, ones, /*slopes=*/Value(), /*columns=*/Value(), /*transpose_a=*/false,
          transpose_b, stage, /*local_descriptors=*/false);
  }]>];
  let assemblyFormat = [{
    $a `,` $b (`ones` $ones^ `:` type($ones))?
    (`slopes` $slopes^ `times` $columns `:` type($slopes) `,` type($columns))?
    (`into` $acc^ `:` type($acc))? (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)?
    attr-dict `:` type($a) `,` type($b) `->` type($token)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The tile.mma_wait that is the only use of the token; null if the token has other uses.
    ::mlir::tile::MmaWaitOp getWait();
  }];
}

def Tile_MmaWaitOp : Tile_Op<"mma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait until at most `pending` later products are in flight, and return the value of the product";
  let description = [{
    `read_stage` is the least pipeline stage (see `tile.mma_async`) of the ops that read the value; the product and its
    wait have the stage of the product.
  }];
  let arguments = (ins Tile_Token:$token, DefaultValuedAttr<I64Attr, "0">:$pending,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$read_stage);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$token attr-dict `:` type($token) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PanelOp : Tile_Op<"panel", [Pure]> {
  let summary = "a panel of a slot: the columns from 64 * `number` on, 64 of them, as a slot";
  let arguments = (ins Tile_Slot:$slot, Index:$number);
  let results = (outs Tile_Slot:$panel);
  let assemblyFormat = "$slot `[` $number `]` attr-dict `:` type($slot) `->` type($panel)";
  let hasVerifier = 1;
}

def Tile_AddProductOp : Tile_Op<"add_product", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "add scale A^T B, summed over all consumers, to sums in device memory";
  let description = [{
    Adds the product of A and B to `sums`. Each consumer has 64 rows of A and, in its own slot, 64 rows of B. Column m
    of A is row `row + m` of the sums, where `row` is a multiple of 64, and column n of B is column n of the sums.
    `sums[b, h, r, c, :]` is the 64 x 64 panel of row panel r and column panel c: 4096 elements in the order of
    `tile.atomic_add`. The CTAs add in any order.

    The op is for sums whose tile changes in every iteration of the loop, so that no consumer can keep it in registers.
    `tile-specialize` splits it: the consumers pass A to the reducer warpgroup (`tile.share`, through the private ring
    `ring`), and the reducer multiplies and adds (`tile.atomic_add`).
  }];
  let arguments = (ins Tile_OperandATile:$a, Tile_Ring:$ring, Tile_Slot:$b, MemRefRankOf<[F32], [5]>:$sums,
                       Index:$batch, Index:$head, Index:$row, F32Attr:$scale);
  let assemblyFormat = [{
    $a `through` $ring `,` $b `to` $sums `[` $batch `,` $head `,` $row `]` attr-dict
    `:` type($a) `,` type($ring) `,` type($b) `,` type($sums)
  }];
  let hasVerifier = 1;
}

def Tile_AtomicAddOp : Tile_Op<"atomic_add", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "add a tile of 64 rows to panels of 4096 elements in device memory";
  let description = [{
    Adds the tile to `sums`, 64 columns to a panel; a wider tile is added to consecutive panels from `c` on. The
    elements of a panel are in the order in which threads hold them, so that each thread adds 16 bytes at a time, and
    neighbouring threads add neighbouring bytes: element `4 block + e` of thread t (PTX ISA 9.7.15.5.1.1) is element
    `512 block + 4 t + e` of the panel. The additions are not ordered among CTAs: `red.relaxed.gpu` of vectors (PTX ISA
    9.7.13.7). Each panel begins at a multiple of 16 bytes.
  }];
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$source, MemRefRankOf<[F32], [5]>:$sums, Index:$b, Index:$h, Index:$r,
                       Index:$c);
  let assemblyFormat = [{
    $source `to` $sums `[` $b `,` $h `,` $r `,` $c `]` attr-dict `:` type($source) `,` type($sums)
  }];
  let hasVerifier = 1;
}

include "flashc/Dialect/Tile/IR/TileRegisterOps.td"
include "flashc/Dialect/Tile/IR/TileWarpOps.td"

//===--------------------------------------------------------------------------------------------------------------===//
// The dynamic tile scheduler
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_DrawOp : Tile_Op<"draw", [MemoryEffects<[MemRead, MemWrite]>, HasParent<"::mlir::scf::ForOp">,
                                   SingleBlockImplicitTerminator<"DrawnOp">]> {
  let summary = "fetch the tile of the loop's next iteration from the dynamic tile scheduler";
  let description = [{
    Fetches the number of the next work tile, which is `first` plus the counter at `list[place]`, and adds one to the
    counter. The CTAs share the numbers 0 to `limit` - 1; each CTA begins with a number of its own and fetches its
    further numbers. The region computes the results from the number. The loop around this op carries the results as
    iter_args: its first iteration works on the initial values, and it yields the results. Whatever the loop's upper
    bound is, the loop ends after the iteration in which the fetched number is `limit` or more; the region then gets
    `limit` - 1.

    `tile-specialize` moves the op to the producer, which fetches while the consumers compute, and broadcasts the
    results to them (`tile.publish`, `tile.published`). The producer computes results that depend on the warpgroup once
    for each consumer.

    Example:
    ```mlir
    scf.for %k = %c0 to %most step %c1 iter_args(%x = %x0) -> index {
      ...
      %next = tile.draw %list[%place] from %ctas below %limit : memref<?xi32> -> index {
      ^bb0(%number: index):
        %item = memref.load %list[%number] : memref<?xi32>
        ...
        tile.drawn %x1 : index
      }
      scf.yield %next : index
    }
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$list, Index:$place, Index:$first, Index:$limit);
  let results = (outs Variadic<Index>:$next);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $list `[` $place `]` `from` $first `below` $limit attr-dict `:` type($list) `->` type($next) $body
  }];
  let hasRegionVerifier = 1;
}

def Tile_DrawnOp : Tile_Op<"drawn", [Pure, ReturnLike, Terminator, HasParent<"DrawOp">]> {
  let summary = "the results of a tile.draw";
  let arguments = (ins Variadic<Index>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tile_ConsumeOp : Tile_Op<"consume", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "producer: add one to a counter in device memory, and return its old value";
  let description = [{
    The addition is atomic among all CTAs and not ordered with any other access (`atom.relaxed.gpu`, PTX ISA 9.7.13.5).
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$list, Index:$place);
  let results = (outs Index:$result);
  let assemblyFormat = "$list `[` $place `]` attr-dict `:` type($list)";
}

def Tile_PublishOp : Tile_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "producer: broadcast the work tile of iteration `turn` + 1, and whether there is one";
  let description = [{
    Writes `exists` and the values to a place in shared memory and completes its mbarrier. A CTA has kPublishPlaces
    places of kPublishWords numbers each; turn t, counted from 0, uses place t mod kPublishPlaces.

    No barrier says that a place is empty, since Q's ring does. The producer publishes turn t at the end of iteration t,
    when it has filled Q's ring of q slots t + 1 times. So every consumer has released the Q of iteration t - q, and has
    read turn t - q - 1 in the iteration before. With q < kPublishPlaces this includes turn t - kPublishPlaces, which
    used the same place.

    `own` holds values for single consumers: first those of consumer 0, then as many of consumer 1, and so on. With
    `own` a place has kOwnPublishWords numbers.
  }];
  let arguments = (ins I1:$exists, Variadic<Index>:$values, Variadic<Index>:$own, Index:$turn);
  let assemblyFormat = "$exists (`,` $values^)? (`own` $own^)? `in` $turn attr-dict";
  let hasVerifier = 1;
}

def Tile_PublishedOp : Tile_Op<"published", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedResultSegments]> {
  let summary = "consumer: wait for what the producer publishes in `turn`; `own` is the part of `warpgroup`";
  let arguments = (ins Index:$turn, Optional<Index>:$warpgroup);
  let results = (outs I1:$exists, Variadic<Index>:$values, Variadic<Index>:$own);
  let assemblyFormat = "$turn attr-dict (`:` type($values)^)? (`own` `of` $warpgroup^ `:` type($own))?";
}

def Tile_RepeatIfOp : Tile_Op<"repeat_if", [MemoryEffects<[MemRead, MemWrite]>, HasParent<"::mlir::scf::ForOp">]> {
  let summary = "end the loop around this op after this iteration unless `condition` holds";
  let description = [{
    The op gives an `scf.for` an end that is known only at run time. Until `convert-tile-to-nvvm` turns the
    loop into an `scf.while`, passes that know `scf.for` can transform it. The loop's upper bound holds as well.
  }];
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Output and turns
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write the rows of a tile below `limit` to device memory";
  let description = [{
    Writes an `#tile.acc` tile to `dest[b, h, row .. row+63, :]`, rounded to the element type, or an `#tile.row` tile to
    `dest[b, h, row .. row+63]`. Rows from `limit` on are not written. With `columns(first, end)`, an `#tile.acc` tile
    of f32 is written to a part of longer rows: its columns go to the columns of the destination from `first` on, and
    columns of the destination from `end` on are not written. The destination may then lack the dimension of `b`, or
    those of `b` and `h`. With `heads H of T`, row r of the tile goes to `dest[b, h + r div T, row + r mod T]`, and rows
    from H * T on are not written. The stores are predicated, never branched around, because a divergent branch in a
    consumer's loop makes ptxas keep loop state per thread.
  }];
  let arguments = (ins Tile_OneOf<[Tile_RowTile, Tile_AccTile]>:$source, AnyMemRef:$dest, Index:$b, Index:$h,
                       Index:$row, Index:$limit, Variadic<Index>:$columns,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$heads,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$tokens);
  let assemblyFormat = [{
    $source `,` $dest `[` $b `,` $h `,` $row `]` `limit` $limit (`columns` `(` $columns^ `)`)?
    (`heads` $heads^ `of` $tokens)? attr-dict
    `:` type($source) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Tile_StoreAsyncOp : Tile_Op<"store_async", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "start writing a tile to device memory, through a slot";
  let description = [{
    Writes an `#tile.acc` tile, rounded to the slot's element type, to `map[b, h, row .. row+63, :]`; elements beyond
    the tensor's extents are not written. The tile passes through the slot panel by panel, in the slot's swizzle. The
    slot is either that of `tile.alloc_slot output`, or one that the consumer has waited for (that of Q). The products
    that read the latter must be complete, and a `tile.store_wait` must come before its release.

    With `limit`, rows from `limit` on are not written, as in `tile.store`, and the slot must be that of
    `tile.alloc_slot output`. A tile that has such rows is not copied: the threads themselves write it from the slot to
    `dest`, the array of the map. They have read the slot when all of them have passed the next `tile.store_wait all`.

    Lowers to `stmatrix` (PTX ISA 9.7.15.5.13), one barrier of the warpgroup and a bulk tensor copy per panel (PTX ISA
    9.7.9.25.5), and for a tile that exceeds `limit` to predicated loads and stores of 16 bytes.
  }];
  let arguments = (ins Tile_AccTile:$source, Tile_TensorMap:$map, Index:$b, Index:$h, Index:$row, Tile_Slot:$slot,
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
    Only the thread that started the copies waits, which is the thread that releases slots. With `all`, the whole
    warpgroup waits, at a barrier.
  }];
  let arguments = (ins UnitAttr:$all);
  let assemblyFormat = "(`all` $all^)? attr-dict";
}

def Tile_PingPongWaitOp : Tile_Op<"ping_pong_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ping-pong: wait for this consumer's turn at the tensor cores (bar.sync 1 + w)";
  let arguments = (ins Index:$warpgroup);
  let assemblyFormat = "$warpgroup attr-dict";
}

def Tile_PingPongPassOp : Tile_Op<"ping_pong_pass", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ping-pong: hand the turn to the next consumer (bar.arrive 1 + (w + 1) mod consumers)";
  let arguments = (ins Index:$warpgroup);
  let assemblyFormat = "$warpgroup attr-dict";
}

def Tile_WarpgroupBarrierOp : Tile_Op<"warpgroup_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "synchronise the warps of this consumer (bar.sync 5 + w)";
  let assemblyFormat = "attr-dict";
}

#endif // FLASHC_TILE_OPS_TD
