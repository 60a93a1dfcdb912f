//===- MaskPasses.td - the passes that turn masks into loop bounds ------------------------------------------------===//
//
// Passes.td includes this file.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_MASK_PASSES_TD
#define FLASHC_FLASH_MASK_PASSES_TD

def TabulateRows : Pass<"flash-tabulate-rows"> {
  let summary = "precompute, for each query, the key positions where a mask by sorted arrays changes";
  let description = [{
    Replaces comparisons of elements at the key's position by comparisons of the key's position. If a mask compares the
    element of a sorted array (`flash.assume_sorted`) at the key with a value that depends on the query alone, as in
    `ids[i] == ids[j]`, the keys that it keeps lie between two positions, which a search finds. The pass computes these
    positions once for every query, as tables of i32 before the attention (`flash.row_table`), and the mask compares the
    key's position with the query's entries.

    Why here: the schedule depends on the mask's form. After the pass a kernel reads two numbers for a query instead of
    an element for every key of a tile. The kernel then holds neither addresses nor elements in registers, so its tiles
    may be larger (it gets the schedule for `mask=several` in place of that for `mask=code`). The bounds of loops are
    also read from the tables (`flash-bound-loops`), so that a search is done once for a query, and not again for each
    tile of queries and each head. `flash-fuse` runs before this pass, so that the code that computes the arrays is in
    the mask.

    Before:
    ```mlir
    flash.attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      %x = tensor.extract %ids[%i] : tensor<?xi32>
      %y = tensor.extract %ids[%j] : tensor<?xi32>
      %keep = arith.cmpi eq, %x, %y : i32
      flash.yield %keep : i1
    }
    ```
    After:
    ```mlir
    %begins = flash.row_table(%c1, %c1, %Nq) {
    ^bb0(%b: index, %h: index, %i: index):
      %x = tensor.extract %ids[%i] : tensor<?xi32>
      %begin = flash.count_le %x in %ids {strict} : i32, tensor<?xi32>
      flash.yield %begin : i32                                           // after a cast of %begin to i32
    } : tensor<1x1x?xi32>
    %ends = flash.row_table(%c1, %c1, %Nq) { ... flash.count_le %x in %ids ... } : tensor<1x1x?xi32>
    flash.attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      %begin = tensor.extract %begins[%c0, %c0, %i] : tensor<1x1x?xi32>  // then cast to index, as is %end
      %end = tensor.extract %ends[%c0, %c0, %i] : tensor<1x1x?xi32>
      %from = arith.cmpi sge, %j, %begin : index
      %to = arith.cmpi slt, %j, %end : index
      %keep = arith.andi %from, %to : i1
      flash.yield %keep : i1
    }
    ```

    A mask stays as it is:
    - if it would still read an array for each key, since a kernel then needs addresses and elements in any case;
    - if the value that is compared does not ascend with the query, so that the bounds of loops would be lost;
    - if it reads no array for a key. A search that the mask itself has, such as `flash.count_le %i in %offsets`, stays
      in the mask, since its array is only as long as there are sequences.
  }];
  let dependentDialects = ["arith::ArithDialect", "memref::MemRefDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numTables", "num-tables", "tables for queries made">];
}

def TabulateColumns : Pass<"flash-tabulate-columns"> {
  let summary = "precompute the values of a mask that depend on the streamed position alone";
  let description = [{
    Moves values that a mask computes from the streamed position alone, such as a key's coordinates in Morton order, to
    tables of i32 before the loops (`flash.row_table`), which the mask reads. A mask that is evaluated at run time
    (`flash.tile_runs`) runs for every pair of a tile that is not full. Without the tables a kernel would compute such
    values again in every tile and in every thread that has the column: 64 times in a tile of 128 queries. Values that
    depend on the resident position alone are computed once for a row of a tile in any case.

    Before:
    ```mlir
    flash.online_attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      ...                                                            // ten operations and more on %j
      %near = arith.cmpi sle, %distance_of_x, %c6 : index
    }
    ```
    After:
    ```mlir
    %xs = flash.row_table(%c1, %c1, %whole) {                        // Nk, rounded up to whole tiles
    ^bb0(%b: index, %h: index, %j: index):
      ...
      flash.yield %x32 : i32
    } : tensor<1x1x?xi32>
    flash.online_attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      %x32 = tensor.extract %xs[%c0, %c0, %j] : tensor<1x1x?xi32>
      ...
    }
    ```

    The pass precomputes values of type index and integers of at most 32 bits that cost more than five operations. A
    division that is not a shift counts as five operations, and so does a read of an array. An index is assumed to fit
    32 bits, as in kernels. A mask that the analysis understands as a whole stays as it is, since it has few masked
    tiles, at the ends of its intervals.
  }];
  let dependentDialects = ["arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numTables", "num-tables", "tables for keys made">];
}

def AlignQueries : Pass<"flash-align-queries"> {
  let summary = "begin tiles of queries where the sequences of a packed mask begin";
  let description = [{
    Replaces the loop over tiles of queries by one over the tiles of each sequence (`flash.segment_tile`), so that no
    tile has queries of two sequences. The pass applies where a mask counts the sequences that begin at the query or
    before it (`flash.count_le %i in %offsets`), and where the keys of a tile of queries begin where a sequence begins.

    Without the pass, a tile with queries of two sequences visits the keys of both and applies the mask to all of them.
    In a causal sequence that does not begin at a multiple of the tile, the diagonal crosses one more tile of keys for
    each tile of queries. With the pass there are up to two more tiles for each sequence; tiles without a query visit no
    keys. If most sequences are shorter than a tile, the pass adds work. For such sequences a kernel has another entry,
    which is compiled without the pass (docs/masks.md).

    Why here: after `flash-swap-loops`, which moves the loop over queries outside, and before `flash-bound-loops`.
    `flash-bound-loops` takes the begin and the length of a tile of queries from the IR, whatever they are, and begins
    the tiles of keys where the sequence begins.

    Before:
    ```mlir
    scf.for %i = 0 to Nq step 64 {
      %rows = affine.min(64, Nq - %i)
      ... tensor.extract_slice %q[%b, %h, %i, 0] [1, 1, %rows, 64] ...
    }
    ```
    After:
    ```mlir
    %count = ceil((Nq + 1) / 64) + M                                       // there are M offsets
    scf.for %t = 0 to %count step 1 {
      %i, %rows = flash.segment_tile %t of %offsets[%b] length Nq tiles 64
      ... tensor.extract_slice %q[%b, %h, %i, 0] [1, 1, %rows, 64] ...
    }
    ```

    The pass never fails. A remark (category "flash") says why a loop stays as it is: "there is no loop over tiles of
    queries from 0", "the mask has no sequences by sorted offsets", "the queries are known to be whole tiles", "the keys
    of a tile of queries do not begin anywhere, or in several places", "dropout counts queries from 0 in blocks of 16".
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numAligned", "num-aligned", "loops over tiles of queries that follow sequences">];
}

def PackRows : Pass<"flash-pack-rows"> {
  let summary = "visit each row of packed sequences once, in its own sequence";
  let description = [{
    Removes a `flash.unpack_rows` and the `flash.pack_rows` of the results. Between these ops attention has all rows in
    all sequences, where a sequence sees nothing for the rows of others. The pass replaces the loop over sequences and
    the loop over tiles of queries by one loop over the tiles of each sequence (`flash.segment_tile`). So a tile's rows
    are rows of the packed arrays, and its keys are those of the rows' sequence.

    Why here: after `flash-swap-loops`, which moves the loops over sequences and queries outside, and before
    `flash-bound-loops`, which takes the begin and the length of a tile of queries from the IR.

    Before:
    ```mlir
    %qs = flash.unpack_rows %q by %cu : tensor<1x32x?x128xbf16>, tensor<?xi32> -> tensor<?x32x?x128xbf16>
    %o = scf.for %b = 0 to S step 1 { scf.for %h = 0 to 32 step 1 { scf.for %i = 0 to T step 64 {
      %rows = affine.min(64, T - %i)
      ... tensor.extract_slice %qs[%b, %h, %i, 0] [1, 1, %rows, 128] ...
      ... flash.cache_tile %k[%b, %hk, %j] ...
      ... tensor.insert_slice ... into %all[%b, %h, %i, 0] [1, 1, %rows, 128] ...
    } } }
    %packed = flash.pack_rows %o by %cu : tensor<?x32x?x128xbf16>, tensor<?xi32> -> tensor<1x32x?x128xbf16>
    ```
    After:
    ```mlir
    %count = ceil((T + 1) / 64) + S + 1
    %packed = scf.for %h = 0 to 32 step 1 { scf.for %t = 0 to %count step 1 {
      %i, %rows, %n = flash.segment_tile %t of %cu length T tiles 64
      %b = clamp(%n - 1, 0, S - 1)
      ... tensor.extract_slice %q[0, %h, %i, 0] [1, 1, %rows, 128] ...
      ... flash.cache_tile %k[%b, %hk, %j] ...
      ... tensor.insert_slice ... into %all[0, %h, %i, 0] [1, 1, %rows, 128] ...
    } }
    ```

    The pass never fails. A remark (category "flash") says why a `flash.unpack_rows` stays: "there is no loop over tiles
    of queries from 0", "there is no loop over sequences around the tiles", "another op reads the batch of sequences",
    "the results are not packed by the same offsets", "the queries are known to be whole tiles".
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numPacked", "num-packed", "loops over sequences that are gone">];
}

def BoundLoops : Pass<"flash-bound-loops"> {
  let summary = "turn the mask into loop bounds: skip empty tiles, drop the mask where it keeps everything";
  let description = [{
    Replaces the streamed loop of a step (the loop over keys of `flash.online_attention`) by consecutive loops, in
    ascending order of keys, which pass the state on. The pass reads the step's mask as bounds on j
    (`lib/Analysis/MaskBounds`). Tiles that the mask cuts are in loops with the mask, tiles that it keeps as a whole are
    in loops without it, and tiles of which it keeps no pair are not visited. So causal attention does half of the work
    and compares positions only along the diagonal; a sliding window does work proportional to its width; sink tokens
    before the window are one more masked tile; and the tail of a sequence that is not a multiple of the tile is one
    last masked tile.

    Why here: after `flash-swap-loops`, since the key loop has to be innermost, for one tile of queries. The passes that
    follow see a long loop without a mask and short loops with one.

    Before (causal, `j <= i`; query tile at i, 64 queries; keys in tiles of 64):
    ```mlir
    %t:3 = scf.for %j = 0 to Nk step 64 iter_args(%acc, %m, %l) {
      flash.online_attention ... at(%b, %h, %i, %j) ... mask (...) { %j <= %i }
    }
    ```
    After:
    ```mlir
    %end  = affine.min(ceil(Nk / 64) * 64, ceil((%i + 64) / 64) * 64)        // the first tile without a kept pair
    %full = affine.min(floor(Nk / 64) * 64, floor((%i + 1) / 64) * 64)       // the first tile with a pair not kept
    %u:3 = scf.for %j = 0 to %full step 64 iter_args(%acc, %m, %l) {
      flash.online_attention ... at(%b, %h, %i, %j)
    }
    %t:3 = scf.for %j = %full to %end step 64 iter_args(%u#0, %u#1, %u#2) {
      flash.online_attention ... at(%b, %h, %i, %j) ... mask (...) { %j <= %i }
    }
    ```

    The mask may combine comparisons with and, or, xor, not and select. The values that it compares are linear in i and
    j, with min, max, select, and quotients and remainders by constants. Other terms of these values (lengths, offsets)
    are captured, or the region computes them from captured values, b and h; the pass copies this code before the loop.
    `docs/masks.md` says how bounds follow. Positions in `index`, `i64` and `i32` are assumed not to overflow; values in
    narrower integers may wrap around and stay opaque.

    No tile with a kept pair is skipped, and no tile without a mask has a pair that is not kept. The mask's class says
    whether the bounds are tight (`flash-print-mask-bounds`). The bounds ascend, lie inside of the original range, and
    are multiples of the tile, counted from the original lower bound. Loops that are known to be empty are not made. If
    the order of two intervals is not known at compile time, the begins and the ends of the intervals are sorted at run
    time. In loops without a mask slices lose their clamp (`affine.min`) at the end of the sequence.

    Tiles are on the grid if they begin at multiples of the tile, counted from the loop's original begin. The pass moves
    them, so that they begin at the first kept key, under three conditions: there is one kept interval; it may begin at
    any key, as the interval of a document may; and its end is not known to be the end of a tile on the grid
    (`docs/masks.md`, "Where tiles begin"). Tiles are not moved with dropout, whose random numbers come in blocks; with
    keys in pages; and in a gradient step that streams queries. The bounds of moved tiles are multiples of the tile,
    counted from the first kept key. The last tile may exceed the range, and is then masked. If all queries see the keys
    [%begin, %end), the first loop has no mask:
    ```mlir
    %full = %begin + floor((%end - %begin) / 64) * 64
    %u:3 = scf.for %j = %begin to %full step 64 ... { flash.online_attention ... }
    %t:3 = scf.for %j = %full to %begin + ceil((%end - %begin) / 64) * 64 step 64 ... { ... mask (...) { ... } }
    ```

    Arrays that are declared sorted (`flash.assume_sorted`) also bound loops. Values that the mask computes for a query
    and that never descend (`flash.count_le`, `flash.nth`, an element at the query's position, sums and minima of these)
    are computed twice, for the first and for the last query of the tile. A comparison with the element at the key's
    position is a search: `ids[j] <= x` is `j < count_le x in ids`. For documents by sorted ids, `ids[i] == ids[j]`, the
    loops go from %begin to %end:
    ```mlir
    %x0 = tensor.extract %ids[%i]                          // the first query's document
    %x1 = tensor.extract %ids[%last]                       // the last query's document
    %begin = flash.count_le %x0 in %ids {strict}           // the first key of %x0
    %end   = flash.count_le %x1 in %ids                    // one more than the last key of %x1
    ```
    In loops with the mask, the mask still compares elements. In packed sequences (`flash.nth %s` <= j < `flash.nth %s +
    1`) the diagonal of a sequence ascends only inside of the sequence. The pass clamps it to the sequence's ends, so
    that it ascends over all queries.

    If the bounds of the streamed loops are not exact, the mask is evaluated at run time. A `flash.tile_classes` before
    all loops finds the class of each tile. It runs the mask on the tiles that two other sources leave undecided: the
    bounds, and the ranges of the mask's values in a tile (`flash.tile_range`). A `flash.tile_runs` combines the tiles
    into runs, and three loops for each of five runs go over them (`docs/masks.md`). Where queries are streamed, the
    `flash.tile_runs` is `dual`: it has the runs of query tiles of each tile of keys. A mask over sorted arrays that the
    analysis understands is not evaluated at run time. Documents in any order, `ids[i] == ids[j]`, become:
    ```mlir
    %classes = flash.tile_classes(%B, %c1, %Nq, %Nk) tiles(64, 64) { ... } keeps { ... }
    %runs = flash.tile_runs(%B, %c1, %Nq, %Nk) tiles(64, 64) { ... an element of %classes ... }
    ...
    %begin = tensor.extract %runs[%b, %c0, %tile, %c0, %c0]      // of the first run; so are %full, %full_end, %end
    %t:3 = scf.for %j = %begin to %full ... { flash.online_attention ... mask (...) { ... } }
    %u:3 = scf.for %j = %full to %full_end ... { flash.online_attention ... }
    %v:3 = scf.for %j = %full_end to %end ... { flash.online_attention ... mask (...) { ... } }
    ...                                                          // four more runs
    ```

    The pass never fails. Optimisation remarks (category "flash") say what it found, and what it did not do:
    - "arith.muli, opaque to the analysis of masks: it bounds no loop", for a comparison of `i * j`, for example; the
      mask's other comparisons still bound the loop;
    - the loop is left alone: "the innermost loop does not go over keys (flash-swap-loops comes first)", "the loop's
      step is not the number of keys in a tile", "a tile spans several heads", "the number of queries in a
      tile is not known", "the loop carries more than the state", "the loop has side effects", "the position of the
      tile of queries changes inside the loop".

    For a step that streams queries past a tile of keys (`flash.accumulate_column_sums`) all of this holds with i and j
    exchanged, and with queries and keys exchanged (`MaskView::Dual`).
  }];
  let options = [Option<"maps", "maps", "bool", "true",
           "evaluate the mask at run time for tiles that the bounds leave undecided">];
  let statistics = [
    Statistic<"numBounded", "num-bounded", "streamed loops bounded by their mask">,
    Statistic<"numRanged", "num-ranged", "streamed loops over runs of tiles by a mask that is evaluated at run time">,
    Statistic<"numUnmasked", "num-unmasked", "loops without a mask made">,
    Statistic<"numOpaque", "num-opaque", "conjuncts of masks that are not understood">];
}

def PrintMaskBounds : Pass<"flash-print-mask-bounds"> {
  let summary = "print what flash-bound-loops knows about masks";
  let description = [{
    Prints on standard output, for every step with a mask (such as `flash.online_attention`):

    - the pairs that are kept, as a union of conjunctions of bounds on j;
    - the intervals of key tiles that have a kept pair, and those of key tiles that have a pair that is not kept;
    - the values of the mask that these intervals use for the tile's `[first]` or `[last]` query;
    - the class of the mask, exact, conservative or opaque, and why.

    If the loop's tiles are moved (`flash-bound-loops`), intervals are not rounded, and `origin` is the position at
    which tiles begin. `begin` and `end` are the original loop's bounds, `i0` is the first query of the tile, and `rows`
    the number of its queries. The IR does not change. The pass refuses tiles of dynamic sizes.

    With `dual` the pass prints the same for the query tiles of a tile of `keys` keys from `j0` on: it reads the mask
    with i and j exchanged, so that `[first]` is the tile's first key. For a step that streams queries the dual view is
    always printed, since its loop needs it.
  }];
  let options = [Option<"dual", "dual", "bool", "false", "print the intervals of query tiles for each tile of keys">];
}

#endif // FLASHC_FLASH_MASK_PASSES_TD
