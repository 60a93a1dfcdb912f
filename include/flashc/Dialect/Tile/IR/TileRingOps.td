//===- TileRingOps.td - rings and slots in shared memory ----------------------------------------------------------===//
//
// A part of TileOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_RING_OPS_TD
#define FLASHC_TILE_RING_OPS_TD

def Tile_AllocRingOp : Tile_Op<"alloc_ring", [MemoryEffects<[MemAlloc]>]> {
  let summary = "allocate a ring in shared memory, for the life of the kernel";
  let results = (outs Tile_Ring:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Tile_AllocSlotOp : Tile_Op<"alloc_slot", [MemoryEffects<[MemAlloc]>]> {
  let summary = "allocate a single slot in shared memory, outside of any ring, for the life of the kernel";
  let description = [{
    The role of the slot says its initial contents, how often it exists, and its shape:

    | role | begins with | one for | shape |
    |---|---|---|---|
    | `ones` | 1 in every element: whatever the swizzle, a product finds ones (`tile.mma_async`) | the CTA | 16 x 64 |
    | `columns` | the numbers of a tile's columns, see below | the CTA | columns x 16 |
    | `slopes` | nothing: `tile.store_slopes` fills it, before each product that reads it | each consumer | 64 x 16 |
    | `output` | nothing: `tile.store_async` goes through it | each consumer | 64 x columns |

    A `tile.store_wait all` comes right before each `tile.store_async` through an `output` slot, since the copy of the
    tile before must have read the slot.

    A slot of `columns` has a row of 16 elements for each column n of a product, which multiplies the rows that
    `tile.store_slopes` writes:

    ```
    64 n, n / 32, n / 32, 0, 0, 0, 0, 0, 64 n, n / 32, n / 32, 0, 0, 0, 0, 0
    ```
    All elements are exact in 16 bits, since n is below 256. Rows are 32 bytes apart. Both halves of a row are equal, so
    that the swizzle does not matter.
  }];
  let arguments = (ins Tile_SlotRole:$role);
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = "$role attr-dict `:` type($slot)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isPrivate() { return getRole() == SlotRole::Slopes || getRole() == SlotRole::Output; }
    int64_t getBytes(const ::flashc::GPUTarget &target);
  }];
}

def Tile_StoreSlopesOp : Tile_Op<"store_slopes", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "write the slope of each row to a slot, for a product that multiplies it with the column number";
  let description = [{
    Splits each slope into three numbers of 16 bits. Each number is what the numbers before it leave of the slope
    (which is exact in f32), scaled and rounded. A product multiplies the three numbers with the rows of a slot of
    `columns` (`tile.alloc_slot`):

    ```
    slope = 64 hi + mid / 32 + lo / 32          hi, mid, lo, 0, ..., 0
    ```
    Three numbers of bf16 hold all 24 bits of an f32. Three numbers of f16 hold 24 bits, or for small slopes a multiple
    of 2^-29, so that `slope * n` is wrong by less than 2^-22 (2.4e-7); slopes of 2^22 and more become infinite.

    The products that have read the slot must have been waited for. All warps of the consumer synchronise before and
    after the op, so that the next products read the new slopes.
  }];
  let arguments = (ins Tile_OfF32<Tile_RowTile>:$source, Tile_Slot:$slot);
  let assemblyFormat = "$source `into` $slot attr-dict `:` type($source) `,` type($slot)";
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "fill the next slot of a ring with a tile of device memory";
  let description = [{
    Loads all columns of the rows of `map[b, h]` from `row` on, as many as the slot has; elements beyond the tensor are
    zero. `tile-specialize` splits the op into `tile.acquire` and `tile.copy_async` in the producer, and `tile.wait` in
    the consumers.

    With `pages(%table) of P until %end`, sequence b is stored in pages of P rows (Kwon et al. 2023, PagedAttention),
    and row r of the tile, position row + r of the sequence, is `map[table[b, (row + r) div P], h, (row + r) mod P]`.
    The number of rows of the map's box is a multiple of 8 that divides both P and the tile's rows, and it divides
    `row`, so that a box lies in one page. A box that begins at or after `end`, or at a negative position, is zero, and
    the table is not read for it. `end` is not negative.

    With `clear from %first`, the rows of the slot from row `first` on are set to zero, and with `clear_before %begin`,
    the rows before row `begin`; both numbers may lie outside of the slot. Each consumer clears these rows after its
    wait (`tile.clear_rows`).

    An array of f32 in place of a map gives a slot of f32, whose row s is `map[s, b, h, row .. row + cols - 1]`. All of
    these elements exist, and each row begins at a multiple of 16 bytes.

    Example:
    ```mlir
    %v = tile.load %map[%b, %h, %row] pages(%table : !table) of 64 until %end into %ring clear from %left
        : !tile.tensor_map<64 x bf16>, !tile.ring<2, 128, 128, bf16> -> !tile.slot<128, 128, bf16>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Tile_TensorMap, MemRefRankOf<[F32], [4]>]>:$map, Index:$b, Index:$h, Index:$row,
                       Optional<MemRefRankOf<[I32], [2]>>:$table,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$page_rows, Optional<Index>:$end,
                       Tile_Ring:$ring, Optional<Index>:$first, Optional<Index>:$begin);
  let results = (outs Tile_Slot:$slot);
  let builders = [OpBuilder<(ins "::mlir::Type":$slot, "::mlir::Value":$map, "::mlir::Value":$b, "::mlir::Value":$h,
                                 "::mlir::Value":$row, "::mlir::Value":$ring), [{
    build($_builder, $_state, slot, map, b, h, row, /*table=*/::mlir::Value(), /*page_rows=*/nullptr,
          /*end=*/::mlir::Value(), ring, /*first=*/::mlir::Value(), /*begin=*/::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $map `[` $b `,` $h `,` $row `]` (`pages` `(` $table^ `:` type($table) `)` `of` $page_rows `until` $end)?
    `into` $ring (`clear` `from` $first^)? (`clear_before` $begin^)? attr-dict
    `:` type($map) `,` type($ring) `->` type($slot)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The indices that say where the tile lies: `b`, `h`, `row` and, for a load with pages, `end`.
    SmallVector<Value> getPlace() {
      SmallVector<Value> place{getB(), getH(), getRow()};
      if (getEnd())
        place.push_back(getEnd());
      return place;
    }
  }];
}

def Tile_AcquireOp : Tile_Op<"acquire", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "producer: wait until the slot of load number `count` is empty";
  let arguments = (ins Tile_Ring:$ring, Index:$count, OptionalAttr<I64Attr>:$owner);
  let assemblyFormat = "$ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($ring)";
}

def Tile_CopyAsyncOp : Tile_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "producer: fill the slot of load number `count`, and mark it full when the bytes have arrived";
  let description = [{
    Copies the tile that `tile.load` describes, by one bulk tensor copy for each box and panel.
  }];
  let arguments = (ins AnyTypeOf<[Tile_TensorMap, MemRefRankOf<[F32], [4]>]>:$map, Index:$b, Index:$h, Index:$row,
                       Optional<MemRefRankOf<[I32], [2]>>:$table,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$page_rows, Optional<Index>:$end,
                       Tile_Ring:$ring, Index:$count, OptionalAttr<I64Attr>:$owner);
  let builders = [OpBuilder<(ins "::mlir::Value":$map, "::mlir::Value":$b, "::mlir::Value":$h, "::mlir::Value":$row,
                                 "::mlir::Value":$ring, "::mlir::Value":$count, "::mlir::IntegerAttr":$owner), [{
    build($_builder, $_state, map, b, h, row, /*table=*/::mlir::Value(), /*page_rows=*/nullptr,
          /*end=*/::mlir::Value(), ring, count, owner);
  }]>];
  let assemblyFormat = [{
    $map `[` $b `,` $h `,` $row `]` (`pages` `(` $table^ `:` type($table) `)` `of` $page_rows `until` $end)?
    `into` $ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($map) `,` type($ring)
  }];
}

def Tile_WaitOp : Tile_Op<"wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer or reducer: wait until the slot of load number `count` is full";
  let description = [{
    A consumer waits for its own slot of a private ring; the reducer says by `owner` whose slot it waits for.
  }];
  let arguments = (ins Tile_Ring:$ring, Index:$count, OptionalAttr<I64Attr>:$owner);
  let results = (outs Tile_Slot:$slot);
  let builders = [OpBuilder<(ins "::mlir::Type":$slot, "::mlir::Value":$ring, "::mlir::Value":$count), [{
    build($_builder, $_state, slot, ring, count, /*owner=*/nullptr);
  }]>];
  let assemblyFormat = "$ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($ring) `->` type($slot)";
}

def Tile_ClearRowsOp : Tile_Op<"clear_rows", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "set the rows of a slot from `first` on, and those before `begin`, to 0";
  let description = [{
    Clears rows that no query may see and that may hold anything, such as rows of a cache that are not part of the
    sequence, or rows of the next packed sequence: a probability of 0 times NaN would be NaN. At least one of `first`
    and `begin` is given, and both may lie outside of the slot.

    In a `tile.warp_program` the warp that owns the ring clears the rows. In a consumer, which has waited for the slot,
    all of its threads do; other consumers may write the same zeros. The writes come before the consumer's products, and
    before the next copy into the slot.
  }];
  let arguments = (ins Tile_Slot:$slot, Optional<Index>:$first, Optional<Index>:$begin);
  let assemblyFormat = "$slot (`from` $first^)? (`before` $begin^)? attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_ShareOp : Tile_Op<"share", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: pass a tile to the reducer, as tile number `count` of this warpgroup's ring";
  let description = [{
    Waits until the slot is empty, writes the tile in the slot's swizzle, and marks the slot full. The warps do not wait
    for each other. Lowers to `stmatrix` (PTX ISA 9.7.15.5.16), `fence.proxy.async` and an arrival of each warp.
  }];
  let arguments = (ins Tile_OperandATile:$source, Tile_Ring:$ring, Index:$count);
  let assemblyFormat = "$source `into` $ring `[` $count `]` attr-dict `:` type($source) `,` type($ring)";
  let hasVerifier = 1;
}

def Tile_HandOverOp : Tile_Op<"hand_over", [MemoryEffects<[MemRead, MemWrite]>, TypesMatchWith<
    "the result has the type of the source", "source", "result", "$_self">]> {
  let summary = "pass a tile from the warpgroup that computes it to the warpgroup that needs it";
  let description = [{
    The result is the source. In a `tile.program` whose warpgroups share the rows of a tile, the op cuts the program
    into two roles: the ops that do not depend on the result, and those that do. `tile-specialize` adds `count`, the
    number of the tile among those that pass through `ring`, and `tile-divide-products` replaces the op by a `tile.send`
    in the first role and a `tile.receive` in the second. The ring has f32 and one slot or more.
  }];
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$source, Tile_Ring:$ring, Optional<Index>:$count);
  let results = (outs Tile_OfF32<Tile_AccTile>:$result);
  let assemblyFormat = "$source `through` $ring (`[` $count^ `]`)? attr-dict `:` type($source) `,` type($ring)";
  let hasVerifier = 1;
}

def Tile_SendOp : Tile_Op<"send", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: pass a tile to another consumer, as tile number `count` of the ring";
  let description = [{
    Waits until the slot is empty, writes the tile, and marks the slot full. Thread t of the other warpgroup reads what
    thread t of this one wrote, so the elements are in the order in which threads hold them: four elements of each
    thread, and then the next four. Each warp arrives for itself (PTX ISA 9.7.13.15).
  }];
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$source, Tile_Ring:$ring, Index:$count);
  let assemblyFormat = "$source `into` $ring `[` $count `]` attr-dict `:` type($source) `,` type($ring)";
  let hasVerifier = 1;
}

def Tile_ReceiveOp : Tile_Op<"receive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: take the tile that another consumer passed as tile number `count` of the ring";
  let description = [{
    Waits until the slot is full, reads the tile (`tile.send`), and marks the slot empty.
  }];
  let arguments = (ins Tile_Ring:$ring, Index:$count);
  let results = (outs Tile_OfF32<Tile_AccTile>:$result);
  let assemblyFormat = "$ring `[` $count `]` attr-dict `:` type($ring) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ReleaseOp : Tile_Op<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: release the slot for this warpgroup";
  let description = [{
    Tells the producer that this warpgroup no longer reads the slot. The products that read the slot must have been
    waited for. One thread arrives for its warpgroup. Threads that read the slot themselves (f32) have passed a barrier,
    or a wait for a product that depends on all of their reads.

    With `after`, the release comes after `elements` elements of that tile, evenly spread, have been computed; none of
    the elements may be negative. This is for a release with a wait for a product right after it. ptxas would move the
    wait up, above code that could run during the product. It does not move the wait above the release.
  }];
  let arguments = (ins Tile_Slot:$slot, Optional<Tile_AccTile>:$after, DefaultValuedAttr<I64Attr, "0">:$elements);
  let builders = [OpBuilder<(ins "::mlir::Value":$slot), [{ build($_builder, $_state, slot, Value(), 0); }]>];
  let assemblyFormat = "$slot (`after` $after^ `:` type($after))? attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

#endif // FLASHC_TILE_RING_OPS_TD
