// RUN: %vary %s | flashc-opt --split-input-file --tile-specialize --verify-diagnostics

// Every refusal of tile-specialize.

!acc = tensor<64x64xf32, #tile.acc>
!yes = tensor<64xi1, #tile.row>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = true>

gpu.module @kernels {
  gpu.func @kernel(%map: !map, %q: !slot, %out: !acc, %need: !yes, %c0: index, %c1: index, %n: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      // BODY
    }
    gpu.return
  }
}

// VARY has_a_grid
//   tile.program 2 => tile.program 2 grid(%n, %n, %n)
//     | error: 'tile.program' op expected the launch's own grid (tile-persist runs before)
// VARY no_schedule
//   attributes {tile.schedule = #schedule} { => {
//   tile.program | error: 'tile.program' op expected a 'tile.schedule' on its kernel
// VARY other_number_of_consumers
//   tile.program 2 => tile.program 3 | error: 'tile.program' op expected 2 consumers as in the schedule, got 3
// VARY position_is_carried
//     %r = scf.for %u = %c0 to %n step %c1 iter_args(%j = %c0) -> (index) { | note: it depends on this value
//       %k = tile.load %map[%c0, %c0, %j] into %ring : !map, !ring -> !slot
//       | error: 'tile.load' op cannot specialize: expected to depend on loop indices and scalar code only
//       %j2 = arith.addi %j, %c1 : index
//       scf.yield %j2 : index
//     }
// VARY bound_comes_from_a_tile
//     %any = tile.vote_any %need : !yes | note: it depends on this value
//     %end = arith.select %any, %n, %c1 : index
//     scf.for %u = %c0 to %end step %c1 {
//     | error: 'scf.for' op cannot specialize: expected to depend on loop indices and scalar code only
//       %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
//     }
// VARY load_in_branch
//     scf.if %yes { | note: this op decides whether it runs
//       %k = tile.load %map[%c0, %c0, %n] into %ring : !map, !ring -> !slot
//       | error: 'tile.load' op cannot specialize: expected in loops only
//     }
// VARY turn_in_branch
//     scf.if %yes { | note: this op decides whether it runs
//       tile.ping_pong_wait %w | error: 'tile.ping_pong_wait' op cannot specialize: expected in loops only
//       %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
//       %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     }
// VARY bound_depends_on_warpgroup
//     scf.for %u = %c0 to %w step %c1 {
//     | error: 'scf.for' op cannot specialize: expected bounds that do not depend on the warpgroup
//       %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
//       | note: every consumer must run this op equally often
//     }
// VARY own_visits_without_skip
//     %begin, %end = tile.own_visits %w to %n of %n
//     | error: 'tile.own_visits' op cannot specialize: expected tile.advance_ring of its begin, and of its total less its end
//     scf.for %u = %begin to %end step %c1 {
//       %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
//     }
// VARY shared_ring_of_private_rows
//     %row = arith.addi %w, %n : index
//     %k = tile.load %map[%c0, %c0, %row] into %ring : !map, !ring -> !slot
//     | error: 'tile.load' op cannot specialize: expected the position in a shared ring not to depend on the warpgroup
// VARY ring_in_program
//     %inner = tile.alloc_ring : !ring
//     %k = tile.load %map[%c0, %c0, %c0] into %inner : !map, !ring -> !slot
//     | error: 'tile.load' op cannot specialize: expected its ring and its tensor map to come from outside of the program
// VARY slot_is_yielded
//     %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
//     | error: 'tile.load' op cannot specialize: expected its slot to be read by products only, got scf.yield
//     %either = scf.if %yes -> (!slot) {
//       scf.yield %k : !slot
//     } else {
//       scf.yield %q : !slot
//     }
// VARY store_in_branch
//     %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
//     | error: 'tile.load' op cannot specialize: expected its slot to be read by products only, got tile.store_async
//     scf.if %yes {
//       tile.store_async %out, %map[%c0, %c0, %c0] through %k : !acc, !map, !slot
//     }
// VARY product_ends_in_branch
//     %k = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
//     | error: 'tile.load' op cannot specialize: expected the products that read it to end where they start
//     %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc> | note: this product does not
//     scf.if %yes {
//       %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
//     }
