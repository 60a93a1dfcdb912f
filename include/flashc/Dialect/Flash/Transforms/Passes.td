//===- Passes.td - the algorithm passes (L0 to L1, and within L1) -------------------------------------------------===//
#ifndef FLASHC_FLASH_PASSES_TD
#define FLASHC_FLASH_PASSES_TD

include "mlir/Pass/PassBase.td"

def ToTensors : Pass<"flash-to-tensors"> {
  let summary = "turn ops on memrefs into ops on tensors";
  let description = [{
    Replaces an op of L0 on memrefs, such as `flash.attention`, by the same op on tensors. Ops before the new op read
    its operands from the memrefs, and ops after it write its results to the memrefs. The pass runs first, since the
    algorithm passes work on tensors only. An op on tensors is left alone.

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

    `restrict` expresses a promise of the op: the memrefs in `outs` overlap neither each other nor memory that the op
    reads. An operand that is passed twice (self-attention with k = v) is read through one tensor.

    The pass never refuses: every verified op can be rewritten.
  }];
  let dependentDialects = ["bufferization::BufferizationDialect"];
}

def Fuse : Pass<"flash-fuse"> {
  let summary = "move the code that computes a captured tensor into the score or the mask";
  let description = [{
    If elementwise ops compute a tensor `%t`, and a score or a mask reads an element by `tensor.extract %t[...]`, the
    pass replaces the read by the scalar code of these ops at the indices of the read. The tensor is then never in
    memory. The pass repeats this until scores and masks read only arguments and tensors that cannot move. It erases
    unused ops.

    These ops move: `linalg.generic` and the named ops of linalg whose loops are all parallel (`linalg.map`,
    `broadcast`, `transpose`, `fill`, `add`, ...); ops of `arith` and `math` on tensors; splats; `tensor.cast`,
    `tensor.splat`, `tensor.generate`, `tensor.extract_slice`; `tensor.expand_shape` and `tensor.collapse_shape` that
    add or drop dimensions of one element.

    Why here: the pass runs before all passes that read the code of masks and scores. The code of a mask becomes loop
    bounds (`flash-bound-loops`). The code that replaces a read in a score may depend on fewer of the positions b, h, i
    and j than the indices of the read do. A kernel captures arguments only, so `convert-flash-to-tile` refuses a tensor
    that could not move. Standard attention (`flash-decompose` alone) keeps the tensors.

    Before:
    ```mlir
    %bias = linalg.generic {indexing_maps = [(i, j) -> (i, j)], iterator_types = ["parallel", "parallel"]}
        outs(%empty : tensor<?x?xf32>) {
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %d = arith.subi %j, %i : index ...                            // and its cast to f32, %f
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
          %d = arith.subi %j, %i : index ...                        // and its cast to f32, %f
          %t = arith.addf %s, %f : f32
          flash.yield %t : f32
        } -> ...
    ```

    The pass leaves a read alone, with a missed-optimisation remark "'<op>' stays in memory: ..." on it:
    - "it is used by more than scores and masks", so that the tensor is computed in any case;
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
  let summary = "decompose flash ops into linalg";
  let description = [{
    Rewrites every flash op into `linalg.generic` with `arith` and `math` inside. The result for an untouched
    `flash.attention` **is** Algorithm 0, standard attention with S and P materialised in f32, which is the reference
    for every other algorithm. After the pass no flash op remains, and upstream one-shot bufferization and the lowering
    to loops take the program to LLVM.

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
    `flash.online_attention` and `flash.finalize` become the same steps (AggregatedOpInterface). `flash.column_sums` and
    `flash.accumulate_column_sums` do, too; their probabilities are exp(S - lse). Query heads that share a key head read
    it through an indexing map, `h floordiv (Hq / Hk)`.

    Searches of arrays that are declared sorted (`flash.count_le`, `flash.nth`) and tables of tiles
    (`flash.tile_classes` with its `flash.tile_range`, `flash.tile_runs`) become loops of `scf` and reads, and
    `flash.assume_sorted` becomes its operand.

    An attention on memrefs is first rewritten as by `flash-to-tensors`. The pass never refuses.
  }];
  let dependentDialects = ["bufferization::BufferizationDialect"];
}

def OnlineSoftmax : Pass<"flash-online-softmax"> {
  let summary = "turn softmax over whole rows into a fold with a running maximum and sum";
  let description = [{
    Replaces `flash.attention` by `flash.online_attention`, which folds keys into a state (acc, m, l), and
    `flash.finalize`, which turns the state into o and lse (Milakov and Gimelshein 2018). After this pass one step folds
    all keys. The fold may be cut between any two keys, which `flash-tile` uses next.

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

    `flash.column_sums` becomes one `flash.accumulate_column_sums` over all queries. It folds the queries into sums that
    begin with 0. With `sum_groups`, a `linalg.generic` after it adds up the heads of each group.

    The pass refuses an op on memrefs: "expected an op on tensors".
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
    tensors, and each step reads and writes the slice of its queries. The result is Algorithm 1 of the FlashAttention
    paper, line by line.

    Before: one step over all keys, as `flash-online-softmax` makes it. After, if the lengths of both sequences are
    static multiples of the tiles:
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

    Tiles have static shapes. If a sequence is not known to be a multiple of its tile:

    - the slice has the clamped size `affine.min(64, N - i)` and is padded (`tensor.pad`) to the tile with zeros (-inf
      for m), and the result is cut back;
    - the mask also requires `j < Nk` (`i < Nq` where queries are streamed);
    - indices of reads in the regions (a bias) are clamped into their tensors;
    - a divisor that is computed from a position, and that may be 0 only at positions after the end, is replaced by 1 at
      these positions.

    With `head-tile` above 1, a tile of an attention has the queries of several query heads of a group, which read one
    key head (PackGQA of FlashAttention-3, Shah et al. 2024): `[1, heads, q-tile, D]`. `head-tile` divides the group,
    and the group divides the number of heads, so no tile of heads is cut. With `head-tile=4 q-tile=16`:
    ```mlir
    scf.for %h = 0 to Hq step 4 { ...
      %q_tile = tensor.extract_slice %q[%b, %h, %i, 0] [1, 4, 16, D]
      %k_tile = tensor.extract_slice %k[%b, %h floordiv group, %j, 0] [1, 1, 64, D]
    ```

    An op that already is one tile of these sizes inside a loop is left alone.

    The pass refuses a tile size below 1 ("expected a positive tile size"), and a `head-tile` that does not divide the
    group of an attention, or that is above 1 for another op.
  }];
  let options = [
    Option<"qTile", "q-tile", "int64_t", "64", "queries per tile (Br)">,
    Option<"kvTile", "kv-tile", "int64_t", "64", "keys per tile (Bc)">,
    Option<"residentTile", "resident-tile", "int64_t", "0",
           "rows of the resident dimension's tile, where q-tile or kv-tile is 0">,
    Option<"streamedTile", "streamed-tile", "int64_t", "0",
           "rows of the streamed dimension's tile, where q-tile or kv-tile is 0">,
    Option<"gradientTile", "gradient-tile", "int64_t", "0",
           "rows of the resident dimension's tile of steps that compute dk and dv, but not dq; 0: as for other steps">,
    Option<"headTile", "head-tile", "int64_t", "1", "query heads of a group per tile (PackGQA)">];
  let statistics = [
    Statistic<"numTiled", "num-tiled", "steps tiled">];
}

def SwapLoops : Pass<"flash-swap-loops"> {
  let summary = "interchange loops, queries outside and keys inside: FlashAttention-2";
  let description = [{
    Interchanges the loops of a tiled step so that the streamed loop (the key loop of attention) is innermost. The state
    (acc, m, l) becomes tiles that this loop carries, the division by the row sum moves after the loop, and only o and
    lse are written to memory.

    Why here: after `flash-tile` (Algorithm 1) every key tile reads and writes the state of every query tile in device
    memory. After this pass the state never leaves the chip; `flash-bound-loops` finds one key loop per query tile, and
    `flash-parallelize` finds query loops whose iterations are independent.

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

    The pass proves from the IR alone, before it changes anything:
    1. The state is read and written only through slices of acc, m and l, and each slice is written where it was read.
    2. Every loop but one moves the slices: its iterations own disjoint slices, which together cover the tensors.
    3. The remaining loop, the key loop, carries nothing but the state. No loop has bounds that depend on the state, and
       no loop inside of the key loop has bounds that depend on the key loop's position.
    4. The bodies have no side effects.
    5. After the nest the only use of the state is one `flash.finalize`, which is in the same block and has the same
       `normalize` as `flash.online_attention`. The new nest takes the place of this `flash.finalize`, so no op between
       the old nest and the `flash.finalize` may write what the nest reads.
    6. acc, m and l move together, in dimensions b, h and i, and tiles have a static shape.

    Loops that were folded away (one head, one tile) may be missing. Pure ops that do not depend on the key tile move
    out of the key loop. `normalize` becomes deferred if the state starts as acc = 0, m = -inf, l = 0; otherwise it
    stays, and the first tiles are slices of the given state. If an attention already has this form, only its
    `normalize` becomes deferred. An op outside loops whose state does not go to a `flash.finalize` is left alone.

    The loops of `flash.accumulate_column_sums`, keys outside and queries inside, are already in order, and the state of
    the op is its result. Its sums become a tile that the loop over queries carries. The proof is the same, without
    point 5.

    In the loops of `flash.accumulate_gradients <dq, dk, dv>` the tiles of dk and dv are already carried. Before the
    pass these tiles begin with slices of tensors of zeros in memory. After the pass they begin with tiles of zeros, if
    each iteration of the loops around has its own slice. dq stays in memory, since all iterations add to it. If one
    tile has all queries, no loop carries the tiles of dk and dv; the pass then changes the operands of the step.

    If the pass refuses a nest, it leaves the nest unchanged. It emits "cannot swap loops: ..." on the loop that
    prevents the rewriting, with a note at the op that shows the reason:
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
  let summary = "turn the loops over batch, heads and query tiles into one parallel loop";
  let description = [{
    Replaces the perfectly nested loops around `flash.finalize` by one `scf.forall` over their common iteration space
    (FlashAttention-2, section 3.2: parallel over batch, heads and the sequence). If a step needs no `flash.finalize`
    (`flash.accumulate_column_sums`, `flash.accumulate_gradients`), these are the loops around its streamed loops.

    Why here: after `flash-swap-loops` an iteration computes its tile of o and lse from start to end. The lowering of
    `scf.forall` (to the kernel's grid, or to threads on a CPU) may run the iterations in any order.

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

    In a nest whose outer loop is over keys, every iteration adds to dq: the state moves with the streamed dimension.
    The slice to which an iteration adds need not be its own, and may be the whole tensor. Each iteration then adds to
    zeros in place of the slice, and `flash.parallel_add_slice` adds these sums to the slice:
    ```mlir
    %dq1 = tensor.extract_slice %dq[%b, %h, 0, 0] ...        %zeros = linalg.fill ...
    %dq2 = <steps that add to %dq1>                          %dq2 = <the same steps, which add to %zeros>
    tensor.insert_slice %dq2 into %dq[%b, %h, 0, 0] ...      flash.parallel_add_slice %dq2 into %dq[%b, %h, 0, 0] ...
    ```

    Ops between the loops move inside. A loop that carries more than the slices of o and lse is not part of the nest: it
    belongs to the program and stays. A `flash.finalize` outside such a nest (Algorithm 1 before `flash-swap-loops`, or
    one tile), or in a parallel loop, is left alone.

    If the pass refuses a nest, it leaves the nest unchanged. It emits "cannot parallelize: ..." on the loop that
    prevents the rewriting, with a note at the op that shows the reason:
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
  let summary = "fold parts of the keys in parallel, then merge them: Flash-Decoding";
  let description = [{
    Reassociates the fold over keys of every `flash.online_attention` (Dao et al. 2023), so that parts of the keys are
    folded in parallel. This gives parallelism where queries are few, as in decoding.

    **With `splits`** an attention (the step on whole sequences and its `flash.finalize`, as `flash-online-softmax`
    makes them) becomes the tiled loops of a decoding kernel. A tile has at most `rows` rows: the query heads of a group
    times as many query tokens as fit. The mask tells which keys a tile of queries needs (all keys, if the mask's bounds
    are not known or differ between the heads of a tile). These keys are cut into `splits` parts of whole tiles of
    `kv-tile` keys. The numbers of tiles of two parts differ by at most one.

    Before: one step over all queries and keys. After, if there are 8 query heads in groups of 4:
    ```mlir
    %parts:2 = scf.forall (%b, %h, %i, %s) = (0, 0, 0, 0) to (B, 8, Nq, 2) step (1, 4, 4, 1) shared_outs(...) {
      %begin, %end = ...                          // bounds of the keys that queries %i to %i + 3 need
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
    With `splits=1` the loop's results are those of the attention, and nothing is merged. Sinks are added once, when
    parts are merged.

    **With `chunk`** each part has `chunk` keys of each sequence, counted from key 0, and there are as many parts as the
    longest sequence needs. So the order of additions depends on a row's own keys alone, and not on the other sequences
    of a batch.

    **Without either** the pass cuts whole sequences into parts, which are chunks of `kv-chunk` keys, by the upstream
    interface for partial reductions. Run the pass before `flash-tile`, which then tiles the chunks:
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
    A chunk that exceeds the sequence is padded and masked as by `flash-tile`. An op inside a loop is left alone.

    The pass refuses a chunk or a number of parts below 1, and with `splits` an attention whose state does not go to a
    `flash.finalize` with normalize = deferred.
  }];
  let options = [Option<"kvChunk", "kv-chunk", "int64_t", "1024", "keys per chunk of whole sequences">,
                 Option<"splits", "splits", "int64_t", "0", "parts of each tile's keys, or 0 for chunks">,
                 Option<"chunk", "chunk", "int64_t", "0", "keys of a part in tiled loops, or 0 for equal parts">,
                 Option<"rows", "rows", "int64_t", "16", "the most rows of a tile: query heads times tokens">,
                 Option<"kvTile", "kv-tile", "int64_t", "16", "keys of a tile">];
}

def SplitKeyLoops : Pass<"flash-split-key-loops"> {
  let summary = "fold parts of a query tile's keys in parallel, then merge them: Flash-Decoding of FlashAttention-2";
  let description = [{
    Cuts the key loops of each query tile into parts, which run in parallel (Dao et al. 2023). This gives parallelism
    where there are fewer tiles of queries than multiprocessors, such as for one short prompt with a long cache. Unlike
    `flash-split-kv`, which makes tiles of few rows, the pass cuts the loops that `flash-bound-loops` and
    `flash-parallelize` leave, so that tiles keep their size and each part keeps the bounds of the mask.

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
    If there are gaps between the loops, as between sink tokens and a window, the tiles of all loops are numbered in
    order, and a part has tiles by their numbers. So gaps count for nothing, and the numbers of tiles of two parts
    differ by at most one. If there are fewer tiles of keys than parts, some parts are empty and add nothing.

    With `by-work` the launch decides how many key tiles a part has. Query tiles with many keys then get more parts than
    tiles with few keys, and a tile may have one part:
    ```mlir
      %size = flash.part_size of %n most 4
      %from = %begin + 64 * min(%size * %p, %n)
      %to   = %begin + 64 * min(%size * (%p + 1), %n)
    ```

    The pass assumes loops as `flash-bound-loops` makes them: tiles begin at the first key, and each further loop begins
    at a tile of the same grid. A parallel loop without a `flash.finalize` is left alone.

    The pass refuses, with "cannot split keys: ...": a number of parts below 1; a `flash.finalize` with normalize =
    each_step; a parallel loop without a loop over keys, or with one that carries more than the state; bounds that are
    not known before the first loop over keys; bounds that are runs of a table (`flash.tile_runs`); results that are
    used more than once in the parallel loop, and an o that is not used.
  }];
  let options = [Option<"splits", "splits", "int64_t", "2", "parts of each tile's keys">,
                 Option<"byWork", "by-work", "bool", "false", "the launch decides how long parts are">];
}

def PageKV : Pass<"flash-page-kv"> {
  let summary = "read tiles of keys and values directly from a cache: PagedAttention";
  let description = [{
    Replaces each slice of a `flash.cache_view`, with its padding, by a `flash.cache_tile`, which reads the tile from
    the cache.

    Before, a slice of the view, which has all keys and values of a sequence in one tensor:
    ```mlir
    %k = flash.cache_view %pool lengths(%lengths : ...) pages(%table : ...) : ... -> tensor<?x8x?x128xbf16>
    ... %s = tensor.extract_slice %k[%b, %h, %j, 0] [1, 1, %n, 128] [1, 1, 1, 1] ...
        %t = tensor.pad %s ... : tensor<1x1x?x128xbf16> to tensor<1x1x64x128xbf16>
    ```
    After, a tile of the cache, which is found by the table of pages and has zeros after the sequence's end:
    ```mlir
    ... %t = flash.cache_tile %pool[%b, %h, %j] lengths(%lengths : ...) pages(%table : ...) : ...
                -> tensor<1x1x64x128xbf16>
    ```
    Reads of the view's extents become reads of extents of the cache's arrays. Other ops that read the view keep it, and
    `flash-decompose` turns it into an array for them. Run the pass after the passes that tile.
  }];
}

include "flashc/Dialect/Flash/Transforms/GradientPasses.td"
include "flashc/Dialect/Flash/Transforms/MaskPasses.td"

#endif // FLASHC_FLASH_PASSES_TD
