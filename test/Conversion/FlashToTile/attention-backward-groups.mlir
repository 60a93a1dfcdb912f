// Several query heads share a key head: the CTAs of all of them add dk and dv to sums of the key heads, which the kernel
// before clears and kernels after it round. Only `deterministic` has sums of each query head, and an order.
// RUN: flashc %s --emit=tile | FileCheck %s
// RUN: flashc %s --print-decisions | FileCheck %s --check-prefix=BYTES
// RUN: flashc %s --emit=tile --schedule=split-gradients=each | FileCheck %s --check-prefix=EACH
// RUN: sed 's/{group/{deterministic, group/' %s | flashc - --emit=tile | FileCheck %s --check-prefix=ORDER

// Statistics are of 8 query heads, dq's sums too; those of dk and dv are of 2 key heads. Tiles have 64 queries, 128 keys.
// BYTES:      workspace: add64(add64(add64(mul64(512, mul(mul(arg3.dim0, 8), ceildiv(arg3.dim2, 64))),
// BYTES-SAME: mul64(65536, mul(mul(arg0.dim0, 2), ceildiv(arg1.dim2, 128)))),
// BYTES-SAME: mul64(65536, mul(mul(arg0.dim0, 2), ceildiv(arg1.dim2, 128)))),
// BYTES-SAME: mul64(32768, mul(mul(arg0.dim0, 8), ceildiv(arg0.dim2, 64)))) bytes

// CHECK:       gpu.func @grads(
// CHECK-SAME:    after = [{{.*}}kernel = "grads_dq"{{.*}}kernel = "grads_dk_groups"{{.*}}kernel = "grads_dv_groups"
// CHECK-SAME:    before = [{{.*}}kernel = "grads_delta"
// CHECK:         } consumer {
// CHECK:           %[[SUMS:.*]]:6 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}#0, %{{.*}} = %{{.*}}#1,
// CHECK:           %[[DK:.*]] = arith.mulf %[[SUMS]]#0
// CHECK:           tile.atomic_add %[[DK]] to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0] : tensor<64x128xf32, #tile.acc>, memref<{{.*}}x2x4096xf32
// CHECK:           tile.atomic_add %[[SUMS]]#1 to %{{.*}} : tensor<64x128xf32, #tile.acc>, memref<{{.*}}x2x4096xf32
// CHECK-NOT:       tile.store
// CHECK:         } reducer {

// Sums of dq: this CTA's own. Those of a group: every n-th row of panels of the n CTAs that it has.
// CHECK:       gpu.func @grads_delta(
// CHECK:         vector.store {{.*}} : memref<{{.*}}x2x4096xf32
// CHECK:         gpu.grid_dim x
// CHECK:         %[[MEMBER:.*]] = arith.remui %[[HEAD:.*]], %c4
// CHECK:         %[[SHARED:.*]] = arith.divui %[[HEAD]], %c4
// CHECK:         scf.for %[[ROWS:.*]] =
// CHECK:           vector.store {{.*}}[%{{.*}}, %[[SHARED]], %[[ROWS]], {{.*}} : memref<{{.*}}x2x4096xf32

// CHECK:       gpu.func @grads_dk_groups(
// CHECK:         vector.load {{.*}} : memref<{{.*}}x2x4096xf32
// CHECK:         vector.store {{.*}} vector<8xbf16>

// EACH:        gpu.func @grads(
// EACH:          tile.atomic_add {{.*}} tensor<64x128xf32, #tile.acc>
// EACH:        gpu.func @grads_dv(
// EACH:          tile.atomic_add {{.*}} tensor<64x128xf32, #tile.acc>
// EACH:        gpu.func @grads_dq(
// EACH-NOT:      tile.atomic_add
// EACH:          tile.store

// ORDER:       gpu.func @grads(
// ORDER-NOT:     tile.atomic_add
// ORDER:       gpu.func @grads_dk_groups(
// ORDER:         scf.for
// ORDER:           vector.load {{.*}} vector<8xf32>

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
func.func @grads(%q: !q, %k: !k, %v: !k, %o: !q, %lse: tensor<?x8x?xf32>, %do: !q) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, tensor<?x8x?xf32>, !q)
      {group_size = 4 : i64, scale = 0.125 : f32} -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}
