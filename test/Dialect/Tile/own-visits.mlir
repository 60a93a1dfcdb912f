// RUN: %vary %s | flashc-opt --tile-ping-pong --tile-specialize --tile-place-waits --split-input-file | FileCheck %s
// RUN: %vary %s | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --split-input-file | FileCheck %s --check-prefix=PIPELINED

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = true>

// Each consumer runs its own part of the loop, and makes up for the rest; the producer loads for all.
// CHECK-LABEL: gpu.func @part(
// CHECK-SAME:      %[[MAP:arg0]]: {{.*}}, %[[Q:arg1]]: {{.*}}, %[[N:arg2]]: index, %[[FIRST:arg3]]: index
// CHECK:         %[[RING:.*]] = tile.alloc_ring
// CHECK:         tile.warp_specialize 2 registers(24, 240) producer {
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0
// CHECK-NOT:       %[[FIRST]]
// CHECK:           %[[BEGIN:.*]] = arith.constant 0
// CHECK:           %[[FROM:.*]] = arith.addi %[[ZERO]], %[[BEGIN]]
// CHECK:           %[[LOOP:.*]] = scf.for %[[U:.*]] = %[[BEGIN]] to %[[N]] step %{{.*}} iter_args(%[[G:.*]] = %[[FROM]])
// CHECK:             tile.acquire %[[RING]][%[[G]]]
// CHECK:           arith.subi %[[N]], %[[N]]
// CHECK:         } consumer {
// CHECK-NEXT:    ^bb0(%[[W:.*]]: index):
// CHECK:           %[[ZERO:.*]] = arith.constant 0
// CHECK:           %[[OWN:.*]] = arith.addi %[[FIRST]], %[[W]]
// The turns and slots in front, numbered from 0 on.
// CHECK:           scf.for %[[T:.*]] = %{{.*}} to %[[OWN]] step
// CHECK-NEXT:        tile.ping_pong_wait %[[W]]
// CHECK-NEXT:        tile.ping_pong_pass %[[W]]
// CHECK-NEXT:        %[[COUNT:.*]] = arith.addi %[[ZERO]], %[[T]]
// CHECK-NEXT:        %[[SLOT:.*]] = tile.wait %[[RING]][%[[COUNT]]]
// CHECK-NEXT:        tile.warpgroup_barrier
// CHECK-NEXT:        tile.release %[[SLOT]]
// CHECK-NEXT:      }
// CHECK:           %[[FROM:.*]] = arith.addi %[[ZERO]], %[[OWN]]
// CHECK:           %[[LOOP:.*]] = scf.for %{{.*}} = %[[OWN]] to %[[LAST:.*]] step %{{.*}} iter_args(%[[G:.*]] = %[[FROM]])
// CHECK:             tile.wait %[[RING]][%[[G]]]
// CHECK:             tile.ping_pong_wait
// CHECK:             tile.ping_pong_pass
// CHECK:           %[[REST:.*]] = arith.subi %[[N]], %[[LAST]]
// And those behind, which go on from there.
// CHECK:           scf.for %[[T:.*]] = %{{.*}} to %[[REST]] step
// CHECK:             %[[COUNT:.*]] = arith.addi %[[LOOP]], %[[T]]
// CHECK-NEXT:        %[[SLOT:.*]] = tile.wait %[[RING]][%[[COUNT]]]
// CHECK-NEXT:        tile.warpgroup_barrier
// CHECK-NEXT:        tile.release %[[SLOT]]
// CHECK-NOT:     tile.own_visits
// CHECK-NOT:     tile.advance_ring
gpu.module @kernels {
  gpu.func @part(%map: !map, %q: !slot, %n: index, %from: index, %c1: index, %c0: index) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %first = arith.addi %from, %w : index
      %last = arith.subi %n, %w : index
      %begin, %end = tile.own_visits %first to %last of %n
      tile.advance_ring %begin of %ring : !ring
      scf.for %u = %begin to %end step %c1 {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
      }
      %rest = arith.subi %n, %end : index
      tile.advance_ring %rest of %ring : !ring
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false>

// Rotated: own visits are one at least, so the first one needs no question. Without turns none is handed on; the last one
// leaves out nothing, so nothing needs to be skipped behind it.
// PIPELINED-LABEL: gpu.func @NAME(
// PIPELINED-SAME:    %[[N:arg2]]: index
// PIPELINED:         } consumer {
// PIPELINED-NEXT:    ^bb0(%[[W:.*]]: index):
// PIPELINED:           scf.for %{{.*}} = %{{.*}} to %[[W]] step
// PIPELINED-NEXT:        arith.addi
// PIPELINED-NEXT:        %[[K:.*]] = tile.wait
// PIPELINED-NEXT:        arith.addi
// PIPELINED-NEXT:        %[[V:.*]] = tile.wait
// PIPELINED-NEXT:        tile.warpgroup_barrier
// PIPELINED-NEXT:        tile.release %[[K]]
// PIPELINED-NEXT:        tile.release %[[V]]
// PIPELINED-NEXT:      }
// PIPELINED:           tile.mma_async
// PIPELINED:           %[[SECOND:.*]] = arith.addi %[[W]], %{{.*}} : index
// PIPELINED:           scf.for %{{.*}} = %[[SECOND]] to %[[N]] step
// PIPELINED-COUNT-2:     tile.mma_async
// PIPELINED:           tile.mma_async
// PIPELINED-NOT:       scf.for
gpu.module @kernels {
  gpu.func @NAME(%map: !map, %q: !slot, %n: index, %zero: !acc, %c0: index) kernel
      attributes {tile.schedule = #schedule} {
    %c1 = arith.constant 1 : index
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %begin, %end = tile.own_visits %w to %n of %n
      tile.advance_ring %begin of %kring, %vring : !ring, !ring
      scf.for %u = %begin to %end step %c1 iter_args(%acc = %zero) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %kring : !map, !ring -> !slot
        %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %map[%c0, %c0, %u] into %vring : !map, !ring -> !slot
        %o = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %r = tile.mma_wait %o : !tile.token<!acc> -> !acc
        scf.yield %r : !acc
      }
    }
    gpu.return
  }
}

// One slot of each ring: the producer fills K's again before it comes to V's, so each is released for itself.
// PIPELINED-LABEL: gpu.func @single(
// PIPELINED:         } consumer {
// PIPELINED:           tile.wait
// PIPELINED-NEXT:      tile.warpgroup_barrier
// PIPELINED-NEXT:      tile.release
// PIPELINED-NEXT:      arith.addi
// PIPELINED-NEXT:      tile.wait
// PIPELINED-NEXT:      tile.warpgroup_barrier
// PIPELINED-NEXT:      tile.release
// VARY single
//   !ring = !tile.ring<2 => !ring = !tile.ring<1
