// The overlap of the epilogue where there is one tile of keys: no loop over keys is left, and both sides count alike.
// The producer loads Q and K once before its loop and once in it, V once in it; the consumers wait as often, in that
// order.
// RUN: flashc %s --emit=tile --schedule=store=q-slot | FileCheck %s
// RUN: flashc %s --emit=tile --schedule=store=q-slot,epilogue=plain | FileCheck %s --check-prefix=PLAIN

// CHECK: epilogue = product
// CHECK: %[[Q:.*]] = tile.alloc_ring : <2, 64, 128, bf16, private true>
// CHECK-NEXT: %[[K:.*]] = tile.alloc_ring
// CHECK-NEXT: %[[V:.*]] = tile.alloc_ring
// CHECK-NOT: scf.for
// CHECK: tile.acquire %[[Q]][%c0] owner 0
// CHECK: tile.acquire %[[Q]][%c0] owner 1
// CHECK: tile.acquire %[[K]][%c0]
// CHECK-NOT: tile.acquire
// CHECK: scf.for %{{.*}} iter_args(%[[GQ:.*]] = %c0, %[[GK:.*]] = %c0, %[[GV:.*]] = %c0)
// CHECK-NOT: {{scf.for|tile.acquire}}
// CHECK: %[[GQ1:.*]] = arith.addi %[[GQ]], %c1
// CHECK-NEXT: %[[GK1:.*]] = arith.addi %[[GK]], %c1
// CHECK-NEXT: %[[GV1:.*]] = arith.addi %[[GV]], %c1
// CHECK-NOT: {{scf.for|tile.acquire}}
// CHECK: tile.acquire %[[Q]][%[[GQ1]]] owner 0
// CHECK: tile.acquire %[[Q]][%[[GQ1]]] owner 1
// CHECK: tile.acquire %[[K]][%[[GK1]]]
// CHECK-NEXT: tile.copy_async
// CHECK-NEXT: tile.acquire %[[V]][%[[GV]]]
// CHECK-NEXT: tile.copy_async
// CHECK-NEXT: scf.yield %[[GQ1]], %[[GK1]], %[[GV1]]
// CHECK: } consumer {
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: %[[Q0:.*]] = tile.wait %[[Q]][%c0]
// CHECK-NEXT: %[[K0:.*]] = tile.wait %[[K]][%c0]
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: tile.release %[[K0]]
// CHECK-NEXT: %[[LAST:.*]]:5 = scf.for %{{.*}} iter_args(%[[GQ:.*]] = %c0, %[[GK:.*]] = %c0, %[[GV:.*]] = %c0, %[[HELD:.*]] = %[[Q0]], %{{.*}} = %{{.*}}) ->
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: %[[GQ1:.*]] = arith.addi %[[GQ]], %c1
// CHECK-NEXT: %[[GK1:.*]] = arith.addi %[[GK]], %c1
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: %[[V1:.*]] = tile.wait %[[V]][%[[GV]]]
// CHECK-NEXT: %[[GV1:.*]] = arith.addi %[[GV]], %c1
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: %[[NEXT:.*]] = tile.wait %[[Q]][%[[GQ1]]]
// CHECK-NEXT: %[[K1:.*]] = tile.wait %[[K]][%[[GK1]]]
// CHECK-NOT: {{scf.for|tile.wait}}
// CHECK: tile.release %[[V1]]
// CHECK: tile.store_async {{.*}} through %[[HELD]] :
// CHECK-NEXT: tile.store_wait
// CHECK-NEXT: tile.release %[[HELD]]
// CHECK-NEXT: tile.mma_wait
// CHECK-NEXT: tile.release %[[K1]]
// CHECK-NEXT: scf.yield %[[GQ1]], %[[GK1]], %[[GV1]], %[[NEXT]],
// CHECK-NEXT: }
// The slot that nobody uses.
// CHECK-NEXT: tile.release %[[LAST]]#3
// CHECK-NOT: {{tile.(wait|release)}}

// PLAIN-COUNT-4: tile.acquire
// PLAIN-NOT: tile.acquire
// PLAIN-COUNT-3: tile.wait %
// PLAIN-NOT: tile.wait %
!q = tensor<2x2x400x128xbf16>
!k = tensor<2x2x100x128xbf16>
func.func @one_tile(%q: !q, %k: !k, %v: !k) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) {scale = 0.125 : f32} -> !q, tensor<2x2x400xf32>
  return %o : !q
}
