// RUN: %vary %s | flashc-opt --split-input-file --tile-pipeline --verify-diagnostics

// Every refusal of tile-pipeline.

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false>

gpu.module @kernels {
  gpu.func @kernel(%q: !slot, %map: !map, %o: !acc, %a: !a, %dest: memref<?x?x?x64xf32>, %c0: index, %c1: index, %n: index,
      %yes: i1) kernel attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %r = scf.for %u = %zero to %c4 step %one iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }
}

// VARY stages_contradict
//   %r = | error: 'scf.for' op cannot pipeline: expected ops to read only what earlier stages, or their own, compute
//   : !slot, !slot => {stage = 2 : i64} : !slot, !slot
//   %v into => %k into | note: this op of stage 1 reads a later stage's value
// VARY next_tile_is_too_early: What a tile reads of the one before must have been computed when its stage runs.
//   %r = | error: 'scf.for' op cannot pipeline: expected ops to read only what earlier stages, or their own, compute
//   %q, %k transpose_b : !slot => %a, %q into %acc : !acc : !a | note: this op of stage 0 reads a later stage's value
//   %v into %acc : !acc {stage = 1 : i64} => %q {stage = 2 : i64}
// VARY too_short_for_three_stages
//   to %c4 step => to %one step
//     | error: 'scf.for' op cannot pipeline: expected a trip count of at least 2 (an upper bound of arith.maxsi with a constant)
//   %k transpose_b => %q transpose_b
//   %v into %acc : !acc {stage = 1 : i64} => %q {stage = 2 : i64}
// VARY wait_in_branch
//   %r = | error: 'scf.for' op cannot pipeline: expected products that start and end in the loop's body
//   %to = | note: this product does not
//   tile.mma_wait %to : !tile.token<!acc> -> !acc => scf.if %yes -> (!acc) {
//   scf.yield =>
//     %x = tile.mma_wait %to : !tile.token<!acc> -> !acc
//     scf.yield %x : !acc
//     } else {
//     scf.yield %acc : !acc
//     }
//     scf.yield
// VARY store_of_the_accumulator
//   %r = | error: 'scf.for' op cannot pipeline: expected only arithmetic to wait for a later stage's product
//   %p = =>
//     tile.store %acc, %dest[%c0, %c0, %u] limit %c4 : !acc, memref<?x?x?x64xf32> | note: this op has side effects
//     %e = math.exp2 %s : !acc
//     %p =
//   %s : !acc -> !a => %e : !acc -> !a
// VARY step_of_4
//   %one iter_args => %c4 iter_args | error: 'scf.for' op cannot pipeline: expected a step of 1
// VARY dynamic_upper_bound
//   %c4 step => %n step
//     | error: 'scf.for' op cannot pipeline: expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)
// VARY one_tile_from_1: One tile is more than this lower bound leaves.
//   %r = =>
//     %total = arith.maxsi %n, %one : index
//     %r =
//   %zero to %c4 => %one to %total
//     | error: 'scf.for' op cannot pipeline: expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)
// VARY no_schedule
//   attributes {tile.schedule = #schedule} { => {
//   tile.program | error: 'tile.program' op expected a 'tile.schedule' on its kernel
