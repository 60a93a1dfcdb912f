// Loads through a table of pages, and rows that are cleared: printed and parsed again, and in the roles.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --emit-bytecode | flashc-opt | FileCheck %s
// RUN: flashc-opt %s --tile-ping-pong --tile-specialize | FileCheck %s --check-prefix=ROLES

!acc = tensor<64x128xf32, #tile.acc>
!a = tensor<64x128xbf16, #tile.operand_a>
!table = memref<?x?xi32, strided<[?, 1]>>
!map = !tile.tensor_map<64 x bf16>
!vmap = !tile.tensor_map<128 x bf16>
!qring = !tile.ring<1, 64, 64, bf16, private true>
!ring = !tile.ring<2, 128, 64, bf16>
!qslot = !tile.slot<64, 64, bf16>
!slot = !tile.slot<128, 64, bf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = true>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @pages(
  // CHECK:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[J:.*]]] pages(%[[TABLE:.*]] : memref<?x?xi32, strided<[?, 1]>>) of 64 until %[[END:.*]] into %{{.*}} clear from %[[LEFT:.*]] :
  // CHECK-SAME:        !tile.tensor_map<64 x bf16>, <2, 128, 64, bf16> -> <128, 64, bf16>
  // CHECK:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[J]]] into %{{.*}} clear from %[[LEFT]] :

  // The producer hears of the table and of the end; the consumers clear what they have waited for, in front of the product,
  // and of the turn at it.
  // ROLES-LABEL: gpu.func @pages(
  // ROLES-SAME:      %{{.*}}, %[[KMAP:arg1]]: {{.*}}, %[[VMAP:arg2]]: {{.*}}, %[[TABLE:arg3]]: {{.*}}, %[[N:arg4]]: index, %[[END:arg5]]: index
  // ROLES:         producer {
  // ROLES:           scf.for
  // ROLES-NEXT:        %[[J:.*]] = arith.muli
  // ROLES-NEXT:        tile.acquire
  // ROLES-NEXT:        tile.copy_async %[[KMAP]][%c0, %c0, %[[J]]] pages(%[[TABLE]] : {{.*}}) of 64 until %[[END]] into %{{.*}}[%{{.*}}] :
  // ROLES-NEXT:        arith.addi
  // ROLES-NEXT:        tile.acquire
  // ROLES-NEXT:        tile.copy_async %[[VMAP]][%c0, %c0, %[[J]]] into
  // ROLES:         } consumer {
  // ROLES-NOT:       tile.clear_rows
  // ROLES:           scf.for
  // ROLES:             %[[LEFT:.*]] = arith.subi %[[END]]
  // ROLES-NEXT:        %[[K:.*]] = tile.wait
  // ROLES-NEXT:        tile.clear_rows %[[K]] from %[[LEFT]] : <128, 64, bf16>
  // ROLES:             tile.ping_pong_wait
  // ROLES-NEXT:        tile.mma_async %{{.*}}, %[[K]]
  // ROLES:             tile.release %[[K]]
  // ROLES:             %[[V:.*]] = tile.wait
  // ROLES-NEXT:        tile.clear_rows %[[V]] from %[[LEFT]]
  // ROLES:             tile.mma_async %{{.*}}, %[[V]]
  // ROLES:             tile.release %[[V]]
  gpu.func @pages(%qmap: !map, %kmap: !map, %vmap: !vmap, %table: !table, %n: index, %end: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #tile.acc>
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.program 2 {
    ^bb0(%w: index):
      %row = arith.muli %w, %c64 : index
      %q = tile.load %qmap[%c0, %c0, %row] into %qring : !map, !qring -> !qslot
      %o = scf.for %u = %c0 to %n step %c1 iter_args(%acc = %zero) -> tensor<64x64xf32, #tile.acc> {
        %j = arith.muli %u, %c128 : index
        %left = arith.subi %end, %j : index
        %k = tile.load %kmap[%c0, %c0, %j] pages(%table : !table) of 64 until %end into %kring clear from %left : !map, !ring -> !slot
        %t = tile.mma_async %q, %k transpose_b : !qslot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %v = tile.load %vmap[%c0, %c0, %j] into %vring clear from %left : !vmap, !ring -> !slot
        %t2 = tile.mma_async %p, %v into %acc : tensor<64x64xf32, #tile.acc> : !a, !slot -> !tile.token<tensor<64x64xf32, #tile.acc>>
        %next = tile.mma_wait %t2 : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
        scf.yield %next : tensor<64x64xf32, #tile.acc>
      }
    }
    gpu.return
  }
}
