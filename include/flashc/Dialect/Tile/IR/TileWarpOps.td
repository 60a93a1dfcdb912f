//===- TileWarpOps.td - programs of one warp ----------------------------------------------------------------------===//
//
// A part of TileOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_WARP_OPS_TD
#define FLASHC_TILE_WARP_OPS_TD

def Tile_WarpProgramOp : Tile_Op<"warp_program", [SingleBlock, NoTerminator, RecursiveMemoryEffects,
                                                  HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "the program of one warp, loads included";
  let description = [{
    The body runs once per warp `%w` in `[0, warps)` of the CTA. Tiles have 16 rows, and all warps have the same rows.
    Each warp computes with keys of its own, fills its own rings (all rings are `private`), and synchronises with the
    others only where states are merged (`tile.merge_warps`). There is no producer: a kernel that is bound by the bytes
    that it reads needs many copies in flight, not many instructions, and each warp waits for its own bytes alone.

    `cluster` is the number of CTAs along x whose states are merged (`tile.merge_cluster`, PTX ISA 9.7.13.4).

    A `tile.load` in the loop is written as if it loaded at its place; `tile-prefetch` starts it several iterations
    ahead.
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<16>]>:$warps,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<8>]>, "1">:$cluster);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$warps (`cluster` $cluster^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Value getWarp() { return getBody().getArgument(0); }
  }];
}

/// An op on packed rows. Each row is a pair of a query head and a query token.
class Tile_PackedRowsOp<string mnemonic, list<Trait> traits> : Tile_Op<mnemonic, traits> {
  let hasVerifier = 1;
}

def Tile_ReadRowsOp : Tile_PackedRowsOp<"read_rows", [MemoryEffects<[MemRead]>]> {
  let summary = "read packed rows of device memory, as the A operand of products";
  let description = [{
    Row r of the tile is `source[b, h + r div tokens, i + r mod tokens, :]`. Rows from `heads * tokens` on, and those of
    tokens from `limit` on, are 0. Each address is a multiple of four bytes.

    With `quads`, the columns of the tile are in another order: in every sixteen columns, the thread that holds columns
    2t, 2t + 1, 2t + 8 and 2t + 9 of an operand holds columns 4t to 4t + 3 of the source instead. Products read the
    bytes that they widen in this order (`tile.mma_async`).

    Example:
    ```mlir
    %q = tile.read_rows %array[%b, %h, %i] heads 4 tokens 2 limit %nq
        : memref<?x8x?x128xbf16, strided<[?, ?, ?, 1]>> -> tensor<16x128xbf16, #tile.operand_a>
    ```
  }];
  let arguments = (ins MemRefRankOf<[BF16, F16], [4]>:$source, Index:$b, Index:$h, Index:$i, Index:$limit,
                       ConfinedAttr<I64Attr, [IntPositive]>:$heads, ConfinedAttr<I64Attr, [IntPositive]>:$tokens,
                       UnitAttr:$quads);
  let results = (outs Tile_OperandATile:$result);
  let assemblyFormat = [{
    $source `[` $b `,` $h `,` $i `]` `heads` $heads `tokens` $tokens `limit` $limit (`quads` $quads^)? attr-dict
    `:` type($source) `->` type($result)
  }];
}

def Tile_WriteRowsOp : Tile_PackedRowsOp<"write_rows", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a tile of packed rows to device memory";
  let description = [{
    Writes row r to `dest[b, h + r div tokens, i + r mod tokens, ...]` if r is less than `heads * tokens` and the row's
    token is below `limit` (see `tile.read_rows`). The columns of an `#tile.acc` tile go to the columns of the
    destination from `column` on; columns beyond the destination's last one are not written. An `#tile.row` tile goes to
    a destination of rank 3, with `column` 0. Elements are rounded to the destination's type. With `quads`, the tile's
    columns are in the order that `tile.read_rows` describes, and are written in the usual order.
  }];
  let arguments = (ins Tile_OneOf<[Tile_RowTile, Tile_AccTile]>:$source, AnyMemRef:$dest, Index:$b, Index:$h, Index:$i,
                       Index:$column, Index:$limit, ConfinedAttr<I64Attr, [IntPositive]>:$heads,
                       ConfinedAttr<I64Attr, [IntPositive]>:$tokens, UnitAttr:$quads);
  let assemblyFormat = [{
    $source `,` $dest `[` $b `,` $h `,` $i `,` $column `]` `heads` $heads `tokens` $tokens `limit` $limit
    (`quads` $quads^)? attr-dict
    `:` type($source) `,` type($dest)
  }];
}

/// An i32 for each row of a tile, such as the row's page.
def Tile_OfI32RowTile
    : ConfinedType<Tile_RowTile, [CPred<"::mlir::getElementTypeOrSelf($_self).isInteger(32)">],
                   Tile_RowTile.summary # ", of i32", "::mlir::RankedTensorType">;

def Tile_ReadPagesOp : Tile_Op<"read_pages", [MemoryEffects<[MemRead]>]> {
  let summary = "read the page of each row of a tile from a table";
  let description = [{
    Row r of the tile is row `row + r` of sequence `b`; its page is `table[b, min((row + r) div size, entries - 1)]`.

    Example:
    ```mlir
    %pages = tile.read_pages %table[%b, %row] of %entries size 8 : memref<?x?xi32, strided<[?, 1]>>
        -> tensor<16xi32, #tile.row>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [2]>:$table, Index:$b, Index:$row, Index:$entries,
                       ConfinedAttr<I64Attr, [IntPositive]>:$size);
  let results = (outs Tile_OfI32RowTile:$pages);
  let assemblyFormat = [{
    $table `[` $b `,` $row `]` `of` $entries `size` $size attr-dict `:` type($table) `->` type($pages)
  }];
  let hasVerifier = 1;
}

def Tile_LoadRowsOp : Tile_Op<"load_rows", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "fill the next slot of a warp's ring with rows of device memory, by the warp's lanes";
  let description = [{
    Loads like `tile.load`, but without a tensor map: for targets without tensor maps, and for rows that do not form a
    box because their pages are smaller than the tile. Row r of the slot is `source[b, h, row + r]`. With `size`, the
    number of rows of a page, `b` is a tile that has a page for each row (`tile.read_pages`), and row r is `source[b[r],
    h, (row + r) mod size]`. Rows whose position `row + r` is `limit` or more, or less than `begin`, are 0, and nothing
    is read for them.

    Each row begins at a multiple of 16 bytes. `tile-prefetch` splits the op into `tile.copy_rows` and `tile.wait`.

    Example:
    ```mlir
    %k = tile.load_rows %cache[%pages, %h, %row] size 8 limit %end into %ring
        : memref<?x8x8x128xbf16, strided<[?, ?, ?, 1]>>, tensor<16xi32, #tile.row>, !ring -> !slot
    ```
  }];
  let arguments = (ins MemRefRankOf<[BF16, F16, F8E4M3FN, I8], [4]>:$source, AnyTypeOf<[Index, Tile_OfI32RowTile]>:$b,
                       Index:$h, Index:$row, OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$size,
                       Optional<Index>:$begin, Index:$limit, Tile_Ring:$ring);
  let results = (outs Tile_Slot:$slot);
  let assemblyFormat = [{
    $source `[` $b `,` $h `,` $row `]` (`size` $size^)? (`begin` $begin^)? `limit` $limit `into` $ring attr-dict
    `:` type($source) `,` type($b) `,` type($ring) `->` type($slot)
  }];
  let hasVerifier = 1;
}

def Tile_CopyRowsOp : Tile_Op<"copy_rows", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "start to fill the slot of load number `count` by the warp's lanes";
  let description = [{
    Copies the rows that `tile.load_rows` describes, by `cp.async` (PTX ISA 9.7.9.25.3.1). The slot's barrier completes
    when the copies of all lanes have arrived.
  }];
  let arguments = (ins MemRefRankOf<[BF16, F16, F8E4M3FN, I8], [4]>:$source, AnyTypeOf<[Index, Tile_OfI32RowTile]>:$b,
                       Index:$h, Index:$row, OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$size,
                       Optional<Index>:$begin, Index:$limit, Tile_Ring:$ring, Index:$count);
  let assemblyFormat = [{
    $source `[` $b `,` $h `,` $row `]` (`size` $size^)? (`begin` $begin^)? `limit` $limit `into` $ring `[` $count `]`
    attr-dict `:` type($source) `,` type($b) `,` type($ring)
  }];
}

/// An op that merges states of online softmax; each warp gets a part of the merged accumulator's columns.
class Tile_MergeOp<string mnemonic> : Tile_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$acc, Tile_OfF32<Tile_RowTile>:$max, Tile_OfF32<Tile_RowTile>:$sum,
                       F32Attr:$factor);
  let hasVerifier = 1;
}

def Tile_MergeWarpsOp : Tile_MergeOp<"merge_warps"> {
  let summary = "merge the states of all warps of the CTA; each warp gets a part of the columns";
  let description = [{
    With m = max over warps w of max_w, and c_w = 2^(factor (max_w - m)), 0 where max_w is -inf:

        acc' = sum over w of c_w acc_w       sum' = sum over w of c_w sum_w       max' = m

    Warp w gets the columns of acc' from `w * C` on, where C is the number of columns of the result: the number of
    columns of the operand divided by the number of warps, rounded up to a multiple of eight. Columns of the result
    beyond the operand's last one are undefined. All warps get max' and sum'. The states are added in the order of the
    warps. The tiles pass through the memory of the rings, whose slots must have been waited for and read; all warps
    synchronise before and after the op.
  }];
  let results = (outs Tile_OfF32<Tile_AccTile>:$merged, Tile_OfF32<Tile_RowTile>:$merged_max,
                      Tile_OfF32<Tile_RowTile>:$merged_sum);
  let assemblyFormat = "$acc `,` $max `,` $sum `factor` $factor attr-dict `:` functional-type(operands, results)";
}

def Tile_MergeClusterOp : Tile_MergeOp<"merge_cluster"> {
  let summary = "merge the states of all CTAs of the cluster; some warps of each CTA get a part of the columns";
  let description = [{
    Merges the results of `tile.merge_warps` over the Z CTAs of a cluster, by the same formula. Of the W warps of CTA z,
    warp w gets the merged part of the warps number `z * W / Z + w` if w < W / Z, and `part` is this number. For the
    other warps `part` is W, and the other results are undefined. The CTAs push their states into each other's shared
    memory (`st.async`, PTX ISA 9.7.9.12), and wait for the bytes that arrive.
  }];
  let results = (outs Tile_OfF32<Tile_AccTile>:$merged, Tile_OfF32<Tile_RowTile>:$merged_max,
                      Tile_OfF32<Tile_RowTile>:$merged_sum, Index:$part);
  let assemblyFormat = "$acc `,` $max `,` $sum `factor` $factor attr-dict `:` functional-type(operands, results)";
}

#endif // FLASHC_TILE_WARP_OPS_TD
