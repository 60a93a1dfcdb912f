// What a CTA draws is the producer's business: it takes a number when an iteration begins, and when all is loaded it finds
// out what the number stands for and publishes it. A consumer hears it behind its last product.
// RUN: flashc-opt %s --split-input-file | flashc-opt --split-input-file | FileCheck %s --check-prefix=OPS
// RUN: flashc-opt %s --split-input-file --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse | FileCheck %s
// RUN: flashc-opt %s --split-input-file --tile-pipeline --tile-ping-pong --tile-specialize --tile-place-waits --tile-overlap-epilogue --canonicalize --cse | FileCheck %s --check-prefix=OVERLAP

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!qring = !tile.ring<2, 64, 64, bf16, private true>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = false, epilogue = product>

// OPS:      %[[NEXT:.*]]:2 = tile.draw %{{.*}}[%{{.*}}] from %{{.*}} below %{{.*}} : memref<?xi32> -> index, index {
// OPS-NEXT: ^bb0(%[[NUMBER:.*]]: index):
// OPS:        tile.drawn %{{.*}}, %{{.*}} : index, index
// OPS:      scf.yield %[[NEXT]]#0, %[[NEXT]]#1

// CHECK-LABEL: gpu.func @work_tiles(
// CHECK-SAME:      %{{.*}}: !tile.tensor_map<64 x bf16>, %[[LIST:.*]]: memref<?xi32>, %[[PLACE:.*]]: index, %[[CTAS:.*]]: index, %[[LIMIT:.*]]: index, %[[X0:.*]]: index, %[[N0:.*]]: index, %[[MANY:.*]]: index, %{{.*}}: memref
// CHECK:         tile.warp_specialize 2 registers(24, 240) producer {
// CHECK:           scf.for %[[TURN:.*]] = %c0 to %[[MANY]] step %c1 iter_args(%[[X:.*]] = %[[X0]], %[[N:.*]] = %[[N0]],
// CHECK-NEXT:        %[[TAKEN:.*]] = tile.consume %[[LIST]][%[[PLACE]]]
// CHECK-NOT:         memref.load
// CHECK:             %[[TOTAL:.*]] = arith.maxsi %[[N]], %c1
// CHECK:             scf.for %{{.*}} = %c1 to %[[TOTAL]]
// CHECK:             scf.yield
// CHECK:             tile.copy_async
// CHECK-NOT:         tile.copy_async
// CHECK:             %[[NUMBER:.*]] = arith.addi %[[CTAS]], %[[TAKEN]]
// CHECK:             %[[EXISTS:.*]] = arith.cmpi ult, %[[NUMBER]], %[[LIMIT]]
// CHECK:             %[[LAST:.*]] = arith.subi %[[LIMIT]], %c1
// CHECK:             %[[KNOWN:.*]] = arith.minui %[[NUMBER]], %[[LAST]]
// CHECK:             memref.load %[[LIST]][%[[KNOWN]]]
// CHECK:             tile.publish %[[EXISTS]], %[[X1:.*]], %[[N1:.*]] in %[[TURN]]
// CHECK:             tile.repeat_if %[[EXISTS]]
// CHECK:             scf.yield %[[X1]], %[[N1]],
// CHECK:         } consumer {
// CHECK:           scf.for %[[TURN:.*]] = %c0 to %[[MANY]] step %c1 iter_args(%[[X:.*]] = %[[X0]], %[[N:.*]] = %[[N0]],
// CHECK-NOT:         tile.published
// CHECK:             %[[TOTAL:.*]] = arith.maxsi %[[N]], %c1
// CHECK:             scf.for %{{.*}} = %c1 to %[[TOTAL]]
// CHECK:             tile.mma_async
// CHECK:             tile.mma_async
// CHECK:             tile.mma_async
// CHECK-NEXT:        %[[EXISTS:.*]], %[[HEARD:.*]]:2 = tile.published %[[TURN]] : index, index
// CHECK-NEXT:        %[[X1:.*]] = tile.uniform %[[HEARD]]#0
// CHECK-NEXT:        %[[N1:.*]] = tile.uniform %[[HEARD]]#1
// CHECK-NEXT:        tile.repeat_if %[[EXISTS]]
// CHECK-NEXT:        tile.mma_wait
// CHECK-NOT:         memref.load
// CHECK:             scf.yield %[[X1]], %[[N1]],

// The next work tile's head is behind the broadcast on both sides, and takes what was published.
// OVERLAP-LABEL: gpu.func @work_tiles(
// OVERLAP:       tile.warp_specialize 2 registers(24, 240) producer {
// OVERLAP:         tile.consume
// OVERLAP:         scf.for
// OVERLAP:           tile.publish
// OVERLAP:           tile.repeat_if
// OVERLAP:           tile.consume
// OVERLAP:       } consumer {
// OVERLAP:         scf.for
// OVERLAP:           %{{.*}}, %[[HEARD:.*]]:2 = tile.published
// OVERLAP-NEXT:      %[[X1:.*]] = tile.uniform %[[HEARD]]#0
// OVERLAP:           tile.repeat_if
// OVERLAP:           tile.wait
// OVERLAP:           tile.mma_async
// OVERLAP:           tile.mma_wait
// OVERLAP:           scf.yield %[[X1]],
gpu.module @kernels {
  gpu.func @work_tiles(%map: !map, %list: memref<?xi32>, %place: index, %ctas: index, %limit: index, %x0: index,
                   %n0: index, %many: index, %out: memref<1x1x?x64xbf16>) kernel
      attributes {tile.schedule = #schedule} {
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !acc
    tile.program 2 {
    ^bb0(%w: index):
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %x0, %n = %n0) -> (index, index) {
        %next:2 = tile.draw %list[%place] from %ctas below %limit : memref<?xi32> -> index, index {
        ^bb0(%number: index):
          %item = memref.load %list[%number] : memref<?xi32>
          %x1 = arith.index_cast %item : i32 to index
          %n1 = arith.addi %x1, %c1 : index
          tile.drawn %x1, %n1 : index, index
        }
        %total = arith.maxsi %n, %c1 : index
        %row = arith.addi %x, %w : index
        %q = tile.load %map[%c0, %c0, %row] into %qring : !map, !qring -> !slot
        %o = scf.for %u = %c0 to %total step %c1 iter_args(%acc = %zero) -> (!acc) {
          %k = tile.load %map[%c0, %c0, %u] into %kring : !map, !ring -> !slot
          %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
          %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
          %p = tile.to_operand_a %s : !acc -> tensor<64x64xbf16, #tile.operand_a>
          %v = tile.load %map[%c0, %c0, %u] into %vring : !map, !ring -> !slot
          %to = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : tensor<64x64xbf16, #tile.operand_a>, !slot -> !tile.token<!acc>
          %sum = tile.mma_wait %to : !tile.token<!acc> -> !acc
          scf.yield %sum : !acc
        }
        tile.store %o, %out[%c0, %c0, %row] limit %limit : !acc, memref<1x1x?x64xbf16>
        scf.yield %next#0, %next#1 : index, index
      }
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!qring = !tile.ring<1, 64, 64, bf16, private true>
!slot = !tile.slot<64, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = true>

// A consumer that leaves out the last tiles releases them before it hears of the next work tile: without those slots
// the producer does not get to the end of this one.
// CHECK-LABEL: gpu.func @own_keys(
// CHECK:         } consumer {
// CHECK:           scf.for {{.*}} iter_args
// CHECK-NOT:         tile.published
// CHECK:             scf.for %{{.*}} = %c1 to
// CHECK:               tile.mma_async
// CHECK:             tile.mma_wait
// CHECK:             scf.for
// CHECK-NEXT:          tile.ping_pong_wait
// CHECK-NEXT:          tile.ping_pong_pass
// CHECK:               tile.wait
// CHECK:               tile.release
// CHECK:             }
// CHECK-NEXT:        tile.published
// CHECK:             tile.repeat_if
// CHECK-NOT:         tile.wait
// CHECK:             tile.store
gpu.module @kernels {
  gpu.func @own_keys(%map: !map, %list: memref<?xi32>, %place: index, %ctas: index, %limit: index, %x0: index,
                     %many: index, %total: index, %out: memref<1x1x?x64xbf16>) kernel
      attributes {tile.schedule = #schedule} {
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !acc
    tile.program 2 {
    ^bb0(%w: index):
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %x0) -> (index) {
        %next = tile.draw %list[%place] from %ctas below %limit : memref<?xi32> -> index {
        ^bb0(%number: index):
          tile.drawn %number : index
        }
        %row = arith.addi %x, %w : index
        %q = tile.load %map[%c0, %c0, %row] into %qring : !map, !qring -> !slot
        %visits = arith.maxsi %total, %c1 : index
        %less = arith.subi %visits, %w : index
        %last = arith.maxsi %less, %c1 : index
        %begin, %end = tile.own_visits %c0 to %last of %visits
        tile.advance_ring %begin of %kring, %vring : !ring, !ring
        %o = scf.for %u = %begin to %end step %c1 iter_args(%acc = %zero) -> (!acc) {
          %k = tile.load %map[%c0, %c0, %u] into %kring : !map, !ring -> !slot
          %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
          %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
          %p = tile.to_operand_a %s : !acc -> tensor<64x64xbf16, #tile.operand_a>
          %v = tile.load %map[%c0, %c0, %u] into %vring : !map, !ring -> !slot
          %to = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : tensor<64x64xbf16, #tile.operand_a>, !slot -> !tile.token<!acc>
          %sum = tile.mma_wait %to : !tile.token<!acc> -> !acc
          scf.yield %sum : !acc
        }
        %rest = arith.subi %visits, %end : index
        tile.advance_ring %rest of %kring, %vring : !ring, !ring
        tile.store %o, %out[%c0, %c0, %row] limit %limit : !acc, memref<1x1x?x64xbf16>
        scf.yield %next : index
      }
    }
    gpu.return
  }
}
