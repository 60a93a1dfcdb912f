// The structure of a kernel: what the producer loads in which order, and what the consumers' loops do with it.
// RUN: flashc %flashc_src/examples/causal.mlir --emit=tile --schedule=consumers=2,kv-tile=128,stages=2,q-stages=2,store=q-slot \
// RUN:   | FileCheck %s

// CHECK: gpu.func @causal(%[[QMAP:[^:]*]]: !tile.tensor_map<64 x bf16>, %[[KMAP:[^:]*]]: !tile.tensor_map<128 x bf16>, %[[VMAP:[^:]*]]: !tile.tensor_map<128 x bf16>
// CHECK: %[[Q:.*]] = tile.alloc_ring : <2, 64, 128, bf16, private true>
// CHECK: %[[K:.*]] = tile.alloc_ring : <2, 128, 128, bf16>
// CHECK: %[[V:.*]] = tile.alloc_ring : <2, 128, 128, bf16>

// The producer: the queries of each consumer and the first keys. Then, one tile of queries after another, the keys of the
// next step before the values of this one, since the next scores come first; the queries and the first keys of the next
// tile; and the last values of this one.
// CHECK: tile.warp_specialize 2 registers(24, 240) producer {
// CHECK-NOT: tile.uniform
// CHECK: tile.acquire %[[Q]][%c0] owner 0
// CHECK-NEXT: tile.copy_async %[[QMAP]][{{.*}}] into %[[Q]][%c0] owner 0
// CHECK: tile.acquire %[[Q]][%c0] owner 1
// CHECK-NEXT: tile.copy_async %[[QMAP]][{{.*}}] into %[[Q]][%c0] owner 1
// CHECK: tile.acquire %[[K]][%c0]
// CHECK-NEXT: tile.copy_async %[[KMAP]][{{.*}}] into %[[K]]
// CHECK: scf.for
// CHECK-NOT: tile.acquire
// CHECK: scf.for
// CHECK: tile.acquire %[[K]]
// CHECK-NEXT: tile.copy_async %[[KMAP]][{{.*}}] into %[[K]]
// CHECK: tile.acquire %[[V]]
// CHECK-NEXT: tile.copy_async %[[VMAP]][{{.*}}] into %[[V]]
// CHECK: scf.yield
// CHECK: tile.acquire %[[Q]][%[[GQ:.*]]] owner 0
// CHECK: tile.acquire %[[Q]][%[[GQ]]] owner 1
// CHECK: tile.acquire %[[K]]
// CHECK: tile.acquire %[[V]]
// CHECK-NEXT: tile.copy_async %[[VMAP]][{{.*}}] into %[[V]]
// CHECK-NOT: tile.copy_async

// The consumers: the first scores and, in the loop over tiles of queries, their softmax.
// CHECK: } consumer {
// CHECK: tile.uniform
// CHECK: tile.wait %[[Q]]
// CHECK: tile.wait %[[K]]
// CHECK: tile.ping_pong_wait
// CHECK: tile.mma_async {{.*}} transpose_b
// CHECK: tile.ping_pong_pass
// CHECK: tile.mma_wait
// CHECK: tile.release
// CHECK: scf.for {{.*}}!tile.slot<64, 128, bf16>, tensor<64x128xf32, #tile.acc>
// CHECK-NOT: tile.mma_async
// CHECK: tile.map
// CHECK: tile.row_reduce max

// The steps with the mask: the next scores and this product are in flight together, the softmax runs under the product.
// CHECK: scf.for %{{.*}} = %c1 to %[[FULL:.*]] step
// CHECK: tile.wait %[[K]]
// CHECK: tile.ping_pong_wait
// CHECK: tile.mma_async {{.*}} transpose_b
// CHECK: tile.wait %[[V]]
// CHECK: tile.mma_async {{.*}} into
// CHECK: tile.ping_pong_pass
// CHECK: tile.mma_wait {{.*}}pending = 1
// CHECK: tile.map
// CHECK: tile.row_reduce max
// CHECK: tile.mma_wait
// CHECK: scf.yield

// The steps without.
// CHECK: scf.for %{{.*}} = %[[FULL]] to
// CHECK-NOT: tile.map
// CHECK: tile.mma_wait {{.*}}pending = 1
// CHECK-NOT: tile.map
// CHECK: scf.yield

// The last product and the next tile's first in one turn; the results are stored under the latter.
// CHECK: tile.wait %[[V]]
// CHECK: tile.ping_pong_wait
// CHECK: tile.mma_async {{.*}} into
// CHECK: tile.wait %[[Q]]
// CHECK: tile.wait %[[K]]
// CHECK: tile.mma_async {{.*}} transpose_b
// CHECK: tile.ping_pong_pass
// CHECK: tile.mma_wait {{.*}}pending = 1
// CHECK: tile.store_async {{.*}} through %[[QSLOT:[a-z0-9]*]] :
// CHECK: tile.store
// CHECK: tile.store_wait
// CHECK: tile.release %[[QSLOT]]
// CHECK: tile.mma_wait
// CHECK: tile.release
// CHECK: scf.yield
// CHECK: tile.release
// CHECK-NOT: {{ tile\.}}
// CHECK: gpu.return
