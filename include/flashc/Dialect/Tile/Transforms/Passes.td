//===- Passes.td - the schedule passes (within L2) ----------------------------------------------------------------===//
#ifndef FLASHC_TILE_PASSES_TD
#define FLASHC_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

def Pipeline : Pass<"tile-pipeline"> {
  let summary = "overlap the stages of several tiles";
  let description = [{
    Turns each loop of a `tile.program` whose products have stages into a pipeline: iteration u of the new loop runs
    stage s of tile u - s, for every s. So the tensor cores multiply for one tile while the other units compute another.
    A prologue begins the first tiles, and an epilogue ends the last ones.

    The step that emits the loop sets the stage of each product, and the stages of the other ops follow from these. A
    wait has the stage of its product. A load runs in the first stage that reads its tile. Scalars of the loop's index
    are computed in each stage that needs them. Every other op runs in the earliest stage in which its operands are
    available; the result of a `tile.mma_wait` is available from its `read_stage` on. The new loop carries values that a
    later stage reads.

    Attention's step has Q K^T in stage 0 and P V in stage 1. Without the pass, and with it (one warpgroup; `S` the
    first product, `O` the second):
    ```
    tensor cores  S0           O0 S1           O1        |  S0            S1 O0          S2 O1          O2
    other units      softmax 0       softmax 1           |     softmax 0        softmax 1      softmax 2
    ```

    An iteration issues the first products of each stage, stage by stage, and then runs the other ops in the loop's
    order. An exception is a wait whose value no op of the wait's own stage reads. Such a wait comes last, followed by
    the ops that read its value, and by the ops that write registers that the awaited product reads. `pending` is the
    number of products that stay in flight.

    Why here: in the sequential program one loop body has all ops of a tile, including its loads. So when
    `tile-specialize` splits the loop, the producer's loads and the consumers' waits are rotated in the same way. Only a
    kernel whose `tile.schedule` says `overlap = true` is changed.

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

    A loop whose products are all of stage 0 stays as it is, with a missed-optimisation remark (category "tile"). The
    pass refuses, with "cannot pipeline: ..." on the loop, a note at the op that shows the reason, and the IR unchanged:
    - "expected products that start and end in the loop's body";
    - "expected ops to read only what earlier stages, or their own, compute": the stages contradict each other;
    - "expected only arithmetic to wait for a later stage's product";
    - "expected a step of 1", "expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)";
      with three stages "of at least 2", and so on.

    It refuses a program with "expected a 'tile.schedule' on its kernel".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"printPlan", "print-plan", "bool", "false", "print the stage and the order of the ops on standard output">];
  let statistics = [
    Statistic<"numPipelined", "num-pipelined", "loops turned into pipelines">];
}

def PingPong : Pass<"tile-ping-pong"> {
  let summary = "let the consumers take turns at the tensor cores (ping-pong)";
  let description = [{
    Inserts turns into a kernel whose `tile.schedule` says `ping_pong = true`, so that the softmax of one consumer runs
    while another consumer multiplies. A turn begins with a `tile.ping_pong_wait` before a product of slots (Q K^T), and
    ends with a `tile.ping_pong_pass` after the last product that is issued with it. A product with A in registers that
    is issued alone is not a turn. A `tile.advance_ring` passes the turns of the iterations that it skips.

    Why here: after `tile-pipeline`, which decides what is issued together; before `tile-specialize`, which knows
    whether all consumers take equally many turns.

    A missed-optimisation remark (category "tile") says why a program has no turns: "expected several consumers to take
    turns, got one", "no product of slots begins a turn".

    Before, and after:
    ```mlir
    %tS = tile.mma_async %q, %k transpose_b                  tile.ping_pong_wait %w
    %tO = tile.mma_async %P, %v into %O1 {stage = 1}         %tS = tile.mma_async %q, %k transpose_b
    %S = tile.mma_wait %tS {pending = 1}                     %tO = tile.mma_async %P, %v into %O1 {stage = 1}
                                                             tile.ping_pong_pass %w
                                                             %S = tile.mma_wait %tS {pending = 1}
    ```
  }];
  let statistics = [Statistic<"numTurns", "num-turns", "turns inserted">];
}

def Prefetch : Pass<"tile-prefetch"> {
  let summary = "start the loads of a warp program several iterations ahead";
  let description = [{
    Replaces each load of a `tile.warp_program` by a copy, `stages` iterations ahead, and a wait: such a program has no
    producer, and each warp starts its own copies.

    Before:
    ```mlir
    %r = scf.for %u = %lower to %upper step %step iter_args(%x = %x0) {
      %k = tile.load %kmap[%b, %h, f(%u)] into %kring                    // %kring has two slots
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
    Values that f reads from memory (a page's number, `tile.read_pages`) are read one iteration before the copy, and
    carried. A `tile.load_rows` becomes `tile.copy_rows` and `tile.wait` in the same way.

    The pass refuses a load that is not directly in a loop of the program, rings of one loop with different numbers of
    stages, and a load whose position depends on values that the loop carries.
  }];
}

def Specialize : Pass<"tile-specialize"> {
  let summary = "split a program into a producer that loads and consumers that compute";
  let description = [{
    Replaces `tile.program` by `tile.warp_specialize`. The producer is one thread that runs ahead and fills the rings.
    The consumers multiply, and do not wait for memory as long as the rings are full.

    Every load gets a number g among the loads into its ring, in program order. The number is a counter that loops
    carry. Producer and consumers have the same loops, so that load g and wait g have the same tile; the two sides share
    no other state.

    - The producer has the loads, the loops around them, and the scalar code that both need; it has no tiles. A load
      becomes `tile.acquire` and `tile.copy_async`. A load into a `private` ring becomes these two once per consumer,
      with the consumer's number in place of `%w`.
    - The consumers have all other ops. A load becomes `tile.wait`, and a `tile.release` follows the wait of the last
      product that reads the slot: in the loop for K and V, after the loop for Q.
    - In a loop with the bounds of a `tile.own_visits` the producer runs all iterations, and each consumer runs its own
      ones. A `tile.advance_ring` becomes a loop of the consumer over the iterations that it skips. In each of them the
      consumer takes and passes a turn, waits for the slots, and releases them when all warps have waited (ring by ring
      if a ring has a single slot). The count of loads continues after the loop:
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
    - A `tile.draw` runs in the producer alone. The producer fetches a number at the beginning of an iteration
      (`tile.consume`, an atomic operation of a microsecond). When it has issued all loads of the iteration, it computes
      the next work tile from the number and broadcasts it (`tile.publish`). A consumer waits for the broadcast at its
      last product (`tile.published`), long after the producer has made it. The wait comes after each
      `tile.advance_ring` of the work tile, since the producer may need the slots that the `tile.advance_ring` releases
      to load for this work tile. Consumers compute nothing of the next work tile and read no memory for it.
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
      The producer computes results of the draw that depend on `%w` once for each consumer, and broadcasts them as
      `own`; its loop does not carry them. A consumer reads its own ones:
      ```mlir
      tile.publish %exists, %x1 own %y0, %y1 in %t         // producer, for two consumers
      %exists, %x1, %y = tile.published %t : index own of %w : index
      ```
    - If a `tile.store_async` goes through a `tile.alloc_slot output`, the consumers end with `tile.store_wait`.

    Why here: after `tile-pipeline`, which moves loads and products together; before `tile-split-loops`, which copies
    the consumers' loop (the producer needs no copies).

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

    The pass assumes that a load reads no memory that the program writes. It refuses, with "cannot specialize: ..." on
    the op that prevents the split, a note at the other op involved, and the IR unchanged:
    - "expected to depend on loop indices and scalar code only": a load's position, or the bounds of a loop around it,
      comes from a tile, from an effect, or from what a loop carries;
    - "expected in loops only": a load, or a `tile.ping_pong_wait`, under `scf.if`;
    - "expected bounds that do not depend on the warpgroup": the consumers would not agree on the number of loads;
    - "expected the position in a shared ring not to depend on the warpgroup";
    - "expected its ring and its tensor map to come from outside of the program";
    - "expected its slot to be read by products only, got ...", "expected the products that read it to end where they
      start";
    - "expected a load into fewer than 4 slots of each consumer in every iteration", around a `tile.draw`: without such
      a load a broadcast could be overwritten before it is read.

    It refuses a program with "expected a 'tile.schedule' on its kernel" or "expected 2 consumers as in the schedule,
    got 1".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numSpecialized", "num-specialized", "programs split into producer and consumers">];
}

def DivideProducts : Pass<"tile-divide-products"> {
  let summary = "divide the products of a step among consumers that share its rows";
  let description = [{
    Divides the consumers' program in two where it has `tile.hand_over`: warpgroup 0 runs the ops that do not depend on
    a result of a `tile.hand_over`, and warpgroup 1 the ops that do. Each warpgroup also runs the ops that its own ops
    need, so scalars and waits for slots are in both roles. Stores, and sums in device memory, belong to the role that
    computes what they store. A `tile.hand_over` becomes a `tile.send` in role 0 and a `tile.receive` in role 1.

    In the backward pass P passes from role 0, which holds dV, to role 1, which holds dK. At 256 columns one of the two
    accumulators fills the registers of a warpgroup, and with both in one CTA the four products of a key tile take one
    kernel.

    Both roles wait for each slot and release it, so the readers of a ring are all consumers. A release moves to where
    the role no longer needs the slot, and `pending` of a wait counts the products of the own role.

    Why here: waits, releases and loops are final, and the passes before see one program.

    Before:
    ```mlir
    consumer { ^bb0(%w: index):
      %r:2 = scf.for ... iter_args(%dk = %z, %dv = %z) {
        %p = ...  %handed = tile.hand_over %p through %ring[%n]
        %dv1 = tile.mma_async %pa, %do into %dv ...
        %dx = ... %handed ...
      }
      tile.store %r#0 ...  tile.store %r#1 ...
    ```
    After:
    ```mlir
    consumer { ^bb0(%w: index):
      %isFirst = arith.cmpi eq, %w, %c0
      scf.if %isFirst {
        %dv = scf.for ... { %p = ...  tile.send %p into %ring[%n]  %dv1 = tile.mma_async %pa, %do into %dv }
        tile.store %dv
      } else {
        %dk = scf.for ... { %p = tile.receive %ring[%n]  %dx = ... %p ... }
        tile.store %dk
      }
    ```
    Products that both roles need, such as that of a score whose derivative depends on the score, are computed by both.
    Refuses a program of other than two consumers ("expected two consumers").
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def PlaceWaits : Pass<"tile-place-waits"> {
  let summary = "move scalar code and releases to where a product is in flight";
  let description = [{
    Moves code that a work tile's first product does not need from before that product to after its issue, so that it
    runs while the product is in flight: values of rows (`tile.rows`) and, if `epilogue` is not `plain`, also other
    scalars, such as bounds.

    With `wait_after = n` in the schedule, the release of K's slot in a pipelined loop, and with it the wait for PV,
    moves after n of the softmax's exponentials (`tile.release %k after %p`). Otherwise ptxas would choose the place of
    that wait, anywhere between the row maximum and the last exponential. If there is no such loop, a
    missed-optimisation remark (category "tile") says so: "no loop has two products in flight, and exponentials between
    their waits".

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

def SplitLoops : Pass<"tile-split-loops"> {
  let summary = "split loops into parts with and without a mask";
  let description = [{
    Splits each consumers' loop over u that has a `tile.outside %u of [lower, upper)` into up to three consecutive
    loops, which pass the iter_args on: up to `lower`, from `lower` to `upper`, and from `upper` on. In each of them the
    result of `tile.outside` is known, so that an `scf.if` on it is replaced by the branch that runs. The longest loop
    loses its mask and its branch.

    Why here: the pass copies the body of a loop. Before `tile-specialize` it would also copy the body of the producer's
    loop, without need. Before `tile-pipeline` it would make several pipelines of one loop, and products would not
    overlap from one to the next.

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
    A loop that is known to be empty is not made, and a bound that is known to have no effect is not computed, such as
    the constant of `arith.maxsi %n, %c1` in a loop that begins at 1. A loop with several intervals is split once for
    each. A `tile.outside` of another value than the loop's index, as in the pipeline's prologue, stays.

    The pass never fails. A missed-optimisation remark (category "tile") says why a loop stays as it is: "the loop's
    step is not 1", "the bounds change inside the loop".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numSplit", "num-split", "loops split">];
}

include "flashc/Dialect/Tile/Transforms/WorkTilePasses.td"

#endif // FLASHC_TILE_PASSES_TD
