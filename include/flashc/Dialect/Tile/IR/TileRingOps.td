//===- TileRingOps.td - rings and slots in shared memory ----------------------------------------------------------===//
//
// A part of TileOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_RING_OPS_TD
#define FLASHC_TILE_RING_OPS_TD

def Tile_AllocRingOp : Tile_Op<"alloc_ring", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a ring in shared memory, for the life of the kernel";
  let results = (outs Tile_Ring:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Tile_AllocSlotOp : Tile_Op<"alloc_slot", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a slot in shared memory that no ring has, for the life of the kernel";
  let description = [{
    Its role says what it is initialised with, how often it exists, and its shape:

    | role | begins with | one for | shape |
    |---|---|---|---|
    | `ones` | 1 in every element: whatever the swizzle, a product finds ones (`tile.mma_async`) | the CTA | 16 x 64 |
    | `columns` | the numbers of a tile's columns, see below | the CTA | columns x 16 |
    | `slopes` | nothing: `tile.store_slopes` fills it, before each product that reads it | each consumer | 64 x 16 |
    | `output` | nothing: `tile.store_async` goes through it | each consumer | 64 x columns |

    What the `tile.store_async` before has written must have been read: `tile.store_wait all` stands right in front of
    each.

    Of `columns`, which `tile.store_slopes` makes a partner for, each column n of a product has a row of 16 elements:

    ```
    64 n, n / 32, n / 32, 0, 0, 0, 0, 0, 64 n, n / 32, n / 32, 0, 0, 0, 0, 0
    ```
    All are exact in 16 bits, since n is below 256. Rows of 16 elements are 32 bytes apart; the halves of these are the
    same, whatever the swizzle.
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
  let summary = "write a number of each row where a product multiplies it with the numbers of columns";
  let description = [{
    A slope becomes three numbers of 16 bits, each of what the ones before it leave (exactly, in f32), for the first
    step of depth of the slot of `columns`:

    ```
    slope = 64 hi + mid / 32 + lo / 32          hi, mid, lo, 0, ..., 0
    ```
    Of bf16 three are 24 bits, all that f32 has. Of f16 they are 24 bits or multiples of 2^-29, where slopes are small
    (times n below 2^-21, 2.4e-7, off); slopes of 2^22 and more are infinite.

    Products that read the slot must have been waited for. They find what is written here: all warps of the consumer
    meet before and behind it.
  }];
  let arguments = (ins Tile_OfF32<Tile_RowTile>:$source, Tile_Slot:$slot);
  let assemblyFormat = "$source `into` $slot attr-dict `:` type($source) `,` type($slot)";
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "the next slot of a ring, filled with a tile of device memory";
  let description = [{
    `map[b, h, row]`: `rows` rows from `row` on, all columns; what lies beyond the tensor reads as zero. Splits into
    `tile.acquire` and `tile.copy_async` in the producer, and `tile.wait` in the consumers.

    With `pages(%table) of P until %end` row r of the tile is `map[table[b, (row + r) div P], h, (row + r) mod P]`:
    position row + r of sequence b, in pages of P rows (Kwon et al. 2023, PagedAttention). The map's box has as many
    rows as divide both P and the tile, a multiple of 8, and `row` is a multiple of it, so that a box lies in one page.
    Of a box that begins at `end` or behind it, or at a negative position, no entry is read: it is zero. `end` is not
    negative.

    With `clear from %first` the slot's rows from `first` on, any number, are set to zero, and with
    `clear_before %begin` those before row `begin`, any number: each consumer does it after its wait
    (`tile.clear_rows`).

    An array of f32 instead of a map gives a slot of f32: `map[s, b, h, row .. row + cols - 1]` for every row s of the
    slot. All of these exist, and each s begins at a multiple of 16 bytes.

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
    /// What says where the tile lies, beside arrays.
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
    From where the `tile.load` says; one bulk tensor copy for each box and panel.
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
    Of a private ring a consumer has its own slots; the reducer says whose (`owner`).
  }];
  let arguments = (ins Tile_Ring:$ring, Index:$count, OptionalAttr<I64Attr>:$owner);
  let results = (outs Tile_Slot:$slot);
  let builders = [OpBuilder<(ins "::mlir::Type":$slot, "::mlir::Value":$ring, "::mlir::Value":$count), [{
    build($_builder, $_state, slot, ring, count, /*owner=*/nullptr);
  }]>];
  let assemblyFormat = "$ring `[` $count `]` (`owner` $owner^)? attr-dict `:` type($ring) `->` type($slot)";
}

def Tile_ClearRowsOp : Tile_Op<"clear_rows", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "rows of a slot from `first` on, or before `begin`, become 0";
  let description = [{
    For rows that no query may see and that may hold anything, such as those of a cache that are no part of the
    sequence, and those of the next packed sequence: a probability of 0 times NaN is NaN.
    `first` and `begin`, of which there is one at least, may be any number. In a `tile.warp_program` the warp that owns
    the ring writes them. In a consumer, which has waited for the slot, all of its threads do, if there are any; others
    may have done so, or be about to: zeros over zeros. Its products find them, and what fills the slot next comes after
    them.
  }];
  let arguments = (ins Tile_Slot:$slot, Optional<Index>:$first, Optional<Index>:$begin);
  let assemblyFormat = "$slot (`from` $first^)? (`before` $begin^)? attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def Tile_ShareOp : Tile_Op<"share", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: pass a tile to the reducer, as number `count` of this warpgroup's ring";
  let description = [{
    Waits until the slot is empty, writes the tile in the slot's swizzle, and marks it full; nobody waits for the other
    warps. Lowers to `stmatrix` (PTX ISA 9.7.15.5.16), `fence.proxy.async` and an arrival of each warp.
  }];
  let arguments = (ins Tile_OperandATile:$source, Tile_Ring:$ring, Index:$count);
  let assemblyFormat = "$source `into` $ring `[` $count `]` attr-dict `:` type($source) `,` type($ring)";
  let hasVerifier = 1;
}

def Tile_ReleaseOp : Tile_Op<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "consumer: this warpgroup has done with the slot";
  let description = [{
    One thread arrives for its warpgroup, whose products that read the slot have been waited for; each thread, if
    threads read it (f32).

    With `after`, not before `elements` elements of that tile are known, evenly spread, none of them negative. ptxas
    moves a wait for a product far up, above code that could run beside the product; it does not move it above a
    release.
  }];
  let arguments = (ins Tile_Slot:$slot, Optional<Tile_AccTile>:$after, DefaultValuedAttr<I64Attr, "0">:$elements);
  let builders = [OpBuilder<(ins "::mlir::Value":$slot), [{ build($_builder, $_state, slot, Value(), 0); }]>];
  let assemblyFormat = "$slot (`after` $after^ `:` type($after))? attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

#endif // FLASHC_TILE_RING_OPS_TD
