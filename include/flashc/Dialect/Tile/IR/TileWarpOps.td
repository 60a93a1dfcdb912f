//===- TileWarpOps.td - programs of one warp ----------------------------------------------------------------------===//
//
// A part of TileOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_WARP_OPS_TD
#define FLASHC_TILE_WARP_OPS_TD

def Tile_WarpProgramOp : Tile_Op<"warp_program", [SingleBlock, NoTerminator, RecursiveMemoryEffects,
                                                  HasParent<"::mlir::gpu::GPUFuncOp">]> {
  let summary = "what one warp does, loads included";
  let description = [{
    The body runs once per warp `%w` in `[0, warps)` of the CTA. Tiles have 16 rows, and all warps have the same ones:
    each computes with keys of its own, fills its own rings (all of them `private`), and meets the others only where
    states are merged (`tile.merge_warps`). There is no producer: a kernel that is bound by the bytes that it reads
    needs many copies in flight, not many instructions, and each warp waits for its own bytes alone.

    With `cluster` that many CTAs along x merge their states (`tile.merge_cluster`, PTX ISA 9.7.13.4).

    In the loop, `tile.load` is written as if it were done where it stands; `tile-prefetch` starts it iterations ahead.
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

/// Rows that are query heads times query tokens.
class Tile_PackedRowsOp<string mnemonic, list<Trait> traits> : Tile_Op<mnemonic, traits> {
  let hasVerifier = 1;
}

def Tile_ReadRowsOp : Tile_PackedRowsOp<"read_rows", [MemoryEffects<[MemRead]>]> {
  let summary = "rows of device memory as the A operand of products";
  let description = [{
    Row r of the tile is `source[b, h + r div tokens, i + r mod tokens, :]`. Rows from `heads * tokens` on, and those of
    tokens from `limit` on, are 0. Each address is a multiple of four bytes.

    With `quads` the columns of the tile are in another order: of each sixteen, the thread that holds columns 2t, 2t +
    1, 2t + 8 and 2t + 9 of an operand has 4t to 4t + 3 of the source instead. That is the order in which products find
    bytes that they widen (`tile.mma_async`).

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
  let summary = "a tile of packed rows to device memory";
  let description = [{
    Row r goes to `dest[b, h + r div tokens, i + r mod tokens, ...]`, if it is one of `heads * tokens` whose token is
    below `limit` (`tile.read_rows`). The columns of an `#tile.acc` tile are those of the destination from `column` on;
    what lies behind its last column is not written. An `#tile.row` tile goes to a destination of rank 3, with `column`
    0 only. Elements are rounded to the destination's type. `quads`: the tile's columns are in the order that
    `tile.read_rows` describes, and come to the destination in their own.
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

/// The page of each row of a tile, held by the lanes that hold the row.
def Tile_OfI32RowTile
    : ConfinedType<Tile_RowTile, [CPred<"::mlir::getElementTypeOrSelf($_self).isInteger(32)">],
                   Tile_RowTile.summary # ", of i32", "::mlir::RankedTensorType">;

def Tile_ReadPagesOp : Tile_Op<"read_pages", [MemoryEffects<[MemRead]>]> {
  let summary = "the page of each row of a tile, out of a table";
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
  let summary = "the next slot of a warp's ring, filled with rows of device memory by its lanes";
  let description = [{
    `tile.load` without a tensor map: for targets that have none, and for rows that are no box, since their pages are
    smaller than the tile. Row r of the slot is `source[b, h, row + r]`, or with `size`, the rows of a page,
    `source[b of r, h, (row + r) mod size]`, where `b` has a page for each row (`tile.read_pages`). Rows from `limit`
    on, counted as `row + r`, are 0, and so are rows before `begin`; nothing is read for them.

    Each row begins at a multiple of 16 bytes. `tile-prefetch` splits it into `tile.copy_rows` and `tile.wait`.

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
    What `tile.load_rows` reads, by `cp.async` (PTX ISA 9.7.9.25.3.1). The slot's barrier completes when the copies of
    all lanes have arrived.
  }];
  let arguments = (ins MemRefRankOf<[BF16, F16, F8E4M3FN, I8], [4]>:$source, AnyTypeOf<[Index, Tile_OfI32RowTile]>:$b,
                       Index:$h, Index:$row, OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$size,
                       Optional<Index>:$begin, Index:$limit, Tile_Ring:$ring, Index:$count);
  let assemblyFormat = [{
    $source `[` $b `,` $h `,` $row `]` (`size` $size^)? (`begin` $begin^)? `limit` $limit `into` $ring `[` $count `]`
    attr-dict `:` type($source) `,` type($b) `,` type($ring)
  }];
}

/// The states of online softmax: a part of the columns for each warp.
class Tile_MergeOp<string mnemonic> : Tile_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Tile_OfF32<Tile_AccTile>:$acc, Tile_OfF32<Tile_RowTile>:$max, Tile_OfF32<Tile_RowTile>:$sum,
                       F32Attr:$factor);
  let hasVerifier = 1;
}

def Tile_MergeWarpsOp : Tile_MergeOp<"merge_warps"> {
  let summary = "the states of all warps of the CTA as one, a part of its columns in each warp";
  let description = [{
    With m = max over warps w of max_w, and c_w = 2^(factor (max_w - m)), 0 where max_w is -inf:

        acc' = sum over w of c_w acc_w       sum' = sum over w of c_w sum_w       max' = m

    Warp w gets the columns from `w * C` on, where C is the number of columns of the result: those of the operand
    divided by the warps, rounded up to blocks of eight. What lies behind the last one is undefined. All warps get max'
    and sum'. States are added in the order of the warps. The tiles go through the memory of the rings, whose slots must
    have been waited for and read: all warps meet before and behind it.
  }];
  let results = (outs Tile_OfF32<Tile_AccTile>:$merged, Tile_OfF32<Tile_RowTile>:$merged_max,
                      Tile_OfF32<Tile_RowTile>:$merged_sum);
  let assemblyFormat = "$acc `,` $max `,` $sum `factor` $factor attr-dict `:` functional-type(operands, results)";
}

def Tile_MergeClusterOp : Tile_MergeOp<"merge_cluster"> {
  let summary = "the states of all CTAs of the cluster as one, a part of its columns in each warp that gets some";
  let description = [{
    As `tile.merge_warps`, whose results it takes, over the CTAs of a cluster of Z: warp w of CTA z gets what the warps
    of number `z * W / Z + w` have, if w < W / Z. `part` is that number; for other warps it is W, and the rest is
    undefined. CTAs push what they have into each other's shared memory (`st.async`, PTX ISA 9.7.9.12), and wait for the
    bytes that come.
  }];
  let results = (outs Tile_OfF32<Tile_AccTile>:$merged, Tile_OfF32<Tile_RowTile>:$merged_max,
                      Tile_OfF32<Tile_RowTile>:$merged_sum, Index:$part);
  let assemblyFormat = "$acc `,` $max `,` $sum `factor` $factor attr-dict `:` functional-type(operands, results)";
}

#endif // FLASHC_TILE_WARP_OPS_TD
