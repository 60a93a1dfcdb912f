//===- Passes.td - the algorithm passes (L0 to L1, and within L1) -------------------------------------------------===//
#ifndef FLASHC_FLASH_PASSES_TD
#define FLASHC_FLASH_PASSES_TD

include "mlir/Pass/PassBase.td"

def ToTensors : Pass<"flash-to-tensors"> {
  let summary = "ops on memrefs become ops on tensors";
  let description = [{
    Rewrites a `flash.attention` or `flash.column_sums` on memrefs into one on tensors, between reads of its operands
    and writes of its results. The algorithm passes work on tensors only; so that they see one form, this pass comes
    first. An op on tensors is left alone.

    Before:
    ```mlir
    flash.attention ins(%q, %k, %v : memref<...>, memref<...>, memref<...>) outs(%o, %lse : memref<...>, memref<...>)
        {scale = 1.0 : f32}
    ```
    After:
    ```mlir
    %tq = bufferization.to_tensor %q restrict : memref<...> to tensor<...>            // and k, v
    %to, %tlse = flash.attention ins(%tq, %tk, %tv : ...) {scale = 1.0 : f32} -> tensor<...>, tensor<...>
    bufferization.materialize_in_destination %to in restrict writable %o : (tensor<...>, memref<...>) -> ()  // and lse
    ```

    `restrict` is what the op promises: `outs` overlap neither each other nor anything the op reads. An operand that
    is passed twice (self-attention with k = v) is read through one tensor.

    It never refuses: every verified op can be rewritten.
  }];
  let dependentDialects = ["bufferization::BufferizationDialect"];
}

def Fuse : Pass<"flash-fuse"> {
  let summary = "what computes a captured tensor moves into the score or the mask";
  let description = [{
    A score or a mask that reads a tensor which elementwise ops computed, `tensor.extract %t[...]`, gets their scalar
    code in place of the read, at its indices; the tensor is then never in memory. Repeats until what is read are
    arguments, or tensors that cannot move. What nobody reads any more is erased.

    These move: `linalg.generic` and the named ops of linalg whose loops are all parallel (`linalg.map`, `broadcast`,
    `transpose`, `fill`, `add`, ...); ops of `arith` and `math` on tensors; splats; `tensor.cast`, `tensor.splat`,
    `tensor.generate`, `tensor.extract_slice`; `tensor.expand_shape` and `tensor.collapse_shape` that add or drop
    dimensions of one element.

    Why here: first, since the code of a mask becomes loop bounds (`flash-bound-loops`) and that of a score depends on
    fewer indices than its tensor; and a kernel captures arguments only, so a tensor that is left is refused by
    `convert-flash-to-tile`. Standard attention (`flash-decompose` alone) keeps the tensors.

    Before:
    ```mlir
    %bias = linalg.generic {indexing_maps = [(i, j) -> (i, j)], iterator_types = ["parallel", "parallel"]}
        outs(%empty : tensor<?x?xf32>) {
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %d = arith.subi %j, %i : index ...                            // -> f32
      linalg.yield %f : f32
    }
    %o, %lse = flash.attention ins(%q, %k, %v : ...) {scale = 0.125 : f32}
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
          %t = arith.addf %s, %x : f32
          flash.yield %t : f32
        } -> ...
    ```
    After:
    ```mlir
    %o, %lse = flash.attention ins(%q, %k, %v : ...) {scale = 0.125 : f32}
        score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
          %d = arith.subi %j, %i : index ...                        // -> f32
          %t = arith.addf %s, %f : f32
          flash.yield %t : f32
        } -> ...
    ```

    Leaves a read alone, with a missed-optimisation remark "'<op>' stays in memory: ..." on it:
    - "it is used by more than scores and masks", so that it is computed in any case;
    - "its loops are not all parallel", "the indexing map of its result is not a permutation", "its body has side
      effects";
    - "its elements differ" (a dense constant), "it splits a dimension", "it joins dimensions";
    - "it is not elementwise": any other op.
  }];
  let dependentDialects = ["affine::AffineDialect", "arith::ArithDialect", "tensor::TensorDialect"];
  let statistics = [
    Statistic<"numFused", "num-fused", "reads that became code">];
}

def Decompose : Pass<"flash-decompose"> {
  let summary = "flash ops become linalg";
  let description = [{
    Rewrites every flash op that is left into `linalg.generic` with `arith` and `math` inside. On the untouched
    `flash.attention` the result **is** Algorithm 0, standard attention with S and P materialised in f32, and it is the
    reference that every other algorithm is compared with. After it no flash op remains, and upstream one-shot
    bufferization and the loops lowering take the program to LLVM.

    Before:
    ```mlir
    %o, %lse = flash.attention ins(%q, %k, %v : ...) {scale = 0.125 : f32} mask (...) { ... } -> ...
    ```
    After:
    ```mlir
    %qk  = linalg.generic ... // Q K^T, products in f32
    %s   = linalg.generic ... // scale, the score region, -inf where the mask region keeps nothing
    %m   = linalg.generic ... // rowmax(S)
    %p   = linalg.generic ... // exp(S - m), 0 in a row whose m is -inf
    %l   = linalg.generic ... // rowsum(P)
    %acc = linalg.generic ... // P, rounded to V's type, times V, in f32
    %o   = linalg.generic ... // acc / l, 0 in a row whose l is 0
    %lse = linalg.generic ... // m + log(l)
    ```
    `flash.online_attention` and `flash.finalize` become the same steps (AggregatedOpInterface), and so do
    `flash.column_sums` and `flash.accumulate_column_sums`, whose probabilities are exp(S - lse). Query heads that share
    a key head read it through an indexing map, `h floordiv (Hq / Hk)`.

    Searches of arrays that are declared sorted (`flash.count_le`, `flash.nth`) become loops of `scf` and reads, and
    `flash.assume_sorted` becomes its operand. So do tables of tiles (`flash.tile_classes`, with what `flash.tile_range`
    asks of them, and `flash.tile_runs`).

    An attention on memrefs is first rewritten as `flash-to-tensors` does. It never refuses.
  }];
  let dependentDialects = ["bufferization::BufferizationDialect"];
}

def OnlineSoftmax : Pass<"flash-online-softmax"> {
  let summary = "softmax over whole rows becomes a fold with a running maximum and sum";
  let description = [{
    Replaces `flash.attention` by `flash.online_attention`, which folds keys into a state (acc, m, l), and
    `flash.finalize`, which turns the state into o and lse (Milakov and Gimelshein 2018). Here one step folds all keys;
    that the fold may be cut anywhere is what `flash-tile` uses next.

    Before:
    ```mlir
    %o, %lse = flash.attention ins(%q, %k, %v : ...) {scale = 0.125 : f32} -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
    ```
    After:
    ```mlir
    %acc0 = linalg.fill ins(%zero) outs(tensor.empty 1x8x?x64xf32)      // 0
    %m0   = linalg.fill ins(%neg_inf) outs(tensor.empty 1x8x?xf32)      // -inf
    %l0   = linalg.fill ins(%zero) outs(tensor.empty 1x8x?xf32)         // 0
    %acc, %m, %l = flash.online_attention ins(%q, %k, %v : ...) outs(%acc0, %m0, %l0 : ...) at(%c0, %c0, %c0, %c0)
        {normalize = #flash.normalize<deferred>, scale = 0.125 : f32} -> ...
    %o, %lse = flash.finalize ins(%acc, %m, %l : ...) outs(tensor.empty, tensor.empty : ...)
        {normalize = #flash.normalize<deferred>} -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
    ```

    `flash.column_sums` becomes one `flash.accumulate_column_sums` over all queries, which folds them into sums that
    begin with 0, and with `sum_groups` a `linalg.generic` behind it adds up the heads of each group.

    Refuses an op on memrefs: "expected an op on tensors".
  }];
  let options = [
    Option<"normalize", "normalize", "::mlir::flash::Normalize", "::mlir::flash::Normalize::Deferred",
           "divide acc by the row sum at the end (deferred, FlashAttention-2) or after each step (each-step, "
           "FlashAttention, Algorithm 1, line 12)",
           [{::llvm::cl::values(clEnumValN(::mlir::flash::Normalize::Deferred, "deferred", "once, at the end"),
                                clEnumValN(::mlir::flash::Normalize::EachStep, "each-step", "after each step"))}]>];
}

def Tile : Pass<"flash-tile"> {
  let summary = "tile both sequences, keys outermost: FlashAttention, Algorithm 1";
  let description = [{
    Tiles every step (StepOpInterface) with tiles of `q-tile` queries by `kv-tile` keys of one head, in loops over
    batch, head, key tiles and, innermost, query tiles. The state (acc, m, l of `flash.online_attention`) stays in whole
    tensors, of which each step reads and writes the slice of its queries: line by line the FlashAttention paper's
    Algorithm 1.

    Before: `flash-online-softmax`'s one step over all keys. After (bounds static and divisible):
    ```mlir
    %s:3 = scf.for %b = 0 to B step 1 iter_args(%acc, %m, %l) {
      scf.for %h = 0 to Hq step 1 {
        scf.for %j = 0 to Nk step 64 {
          scf.for %i = 0 to Nq step 64 {
            %k_tile = tensor.extract_slice %k[%b, %h floordiv group, %j, 0] [1, 1, 64, D]    // and v
            %q_tile = tensor.extract_slice %q[%b, %h, %i, 0] [1, 1, 64, D]                   // and acc, m, l
            %t:3 = flash.online_attention ins(%q_tile, %k_tile, %v_tile) outs(...) at(%b, %h, %i, %j) ...
            tensor.insert_slice %t#0 into %acc[%b, %h, %i, 0] ...                            // and m, l
    ```

    Tiles have static shapes. Where a sequence is not known to be a multiple of its tile, the slice has the clamped size
    `affine.min(64, N - i)` and is padded (`tensor.pad`) to the tile with zeros (-inf for m); the result is cut back;
    `j < Nk` (`i < Nq`, where queries are streamed) is joined to the mask; reads of the regions (a bias) are clamped
    into their tensors, and divisors that are computed from positions, which may be 0 behind the end only, are replaced
    by 1 there.

    An op that already is one tile of these sizes inside a loop is left alone.

    Refuses a tile size below 1: "expected a positive tile size".
  }];
  let options = [
    Option<"qTile", "q-tile", "int64_t", "64", "queries per tile (Br)">,
    Option<"kvTile", "kv-tile", "int64_t", "64", "keys per tile (Bc)">,
    Option<"residentTile", "resident-tile", "int64_t", "0", "where q-tile or kv-tile is 0: rows of what stays">,
    Option<"streamedTile", "streamed-tile", "int64_t", "0", "where q-tile or kv-tile is 0: rows of what comes past">];
  let statistics = [
    Statistic<"numTiled", "num-tiled", "steps tiled">];
}

def SwapLoops : Pass<"flash-swap-loops"> {
  let summary = "queries outside, keys inside: FlashAttention-2";
  let description = [{
    Interchanges the loops of a tiled step so that the streamed loop is innermost, of attention the key loop. Its state
    (acc, m, l) becomes tiles that the loop carries, the division by the row sum moves behind it, and only o and lse are
    ever written.

    Why here: after `flash-tile` (Algorithm 1) every key tile reads and writes the state of every query tile in device
    memory. The state never leaves the chip after this pass; `flash-bound-loops` then finds one key loop per query tile,
    and `flash-parallelize` finds query loops whose iterations share nothing.

    Before (the output of `flash-tile`; slices of the last tile may be padded and cut):
    ```mlir
    %s:3 = scf.for %b ... iter_args(%acc, %m, %l) {
      scf.for %h ... {
        scf.for %j = 0 to Nk step 64 {
          scf.for %i = 0 to Nq step 64 {
            %at = tensor.extract_slice %acc[%b, %h, %i, 0] ...                             // and m, l
            %t:3 = flash.online_attention ins(%q_tile, %k_tile, %v_tile) outs(%at, %mt, %lt) ...
            tensor.insert_slice %t#0 into %acc[%b, %h, %i, 0] ...                          // and m, l
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2) outs(%o_init, %lse_init)
    ```
    After:
    ```mlir
    %o, %lse = scf.for %b ... iter_args(%o_init, %lse_init) {
      scf.for %h ... {
        scf.for %i = 0 to Nq step 64 {
          %acc0 = linalg.fill ... ; %m0 = linalg.fill ... ; %l0 = linalg.fill ...          // tiles
          %t:3 = scf.for %j = 0 to Nk step 64 iter_args(%acc = %acc0, %m = %m0, %l = %l0) {
            flash.online_attention ... outs(%acc, %m, %l) ... {normalize = deferred}
          }
          %ot, %lt = flash.finalize ins(%t#0, %t#1, %t#2) outs(tensor.empty, tensor.empty) {normalize = deferred}
          tensor.insert_slice %ot into %o[%b, %h, %i, 0] ...                               // and lse
    ```

    What is proved, from the IR alone, before anything changes:
    1. The state is read and written only through slices of these three tensors, each written where it was read.
    2. Every loop but one moves the slices: its iterations own disjoint slices, which together cover the tensors.
    3. The remaining loop, the key loop, carries nothing else; its bounds, and those of the loops inside it, do not
       depend on other loops' state or on its own position.
    4. The bodies have no side effects.
    5. After the nest the state goes to one `flash.finalize` and nowhere else. It is in the same block, divides by the
       row sum where `flash.online_attention` leaves that to it, and nothing in between writes what the nest may read:
       the new nest takes its place.
    6. acc, m and l move together, in dimensions b, h and i, and tiles have a static shape.

    Loops that were folded away (one head, one tile) may be missing. Pure ops that do not depend on the key tile move
    out of the key loop. `normalize` becomes deferred where the state starts as acc = 0, m = -inf, l = 0; otherwise it
    stays, and the first tiles are slices of the given state. An attention in this form already is only switched to
    deferred. An op outside loops that does not end in `flash.finalize` is left alone.

    The loops of `flash.accumulate_column_sums`, keys outside and queries inside, are in order already, and its state is
    the result. What is left to do, and proved in the same way but for 5., is that the sums become a tile that the loop
    over queries carries.

    Of `flash.accumulate_gradients <dq, dk, dv>` the tiles of dk and dv are carried already. They begin with zeros in
    place of a slice of the zeros in memory, where each iteration of the loops around has its own slice; dq, which all
    of them add to, stays. Where one tile is all queries, there is no loop, and the step's operands change.

    Refuses, with "cannot swap loops: ..." on the loop in the way, a note at the op that shows it, and the nest
    unchanged:
    - "the iterations do not own their slices of acc: ...", "expected acc to be written back where it was read",
      "expected acc to be read by a slice and written back by a slice", "acc is used by more than this
      flash.online_attention" (or m, or l; and so below);
    - "expected acc to be padded at its end only", "expected the padding of acc to be cut from its end only", "expected
      the cut of acc to be as large as its slice", "expected tiles of static shape";
    - "expected acc, m and l to be carried by the same loops", "expected acc, m and l to move with the same loops",
      "expected acc to pass only through the loop inside", "expected the loop to yield acc as the step inside leaves
      it", "expected the loop to carry acc, m and l only, got 4 values", "expected one loop that carries a state tile
      from step to step, got two";
    - "the loop's bounds depend on the loops around it", "the slice of the state depends on the kv loop";
    - "expected a loop body without side effects", "what the nest reads may be written before flash.finalize";
    - "expected acc to be used by one flash.finalize only", "expected flash.finalize in the same block", "expected
      flash.finalize to normalize as flash.online_attention does".
  }];
  let statistics = [
    Statistic<"numInterchanged", "num-interchanged", "key loops moved inside query loops">,
    Statistic<"numPromoted", "num-promoted", "attention states turned into loop-carried tiles">];
}

def Parallelize : Pass<"flash-parallelize"> {
  let summary = "the loops over batch, heads and query tiles become one parallel loop";
  let description = [{
    Replaces the perfectly nested loops around `flash.finalize`, or around the streamed loops of a step that needs none
    (`flash.accumulate_column_sums`, `flash.accumulate_gradients`), by one `scf.forall` over their common iteration
    space (FlashAttention-2, section 3.2: parallel over batch, heads and the sequence).

    Why here: after `flash-swap-loops` an iteration computes its tile of o and lse from start to end. What lowers
    `scf.forall` next (the kernel's grid, or threads on a CPU) may run the iterations in any order.

    Before:
    ```mlir
    %r:2 = scf.for %b = 0 to B step 1 iter_args(%o0 = %o_init, %lse0 = %lse_init) {
      scf.for %h = 0 to Hq step 1 {
        scf.for %i = 0 to Nq step 64 iter_args(%o, %lse) {
          ...
          %o1 = tensor.insert_slice %ot into %o[%b, %h, %i, 0] ...
          %lse1 = tensor.insert_slice %lt into %lse[%b, %h, %i] ...
          scf.yield %o1, %lse1
    ```
    After:
    ```mlir
    %r:2 = scf.forall (%b, %h, %i) = (0, 0, 0) to (B, Hq, Nq) step (1, 1, 64)
        shared_outs(%o = %o_init, %lse = %lse_init) {
      ...
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %ot into %o[%b, %h, %i, 0] ...
        tensor.parallel_insert_slice %lt into %lse[%b, %h, %i] ...
    ```

    A slice may also be added to, by steps whose state moves with what they stream past (dq in a nest by keys); it need
    not be the iteration's own then, and may be all of the tensor. The iteration adds to zeros instead:
    ```mlir
    %dq1 = tensor.extract_slice %dq[%b, %h, 0, 0] ...        %zeros = linalg.fill ...
    %dq2 = <steps that add to %dq1>                          %dq2 = <the same steps, that add to %zeros>
    tensor.insert_slice %dq2 into %dq[%b, %h, 0, 0] ...      flash.parallel_add_slice %dq2 into %dq[%b, %h, 0, 0] ...
    ```

    Ops between the loops move inside. The nest ends where a loop carries more than the slices of o and lse: a loop
    around it is the program's own and stays. A `flash.finalize` outside such a nest (Algorithm 1 before
    `flash-swap-loops`, or one tile) or in a parallel loop already is left alone.

    Refuses, with "cannot parallelize: ..." on the loop in the way, a note at the op that shows it, and the nest
    unchanged:
    - "the iterations do not own the slices they write: ...", "all iterations of the loop write the same slice";
    - "expected every iteration to write one slice of each tensor that the loop carries", "an iteration reads what
      others have written";
    - "the loop's bounds change inside the nest";
    - "expected a loop body without side effects".
  }];
  let statistics = [
    Statistic<"numParallelized", "num-parallelized", "scf.for loops turned into dimensions of an scf.forall">];
}

def SplitKV : Pass<"flash-split-kv"> {
  let summary = "fold parts of the keys side by side, then merge them: Flash-Decoding";
  let description = [{
    Reassociates the fold over keys of every `flash.online_attention` (Dao et al. 2023): with few queries, as in
    decoding, parts of the keys are the parallelism.

    **With `splits`** an attention (the step on whole sequences and its `flash.finalize`, of flash-online-softmax)
    becomes the tiled loops of a decoding kernel. The rows of a tile are `rows` at most: the query heads of a group
    times as many query tokens as there is room for. The keys that the mask needs of a tile of queries (all, if its
    bounds are not known, or differ between the heads of a tile) are cut into `splits` parts of equally many tiles of
    `kv-tile` keys.

    Before: one step over everything. After, of 8 query heads in groups of 4:
    ```mlir
    %parts:2 = scf.forall (%b, %h, %i, %s) = (0, 0, 0, 0) to (B, 8, Nq, 2) step (1, 4, 4, 1) shared_outs(...) {
      %begin, %end = ...                          // of the keys that queries %i to %i + 3 need
      %n     = (%end - %begin) ceildiv 16         // tiles
      %lower = %begin + 16 * (%n * %s floordiv 2)
      %upper = %begin + 16 * (%n * (%s + 1) floordiv 2)
      %state:3 = scf.for %j = %lower to %upper step 16 iter_args(...) {
        %tile:3 = flash.online_attention ins(%q[%b, %h, %i], ...) ... at(%b, %h, %i, %j)   // 1x4x4xD
      }
      %o, %lse = flash.finalize ...               // of the part, in f32
      tensor.parallel_insert_slice ...            // into [%s, %b, %h, %i, ...] of [splits, B, Hq, Nq, ...]
    }
    %o, %lse = flash.merge_states ins(%parts#0, %parts#1) ...
    ```
    With `splits=1` the loop's results are those of the attention, and nothing is merged. Sinks join when parts are
    merged, once.

    **With `chunk`** a part is as many keys of each sequence, from 0 on, and there are as many parts as the longest one
    has: what is added to what depends on a row's own keys alone, not on the other sequences of a batch.

    **Without either** the parts are chunks of `kv-chunk` keys of whole sequences, by the upstream partial-reduction
    interface; run it before `flash-tile`, which then tiles the chunks:
    ```mlir
    %p:3 = scf.forall (%j) = (0) to (Nk) step (1024) shared_outs(%accs, %ms, %ls) {  // [chunks, B, Hq, Nq, ...]
      %chunk = %j floordiv 1024
      %s:3 = flash.online_attention ins(%q, %k[%j ...], %v[%j ...]) outs(%accs[%chunk], ...) at(0, 0, 0, %j) ...
      tensor.parallel_insert_slice %s#0 into %accs[%chunk, ...]                       // and m, l
    }
    %m   = linalg.generic ... // max over chunks
    %w   = linalg.generic ... // exp(ms - m)
    %l   = linalg.generic ... // sum over chunks of w * ls
    %acc = linalg.generic ... // sum over chunks of w * accs (each_step: w * ls * accs, divided by l)
    ```
    The chunk that sticks out is padded and masked as `flash-tile` does. An op inside a loop is left alone.

    Refuses a chunk or a number of parts below 1, and an attention with `splits` that does not end in a flash.finalize
    with normalize = deferred.
  }];
  let options = [Option<"kvChunk", "kv-chunk", "int64_t", "1024", "keys per chunk of whole sequences">,
                 Option<"splits", "splits", "int64_t", "0", "parts of each tile's keys; 0: chunks">,
                 Option<"chunk", "chunk", "int64_t", "0", "keys of a part, of tiled loops; 0: equal parts">,
                 Option<"rows", "rows", "int64_t", "16", "rows of a tile at most: query heads times tokens">,
                 Option<"kvTile", "kv-tile", "int64_t", "16", "keys of a tile">];
}

def SplitKeyLoops : Pass<"flash-split-key-loops"> {
  let summary = "parts of a query tile's keys side by side, then merged: Flash-Decoding of FlashAttention-2";
  let description = [{
    Where there are fewer tiles of queries than multiprocessors, as of one short prompt against a long cache, the keys
    are more parallelism (Dao et al. 2023). Unlike `flash-split-kv`, which makes tiles of few rows, this cuts the loops
    that `flash-bound-loops` and `flash-parallelize` have left, so that tiles keep their size and each part the bounds
    of the mask.

    Before:
    ```mlir
    %o = scf.forall (%b, %h, %i) = (0, 0, 0) to (B, Hq, Nq) step (1, 1, 128) shared_outs(%out = %init) {
      %s:3 = scf.for %j = %begin to %full step 64 iter_args(...) { flash.online_attention ... }          // no mask
      %t:3 = scf.for %j = %full to %end step 64 iter_args(%s#0, %s#1, %s#2) { ... mask ... }
      %ot, %lt = flash.finalize ins(%t#0, %t#1, %t#2) sinks(%sink) ...
      tensor.parallel_insert_slice %ot into %out[%b, %h, %i, 0] ...
    ```
    After, with `splits=4`:
    ```mlir
    %parts:2 = scf.forall (%b, %h, %i, %p) = (0, 0, 0, 0) to (B, Hq, Nq, 4) step (1, 1, 128, 1) shared_outs(...) {
      %n    = (%end - %begin) ceildiv 64                     // tiles
      %from = %begin + 64 * (%n * %p floordiv 4)
      %to   = %begin + 64 * (%n * (%p + 1) floordiv 4)
      %cut  = min(max(%full, %from), %to)
      %s:3 = scf.for %j = %from to %cut step 64 ...
      %t:3 = scf.for %j = %cut to %to step 64 ...
      %ot, %lt = flash.finalize ins(%t#0, %t#1, %t#2) ...    // of the part, in f32
      tensor.parallel_insert_slice %ot into ...[%p, %b, %h, %i, 0] ...                    // and %lt
    }
    %o, %lse = flash.merge_states ins(%parts#0, %parts#1) sinks(%sinks) ...
    ```
    Loops with gaps between them have parts with the tiles that begin in the part's keys: there the parts have
    unequally many. Where the keys are fewer than the parts, some are empty, and give nothing.

    Assumes that tiles begin at the first key, and all loops that follow on each other at a tile of that grid, as
    `flash-bound-loops` has it. Leaves what is no such parallel loop alone.

    Refuses, with "cannot split keys: ...": a number of parts below 1; no loop over keys; bounds that are runs of a
    table (`flash.tile_runs`); results that are used more than once in the parallel loop.
  }];
  let options = [Option<"splits", "splits", "int64_t", "2", "parts of each tile's keys">];
}

def PageKV : Pass<"flash-page-kv"> {
  let summary = "read tiles of keys and values where they lie in a cache: PagedAttention";
  let description = [{
    Before, a slice of all keys and values as they would be if they were in one place:
    ```mlir
    %k = flash.cache_view %pool lengths(%lengths : ...) pages(%table : ...) : ... -> tensor<?x8x?x128xbf16>
    ... %s = tensor.extract_slice %k[%b, %h, %j, 0] [1, 1, %n, 128] [1, 1, 1, 1] ...
        %t = tensor.pad %s ... : tensor<1x1x?x128xbf16> to tensor<1x1x64x128xbf16>
    ```
    After, a tile through the table of pages, with zeros behind the sequence's end:
    ```mlir
    ... %t = flash.cache_tile %pool[%b, %h, %j] lengths(%lengths : ...) pages(%table : ...) : ...
                -> tensor<1x1x64x128xbf16>
    ```
    Extents of the view become those of its arrays. What reads the view in any other way keeps it, and
    `flash-decompose` makes an array of it there. Run it behind the passes that tile.
  }];
}

include "flashc/Dialect/Flash/Transforms/GradientPasses.td"
include "flashc/Dialect/Flash/Transforms/MaskPasses.td"

#endif // FLASHC_FLASH_PASSES_TD
