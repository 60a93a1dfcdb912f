//===- FlashDataOps.td - what is declared and computed of the arrays that masks read ------------------------------===//
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
/// An array whose values are declared to be sorted. Verifiers check that its rank is 1 or more.
def Flash_SortedArray : AnyTypeOf<[RankedTensorOf<[Flash_SortedElement]>, MemRefOf<[Flash_SortedElement]>]>;

def Flash_AssumeSortedOp : Flash_Op<"assume_sorted", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "a promise that an array ascends along its last dimension";
  let description = [{
    The result is `source`. Whoever writes the op promises that its elements, as signed integers, ascend along the last
    dimension, `source[..., x] <= source[..., x + 1]`, and that there is one. Equal neighbours are fine. Where the
    elements do not ascend, the results of what looks into the array are not defined, but it reads nothing outside.

    The mask analysis builds on the promise: a mask that compares an element at a key's position with one at a query's
    (documents by sorted ids), or an index with offsets (`flash.count_le`), becomes bounds on the keys.

    Constraints:
    - the array has rank 1 or more, elements of 8, 16, 32 or 64 bits or of type index, and a last dimension that is not
      known to be empty.

    Lowers to: `source` (`flash-decompose`, or where the kernel is built).

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

/// An op that reads an operand where that is a memref.
class Flash_ReadOp<string mnemonic, string array> : Flash_Op<mnemonic, [
    AlwaysSpeculatable, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let hasVerifier = 1;
  let extraClassDefinition = "void $cppClass::getEffects(Effects &effects) { addRead(get" # array
                             # "Mutable(), effects); }";
}

/// An op that looks into one line of a sorted array.
class Flash_SortedReadOp<string mnemonic> : Flash_ReadOp<mnemonic, "Sorted"> {
  let results = (outs Index:$result);
}

def Flash_CountLeOp : Flash_SortedReadOp<"count_le"> {
  let summary = "how many elements of a sorted array are at most a value, or less than it";
  let description = [{
        count_le v in s          = #{x : s[indices..., x] <= v}
        count_le v in s {strict} = #{x : s[indices..., x] < v}

    along the last dimension of the array, at `indices` in the others. Both sides are compared as signed integers; there
    is no `v - 1`, which the least integer does not have. The
    segment that position `p` lies in, of those that begin at `offsets`, is `count_le p in offsets` - 1: repeated
    offsets are segments without positions.

    It is a binary search, one read for every bit of the extent, none of them outside of the array whatever the value.

    | value   | type                                                    |
    |---------|---------------------------------------------------------|
    | value   | an integer of 8, 16, 32 or 64 bits, or an index         |
    | sorted  | `[..., N]`, the result of `flash.assume_sorted`         |
    | indices | as many as the array has dimensions in front of the last|
    | result  | from 0 to N                                             |

    Constraints: those of the table. `value` and the elements may have different widths.

    Canonical form: in a mask, where one side of a comparison counts up to the key's position itself and the other does
    not depend on it, the search becomes a bound (`flash.nth`): one search per element of the scores less.

        count_le j in s <= c    is    j < nth c in s
        count_le j in s == c    is    j >= nth (c - 1) in s and j < nth c in s

    For a `strict` count these are `<=` and `>`.

    Lowers to: a loop over the bits of the extent, without branches (`flash-decompose`, or where the kernel is built).
    An extent of up to 64 that is static leaves no loop.

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
  let summary = "an element of a sorted array, at any position";
  let description = [{
    The element at `position` along the last dimension, at `indices` in the others, as an index. There is one at every
    position: those in front of the first are less than every position of a query or key, those behind the last are
    greater, and so the result still ascends with the position. It is the other half of `flash.count_le`:

        count_le j in s <= c  if and only if  j < nth c in s

    The result lies between -2^29 and 2^29, so that sums of a few fit 32 bits; elements beyond are brought there. So a
    sequence that a mask with `flash.nth` is for has fewer than 2^29 positions.

    Constraints: as for `flash.count_le`.

    Lowers to: a read at the nearest position that exists, and selects (`flash-decompose`, or where the kernel is
    built).

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
  let summary = "one of the tiles that positions are cut into, none of which lies in two segments";
  let description = [{
    The positions 0 to N - 1 (`length`), cut at the M elements of a line of a sorted array, at `indices` in the other
    dimensions, are M + 1 segments, some of which may be empty. Segment n begins at c(n):

        c(0) = 0,   c(n) = min(max(s[indices..., n - 1], 0), N),   c(M + 1) = N

    Each is cut into tiles of T positions from its begin on, the last one of them possibly shorter. Segment n has the
    tiles with the numbers from floor(c(n) / T) + n on: as many as it needs, and at most one more, which is empty. So
    where a tile lies is found by a search, and their number is known without looking at the array:

        count = ceil((N + 1) / T) + M

    `tile` is a number from 0 to count - 1. It has the positions [begin, begin + size), 0 <= size <= T. **Tiles of
    different numbers share no position, and all of them together have each.** `segment` is n, of which the tile's
    positions are: `flash.count_le` of any of them. Where size is 0, begin is a position that exists, or 0. Where the
    array does not ascend, tiles may overlap or be missing, but lie between 0 and N.

    Constraints:
    - `sorted` is the result of `flash.assume_sorted`, with an index for every dimension but the last;
    - T is positive.

    Lowers to: a binary search, one read for every bit of M (`flash-decompose`, or where the kernel is built).

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

def Flash_WrapIndexOp : Flash_Op<"wrap_index", [Pure]> {
  let summary = "an index that counts from the end where it is negative";
  let description = [{
        wrap_index x of n = x + n   where x < 0
                            x       elsewhere

    `n` is the extent of a dimension that the result is an index into: as in NumPy and PyTorch, -1 is the last element.
    An index from -n to n - 1 is inside. Whether it is, is asked where the program runs on the CPU, for each pair of a
    query and a key whose score or mask hangs on the result, or else not at all: an index that is outside ends the
    program with a diagnostic (`flash-check-data`). The result may be outside of the array, so that a read clamps it.

    `natural` promises that x >= 0.

    Lowers to: x where it is seen not to be negative, or else a comparison, a sum and a select (`flash-wrap-indices`,
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
// Tables of what is known at run time only
//===--------------------------------------------------------------------------------------------------------------===//

def Flash_RowTableOp : Flash_Op<"row_table", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a value for every query";
  let description = [{
    The region computes a value for query `i` of batch `b` and head `h`; the result has them all. So what a mask needs
    of a query and is long to compute, a search of an array, is computed once, and not for every tile of queries
    (`flash-tabulate-rows`). The same of keys, where they are streamed: read key for query (`flash-tabulate-columns`).

        result[b, h, i] = body(b, h, i)

    | value   | type                       |                                 |
    |---------|----------------------------|---------------------------------|
    | batches | index                      | 1 where all batches are alike   |
    | heads   | index                      | 1 where all heads are alike     |
    | queries | index                      | 1 where all queries are alike   |
    | result  | `[batches, heads, queries]`| i32                             |

    Constraints: those of the table.

    Canonical form: an extent of the result is its operand.

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
    /// What the region yields.
    Value getValue();
  }];
}

def Flash_TileRangeOp : Flash_Op<"tile_range", [SingleBlock, RecursiveMemoryEffects,
                                                DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the least and the greatest value that code has of the positions of a tile";
  let description = [{
    The region computes an integer of one position p, of a query or of a key, of batch `b` and head `h`. Of the
    positions of a tile that exist:

        least    = min of body(b, h, p), first <= p < min(first + tile, extent)
        greatest = max of the same

    Values are compared as signed integers, an i1 as 0 or 1. What a mask compares the code's value with is compared with
    these instead, once for a tile (`flash-bound-loops`).

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
    /// What the region yields.
    Value getValue();
  }];
}

def Flash_TileClassesOp : Flash_Op<"tile_classes", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "what a mask keeps of every tile, by running it";
  let description = [{
    For a tile of queries, the first of them `i0`, and a tile of keys, the first `j0`, of batch `b` and head `h`: 0, no
    pair of the tile is kept; 1, some are, or the tile has keys that do not exist; 2, every pair is. The first region
    says what is known of the tile without looking at its pairs, 1 standing for nothing; where that is 1, the second
    one, the mask itself, is run for every pair of a query and a key that exist, until it is known that some are kept
    and some are not.

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
      ...                                              // by bounds, and by ranges (flash.tile_range)
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
  let summary = "the runs of key tiles that each tile of queries visits, or the other way round";
  let description = [{
    The region says of a tile of queries, the first of them `i0`, and a tile of keys, the first `j0`, of batch `b` and
    head `h`: 0, no pair of the tile is kept; 1, anything; 2, every pair is. The result has for every batch, head and
    tile of queries up to R runs of tiles of keys, in ascending order and disjoint, each by four keys

        begin <= full_begin <= full_end <= end

    such that every tile that is not 0 lies in a run, and all those between `full_begin` and `full_end` are 2. All four
    are multiples of the tile of keys. Where more than R runs are visited, those with the least between them become one;
    a run's full tiles are its longest row of them. A run that is not needed is empty.

    With `dual` the runs are of tiles of queries, which each tile of keys visits: read queries for keys and keys for
    queries in the above. That is for gradients of keys and values, which stream queries.

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
    /// The dimension whose tiles are in runs, and the other one, whose tiles have a row of runs each.
    Value getStreamed() { return getDual() ? getQueries() : getKeys(); }
    Value getResident() { return getDual() ? getKeys() : getQueries(); }
    int64_t getStreamedTile() { return getDual() ? getQTile() : getKvTile(); }
    int64_t getResidentTile() { return getDual() ? getKvTile() : getQTile(); }
    /// Their first positions in the region.
    BlockArgument getStreamedArgument() { return getBody().getArgument(getDual() ? 2 : 3); }
    BlockArgument getResidentArgument() { return getBody().getArgument(getDual() ? 3 : 2); }
    /// The region's arguments, from the first position of a resident tile and that of a streamed one.
    SmallVector<Value> getPosition(Value batch, Value head, Value resident, Value streamed) {
      if (getDual())
        std::swap(resident, streamed);
      return {batch, head, resident, streamed};
    }
    int64_t getNumRuns() { return cast<RankedTensorType>(getResult().getType()).getDimSize(3); }
  }];
}

#endif // FLASHC_FLASH_DATA_OPS_TD
