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
    with the same trip counts, but for visits that it leaves out (`tile.own_visits`). `tile-specialize` turns it into
    `tile.warp_specialize`.

    The body does the work of one work tile `(gpu.block_id x, y, z)` of a grid. Without `grid`, that is the grid of the
    launch, one CTA a work tile. With `grid(%nx, %ny, %nz)` it is this one, the launch may have any number of CTAs along
    x, and `tile-persist` spreads the work tiles over them: evenly, or `by` what a `#tile.work` says of them; by a list
    of them that is an operand then: `list(%list : memref<?xi32>) by <list of heads>`. A `single` grid is the launch's
    as well, one CTA a work tile: `tile-persist` decides which CTA has which.
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
    /// Whether the work tiles of the grid are distributed like that.
    bool isWork(Distribution distribution) { return getWork() && getWork()->getDistribution() == distribution; }
  }];
}

def Tile_ListNumberOp : Tile_Op<"list_number", [Pure]> {
  let summary = "a number of the work tile's item in the list";
  let description = [{
    The value that `tile-order` has put behind the item in the list of the `tile.program` around this op: number 0 to
    `numbers` - 1, signed, and from there on the warpgroup's own numbers. The same for all work tiles of an item.
    `tile-persist` turns it into a load.

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

def Tile_OwnVisitsOp : Tile_Op<"own_visits", [Pure]> {
  let summary = "the iterations of a loop that this warpgroup runs";
  let description = [{
    Bounds of a loop that stands for one from 0 to `total`: each consumer runs the part `[first, last)` of it that it
    needs, and all of its loads are made. `first` and `last` may differ from one consumer to another,
    0 <= first < last <= total. What a consumer leaves out `tile.advance_ring` makes up for, in front of the loop and
    behind it.

    `tile-specialize` makes the producer's loop the whole one. `listed`: `first` and `last` hang on what is read from
    memory, so that they are to be numbers of a list (`tile-order`).

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
  let summary = "leave out the next `count` loads of each ring";
  let description = [{
    For iterations that this warpgroup leaves out of a loop (`tile.own_visits`). `tile-specialize` turns it into a loop
    that waits for each slot and releases it, and with `turns` (`tile-ping-pong`) hands each turn at the tensor cores
    on, since all consumers take equally many of both. One thread releases for all four warps, which no product holds
    together here: they meet first (`tile.warpgroup_barrier`). In the producer there is nothing to leave out.
  }];
  let arguments = (ins Index:$count, Variadic<Tile_Ring>:$rings, UnitAttr:$turns);
  let assemblyFormat = "$count `of` $rings attr-dict `:` type($rings)";
}

def Tile_WarpSpecializeOp : Tile_Op<"warp_specialize", [SingleBlock, NoTerminator, RecursiveMemoryEffects,
                                                        HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "a producer warpgroup, its consumers, and one that adds up what they share";
  let description = [{
    Warpgroup 0 runs `producer` on one thread; warpgroups 1 to `consumers` run `consumer(%w)`; where there is a
    `reducer`, the warpgroup behind them runs that. The registers are reallocated with `setmaxnreg` (PTX ISA
    9.7.20.5).

    Ring protocol (checked): the producer acquires a slot and fills it; a consumer waits for a slot, reads it by
    products, and releases it exactly once, after the wait of the last product that reads it. Of a ring that consumers
    fill (`tile.share`) the reducer waits for slots and releases them by the same rule.
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
    A is a slot or an `#tile.operand_a` tensor, B a slot, 16 bits; the accumulator is f32 and begins at zero where it
    is not given. Lowers to `wgmma.mma_async` over the common dimension in steps of 16, and one commit (PTX ISA 9.7.15).

    With `ones` (of `tile.alloc_slot ones`) B has eight more columns, of ones: the last eight columns of the result are
    the row sums of A, which `tile.split_sums` takes off. B is then panels of 64 columns, and the ones stand behind the
    last: the descriptor's leading offset leads from each step's rows of that panel to the same ones. Panels in front of
    the last, where the offset leads from panel to panel, are a `wgmma` of their own.

    With `slopes` `times` columns (each of a `tile.alloc_slot`) one more step of depth adds slope * n to column
    n of each row of A B^T.

    Example:
    ```mlir
    tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !slopes
    %t = tile.mma_async %q, %k slopes %slopes times %columns : !slopes, !columns transpose_b : !q, !k -> !tile.token<!s>
    ```

    An accumulator that is a token is a product in flight that this one goes on: nobody waits in between, and the wait
    for this one is one for both.

    With `transpose_a` A is a slot whose rows are the depth and whose 64 columns are the rows of the result.

    `stage` says how many iterations of the loop around it the product may come behind those of stage 0: `tile-pipeline`
    overlaps stage 0 of one tile with stage 1 of the tile before it. A ping-pong turn begins at a product of stage 0.

    In a `tile.warp_program` B may have elements of 8 bits, `f8E4M3FN` or `i8`: they are widened to A's type, exactly,
    as they are read. The depth of A B^T is then in quads, so that A is (`tile.read_rows`), and so are the columns of A
    B.

    With `local_descriptors` those of A are computed where the product is. Otherwise, where A is resident, LLVM takes
    one for each step of depth out of the loop, and where there are many ptxas spills.
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
}

def Tile_MmaWaitOp : Tile_Op<"mma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the value of a product, once at most `pending` younger ones are in flight";
  let description = [{
    With `read_stage` the ops that read the value are of that stage (see tile.mma_async), or of a later one, while the
    product and its wait are of the product's.
  }];
  let arguments = (ins Tile_Token:$token, DefaultValuedAttr<I64Attr, "0">:$pending,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$read_stage);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$token attr-dict `:` type($token) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PanelOp : Tile_Op<"panel", [Pure]> {
  let summary = "a panel of a slot: columns 64 `number` to 64 `number` + 63, as a slot";
  let arguments = (ins Tile_Slot:$slot, Index:$number);
  let results = (outs Tile_Slot:$panel);
  let assemblyFormat = "$slot `[` $number `]` attr-dict `:` type($slot) `->` type($panel)";
  let hasVerifier = 1;
}

def Tile_AddProductOp : Tile_Op<"add_product", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "add scale A^T B, of all consumers together, to sums in device memory";
  let description = [{
    Each consumer has 64 rows of A and, in its own slot, of B. The result has a row for each column of A, from `row` on,
    a multiple of 64, and a column for each of B. Of `sums[b, h, r, c, :]` each 64 x 64 panel of rows r and columns c
    has 4096 elements in the order of `tile.atomic_add`. Additions of several CTAs come in any order.

    For a sum whose tile moves with the loop, which no consumer can keep: `tile-specialize` has the consumers pass A on
    (`tile.share`, through `ring`, whose slots each consumer has for itself), and a warpgroup of its own multiply and
    add (`tile.atomic_add`).
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
    A panel has 64 columns; wider tiles are added to several panels, which follow one another from number `c` on. The
    elements lie as threads hold them, which so write 16 bytes each, side by side: element `4 block + e` of thread t
    (PTX ISA 9.7.15.5.1.1) is number `512 block + 4 t + e`. No order among CTAs: `red.relaxed.gpu` of vectors (PTX ISA
    9.7.13.7). Each 4096 elements begin at a multiple of 16 bytes.
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
// Numbers drawn by CTAs
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_DrawOp : Tile_Op<"draw", [MemoryEffects<[MemRead, MemWrite]>, HasParent<"::mlir::scf::ForOp">,
                                   SingleBlockImplicitTerminator<"DrawnOp">]> {
  let summary = "what this CTA does in the loop's next iteration";
  let description = [{
    CTAs share numbers from 0 to `limit` - 1: who is done first takes the next. The loop around this op carries what it
    works on in iter_args, begins with what the CTA has anyway, and yields the results: what the region computes of the
    number `first` plus the counter at `list[place]`, which one is added to. The loop ends behind the first iteration
    whose number is not below `limit`, whatever its upper bound says; the region is given the last number then.

    `tile-specialize` has the producer alone do it, while the consumers are at work, and tell them (`tile.publish`,
    `tile.published`). What the region computes of the warpgroup the producer computes for each of them.

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
  let summary = "what a tile.draw has computed of its number";
  let arguments = (ins Variadic<Index>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tile_ConsumeOp : Tile_Op<"consume", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "producer: what a counter in device memory was; one is added to it";
  let description = [{
    Atomic among all CTAs, and ordered with nothing else (`atom.relaxed.gpu`, PTX ISA 9.7.13.5).
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$list, Index:$place);
  let results = (outs Index:$result);
  let assemblyFormat = "$list `[` $place `]` attr-dict `:` type($list)";
}

def Tile_PublishOp : Tile_Op<"publish", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "producer: tell the consumers what comes behind iteration `turn`, and whether anything does";
  let description = [{
    A CTA has kPublishPlaces places of kPublishWords numbers, each with an mbarrier; turn t, from 0
    on, has place t mod kPublishPlaces. Nobody says that a place is empty. When turn t is published, at the end of
    iteration t, the producer has filled Q's ring of q slots t + 1 times; so every consumer has released the Q of
    iteration t - q, and has heard turn t - q - 1 in the iteration before that. With q < kPublishPlaces the turn that
    had the place before, t - kPublishPlaces, is among those.

    `own` are values for one consumer each: those of consumer 0, then as many of the next one, and so on. With them a
    place has kOwnPublishWords numbers.
  }];
  let arguments = (ins I1:$exists, Variadic<Index>:$values, Variadic<Index>:$own, Index:$turn);
  let assemblyFormat = "$exists (`,` $values^)? (`own` $own^)? `in` $turn attr-dict";
  let hasVerifier = 1;
}

def Tile_PublishedOp : Tile_Op<"published", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedResultSegments]> {
  let summary = "consumer: what the producer publishes in `turn`, waited for; and what of `own` is for `warpgroup`";
  let arguments = (ins Index:$turn, Optional<Index>:$warpgroup);
  let results = (outs I1:$exists, Variadic<Index>:$values, Variadic<Index>:$own);
  let assemblyFormat = "$turn attr-dict (`:` type($values)^)? (`own` `of` $warpgroup^ `:` type($own))?";
}

def Tile_RepeatIfOp : Tile_Op<"repeat_if", [MemoryEffects<[MemRead, MemWrite]>, HasParent<"::mlir::scf::ForOp">]> {
  let summary = "the loop around this op ends behind this iteration unless `condition` holds";
  let description = [{
    A loop whose end is found on the way, in the form of one that is counted, so that passes over loops know it. The
    loop's upper bound holds as well. `convert-tile-to-nvvm` makes an `scf.while` of it.
  }];
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Output and turns
//===--------------------------------------------------------------------------------------------------------------===//

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a tile to device memory, the rows below `limit` only";
  let description = [{
    An `#tile.acc` tile goes to `dest[b, h, row .. row+63, :]`, rounded to the element type; an `#tile.row` tile goes to
    `dest[b, h, row .. row+63]`. Rows from `limit` on are not written. With `columns(first, end)` an `#tile.acc` tile of
    f32 goes to a part of longer rows: its columns are those from `first` on, and from `end` on they are not written;
    the destination may then lack `b`, or `b` and `h`. The stores are predicated, never branched around:
    a divergent branch in a consumer's loop makes ptxas keep loop state per thread.
  }];
  let arguments = (ins Tile_OneOf<[Tile_RowTile, Tile_AccTile]>:$source, AnyMemRef:$dest, Index:$b, Index:$h,
                       Index:$row, Index:$limit, Variadic<Index>:$columns);
  let assemblyFormat = [{
    $source `,` $dest `[` $b `,` $h `,` $row `]` `limit` $limit (`columns` `(` $columns^ `)`)? attr-dict
    `:` type($source) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Tile_StoreAsyncOp : Tile_Op<"store_async", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "start writing a tile to device memory, through a slot";
  let description = [{
    An `#tile.acc` tile, rounded to the slot's element type, goes to `map[b, h, row .. row+63, :]`; what lies beyond the
    tensor's extents is not written. The slot is one that the consumer waited for and whose products are complete (Q's):
    the tile passes through it, panel by panel, in the same swizzle. `tile.store_wait` stands before its release. Or it
    is that of `tile.alloc_slot output`. With `limit` rows from there on are not written, as by `tile.store`: a tile
    that has such rows goes to `dest`, the array of the map, by the threads themselves, out of the slot, which then is
    `tile.alloc_slot output`'s: they have read it when all have passed the next `tile.store_wait all`.
    Lowers to `stmatrix` (PTX ISA 9.7.15.5.13), one barrier of the warpgroup and a bulk tensor copy per panel (PTX ISA
    9.7.9.25.5), and behind a limit to predicated loads and stores of 16 bytes.
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
    Only the thread that started them waits, which also releases slots. With `all`, a barrier holds the whole warpgroup.
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
  let summary = "the warps of this consumer meet (bar.sync 5 + w)";
  let assemblyFormat = "attr-dict";
}

#endif // FLASHC_TILE_OPS_TD
