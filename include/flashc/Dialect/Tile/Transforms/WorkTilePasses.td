//===- WorkTilePasses.td - the passes that loop over work tiles and overlap them ----------------------------------===//
//
// A part of Passes.td, which includes it.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_TILE_WORK_TILE_PASSES_TD
#define FLASHC_TILE_WORK_TILE_PASSES_TD

def Persist : Pass<"tile-persist"> {
  let summary = "loop over work tiles in each CTA (persistent kernels)";
  let description = [{
    Puts a loop over work tiles around the body of a `tile.program` that has a grid of its own, whose body computes one
    work tile of this grid. CTA c of n works on the work tiles c, c + n, c + 2n, ...; x runs fastest, so that CTAs that
    run at the same time read the same keys. The launch has as many CTAs as run at once. Each CTA sets up its barriers
    and roles once, and its producer loads for the next work tile while the consumers still finish and store this one.

    In a `paired` program work tiles with larger x take less time. Work tile x of one head and work tile nx - 1 - x of
    the next head are a pair, so that all pairs take equally long, and a CTA works on every n-th pair. At the end some
    CTAs would have one pair more than others. So the work tiles of the last heads, one and a half rounds of them, are
    assigned one by one, the longest first. First each CTA that has a pair less gets one of them. Then all CTAs
    share the others in rounds: the first round goes from the last CTA to the first, the next one from the first to the
    last, and so on.

    In a program with a `list` (`tile-order`) CTAs fetch work tiles from the list by the dynamic tile scheduler
    (`tile.draw`). Heads are processed in groups, with the fewest heads that give every CTA three work tiles, so that
    CTAs that run at the same time read the keys of few heads. Each group goes through the list once, the longest work
    tile first. CTA c of n begins with number c of this sequence. When it begins to work on the latest number that it
    has fetched, it fetches the next free number. So the CTAs end together even where the times that the list estimates
    are wrong. The loop carries the work tile and its precomputed numbers, including the warpgroup's own numbers, whose
    place in an entry depends on `%w`.

    In a `single` program each CTA of the launch has one work tile, and there is no loop. CTAs start in the order of
    their numbers, each when another one has ended, so that only the end of the launch is uneven. The heads follow one
    another as in the grid, since neighbours read the same tiles. But the work tiles of the last heads, the fewest that
    give every multiprocessor three work tiles, are ordered together, the longest first. The list gives this order; if
    the program is `paired`, the order is x = 0 of all these heads, then x = 1, and so on. After its entries the list
    has the numbers of all items once more, in the order of the items (`tile-order`); the CTAs of the first heads read
    their numbers there.

    In a `grouped` program work tiles take about as long as their neighbours. Heads are processed in groups, with the
    fewest heads that give every CTA two work tiles. The groups go through their work tiles forwards and backwards in
    turn, and CTA c works on number c, 2n - 1 - c, 2n + c, ... of this sequence.

    The coordinates of a work tile are quotients. A division is slow, and ptxas assumes that its result differs between
    threads; so the multiplier and the shift that replace it are computed before the loop and pass through
    `tile.uniform`. With a `list` the divisions stay, because only one thread, with few registers, divides.

    Loads into private rings (Q) of one slot move down to the first op that reads their tile. So they come after the
    first load of K, whose slot is empty earlier. With two slots the next Q can arrive while the current Q is in use,
    and the load of Q stays first.

    Why here: after `tile-pipeline`, which looks for the loop over keys, and before `tile-specialize`, whose counters of
    loads then continue from work tile to work tile. A program without a grid is left alone. A program whose work tiles
    are `sorted` is an error, since `tile-order` has to make its list first.

    Before:
    ```mlir
    tile.program 2 grid(%nx, %ny, %nz) {
    ^bb0(%w: index):
      %x = gpu.block_id x
      ...
    }
    ```
    After:
    ```mlir
    tile.program 2 {
    ^bb0(%w: index):
      %c = gpu.block_id x
      %n = gpu.grid_dim x
      %tiles = %nx * %ny * %nz
      %mult = tile.uniform ...                               // ceil(2^%shift / %nx), to divide by %nx
      scf.for %item = %c to %tiles step %n {
        %rest = %item * %mult >> %shift
        %x = %item - %rest * %nx
        ...
      }
    }
    ```
    A `single` one:
    ```mlir
    tile.program 2 {
    ^bb0(%w: index):
      %number = ...                                          // this CTA's number in the launch, from its x, y and z
      %head, %place = %number / %nx                          // in the last heads: by their common order instead
      %x, %y, %z = tile.uniform ...
      ...
    }
    ```
    And with a list:
    ```mlir
      scf.for %k = %c0 to %most step %c1 iter_args(%x = %x0, %y = %y0, %z = %z0, %number = %number0) {
        %next:4 = tile.draw %list[%counter] from %n below %tiles {
        ^bb0(%i: index):
          %place, %head = ... %i ...
          %x1 = memref.load %list[2 * %place]                    // the item; its number follows it in the list
          ...
          tile.drawn %x1, %y1, %z1, %number1
        }
        ...
        scf.yield %next#0, %next#1, %next#2, %next#3
      }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numPersistent", "num-persistent", "programs that loop over work tiles">];
}

def OverlapEpilogue : Pass<"tile-overlap-epilogue"> {
  let summary = "run the next work tile's first product while this work tile is stored";
  let description = [{
    Rotates the consumers' loop over work tiles. In a persistent CTA the tensor cores idle while a consumer normalises
    and stores its output, and then until the first scores of the next work tile are computed. After this pass the early
    part of the next work tile follows the last product (PV) of the current work tile. The early part has the waits for
    Q and K, the first product (S) and the scalars. The wait for PV leaves S in flight, and the current work tile is
    stored meanwhile. With ping-pong PV and S are one turn.

    ```
    without   PV wait | normalise, store | wait for Q, K | S | scalars | S wait | softmax ...
    with      PV | wait for Q, K | S | scalars | PV wait | normalise, store | S wait | softmax ...
    ```

    After the last work tile there is no next one: a CTA then loads and multiplies the first tiles of its last work tile
    once more, without using the result. A branch around a product in flight would cost more, in every iteration.

    With `epilogue = softmax`, the early part extends up to the loop over keys: the softmax of the next work tile's
    first tile of keys runs before the current work tile is stored, while the current work tile's last product is in
    flight. The end of a work tile is then a step like any other, with S of the next work tile and PV of the current
    one. In place of scores the loop carries P, the maximum and the sum, and also the values of the next work tile that
    its softmax needed (its bounds and its row), so that these values are not computed twice. With the dynamic tile
    scheduler they are computed a second time, from the broadcast.

    ```
    softmax   wait for Q, K | S | PV | S wait | softmax | PV wait | pack P | normalise, store | the loop over keys ...
    ```

    K's slot is released after `wait_after` exponentials of the early softmax, as in the loop over keys
    (`tile-place-waits`), or after 12 if `wait_after` is 0; otherwise ptxas would move the wait for PV before all
    of them.

    S is issued before PV, since the products end in the order in which they begin. P is packed after the wait for PV,
    since PV reads the registers of the P before it. So PV also waits for the next Q and K; with a second slot of Q they
    have arrived by then.

    Why here: after `tile-specialize`, since waits move across the end of a work tile, which is possible only if loads
    have numbers; after `tile-split-loops`, which does not recognise bounds that a loop carries. Only a kernel whose
    `tile.schedule` says `epilogue = product` or `softmax` is changed. A ring for Q with one slot is legal, but the next
    Q then arrives late.

    Before (consumer):
    ```mlir
    scf.for %p = %lo to %hi step %st iter_args(%gq = %c0, %gk = %c0, %gv = %c0) {
      %k = tile.wait %kring[%gk]                             // early part
      %q = tile.wait %qring[%gq]
      %tS = tile.mma_async %q, %k transpose_b
      %S = tile.mma_wait %tS
      tile.release %k
      %r:4 = scf.for ...                                     // the loop over keys
      tile.release %q
      %v = tile.wait %vring[%r#3]
      %tO = tile.mma_async %r#0, %v into %r#1
      %O = tile.mma_wait %tO
      tile.release %v
      tile.store %O ...
      scf.yield %gq + 1, %r#2, %r#3 + 1
    }
    ```
    After:
    ```mlir
    %k0 = tile.wait %kring[%c0]                              // the first work tile's early part
    ...
    %n = scf.for %p = %lo to %hi step %st iter_args(%q = %q0, %S = %S0, ...) {
      %r:4 = scf.for ...
      tile.release %q
      %v = tile.wait %vring[%r#3]
      %tO = tile.mma_async %r#0, %v into %r#1
      %next = %p + %st < %hi ? %p + %st : %p                 // the next work tile's early part
      %k = tile.wait %kring[%r#2]
      %q1 = tile.wait %qring[%gq + 1]
      %tS = tile.mma_async %q1, %k transpose_b
      %O = tile.mma_wait %tO {pending = 1}
      tile.release %v
      tile.store %O ...
      %S1 = tile.mma_wait %tS
      tile.release %k
      scf.yield %q1, %S1, ...
    }
    tile.release %n#0
    ```
    The producer's loop is rotated in the same way: the next work tile's K and Q are loaded before this work tile's last
    V, whose slot is empty later.

    The pass refuses, with "cannot overlap the epilogue: ..." and the IR unchanged:
    - "expected one loop over work tiles, with loads and with products of its own, on each side";
    - "expected one product before the loop over keys, and one after it" (`tile-pipeline` makes them);
    - "expected the loop's results not to be used", on either side;
    - "expected no effects before the first product";
    - "expected no turn between work tiles but the first product's";
    - "expected a ring of two slots or more for a slot that a work tile holds", where a work tile holds the slot until
      after the wait for its last product;
    - "expected the values that the next work tile reads to be computed before the last product is waited for", with
      `epilogue = softmax` "... is issued";
    - with `epilogue = softmax` "expected no effects before the first product's result" and "... before the loop over
      keys", and "expected a tile.to_operand_a before the loop over keys, for its softmax to be early";
    - "expected it to load before its loop over keys what the consumers wait for before their first product";
    - "expected rings of their own for the loads after the loop over keys", since a ring is filled in order.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numOverlapped", "num-overlapped", "loops over work tiles that are rotated">];
}

#endif // FLASHC_TILE_WORK_TILE_PASSES_TD
