// RUN: flashc-opt %s --tile-pipeline --verify-diagnostics

// Every refusal of tile-pipeline.

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 1, kv_tile = 64, stages = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false>

gpu.module @kernels {
  gpu.func @two_first_products(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected one product of slots and one of a register operand, got 2 and 1}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts2 = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s2 = tile.mma_wait %ts2 : !tile.token<!acc> -> !acc
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
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
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
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

  gpu.func @read_in_the_same_tile(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected the second product to be read by the next tile only}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        // expected-note @+1 {{this op reads it}}
        %twice = arith.addf %acc2, %acc2 : !acc
        scf.yield %twice : !acc
      }
    }
    gpu.return
  }

  gpu.func @carried_twice(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected the loop to carry the second product once}}
      %r:2 = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o, %copy = %o) -> (!acc, !acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2, %acc2 : !acc, !acc
      }
    }
    gpu.return
  }

  gpu.func @not_a_load(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected the second product to read a tile.load of the loop's body}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.wait %ring[%u] : !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  gpu.func @shared_tile(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected the second product to be the only reader of its tile}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        // expected-note @+1 {{this tile is read by others}}
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %v transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }

  gpu.func @position_is_carried(%q: !slot, %map: !map, %o: !acc, %c0: index, %c1: index) kernel
      attributes {tile.schedule = #schedule} {
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      // expected-error @+2 {{'scf.for' op cannot pipeline: expected the second product's tile to depend on the loop's index only}}
      // expected-note @+1 {{it depends on this value}}
      %r:2 = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o, %j = %c0) -> (!acc, index) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %j] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        %j2 = arith.addi %j, %c1 : index
        scf.yield %acc2, %j2 : !acc, index
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
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected only arithmetic to depend on the second product}}
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        // expected-note @+1 {{this op has side effects}}
        tile.store %acc, %dest[%c0, %c0, %u] limit %c4 : !acc, memref<?x?x?x64xf32>
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
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
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
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
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected at least one iteration (an upper bound of arith.maxsi with a constant)}}
      %r = scf.for %u = %zero to %n step %one iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
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
      // expected-error @+1 {{'scf.for' op cannot pipeline: expected at least one iteration (an upper bound of arith.maxsi with a constant)}}
      %r = scf.for %u = %one to %total step %one iter_args(%acc = %o) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
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
        %to = tile.mma_async %p, %v into %acc : !acc : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }
}
