//===- MaskPasses.td - the passes that make loops of masks --------------------------------------------------------===//
//
// A part of Passes.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_FLASH_MASK_PASSES_TD
#define FLASHC_FLASH_MASK_PASSES_TD

def TabulateRows : Pass<"flash-tabulate-rows"> {
  let summary = "a mask that compares elements of sorted arrays compares positions with a table's rows";
  let description = [{
    A mask that compares elements of a sorted array (`flash.assume_sorted`) at the key with what the query knows,
    `ids[i] == ids[j]`, says between which positions the keys of a query lie; a search finds these. The pass computes
    them once for every query, as tables of i32 in front of the attention (`flash.row_table`), and the mask compares the
    key's position with the query's row.

    Why here: the schedule depends on the mask's form. A kernel then reads two numbers for a query where it read an
    element for every key of a tile, and holds no addresses and elements beside its tiles, which may be larger
    (`mask=several` for `mask=code`). The bounds of loops are rows of the tables, too (`flash-bound-loops`), so that
    the search is done once for a query and not again for each tile of queries and head. In front of it `flash-fuse` has
    made code of what computes the arrays.

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
      flash.yield %begin : i32                                           // cast to i32
    } : tensor<1x1x?xi32>
    %ends = flash.row_table(%c1, %c1, %Nq) { ... flash.count_le %x in %ids ... } : tensor<1x1x?xi32>
    flash.attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      %begin = tensor.extract %begins[%c0, %c0, %i] : tensor<1x1x?xi32>  // cast to index, as %end
      %end = tensor.extract %ends[%c0, %c0, %i] : tensor<1x1x?xi32>
      %from = arith.cmpi sge, %j, %begin : index
      %to = arith.cmpi slt, %j, %end : index
      %keep = arith.andi %from, %to : i1
      flash.yield %keep : i1
    }
    ```

    A mask stays as it is:
    - where it would still read an array for a key: it needs addresses and elements in any case;
    - where what is compared does not ascend with the query, so that the bounds of loops would be lost;
    - where it reads nothing for a key. A search that a mask says itself, `flash.count_le %i in %offsets`, is one of an
      array as short as there are sequences, and stays where it is.
  }];
  let dependentDialects = ["arith::ArithDialect", "memref::MemRefDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numTables", "num-tables", "tables of rows made">];
}

def TabulateColumns : Pass<"flash-tabulate-columns"> {
  let summary = "what a mapped mask computes of each streamed position alone is computed once, as a table";
  let description = [{
    A mask that is run in tiles (`flash.tile_runs`) is evaluated for every pair of a tile that is not full. What it
    computes of the streamed position alone, a key's coordinates in Morton order, say, a kernel would compute again in
    every tile, in every thread that has the column: 64 times in a tile of 128 queries. The pass computes such values
    once for all positions, as tables of i32 in front of the loops (`flash.row_table`), and the mask reads them. What
    hangs on the resident position is computed once for a row of a tile in any case.

    Before:
    ```mlir
    flash.online_attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      ...                                                            // ten operations and more on %j
      %near = arith.cmpi sle, %distance_of_x, %c6 : index
    }
    ```
    After:
    ```mlir
    %xs = flash.row_table(%c1, %c1, %whole) {                        // Nk, up to the end of the last tile
    ^bb0(%b: index, %h: index, %j: index):
      ...
      flash.yield %x32 : i32
    } : tensor<1x1x?xi32>
    flash.online_attention ... mask (%b: index, %h: index, %i: index, %j: index) {
      %x32 = tensor.extract %xs[%c0, %c0, %j] : tensor<1x1x?xi32>
      ...
    }
    ```

    Tabulated are values of type index and integers of at most 32 bits that cost more than five operations (a division
    that is no shift counts as five, and so does a read of an array). An index is taken to fit 32 bits, as it does in
    kernels. A mask that is understood as a whole has its few masked tiles at the ends of its intervals, and stays as it
    is.
  }];
  let dependentDialects = ["arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numTables", "num-tables", "tables of columns made">];
}

def AlignQueries : Pass<"flash-align-queries"> {
  let summary = "tiles of queries begin where the sequences of a packed mask do";
  let description = [{
    Where a mask counts the sequences that begin up to the query (`flash.count_le %i in %offsets`), and the keys of a
    tile of queries begin where one of these does, the loop over tiles of queries goes over those of each sequence
    instead (`flash.segment_tile`): no tile lies in two sequences. A tile that does has the keys of both, and all of
    them need the mask; and where a causal sequence does not begin at a multiple of the tile, each of its tiles has one
    diagonal more to visit. There are as many tiles as before and up to two for each sequence, of which those without a
    query visit nothing. Where most sequences are shorter than a tile that is more work than before: a kernel has
    another entry for them, which is compiled without this pass (docs/masks.md).

    Why here: the loop over queries is outside (`flash-swap-loops`), and `flash-bound-loops`, which then begins the
    tiles of keys at the sequence, too, takes the tile's begin and its number of queries as they are.

    Before:
    ```mlir
    scf.for %i = 0 to Nq step 64 {
      %rows = affine.min(64, Nq - %i)
      ... tensor.extract_slice %q[%b, %h, %i, 0] [1, 1, %rows, 64] ...
    }
    ```
    After:
    ```mlir
    %count = ceil((Nq + 1) / 64) + M                                       // M offsets
    scf.for %t = 0 to %count step 1 {
      %i, %rows = flash.segment_tile %t of %offsets[%b] length Nq tiles 64
      ... tensor.extract_slice %q[%b, %h, %i, 0] [1, 1, %rows, 64] ...
    }
    ```

    It never fails. A remark (category "flash") says why a loop stays as it is: "there is no loop over tiles of queries
    from 0", "the mask has no sequences by sorted offsets", "the queries are known to be whole tiles", "the keys of a
    tile of queries do not begin anywhere, or in several places", "dropout counts queries from 0 in blocks of 16".
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [Statistic<"numAligned", "num-aligned", "loops over tiles of queries that follow sequences">];
}

def BoundLoops : Pass<"flash-bound-loops"> {
  let summary = "the mask becomes loop bounds: skip empty tiles, drop the mask where it keeps everything";
  let description = [{
    Reads the mask of a step in its streamed loop, of `flash.online_attention` the loop over keys, as bounds on j
    (`lib/Analysis/MaskBounds`), and replaces the loop by consecutive ones, in ascending order of keys, that pass the
    state on: those with tiles that the mask cuts, and those with tiles that it keeps as a whole, which lose the mask.
    Tiles that it leaves empty are not visited. Causal attention does half of the work this way, and compares positions
    only along the diagonal; a sliding window does work proportional to its width; sink tokens in front of it are one
    masked tile more; the tail of a sequence that is not a multiple of the tile is one last masked tile.

    Why here: it needs the key loop innermost, for one tile of queries (`flash-swap-loops`). What comes after sees a
    loop without a mask, where the time goes, and short loops with one.

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

    The mask may combine comparisons with and, or, xor, not and select; what is compared is linear in i and j, with min,
    max, select, and quotients and remainders by constants. All else may be captured, or computed in the region from
    what is captured and b and h (lengths, offsets), in which case that computation is copied in front of the loop.
    `docs/masks.md` says how bounds follow. No tile with a kept pair is skipped, and no tile without a mask has a pair
    that is not kept; whether the bounds are tight is the mask's class (`flash-print-mask-bounds`). The bounds are
    multiples of the tile from the original lower bound on, ordered and inside the original range; loops that are known
    to be empty are not made. Intervals whose order is not known are ordered at run time, by their begins and by their
    ends. In loops without a mask slices lose their clamp (`affine.min`) at the end of the sequence. Positions in
    `index`, `i64` and `i32` are taken not to overflow; what is computed in narrower integers may wrap around and stays
    opaque.

    Where the only kept interval begins anywhere, as that of a document does, and a tile on the grid would not end with
    it, tiles are moved, unless there is dropout, whose random numbers come in blocks, or keys lie in pages: they begin
    at its first key (`docs/masks.md`, "Where tiles begin"). Then the bounds are multiples of the tile from there on,
    and the last tile may stick out of the range, masked. With the keys [%begin, %end) for all queries, the first loop
    is empty:
    ```mlir
    %full = %begin + floor((%end - %begin) / 64) * 64
    %u:3 = scf.for %j = %begin to %full step 64 ... { flash.online_attention ... }
    %t:3 = scf.for %j = %full to %begin + ceil((%end - %begin) / 64) * 64 step 64 ... { ... mask (...) { ... } }
    ```

    Arrays that are declared sorted (`flash.assume_sorted`) bound loops, too. What the mask computes for a query and
    never descends (`flash.count_le`, `flash.nth`, an element at the query's position, sums and minima of these) is
    computed twice, for the first and the last query of the tile. A comparison with the element at the key's position is
    a search: `ids[j] <= x` is `j < count_le x in ids`. Of documents by sorted ids, `ids[i] == ids[j]`, the loops are
    between
    ```mlir
    %x0 = tensor.extract %ids[%i]                          // the first query's document
    %x1 = tensor.extract %ids[%last]                       // the last query's
    %begin = flash.count_le %x0 in %ids {strict}           // the first key of the one
    %end   = flash.count_le %x1 in %ids                    // behind the last key of the other
    ```
    and the mask of the cut tiles stays a comparison of elements. In packed sequences (`flash.nth %s` <= j < `flash.nth
    %s + 1`) the diagonal of a sequence ascends only inside of it; between the sequence's ends it ascends altogether.

    Where the bounds of the streamed loops are not exact, `flash.tile_classes` in front of all loops runs the mask on
    the tiles that bounds, and the ranges of what the mask computes of each side (`flash.tile_range`), leave open;
    `flash.tile_runs` makes runs of tiles of it, and three loops for each of five runs go over them (`docs/masks.md`).
    Where queries are streamed, it is `dual`, with the runs of queries of each tile of keys. It is not done for masks
    over sorted arrays that are understood. Documents in any order, `ids[i] == ids[j]`, become
    ```mlir
    %classes = flash.tile_classes(%B, %c1, %Nq, %Nk) tiles(64, 64) { ... } keeps { ... }
    %runs = flash.tile_runs(%B, %c1, %Nq, %Nk) tiles(64, 64) { ... an element of %classes ... }
    ...
    %begin = tensor.extract %runs[%b, %c0, %tile, %c0, %c0]      // of the first run; %full, %behind, %end alike
    %t:3 = scf.for %j = %begin to %full ... { flash.online_attention ... mask (...) { ... } }
    %u:3 = scf.for %j = %full to %behind ... { flash.online_attention ... }
    %v:3 = scf.for %j = %behind to %end ... { flash.online_attention ... mask (...) { ... } }
    ...                                                          // four more runs
    ```

    It never fails. It says in an optimisation remark (category "flash") what it found, and what it did not do:
    - "arith.muli, opaque to the analysis of masks: it bounds no loop": of a comparison of `i * j`, say; the others
      still bound it;
    - the loop is left alone: "the innermost loop does not go over keys (flash-swap-loops comes first)", "the loop's
      step is not the number of keys in a tile", "a tile spans several heads", "the loop carries more than the
      state", "the loop has side effects", "the position of the tile of queries changes inside the loop".

    Where a step streams queries past a tile of keys (`flash.accumulate_column_sums`) all of this holds with i and j,
    and queries and keys, exchanged: the bounds are the dual ones (`MaskView::Dual`).
  }];
  let options = [Option<"maps", "maps", "bool", "true", "run the mask for tiles that the bounds leave open">];
  let statistics = [
    Statistic<"numBounded", "num-bounded", "streamed loops bounded by their mask">,
    Statistic<"numRanged", "num-ranged", "key loops over runs of tiles, by running the mask">,
    Statistic<"numUnmasked", "num-unmasked", "loops made that need no mask">,
    Statistic<"numOpaque", "num-opaque", "conjuncts of masks that are not understood">];
}

def PrintMaskBounds : Pass<"flash-print-mask-bounds"> {
  let summary = "print what flash-bound-loops knows about masks";
  let description = [{
    For every step with a mask, `flash.online_attention` say, prints on standard output what is kept, as a union of
    conjunctions of bounds on j; the intervals of key tiles that hold a kept pair, and those that hold one that is not
    kept; what the mask computes of which they use the value for the tile's `[first]` or `[last]` query; and the class:
    exact, conservative or opaque, and why. Where the loop's tiles are moved (`flash-bound-loops`), intervals are not
    rounded, and the position that tiles begin at is the `origin`. `begin` and `end` are the original loop's bounds,
    `i0` the first query of the tile, `rows` the number of its queries. The IR does not change. Tiles whose sizes are
    dynamic are refused.

    The dual says the same of the query tiles for a tile of `keys` keys from `j0` on. It is the mask with i and j
    exchanged, so `[first]` is the tile's first key. Of a step that streams queries it is what the loop needs, and
    printed in any case.
  }];
  let options = [Option<"dual", "dual", "bool", "false", "print the intervals of query tiles for each tile of keys">];
}

#endif // FLASHC_FLASH_MASK_PASSES_TD
