//===- Passes.td - the schedule passes (within L2) ----------------------------------------------------------------===//
#ifndef FLASHC_TILE_PASSES_TD
#define FLASHC_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

def Pipeline : Pass<"tile-pipeline"> {
  let summary = "the stages of several tiles run side by side";
  let description = [{
    Makes a pipeline of each loop of a `tile.program` whose products have stages: one iteration of the new loop runs
    stage s of tile u - s, for every s. So the tensor cores multiply for one tile while the other units work on another.
    A prologue begins the first tiles, an epilogue ends the last.

    The step that writes the loop says the stage of each product. From these follow the others': a wait has its
    product's; a load runs in the first stage that reads its tile; scalars of the loop's index in each stage that needs
    them; anything else as soon as what it reads is there, behind a `tile.mma_wait` not before its `read_stage`. What a
    later stage reads the new loop carries.

    Attention's step has Q K^T in stage 0 and P V in stage 1. Without the pass, and with it (one warpgroup; `S` the
    first product, `O` the second):
    ```
    tensor cores  S0           O0 S1           O1        |  S0            S1 O0          S2 O1          O2
    other units      softmax 0       softmax 1           |     softmax 0        softmax 1      softmax 2
    ```

    An iteration issues the first products of each stage, stage by stage, and then does the rest in the loop's order. A
    wait that nothing in its own stage reads comes last, and with it what reads its value, or writes registers that its
    product reads. `pending` counts the products that stay in flight.

    Why here: in the sequential program everything a tile needs is in one loop body, loads included, so the loads of
    both sides follow the rotation when `tile-specialize` splits them. Only a kernel whose `tile.schedule` says
    `overlap = true` is changed.

    Before:
    ```mlir
    %r:3 = scf.for %u = %c0 to %total step %c1 iter_args(%O = %O0, %m = %m0, %l = %l0) {
      %k = tile.load ... into %kring
      %tS = tile.mma_async %q, %k transpose_b
      %S = tile.mma_wait %tS
      ...                                                    // softmax: %m2, %l2, %p, %any, %al
      %P = tile.to_operand_a %p
      %O1 = scf.if %any { tile.scale_rows %O, %al } else { %O }
      %v = tile.load ... into %vring
      %tO = tile.mma_async %P, %v into %O1 {stage = 1}
      %O2 = tile.mma_wait %tO
      scf.yield %O2, %m2, %l2
    }
    ```
    After:
    ```mlir
    ...                                                      // Prologue: stage 0 of tile 0, in the loop's order
    %r:4 = scf.for %u = %c1 to %total step %c1 iter_args(%m, %l, %P, %O1) {      // Kernel
      %k = tile.load ... into %kring                         // tile u
      %tS = tile.mma_async %q, %k transpose_b
      %v = tile.load ... into %vring                         // tile u - 1
      %tO = tile.mma_async %P, %v into %O1 {stage = 1}
      %S = tile.mma_wait %tS {pending = 1}                   // %tO stays in flight
      ...                                                    // softmax of tile u
      %O = tile.mma_wait %tO
      %P2 = tile.to_operand_a %p                             // not earlier: the product in flight reads %P's registers
      %O3 = scf.if %any { tile.scale_rows %O, %al } else { %O }
      scf.yield %m2, %l2, %P2, %O3
    }
    %v = tile.load ... into %vring                           // Epilogue: stage 1 of tile total - 1
    %tO = tile.mma_async %r#2, %v into %r#3 {stage = 1}
    %O = tile.mma_wait %tO
    ```

    A loop whose products are all of stage 0 it leaves as it is, and says so in a missed-optimisation remark (category
    "tile"). Refuses, with "cannot pipeline: ..." on the loop, a note at the op that shows it, and the IR unchanged:
    - "expected products that start and end in the loop's body";
    - "expected ops to read only what earlier stages, or their own, compute": the stages contradict each other;
    - "expected only arithmetic to wait for a later stage's product";
    - "expected a step of 1", "expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)", or
      of 2 with three stages, and so on.

    And on the program: "expected a 'tile.schedule' on its kernel".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"printPlan", "print-plan", "bool", "false", "print which op goes where, on standard output">];
  let statistics = [
    Statistic<"numPipelined", "num-pipelined", "loops that became pipelines">];
}

def Persist : Pass<"tile-persist"> {
  let summary = "a CTA works on one tile of queries after another";
  let description = [{
    A `tile.program` that has a grid of its own does the work of one work tile of it. This pass puts a loop around the
    body, in which CTA c of n works on the work tiles c, c + n, c + 2n, ..., x running fastest, so that CTAs that run at
    the same time read the same keys. The launch has as many CTAs as run at once; each sets up its barriers and roles
    once, and the producer loads for the next work tile while the consumers still finish and store the last one.

    A `paired` program's work tiles take the less time the larger x is. There a CTA takes every n-th pair, x of one head
    and nx - 1 - x of the next: pairs take equally long. Where the pairs end, some CTAs would have one more than others;
    so the last heads, with the work tiles of one and a half rounds, are dealt work tile by work tile, the longest
    first: one to each CTA with a pair less, then to all, from the last CTA to the first, from the first to the last,
    and so on.

    A program with a `list` (`tile-order`) takes the work tiles that an item stands for in groups of heads, as few as
    give every CTA three work tiles, so that CTAs that run at the same time read the keys of few heads. A group goes
    through the list once, the longest first. Work tiles of that sequence are drawn (`tile.draw`): CTA c of n begins
    with number c, and takes the next one that nobody has when it begins to work on the last one. So CTAs end together
    however long work tiles really take, which the list only estimates. The loop carries the work tile and its numbers,
    of own ones the warpgroup's, whose place in an entry depends on `%w`.

    A `single` program has one work tile for each CTA of the launch: there is no loop. CTAs start in the order of their
    numbers, each where one has ended, so that nothing but the end is uneven. Heads go by one after the other, as the
    grid has them, since neighbours read the same tiles; of the last heads, as few as give three work tiles to every
    multiprocessor, work tiles go by together, the longest first: by the list, or if they are `paired` x = 0 of all
    these heads, then x = 1, ... A list has the numbers of its items behind it once more, in their own order
    (`tile-order`), where the CTAs of the first heads find theirs.

    A `grouped` program has work tiles that are about as long as their neighbours. They are dealt: groups that give
    every CTA two work tiles go by forwards and backwards in turn, and CTA c takes c, 2n - 1 - c, 2n + c, ...

    The coordinates of a work tile are quotients. A division is slow, and ptxas takes its result for different in every
    thread; so the multiplier and the shift that replace it are computed in front of the loop and pass through
    `tile.uniform`. Of drawn work tiles divisions are left as they are: one thread divides, with few registers. Loads
    into private rings (Q) of one slot move down to their first reader, behind the first load of K, whose slot is empty
    earlier. With two slots the next Q can come while this one is in use, and stays in front.

    Why here: after `tile-pipeline`, which looks for the loop over keys, and before `tile-specialize`, whose counters of
    loads then run on from work tile to work tile. A program without a grid is left alone; one whose work tiles are
    `sorted` without a list is an error.

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
      %mult = tile.uniform ...                               // of 1 / %nx, and its %shift
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
      %number = ...                                          // of %c and the other two coordinates
      %head, %place = %number / %nx                          // or those of one of the last heads
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
          %x1 = memref.load %list[2 * %place]                    // and the item's number behind it
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
    Statistic<"numPersistent", "num-persistent", "programs that loop over their grid">];
}

def PingPong : Pass<"tile-ping-pong"> {
  let summary = "the consumers take turns at the tensor cores";
  let description = [{
    In a kernel whose `tile.schedule` says `ping_pong = true`, the softmax of one consumer runs beside the products of
    another: `tile.ping_pong_wait` stands before a product of slots (Q K^T), `tile.ping_pong_pass` after the last
    product issued with it. A product from registers that is issued alone is not a turn. A `tile.advance_ring` hands its
    turns on.

    Why here: after `tile-pipeline`, which decides what is issued together; before `tile-specialize`, which knows
    whether all consumers take equally many turns.

    It says in a missed-optimisation remark (category "tile") why it does nothing: "one consumer takes turns with
    nobody", "no product of slots begins a turn".

    Before, and after:
    ```mlir
    %tS = tile.mma_async %q, %k transpose_b                  tile.ping_pong_wait %w
    %tO = tile.mma_async %P, %v into %O1 {stage = 1}         %tS = tile.mma_async %q, %k transpose_b
    %S = tile.mma_wait %tS {pending = 1}                     %tO = tile.mma_async %P, %v into %O1 {stage = 1}
                                                             tile.ping_pong_pass %w
                                                             %S = tile.mma_wait %tS {pending = 1}
    ```
  }];
  let statistics = [Statistic<"numTurns", "num-turns", "turns, where they are written">];
}

def Prefetch : Pass<"tile-prefetch"> {
  let summary = "start the loads of a warp program iterations ahead";
  let description = [{
    A `tile.warp_program` has no producer: each warp starts its own copies, `stages` iterations before it reads them.

    Before:
    ```mlir
    %r = scf.for %u = %lower to %upper step %step iter_args(%x = %x0) {
      %k = tile.load %kmap[%b, %h, f(%u)] into %kring                    // two stages
      ...
    ```
    After:
    ```mlir
    scf.if %lower < %upper { tile.copy_async %kmap[%b, %h, f(%lower)] into %kring[0] }
    scf.if %lower + %step < %upper { tile.copy_async %kmap[%b, %h, f(%lower + %step)] into %kring[1] }
    %r = scf.for %u = %lower to %upper step %step iter_args(%x = %x0, %n = 0) {
      %k = tile.wait %kring[%n]
      ...
      %next = %u + 2 * %step
      scf.if %next < %upper { tile.copy_async %kmap[%b, %h, f(%next)] into %kring[%n + 2] }
      scf.yield ..., %n + 1
    ```
    What f reads from memory (a page's number, `tile.read_pages`) is read an iteration earlier still, and carried. A
    `tile.load_rows` becomes `tile.copy_rows` and `tile.wait` in the same way.

    Refuses a load that is not directly in a loop of the program, rings of one loop with different numbers of stages,
    and a load whose place hangs on what the loop carries.
  }];
}

def Specialize : Pass<"tile-specialize"> {
  let summary = "one program becomes a producer of tiles and their consumers";
  let description = [{
    Replaces `tile.program` by `tile.warp_specialize`. The producer is one thread that runs ahead and fills the rings;
    the consumers multiply and never wait for memory as long as the rings are full.

    Every load gets a number g among the loads into its ring, in program order. The number is a counter that loops
    carry, and both sides have the same loops, so that load g and wait g are the same tile: no other agreement between
    the two sides exists.

    - The producer has the loads, the loops around them, and the scalar code that both need; no tiles. A load becomes
      `tile.acquire` and `tile.copy_async`. Into a `private` ring it is done once per consumer, with that consumer's
      number in place of `%w`.
    - The consumers have all the rest. A load becomes `tile.wait`, and `tile.release` follows the wait of the last
      product that reads the slot: in the loop for K and V, after the loop for Q.
    - Of a loop between `tile.own_visits` the producer makes all visits and each consumer its own. A `tile.advance_ring`
      becomes a loop of the consumer that takes and passes a turn for each visit that it leaves out, then waits for each
      slot and, when all its warps have, releases it (ring by ring where one has a single slot); the count of loads goes
      on behind it:
      ```mlir
      tile.advance_ring %n of %kring, %vring {turns}
      // becomes
      scf.for %t = %c0 to %n step %c1 {
        tile.ping_pong_wait %w
        tile.ping_pong_pass %w
        %k = tile.wait %kring[%g + %t]                        // and the same of %vring
        tile.warpgroup_barrier
        tile.release %k                                       // and the same of %vring
      }
      ```
    - A `tile.draw` is the producer's alone. It takes a number when an iteration begins (`tile.consume`: an atomic of a
      microsecond), and when all loads of this iteration have been issued, finds out what the number stands for and
      publishes it (`tile.publish`). A consumer waits for that behind its last product (`tile.published`), where it has
      long been made; and behind a `tile.advance_ring` there, since the producer may need those slots for this work
      tile. What the consumers know of a work tile they compute nothing for, and read no memory.
      ```mlir
      // producer                                            // consumer
      scf.for %t = ... iter_args(%x = %x0) {                 scf.for %t = ... iter_args(%x = %x0) {
        %taken = tile.consume %list[%counter]                     ...
        ...loads of %x...                                      %to = tile.mma_async ...        // the last product
        %number = %first + %taken                              %exists, %x1 = tile.published %t
        %exists = %number < %limit                             tile.repeat_if %exists
        %x1 = ... min(%number, %limit - 1) ...                 %o = tile.mma_wait %to
        tile.publish %exists, %x1 in %t                       tile.store %o
        tile.repeat_if %exists                                 scf.yield %x1
        scf.yield %x1                                        }
      }
      ```
      What the draw computes of `%w` the producer computes for each consumer, and publishes it as `own`; its loop does
      not carry it. A consumer hears what is its own:
      ```mlir
      tile.publish %exists, %x1 own %y0, %y1 in %t         // producer: of two consumers
      %exists, %x1, %y = tile.published %t : index own of %w : index
      ```
    - If something leaves through a `tile.alloc_slot output`, the consumers end with `tile.store_wait`.

    Why here: after `tile-pipeline`, which moves loads and products together, and before `tile-split-loops`, whose
    copies of the consumers' loop the producer does not need.

    Before:
    ```mlir
    tile.program 2 {
    ^bb0(%w: index):
      %row = ...                                            // depends on %w
      %q = tile.load %qmap[%b, %h, %row] into %qring
      %r = scf.for %u = %c0 to %total step %c1 iter_args(%O = %O0) {
        %k = tile.load %kmap[%b, %h, %j] into %kring
        %tS = tile.mma_async %q, %k transpose_b
        %S = tile.mma_wait %tS
        ...
    ```
    After:
    ```mlir
    tile.warp_specialize 2 registers(24, 240) producer {
      tile.acquire %qring[%c0] owner 0
      tile.copy_async %qmap[%b, %h, %row0] into %qring[%c0] owner 0                      // and owner 1
      scf.for %u = %c0 to %total step %c1 iter_args(%g = %c0) {
        tile.acquire %kring[%g]
        tile.copy_async %kmap[%b, %h, %j] into %kring[%g]
        scf.yield %g + 1
      }
    } consumer {
    ^bb0(%w: index):
      %q = tile.wait %qring[%c0]
      %r:2 = scf.for %u = %c0 to %total step %c1 iter_args(%O = %O0, %g = %c0) {
        %k = tile.wait %kring[%g]
        %tS = tile.mma_async %q, %k transpose_b
        %S = tile.mma_wait %tS
        tile.release %k
        ...
      }
      tile.release %q
    ```

    Assumes that a load reads nothing that the program writes. Refuses, with "cannot specialize: ..." on the op in the
    way, a note at the other party, and the IR unchanged:
    - "expected to depend on loop indices and scalar code only": a load's position, or the bounds of a loop around it,
      comes from a tile, from an effect, or from what a loop carries;
    - "expected in loops only": a load, or a `tile.ping_pong_wait`, under `scf.if`;
    - "expected bounds that do not depend on the warpgroup": the consumers would not agree on the number of loads;
    - "expected the position in a shared ring not to depend on the warpgroup";
    - "expected its ring and its tensor map to come from outside of the program";
    - "expected its slot to be read by products only, got ...", "expected the products that read it to end where they
      start";
    - "expected a load into fewer than 4 slots of each consumer in every iteration", around a `tile.draw`: it is what
      keeps a broadcast from being overwritten.

    And on the program: "expected a 'tile.schedule' on its kernel", "expected 2 consumers as in the schedule, got 1".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numSpecialized", "num-specialized", "programs split into producer and consumers">];
}

def PlaceWaits : Pass<"tile-place-waits"> {
  let summary = "what runs while a product is in flight";
  let description = [{
    What a consumer computes of a work tile and its first product does not need comes behind the issue of that product,
    and is computed while it runs: values of rows, and with another `epilogue` than `plain` its bounds, too.

    With `wait_after = n` in the schedule, a pipelined loop releases K's slot behind n of the softmax's exponentials
    (`tile.release %k after %p`), and with it waits for PV: ptxas would move that wait up to where it finds it, anywhere
    between the row maximum and the last exponential. If there is no such loop, a missed-optimisation remark (category
    "tile") says so: "no loop has two products in flight, and exponentials between their waits".

    Why here: after `tile-specialize`, which writes the releases.

    Before, and after, with `wait_after = 12`:
    ```mlir
    %S = tile.mma_wait %tS {pending = 1}                     %S = tile.mma_wait %tS {pending = 1}
    tile.release %k                                          ...
    ...                                                      %p = math.exp2 %x
    %p = math.exp2 %x                                        tile.release %k after %p {elements = 12}
    %O = tile.mma_wait %tO                                   %O = tile.mma_wait %tO
    ```
  }];
}

def OverlapEpilogue : Pass<"tile-overlap-epilogue"> {
  let summary = "the next work tile's first product runs while this work tile is stored";
  let description = [{
    In a persistent CTA the tensor cores idle while a consumer normalises and stores its output, and then until the
    first scores of the next work tile are there. This pass rotates the consumers' loop over work tiles: behind the last
    product of a work tile (PV) the head of the next one is issued, its waits for Q and K, its first product (S) and its
    scalars. The wait for PV leaves that product in flight; the work tile is stored under it. With ping-pong both are
    one turn.

    ```
    without   PV wait | normalise, store | wait for Q, K | S | scalars | S wait | softmax ...
    with      PV | wait for Q, K | S | scalars | PV wait | normalise, store | S wait | softmax ...
    ```

    Behind the last work tile there is no next one: a CTA loads and multiplies the first tiles of its last work tile
    once more, for nothing. A branch around a product in flight would cost more, in every iteration.

    With `epilogue = softmax` the head goes on up to the loop over keys: the softmax of the next work tile's first tile
    comes before this work tile is stored, beside its last product. The end of a work tile is then a step like any
    other, of S of the next work tile and PV of this one. In the place of scores the loop carries P, the maximum and the
    sum, and what that softmax has needed to know of the work tile, its bounds and its row: it is not computed twice (of
    work tiles that are drawn it is, from what has been published).

    ```
    early     wait for Q, K | S | PV | S wait | softmax | PV wait | pack P | normalise, store | the loop over keys ...
    ```

    K's slot is released behind `wait_after` of its exponentials, as in the loop over keys (`tile-place-waits`), or 12
    if that is 0: ptxas would move the wait for PV in front of all of them.

    S is issued first, since the products end in the order in which they begin. P is packed behind the wait for PV,
    which reads those registers. PV now waits for the next Q and K, which a second slot of Q has ready.

    Why here: after `tile-specialize`, since what is waited for moves across a work tile's end, which only the numbers
    of the loads allow; after `tile-split-loops`, which would not see what bounds are that a loop carries. Only a kernel
    whose `tile.schedule` says `epilogue = product` or `softmax` is changed. A ring for Q with one slot is legal, but
    the next Q then arrives late.

    Before (consumer):
    ```mlir
    scf.for %p = %lo to %hi step %st iter_args(%gq = %c0, %gk = %c0, %gv = %c0) {
      %k = tile.wait %kring[%gk]                             // head
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
    %k0 = tile.wait %kring[%c0]                              // the first work tile's head
    ...
    %n = scf.for %p = %lo to %hi step %st iter_args(%q = %q0, %S = %S0, ...) {
      %r:4 = scf.for ...
      tile.release %q
      %v = tile.wait %vring[%r#3]
      %tO = tile.mma_async %r#0, %v into %r#1
      %next = %p + %st < %hi ? %p + %st : %p                 // the next work tile's head
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
    The producer's loop is rotated alike: the next work tile's K and Q are loaded before this work tile's last V, whose
    slot is empty later.

    Refuses, with "cannot overlap the epilogue: ..." and the IR unchanged:
    - "expected one loop over work tiles, with loads and with products of its own, on each side";
    - "expected one product before the loop over keys, and one behind it" (`tile-pipeline` makes them);
    - "expected the loop's results not to be used", on either side;
    - "expected no effects before the first product";
    - "expected no turn between work tiles but the first product's";
    - "expected a second slot beside one that a work tile holds", until its last product is waited for and longer;
    - "expected what the next work tile reads before the last product is waited for", with an early softmax "is issued";
    - with an early softmax "expected no effects before the first product's result" and "... before the loop over keys",
      and "expected a tile.to_operand_a before the loop over keys, for its softmax to be early";
    - "expected it to load before its loop over keys what the consumers wait for before their first product";
    - "expected rings of their own for the loads behind the loop over keys", since a ring is filled in order.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numOverlapped", "num-overlapped", "loops over work tiles rotated">];
}

def SplitLoops : Pass<"tile-split-loops"> {
  let summary = "key tiles that need a mask and those that do not get loops of their own";
  let description = [{
    Splits a consumers' loop over u that asks `tile.outside %u of [lower, upper)` into up to three, one after the other,
    that pass the iter_args on: up to `lower`, from `lower` to `upper`, from `upper` on. In each the answer is known, so
    an `scf.if` on it is replaced by the branch that runs. The loop where the time goes loses its mask and its branch.

    Why here: splitting copies the loop's body. Before `tile-specialize` the producer's loop would be split as well, to
    no use; before `tile-pipeline` the products would not overlap from one loop to the next.

    Before (lower bound 1, as `tile-pipeline` leaves it):
    ```mlir
    %r = scf.for %u = %c1 to %total step %c1 iter_args(%x = %x0) {
      %needs = tile.outside %u of [%lo, %hi)
      %s2 = scf.if %needs { tile.map %s ... } else { %s }
      ...
    ```
    After:
    ```mlir
    %lo1 = max(1, min(%lo, %total))
    %hi1 = max(%lo1, min(%hi, %total))
    %a = scf.for %u = %c1 to %lo1 step %c1 iter_args(%x = %x0) { tile.map %s ... }
    %b = scf.for %u = %lo1 to %hi1 step %c1 iter_args(%x = %a) { ... }
    %r = scf.for %u = %hi1 to %total step %c1 iter_args(%x = %b) { tile.map %s ... }
    ```
    A loop that is known to be empty is not made, and a bound that is known not to matter is not computed: neither is
    that of `arith.maxsi %n, %c1` in a loop that begins at 1. Loops with
    several intervals are split once for each. The question stays where it is not asked of the loop's index (the
    pipeline's prologue).

    It never fails. It says in a missed-optimisation remark (category "tile") why a loop stays as it is: "the loop's
    step is not 1", "the bounds change inside the loop".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numSplit", "num-split", "loops split">];
}

#endif // FLASHC_TILE_PASSES_TD
