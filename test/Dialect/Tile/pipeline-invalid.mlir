// RUN: flashc-opt %s --tile-pipeline --verify-diagnostics

// Every refusal of tile-pipeline.

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false>

gpu.module @kernels {
  gpu.func @stages_contradict(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected ops to read only what earlier stages, or their own, compute}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b {stage = 2 : i64} : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        // expected-note @+1 {{this op of stage 1 reads a later stage's value}}
        %to = tile.mma_async %p, %k into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  // What a tile reads of the one before must have been computed when its stage runs.
  gpu.func @next_tile_is_too_early(%q: !slot, %o: !acc, %a: !a, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected ops to read only what earlier stages, or their own, compute}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        // expected-note @+1 {{this op of stage 0 reads a later stage's value}}
        %ts = tile.mma_async %a, %q into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %to = tile.mma_async %p, %q {stage = 2 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  gpu.func @too_short_for_three_stages(%q: !slot, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    tile.program 1 {
    ^bb0(%w: index):
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected a trip count of at least 2 (an upper bound of arith.maxsi with a constant)}}
      scf.for %u = %zero to %one step %one {
        %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %to = tile.mma_async %p, %q {stage = 2 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
      }
    }
    gpu.return
  }

  gpu.func @wait_in_branch(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index, %yes: i1) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected products that start and end in the loop's body}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        // expected-note @+1 {{this product does not}}
        %to = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = scf.if %yes -> (!acc) {
          %x = tile.mma_wait %to : !tile.token<!acc> -> !acc
          scf.yield %x : !acc
        } else {
          scf.yield %acc : !acc
        }
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  gpu.func @store_of_the_accumulator(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index,
                   %dest: memref<?x?x?x64xf32>) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected only arithmetic to wait for a later stage's product}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        // expected-note @+1 {{this op has side effects}}
        tile.store %acc, %dest[%c0, %c0, %u] limit %c4 : !acc, memref<?x?x?x64xf32>
        %e = math.exp2 %s : !acc
        %p = tile.to_operand_a %e : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  gpu.func @step_of_4(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %zero = arith.constant 0 : index
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected a step of 1}}
      %r = scf.for %u = %zero to %c4 step %c4 iter_args(%acc = %o) -> (!acc) {
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

  gpu.func @dynamic_upper_bound(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)}}
      %r = scf.for %u = %zero to %n step %one iter_args(%acc = %o) -> (!acc) {
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

  // One tile is more than this lower bound leaves.
  gpu.func @one_tile_from_1(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %one = arith.constant 1 : index
      %total = arith.maxsi %n, %one : index
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected a trip count of at least 1 (an upper bound of arith.maxsi with a constant)}}
      %r = scf.for %u = %one to %total step %one iter_args(%acc = %o) -> (!acc) {
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

  gpu.func @no_schedule(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    // expected-error @+1 {{'tile.program' op expected a 'tile.schedule' on its kernel}}
    tile.program 1 {
    ^bb0(%w: index):
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
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
