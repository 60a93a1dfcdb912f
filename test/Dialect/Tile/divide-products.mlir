// RUN: flashc-opt %s --tile-divide-products --canonicalize --cse --split-input-file --verify-diagnostics | FileCheck %s

// The first role computes P and the sum `dv`, the second one dP and the sum `dk`. Each has the loads' waits, counts its
// own products in flight, and releases a slot when it no longer reads it. What a loop carries for the other role goes.

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!passed = !tile.ring<1, 64, 64, f32>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

// CHECK-LABEL: gpu.func @divide(
// CHECK-SAME:    %[[K:[^:]*]]: !tile.slot<64, 64, bf16>, %[[V:[^:]*]]: !tile.slot<64, 64, bf16>, %[[DV:[^:]*]]: memref{{[^,]*}}, %[[DK:[^:]*]]: memref
gpu.module @kernels {
  gpu.func @divide(%k: !slot, %v: !slot, %dvs: memref<?x?x?x64xf32>, %dks: memref<?x?x?x64xf32>, %n: index) kernel
      attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zeros = arith.constant dense<0.0> : !acc
    // CHECK: %[[QS:.*]] = tile.alloc_ring
    // CHECK: %[[DOS:.*]] = tile.alloc_ring
    // CHECK: %[[PASSED:.*]] = tile.alloc_ring : <1, 64, 64, f32>
    %qs = tile.alloc_ring : !ring
    %dos = tile.alloc_ring : !ring
    %passed = tile.alloc_ring : !passed
    // CHECK: consumer {
    // CHECK: ^bb0(%[[W:.*]]: index):
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[W]], %{{.*}} : index
      // CHECK: scf.if %[[FIRST]] {
      // CHECK:   %[[R:.*]] = scf.for %[[I:.*]] = {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<64x64xf32, #tile.acc>) {
      // CHECK:     %[[Q:.*]] = tile.wait %[[QS]][%[[I]]]
      // CHECK:     %[[DO:.*]] = tile.wait %[[DOS]][%[[I]]]
      // CHECK:     %[[S:.*]] = tile.mma_async %[[K]], %[[Q]] transpose_b
      // CHECK:     %[[P:.*]] = tile.mma_wait %[[S]] :
      // CHECK:     tile.release %[[Q]]
      // CHECK:     tile.send %[[P]] into %[[PASSED]][%[[I]]]
      // CHECK:     %[[PA:.*]] = tile.to_operand_a %[[P]]
      // CHECK:     %[[T:.*]] = tile.mma_async %[[PA]], %[[DO]] into %[[SUM]]
      // CHECK-NOT: tile.mma_async
      // CHECK:     %[[NEXT:.*]] = tile.mma_wait %[[T]] :
      // CHECK:     tile.release %[[DO]]
      // CHECK:     scf.yield %[[NEXT]] : tensor
      // CHECK:   tile.store %[[R]], %[[DV]]
      // CHECK-NOT: tile.store
      // CHECK: } else {
      // CHECK:   %[[R:.*]] = scf.for %[[I:.*]] = {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<64x64xf32, #tile.acc>) {
      // CHECK:     %[[Q:.*]] = tile.wait %[[QS]][%[[I]]]
      // CHECK:     %[[DO:.*]] = tile.wait %[[DOS]][%[[I]]]
      // CHECK:     %[[D:.*]] = tile.mma_async %[[V]], %[[DO]] transpose_b
      // CHECK:     %[[DP:.*]] = tile.mma_wait %[[D]] :
      // CHECK:     tile.release %[[DO]]
      // CHECK:     %[[P:.*]] = tile.receive %[[PASSED]][%[[I]]]
      // CHECK:     %[[DX:.*]] = arith.mulf %[[P]], %[[DP]]
      // CHECK:     %[[DXA:.*]] = tile.to_operand_a %[[DX]]
      // CHECK:     %[[T:.*]] = tile.mma_async %[[DXA]], %[[Q]] into %[[SUM]]
      // CHECK:     %[[NEXT:.*]] = tile.mma_wait %[[T]] :
      // CHECK:     tile.release %[[Q]]
      // CHECK:     scf.yield %[[NEXT]] : tensor
      // CHECK:   tile.store %[[R]], %[[DK]]
      // CHECK-NOT: tile.store
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%dk = %zeros, %dv = %zeros) -> (!acc, !acc) {
        %q = tile.wait %qs[%i] : !ring -> !slot
        %do = tile.wait %dos[%i] : !ring -> !slot
        %ts = tile.mma_async %k, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.hand_over %s through %passed[%i] : !acc, !passed
        %tp = tile.mma_async %v, %do transpose_b : !slot, !slot -> !tile.token<!acc>
        %pa = tile.to_operand_a %s : !acc -> !a
        %tv = tile.mma_async %pa, %do into %dv : !acc : !a, !slot -> !tile.token<!acc>
        %dp = tile.mma_wait %tp {pending = 1 : i64} : !tile.token<!acc> -> !acc
        %dx = arith.mulf %p, %dp : !acc
        %dxa = tile.to_operand_a %dx : !acc -> !a
        %tk = tile.mma_async %dxa, %q into %dk : !acc : !a, !slot -> !tile.token<!acc>
        %dv1 = tile.mma_wait %tv {pending = 1 : i64} : !tile.token<!acc> -> !acc
        tile.release %do : !slot
        %dk1 = tile.mma_wait %tk : !tile.token<!acc> -> !acc
        tile.release %q : !slot
        scf.yield %dk1, %dv1 : !acc, !acc
      }
      tile.store %r#0, %dks[%c0, %c0, %c0] limit %n : !acc, memref<?x?x?x64xf32>
      tile.store %r#1, %dvs[%c0, %c0, %c0] limit %n : !acc, memref<?x?x?x64xf32>
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x64xf32, #tile.acc>
!passed = !tile.ring<1, 64, 64, f32>
#schedule = #tile.schedule<consumers = 3, producer_registers = 32, consumer_registers = 160,
                           overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @three(%s: !acc, %out: memref<?x?x?x64xf32>, %n: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %passed = tile.alloc_ring : !passed
    // expected-error @below {{'tile.warp_specialize' op cannot divide products: expected two consumers, got 3}}
    tile.warp_specialize 3 registers(32, 160) producer {
    } consumer {
    ^bb0(%w: index):
      %p = tile.hand_over %s through %passed[%c0] : !acc, !passed
      tile.store %p, %out[%c0, %c0, %c0] limit %n : !acc, memref<?x?x?x64xf32>
    }
    gpu.return
  }
}
