//===- FlashDataOps.td - declarations, searches and tables for arrays that masks read -----------------------------===//
//
// A part of FlashOps.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_DATA_OPS_TD
#define FLASHC_FLASH_DATA_OPS_TD

//===--------------------------------------------------------------------------------------------------------------===//
// Declared data
//===--------------------------------------------------------------------------------------------------------------===//

def Flash_SortedElement : AnyTypeOf<[I8, I16, I32, I64, Index]>;
/// The type of an array that is declared sorted. Verifiers check that its rank is 1 or more.
def Flash_SortedArray : AnyTypeOf<[RankedTensorOf<[Flash_SortedElement]>, MemRefOf<[Flash_SortedElement]>]>;

def Flash_AssumeSortedOp : Flash_Op<"assume_sorted", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "promise that an array ascends along its last dimension";
  let description = [{
    Returns `source`, with the promise that its elements, as signed integers, ascend along the last dimension,
    `source[..., x] <= source[..., x + 1]`, and that the dimension is not empty. Equal neighbours are allowed. If the
    elements do not ascend, searches of the array return unspecified results, but read nothing outside of the array.

    The mask analysis uses the promise: a mask that compares an element at a key's position with one at a query's
    position (documents by sorted ids), or an index with offsets (`flash.count_le`), becomes bounds on the keys.

    Constraints:
    - the array has rank 1 or more, elements of 8, 16, 32 or 64 bits or of type index, and a last dimension that is not
      known to be empty.

    Lowers to: `source` (`flash-decompose`, or `convert-flash-to-tile`).

    Example:
    ```mlir
    %ids = flash.assume_sorted %documents : tensor<?xi32>
    ```
  }];
  let arguments = (ins Flash_SortedArray:$source);
  let results = (outs Flash_SortedArray:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

/// An op that has the effect of a read if its operand `array` is a memref.
class Flash_ReadOp<string mnemonic, string array> : Flash_Op<mnemonic, [
    AlwaysSpeculatable, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let hasVerifier = 1;
  let extraClassDefinition = "void $cppClass::getEffects(Effects &effects) { addRead(get" # array
                             # "Mutable(), effects); }";
}

/// An op that reads elements of a sorted array along the last dimension.
class Flash_SortedReadOp<string mnemonic> : Flash_ReadOp<mnemonic, "Sorted"> {
  let results = (outs Index:$result);
}

def Flash_CountLeOp : Flash_SortedReadOp<"count_le"> {
  let summary = "count the elements of a sorted array that are at most a value, or less than it";
  let description = [{
    Counts along the last dimension of the array, at `indices` in the other dimensions:

        count_le v in s          = #{x : s[indices..., x] <= v}
        count_le v in s {strict} = #{x : s[indices..., x] < v}

    `v` and the elements are compared as signed integers. `strict` is an attribute because `v - 1`, which `s[...] <= v -
    1` would need, does not exist for the least integer. If segments begin at `offsets`, position `p` lies in segment
    `count_le p in offsets` - 1. Where an offset is repeated, there are segments without positions.

    The op is a binary search, with one read for every bit of the extent; no read is outside of the array, for any
    value.

    | value   | type                                                    |
    |---------|---------------------------------------------------------|
    | value   | an integer of 8, 16, 32 or 64 bits, or an index         |
    | sorted  | `[..., N]`, the result of `flash.assume_sorted`         |
    | indices | one for each dimension of the array but the last        |
    | result  | from 0 to N                                             |

    Constraints: those of the table. `value` and the elements of the array may have different widths.

    Canonical form: if a mask compares a `flash.count_le` of the key's position with a value that does not depend on the
    key, the comparison becomes a bound on the key (`flash.nth`), which saves a search for each pair:

        count_le j in s <= c    is    j < nth c in s
        count_le j in s == c    is    j >= nth (c - 1) in s and j < nth c in s

    If the count is `strict`, the bounds have `<=` in place of `<`, and `>` in place of `>=`.

    Lowers to: a loop over the bits of the extent, without branches (`flash-decompose`, or `convert-flash-to-tile`). A
    static extent of up to 64 is unrolled.

    Example:
    ```mlir
    %cu = flash.assume_sorted %offsets : tensor<2x?xi32>
    %n = flash.count_le %i in %cu[%b] : index, tensor<2x?xi32>
    ```
  }];
  let arguments = (ins Flash_SortedElement:$value, Flash_SortedArray:$sorted, Variadic<Index>:$indices,
                       UnitAttr:$strict);
  let assemblyFormat = "$value `in` $sorted (`[` $indices^ `]`)? attr-dict `:` type($value) `,` type($sorted)";
  let hasCanonicalizer = 1;
}

def Flash_NthOp : Flash_SortedReadOp<"nth"> {
  let summary = "read an element of a sorted array, at any position";
  let description = [{
    Returns the element at `position` along the last dimension, and at `indices` in the others, as an index. `position`
    may be any number. Before the first element the result is less than every position of a query or key, and after the
    last element it is greater. So the result always ascends with the position. The op is the inverse of
    `flash.count_le`:

        count_le j in s <= c  if and only if  j < nth c in s

    The result is clamped to [-2^29, 2^29], so that sums of a few results fit 32 bits. A mask with `flash.nth` therefore
    needs sequences of fewer than 2^29 positions.

    Constraints: as for `flash.count_le`.

    Lowers to: a read at the nearest position that exists, and selects (`flash-decompose`, or `convert-flash-to-tile`).

    Example:
    ```mlir
    %cu = flash.assume_sorted %offsets : tensor<?xi32>
    %end = flash.nth %n in %cu : tensor<?xi32>
    ```
  }];
  let arguments = (ins Index:$position, Flash_SortedArray:$sorted, Variadic<Index>:$indices);
  let assemblyFormat = "$position `in` $sorted (`[` $indices^ `]`)? attr-dict `:` type($sorted)";
}

def Flash_SegmentTileOp : Flash_ReadOp<"segment_tile", "Sorted"> {
  let summary = "find a tile by its number, among tiles of positions that do not cross segments";
  let description = [{
    Finds the positions of tile number `tile`, where positions 0 to N - 1 (N is `length`) are cut into segments, and
    segments into tiles. The M elements of a line of a sorted array, at `indices` in the other dimensions, cut the
    positions into M + 1 segments, some of which may be empty. Segment n begins at c(n):

        c(0) = 0,   c(n) = min(max(s[indices..., n - 1], 0), N),   c(M + 1) = N

    Each segment is cut into tiles of T positions, from the segment's begin on; the last tile of a segment may be
    shorter. The tiles of segment n have consecutive numbers, of which the first is floor(c(n) / T) + n. There are as
    many numbers as the segment needs tiles, and at most one more, whose tile is empty. So a search finds the segment of
    a tile, and the number of tiles is known without reading the array:

        count = ceil((N + 1) / T) + M

    `tile` is a number from 0 to count - 1. The tile has the positions [begin, begin + size), with 0 <= size <= T.
    **Each position is in exactly one tile.** `segment` is the number n of the tile's segment, which is the
    `flash.count_le` of each of its positions. If size is 0, begin is a position that exists, or 0. If the array does
    not ascend, tiles may overlap or miss positions, but stay between 0 and N.

    Constraints:
    - `sorted` is the result of `flash.assume_sorted`, with an index for every dimension but the last;
    - T is positive.

    Lowers to: a binary search, one read for every bit of M (`flash-decompose`, or `convert-flash-to-tile`).

    Example:
    ```mlir
    %cu = flash.assume_sorted %offsets : tensor<2x?xi32>
    %i0, %rows, %n = flash.segment_tile %t of %cu[%b] length %Nq tiles 128 : tensor<2x?xi32>
    ```
  }];
  let arguments = (ins Index:$tile, Flash_SortedArray:$sorted, Variadic<Index>:$indices, Index:$length,
                   I64Attr:$tile_size);
  let results = (outs Index:$begin, Index:$size, Index:$segment);
  let assemblyFormat = [{
    $tile `of` $sorted (`[` $indices^ `]`)? `length` $length `tiles` $tile_size attr-dict `:` type($sorted)
  }];
}

def Flash_PartSizeOp : Flash_Op<"part_size", [Pure]> {
  let summary = "how many tiles of keys a part has, if the launch divides the work";
  let description = [{
    Gives the number of key tiles in each part of a query tile, whose keys are `tiles` key tiles. The result is a number
    from ceil(`tiles` / `most`) on, at least 1, so there are at most `most` parts. Attention is the same for all such
    numbers but for rounding. A kernel of a launch chooses the number, from the work of all query tiles (`tile-order`).
    A program on the CPU takes the least such number from 2 on.

    Lowers to: arithmetic (`flash-decompose`), or `tile.part_size` (`convert-flash-to-tile`).

    Example:
    ```mlir
    %size = flash.part_size of %tiles most 16
    ```
  }];
  let arguments = (ins Index:$tiles, I64Attr:$most);
  let results = (outs Index:$size);
  let assemblyFormat = "`of` $tiles `most` $most attr-dict";
}

def Flash_WrapIndexOp : Flash_Op<"wrap_index", [Pure]> {
  let summary = "an index that counts from the end where it is negative";
  let description = [{
    Wraps a negative index, as in NumPy and PyTorch, where -1 is the last element:

        wrap_index x of n = x + n   where x < 0
                            x       elsewhere

    `n` is the extent of the dimension that the result indexes, and indices from -n to n - 1 are valid. For each pair of
    a query and a key whose score or mask depends on the result, a program on the CPU checks the index. An invalid index
    ends the program with a diagnostic (`flash-check-data`). Kernels do not check the index: the result may be outside
    of the array, and the read of the array then clamps it.

    `natural` promises that x >= 0.

    Lowers to: x if it is known not to be negative, otherwise a comparison, a sum and a select (`flash-wrap-indices`,
    `flash-decompose`).

    Example:
    ```mlir
    %n = tensor.dim %table, %c0 : tensor<?xf32>
    %place = flash.wrap_index %distance of %n
    ```
  }];
  let arguments = (ins Index:$index, Index:$extent, UnitAttr:$natural);
  let results = (outs Index:$result);
  let assemblyFormat = "$index `of` $extent attr-dict";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tables that are computed at run time
//===--------------------------------------------------------------------------------------------------------------===//

def Flash_RowTableOp : Flash_Op<"row_table", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a table with a value for every query (or key)";
  let description = [{
    Runs the region for every query `i` of batch `b` and head `h`. The result has the values of all these runs. So an
    expensive value that a mask needs for a query, such as a search of an array, is computed once for a query and not
    for every tile of queries (`flash-tabulate-rows`). `flash-tabulate-columns` makes a table for streamed keys by the
    same op: read "key" for "query" there.

        result[b, h, i] = body(b, h, i)

    | value   | type                       |                                 |
    |---------|----------------------------|---------------------------------|
    | batches | index                      | 1 if all batches are alike      |
    | heads   | index                      | 1 if all heads are alike        |
    | queries | index                      | 1 if all queries are alike      |
    | result  | `[batches, heads, queries]`| i32                             |

    Constraints: those of the table.

    Canonical form: a `tensor.dim` of the result becomes the operand that gives the extent.

    Lowers to: loops (`flash-decompose`), or a kernel with a thread for every row (`convert-flash-to-tile`).

    Example:
    ```mlir
    %ends = flash.row_table(%c1, %c1, %Nq) {
    ^bb0(%b: index, %h: index, %i: index):
      %x = tensor.extract %ids[%i] : tensor<?xi32>
      %end = flash.count_le %x in %ids : i32, tensor<?xi32>
      %end32 = arith.index_cast %end : index to i32
      flash.yield %end32 : i32
    } : tensor<1x1x?xi32>
    ```
  }];
  let arguments = (ins Index:$batches, Index:$heads, Index:$queries);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $batches `,` $heads `,` $queries `)` attr-dict-with-keyword $body `:` type($result)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// The value that the region yields.
    Value getValue();
  }];
}

def Flash_TileRangeOp : Flash_Op<"tile_range", [SingleBlock, RecursiveMemoryEffects,
                                                DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the least and the greatest value of code over the positions of a tile";
  let description = [{
    Runs the region, which computes an integer for a position p (of a query or of a key) in a batch and head, for all
    existing positions of a tile:

        least    = min of body(b, h, p), first <= p < min(first + tile, extent)
        greatest = max of the same

    Values are compared as signed integers, an i1 as 0 or 1. With the two results `flash-bound-loops` decides a
    comparison of the mask once for a tile, and not for each pair.

    | value    | type  |                                                  |
    |----------|-------|--------------------------------------------------|
    | batch    | index |                                                  |
    | head     | index |                                                  |
    | first    | index | the tile's first position, below `extent`        |
    | extent   | index | how many positions there are                     |
    | least    | i64   |                                                  |
    | greatest | i64   |                                                  |

    Constraints: `tile` is positive; the region yields an i1, an i32 or an i64.

    Lowers to: a loop (`flash-decompose`), or a position for each lane of a warp (`convert-flash-to-tile`).

    Example:
    ```mlir
    %least, %greatest = flash.tile_range(%b, %h, %j0 below %Nk) tile 128 {
    ^bb0(%batch: index, %head: index, %j: index):
      %document = tensor.extract %documents[%batch, %j] : tensor<2x?xi32>
      flash.yield %document : i32
    }
    ```
  }];
  let arguments = (ins Index:$batch, Index:$head, Index:$first, Index:$extent, I64Attr:$tile);
  let results = (outs I64:$least, I64:$greatest);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $batch `,` $head `,` $first `below` $extent `)` `tile` $tile attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The value that the region yields.
    Value getValue();
  }];
}

def Flash_TileClassesOp : Flash_Op<"tile_classes", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a table of the class of every tile: skipped, masked or full, by running the mask";
  let description = [{
    Computes the class of each tile of batch `b` and head `h`. The pairs of a tile are those of the queries of a tile
    from `i0` on with the keys of a tile from `j0` on. The class is

    - 0, if the mask keeps no pair of the tile;
    - 2, if the mask keeps every pair of the tile, and all keys of the tile exist;
    - 1 otherwise.

    The first region finds the class without running the mask, and yields 1 if it cannot decide. Where it yields 1, the
    op runs the second region, which is the mask, for those pairs of the tile whose query and key exist. It stops when
    the mask has kept one pair and dropped another.

    | value   | type                                      |                                                  |
    |---------|-------------------------------------------|--------------------------------------------------|
    | batches | index                                     | 1 where all batches are alike                    |
    | heads   | index                                     | 1 where all heads are alike                      |
    | queries | index                                     | cut into tiles of `q_tile`, the first one at 0   |
    | keys    | index                                     | cut into tiles of `kv_tile`, the first one at 0  |
    | result  | `[batches, heads, query tiles, key tiles]`| i32                                              |

    Constraints: those of the table; the tiles are positive.

    Lowers to: loops (`flash-decompose`), or a kernel with a warp for every tile (`convert-flash-to-tile`).

    Example:
    ```mlir
    %classes = flash.tile_classes(%c1, %c1, %Nq, %Nk) tiles(128, 64) {
    ^bb0(%b: index, %h: index, %i0: index, %j0: index):
      ...                                              // finds the class from bounds and from flash.tile_range
      flash.yield %class : i32
    } keeps {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      ...
      flash.yield %keep : i1
    } : tensor<?x?x?x?xi32>
    ```
  }];
  let arguments = (ins Index:$batches, Index:$heads, Index:$queries, Index:$keys, I64Attr:$q_tile, I64Attr:$kv_tile);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let regions = (region SizedRegion<1>:$known, SizedRegion<1>:$mask);
  let assemblyFormat = [{
    `(` $batches `,` $heads `,` $queries `,` $keys `)` `tiles` `(` $q_tile `,` $kv_tile `)` attr-dict-with-keyword
    $known `keeps` $mask `:` type($result)
  }];
  let hasVerifier = 1;
}

def Flash_TileRunsOp : Flash_Op<"tile_runs", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a table of the runs of key tiles that each tile of queries visits, or vice versa";
  let description = [{
    Combines tiles to be visited into runs. The region gives the class of a tile of batch `b` and head `h`. The pairs of
    the tile are those of the queries of a tile from `i0` on with the keys of a tile from `j0` on. The class is 0 if the
    mask keeps no pair of the tile, 2 if it keeps every pair, and 1 if neither is known. For every batch, head and tile
    of queries the result has R runs of tiles of keys, in ascending order and disjoint. Runs that are not needed are
    empty. A run is given by four keys:

        begin <= full_begin <= full_end <= end

    Every tile whose class is not 0 lies in a run, and all tiles between `full_begin` and `full_end` have class 2. All
    four keys are multiples of the tile of keys. If more than R runs would be needed, the op merges the runs with the
    smallest gaps between them. The tiles from `full_begin` to `full_end` are the longest sequence of full tiles in the
    run.

    With `dual` each tile of keys has runs of tiles of queries: read "queries" for "keys" and "keys" for "queries"
    above. Steps that stream queries, such as the gradients of keys and values, use this form.

    | value   | type                                  |                                                  |
    |---------|---------------------------------------|--------------------------------------------------|
    | batches | index                                 | 1 where all batches are alike                    |
    | heads   | index                                 | 1 where all heads are alike                      |
    | queries | index                                 | cut into tiles of `q_tile`, the first one at 0   |
    | keys    | index                                 | cut into tiles of `kv_tile`, the first one at 0  |
    | result  | `[batches, heads, query tiles, R, 4]` | i32; `[..., key tiles, R, 4]` if dual            |

    Constraints: those of the table; the tiles are positive, R is static and positive.

    Lowers to: loops (`flash-decompose`), or a kernel with a warp for every row of runs (`convert-flash-to-tile`).

    Example:
    ```mlir
    %runs = flash.tile_runs(%B, %c1, %Nq, %Nk) tiles(128, 64) {
    ^bb0(%b: index, %h: index, %i0: index, %j0: index):
      ...
      flash.yield %class : i32
    } : tensor<?x?x?x5x4xi32>
    ```
  }];
  let arguments = (ins Index:$batches, Index:$heads, Index:$queries, Index:$keys, I64Attr:$q_tile, I64Attr:$kv_tile,
                       UnitAttr:$dual);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`dual` $dual^)? `(` $batches `,` $heads `,` $queries `,` $keys `)` `tiles` `(` $q_tile `,` $kv_tile `)`
    attr-dict-with-keyword $body `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The streamed dimension is the one whose tiles form runs. The resident dimension is the other one.
    Value getStreamed() { return getDual() ? getQueries() : getKeys(); }
    Value getResident() { return getDual() ? getKeys() : getQueries(); }
    int64_t getStreamedTile() { return getDual() ? getQTile() : getKvTile(); }
    int64_t getResidentTile() { return getDual() ? getKvTile() : getQTile(); }
    /// The region's arguments for the first position of a streamed tile and of a resident tile.
    BlockArgument getStreamedArgument() { return getBody().getArgument(getDual() ? 2 : 3); }
    BlockArgument getResidentArgument() { return getBody().getArgument(getDual() ? 3 : 2); }
    /// The values of the region's arguments for the resident tile that begins at `resident` and the streamed tile that
    /// begins at `streamed`.
    SmallVector<Value> getPosition(Value batch, Value head, Value resident, Value streamed) {
      if (getDual())
        std::swap(resident, streamed);
      return {batch, head, resident, streamed};
    }
    int64_t getNumRuns() { return cast<RankedTensorType>(getResult().getType()).getDimSize(3); }
  }];
}

#endif // FLASHC_FLASH_DATA_OPS_TD
