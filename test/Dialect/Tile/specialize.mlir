// RUN: flashc-opt %s --tile-ping-pong --tile-specialize --tile-place-waits | FileCheck %s

// The schedule's choices, on a whole program: PAIR with overlap, SINGLE without.
// RUN: flashc-opt %S/Inputs/causal.mlir --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefixes=PAIR,BOTH
// RUN: sed 's/overlap = true/overlap = false/' %S/Inputs/causal.mlir \
// RUN:   | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse | FileCheck %s --check-prefixes=SINGLE,BOTH
// What the first product of a work tile does not need is computed behind it, if it runs under stores:
// RUN: sed 's/ping_pong = true/ping_pong = true, epilogue = product/' %S/Inputs/causal.mlir \
// RUN:   | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse | FileCheck %s --check-prefix=UNDER
// RUN: sed 's/ping_pong = true/ping_pong = false/' %S/Inputs/causal.mlir \
// RUN:   | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits | FileCheck %s --check-prefix=NO-TURNS
// RUN: sed 's/consumers = 2/consumers = 1/; s/tile.program 2/tile.program 1/' %S/Inputs/causal.mlir \
// RUN:   | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits | FileCheck %s --check-prefix=SOLO
// RUN: sed 's/consumers = 2/consumers = 3/; s/tile.program 2/tile.program 3/; s/registers = 240/registers = 160/' \
// RUN:   %S/Inputs/causal.mlir | flashc-opt --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits | FileCheck %s --check-prefix=TRIO

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!qring = !tile.ring<1, 64, 64, bf16, private true>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = true>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @smallest(
  // CHECK-SAME:      %[[QMAP:arg0]]: {{.*}}, %[[KMAP:arg1]]: {{.*}}, %[[N:arg2]]: index
  // CHECK:         %[[QRING:.*]] = tile.alloc_ring : <1,
  // CHECK:         %[[KRING:.*]] = tile.alloc_ring : <2,
  // CHECK-NEXT:    tile.warp_specialize 2 registers(24, 240) producer {
  // CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0 : index
  // CHECK-NEXT:      %[[ONE:.*]] = arith.constant 1 : index
  // The private tile once per consumer, at its own row.
  // CHECK-NEXT:      %[[W0:.*]] = arith.constant 0 : index
  // CHECK-NEXT:      %[[ROW0:.*]] = arith.muli %[[W0]], %[[C64:.*]] :
  // CHECK-NEXT:      tile.acquire %[[QRING]][%[[ZERO]]] owner 0
  // CHECK-NEXT:      tile.copy_async %[[QMAP]][%[[C0:.*]], %[[C0]], %[[ROW0]]] into %[[QRING]][%[[ZERO]]] owner 0
  // CHECK-NEXT:      %[[W1:.*]] = arith.constant 1 : index
  // CHECK-NEXT:      %[[ROW1:.*]] = arith.muli %[[W1]], %[[C64]] :
  // CHECK-NEXT:      tile.acquire %[[QRING]][%[[ZERO]]] owner 1
  // CHECK-NEXT:      tile.copy_async %[[QMAP]][%[[C0]], %[[C0]], %[[ROW1]]] into %[[QRING]][%[[ZERO]]] owner 1
  // CHECK-NEXT:      arith.addi
  // No tile, and no branch on one.
  // CHECK-NEXT:      scf.for %[[U:.*]] = %[[C0]] to %[[N]] step %[[C1:.*]] iter_args(%[[G:.*]] = %[[ZERO]]) -> (index) {
  // CHECK-NEXT:        %[[J:.*]] = arith.muli %[[U]], %[[C64]]
  // CHECK-NEXT:        tile.acquire %[[KRING]][%[[G]]] :
  // CHECK-NEXT:        tile.copy_async %[[KMAP]][%[[C0]], %[[C0]], %[[J]]] into %[[KRING]][%[[G]]] :
  // CHECK-NEXT:        %[[NEXT:.*]] = arith.addi %[[G]], %[[ONE]]
  // CHECK-NEXT:        scf.yield %[[NEXT]] : index
  // CHECK-NEXT:      }
  // CHECK-NEXT:    } consumer {
  // CHECK-NEXT:    ^bb0(%[[W:.*]]: index):
  // CHECK:           %[[Q:.*]] = tile.wait %[[QRING]][%[[ZERO:.*]]] :
  // CHECK:           scf.for %{{.*}} = %[[C0]] to %[[N]] step %[[C1]]
  // CHECK-SAME:          iter_args(%[[ACC:.*]] = %{{.*}}, %[[G:.*]] = %[[ZERO]]) -> (tensor<{{.*}}>, index)
  // CHECK:             %[[K:.*]] = tile.wait %[[KRING]][%[[G]]] :
  // CHECK-NEXT:        %[[NEXT:.*]] = arith.addi %[[G]], %{{.*}}
  // CHECK-NEXT:        tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:        %[[T:.*]] = tile.mma_async %[[Q]], %[[K]]
  // CHECK-NEXT:        tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:        %[[S:.*]] = tile.mma_wait %[[T]]
  // CHECK-NEXT:        tile.release %[[K]]
  // CHECK:             %[[KEPT:.*]] = scf.if
  // CHECK:             scf.yield %[[KEPT]], %[[NEXT]]
  // CHECK-NEXT:      }
  // The loop is the last reader of Q.
  // CHECK-NEXT:      tile.release %[[Q]]
  gpu.func @smallest(%qmap: !map, %kmap: !map, %n: index, %init: !acc) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %row = arith.muli %w, %c64 : index
      %q = tile.load %qmap[%c0, %c0, %row] into %qring : !map, !qring -> !slot
      %r = scf.for %u = %c0 to %n step %c1 iter_args(%acc = %init) -> (!acc) {
        %j = arith.muli %u, %c64 : index
        %k = tile.load %kmap[%c0, %c0, %j] into %kring : !map, !ring -> !slot
        %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
        %odd = arith.cmpi eq, %j, %row : index
        %kept = scf.if %odd -> (!acc) {
          scf.yield %acc : !acc
        } else {
          scf.yield %s : !acc
        }
        scf.yield %kept : !acc
      }
    }
    gpu.return
  }

  // One ring, loaded before, inside and after nested loops: one counter goes through all of it, the same on both sides.
  // A tile that is never read is released at once. The loop's bound is read from memory.
  // CHECK-LABEL: gpu.func @one_ring_everywhere(
  // CHECK:         producer {
  // CHECK:           %[[END:.*]] = memref.load %arg1
  // CHECK:           tile.acquire %[[RING:.*]][%[[ZERO:.*]]] :
  // CHECK:           %[[G1:.*]] = arith.addi %[[ZERO]], %[[ONE:.*]] :
  // CHECK-NEXT:      %[[R:.*]] = scf.for %{{.*}} = %{{.*}} to %[[END]] step %{{.*}} iter_args(%[[A:.*]] = %[[G1]])
  // CHECK-NEXT:        %[[R2:.*]] = scf.for {{.*}} iter_args(%[[B:.*]] = %[[A]])
  // CHECK-NEXT:          tile.acquire %[[RING]][%[[B]]]
  // CHECK-NEXT:          tile.copy_async {{.*}} into %[[RING]][%[[B]]]
  // CHECK-NEXT:          %[[B1:.*]] = arith.addi %[[B]], %[[ONE]]
  // CHECK-NEXT:          tile.acquire %[[RING]][%[[B1]]]
  // CHECK-NEXT:          tile.copy_async {{.*}} into %[[RING]][%[[B1]]]
  // CHECK-NEXT:          %[[B2:.*]] = arith.addi %[[B1]], %[[ONE]]
  // CHECK-NEXT:          scf.yield %[[B2]]
  // CHECK-NEXT:        }
  // CHECK-NEXT:        scf.yield %[[R2]]
  // CHECK-NEXT:      }
  // CHECK-NEXT:      tile.acquire %[[RING]][%[[R]]]
  // CHECK:         consumer {
  // CHECK:           %[[S:.*]] = tile.wait %[[RING]][%[[ZERO:.*]]] :
  // CHECK-NEXT:      tile.release %[[S]]
  // CHECK-NEXT:      %[[G1:.*]] = arith.addi %[[ZERO]], %[[ONE:.*]] :
  // CHECK-NEXT:      %[[R:.*]] = scf.for {{.*}} iter_args(%[[A:.*]] = %[[G1]])
  // CHECK-NEXT:        %[[R2:.*]] = scf.for {{.*}} iter_args(%[[B:.*]] = %[[A]])
  // CHECK-NEXT:          %[[S:.*]] = tile.wait %[[RING]][%[[B]]]
  // CHECK-NEXT:          tile.release %[[S]]
  // CHECK-NEXT:          %[[B1:.*]] = arith.addi %[[B]], %[[ONE]]
  // CHECK-NEXT:          %[[S:.*]] = tile.wait %[[RING]][%[[B1]]]
  // CHECK:               scf.yield
  // CHECK:             scf.yield %[[R2]]
  // CHECK:           tile.wait %[[RING]][%[[R]]]
  gpu.func @one_ring_everywhere(%map: !map, %lengths: memref<4xindex>) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %b = gpu.block_id z
      %end = memref.load %lengths[%b] : memref<4xindex>
      %first = tile.load %map[%c0, %c0, %c0] into %ring : !map, !ring -> !slot
      scf.for %i = %c0 to %end step %c1 {
        scf.for %j = %i to %end step %c1 {
          %s0 = tile.load %map[%c0, %i, %j] into %ring : !map, !ring -> !slot
          %s1 = tile.load %map[%c0, %j, %i] into %ring : !map, !ring -> !slot
        }
      }
      %last = tile.load %map[%c0, %c0, %end] into %ring : !map, !ring -> !slot
    }
    gpu.return
  }

  // A slot that a tile leaves through is released at the end of the block that waits for it, behind the wait for the
  // copy, where other work lies between: in a loop over work tiles in front of its terminator, without a loop behind
  // everything.
  // CHECK-LABEL: gpu.func @stored_in_a_loop(
  // CHECK:         consumer {
  // CHECK:             %[[Q:.*]] = tile.wait
  // CHECK:             tile.mma_wait
  // CHECK-NOT:         tile.release
  // CHECK:             tile.store_async %{{.*}}, %{{.*}} through %[[Q]]
  // CHECK-NEXT:        tile.store %
  // CHECK-NEXT:        tile.store_wait
  // CHECK-NEXT:        tile.release %[[Q]]
  // CHECK-NEXT:        scf.yield
  // CHECK-NOT:         {{tile.(store_wait|release)}}
  gpu.func @stored_in_a_loop(%map: !map, %o: memref<1x1x?x64xbf16>, %n: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %qring = tile.alloc_ring : !qring
    tile.program 2 {
    ^bb0(%w: index):
      scf.for %p = %c0 to %n step %c1 {
        %q = tile.load %map[%c0, %c0, %p] into %qring : !map, !qring -> !slot
        %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
        tile.store_async %s, %map[%c0, %c0, %p] through %q : !acc, !map, !slot
        tile.store %s, %o[%c0, %c0, %p] limit %n : !acc, memref<1x1x?x64xbf16>
      }
    }
    gpu.return
  }

  // Through a slot of the output's own: Q's is released behind its last product, and what leaves last has been read
  // when the consumers end.
  // CHECK-LABEL: gpu.func @stored_through_its_own(
  // CHECK:         %[[O:.*]] = tile.alloc_slot output
  // CHECK:         consumer {
  // CHECK:             %[[Q:.*]] = tile.wait
  // CHECK:             tile.mma_wait
  // CHECK-NEXT:        tile.release %[[Q]]
  // CHECK-NEXT:        tile.store_wait all
  // CHECK-NEXT:        tile.store_async %{{.*}}, %{{.*}} through %[[O]]
  // CHECK-NEXT:        scf.yield
  // CHECK-NEXT:      }
  // CHECK-NEXT:      tile.store_wait{{$}}
  // CHECK-NEXT:    }
  // CHECK-NEXT:    gpu.return
  gpu.func @stored_through_its_own(%map: !map, %n: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %qring = tile.alloc_ring : !qring
    %slot = tile.alloc_slot output : !slot
    tile.program 2 {
    ^bb0(%w: index):
      scf.for %p = %c0 to %n step %c1 {
        %q = tile.load %map[%c0, %c0, %p] into %qring : !map, !qring -> !slot
        %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
        tile.store_wait all
        tile.store_async %s, %map[%c0, %c0, %p] through %slot : !acc, !map, !slot
      }
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @stored_once(
  // CHECK:         consumer {
  // CHECK:           %[[Q:.*]] = tile.wait
  // CHECK-NOT:       tile.release
  // CHECK:           tile.store_async %{{.*}}, %{{.*}} through %[[Q]]
  // CHECK-NEXT:      tile.store %
  // CHECK-NEXT:      tile.store_wait
  // CHECK-NEXT:      tile.release %[[Q]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:    gpu.return
  gpu.func @stored_once(%map: !map, %o: memref<1x1x?x64xbf16>, %n: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %qring = tile.alloc_ring : !qring
    tile.program 2 {
    ^bb0(%w: index):
      %q = tile.load %map[%c0, %c0, %c0] into %qring : !map, !qring -> !slot
      %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
      %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
      tile.store_async %s, %map[%c0, %c0, %c0] through %q : !acc, !map, !slot
      tile.store %s, %o[%c0, %c0, %c0] limit %n : !acc, memref<1x1x?x64xbf16>
    }
    gpu.return
  }
}

// Prologue.
// BOTH:          consumer {
// BOTH:          tile.ping_pong_wait %[[W:.*]]
// BOTH-NEXT:     tile.mma_async {{.*}} transpose_b
// BOTH-NEXT:     tile.ping_pong_pass %[[W]]
// BOTH-NEXT:     tile.mma_wait
// UNDER:         consumer {
// UNDER-NOT:     gpu.block_id
// UNDER:         tile.mma_async {{.*}} transpose_b
// UNDER-NEXT:    tile.ping_pong_pass
// UNDER-NEXT:    gpu.block_id x
// UNDER:         tile.mma_wait
// Kernel: both products are issued in one turn.
// PAIR:          scf.for
// PAIR:            %[[K:.*]] = tile.wait
// PAIR:            tile.ping_pong_wait %[[W]]
// PAIR-NEXT:       tile.mma_async {{.*}} transpose_b
// PAIR-NEXT:       %[[V:.*]] = tile.wait
// PAIR-NEXT:       arith.addi
// PAIR-NEXT:       %[[TO:.*]] = tile.mma_async
// PAIR-NEXT:       tile.ping_pong_pass %[[W]]
// PAIR-NEXT:       tile.mma_wait {{.*}} {pending = 1 : i64}
// PAIR-NEXT:       tile.release %[[K]]
// PAIR:            tile.mma_wait %[[TO]]
// PAIR-NEXT:       tile.release %[[V]]
// Epilogue: the second product alone is no turn.
// Without overlap the only turn is that of the first product, in the loop.
// BOTH-NOT:      tile.ping_pong
// SINGLE:        gpu.return

// NO-TURNS:      tile.warp_specialize
// NO-TURNS-NOT:  tile.ping_pong
// SOLO:          tile.warp_specialize 1
// SOLO:          tile.copy_async {{.*}} owner 0
// SOLO-NOT:      {{owner|tile.ping_pong}}
// TRIO:          tile.warp_specialize 3 registers(24, 160)
// TRIO:          tile.copy_async {{.*}} owner 0
// TRIO:          tile.copy_async {{.*}} owner 1
// TRIO:          tile.copy_async {{.*}} owner 2
// TRIO-NOT:      owner
// TRIO:          tile.ping_pong_wait
