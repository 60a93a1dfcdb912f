// Tiles with the rows of a group's heads (heads=4): a consumer has 16 queries of 4 heads. One box has the rows of all
// heads, and a row's head and query follow from its number.
// RUN: flashc %s --emit=tile --schedule=heads=4,consumers=2,kv-tile=128,persistent=false,store=registers -o - | FileCheck %s
// Rows after the last of 3 heads of 21 queries are not stored.
// RUN: sed 's/x8x/x6x/g' %s | flashc - --emit=tile --schedule=heads=3,consumers=1,kv-tile=128 -o - | FileCheck %s --check-prefix=THREE
// RUN: sed 's/x8x/x6x/g' %s | flashc - --schedule=heads=3,consumers=1,kv-tile=128 -o - | FileCheck %s --check-prefix=BYTES
// RUN: not flashc %s --schedule=heads=3 -o - 2>&1 | FileCheck %s --check-prefix=GROUP
// The mask of one head does not bound the keys of the others: no key is left out, and consumers have no range of their own.
// RUN: sed 's/sle, .j, /sle, %h, /' %s | flashc - --emit=tile --schedule=heads=4,kv-tile=128 -o - | FileCheck %s --check-prefix=HEAD --implicit-check-not=advance_ring
// RUN: not flashc-opt %s --flash-online-softmax --flash-tile="q-tile=64 kv-tile=64 head-tile=4" --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --convert-flash-to-tile="schedule=consumers=1,kv-tile=64" 2>&1 | FileCheck %s --check-prefix=TILES
// TILES: error: expected tiles of 1 query heads (schedule heads=1), got 4
// RUN: not flashc %s --schedule=heads=0 -o - 2>&1 | FileCheck %s --check-prefix=LEAST
// GROUP: error: schedule: expected heads to be at most 64 and to divide the group of 4 query heads that share a key head, got 3
// LEAST: error: schedule: expected a number of at least 1 for 'heads', got '0'

// HEAD: gpu.func @causal(
// HEAD: tile.store

// CHECK:       gpu.func @causal(%[[Q:[^:]*]]: !tile.tensor_map<16 x bf16, heads 4>
// CHECK-SAME:  grid = ["ceildiv(arg0.dim2, 32)", "ceildiv(8, 4)", "2"]
// CHECK-SAME:  box = [64, 16, 4, 1]
// CHECK:       %[[Y:.*]] = gpu.block_id  y
// CHECK:       %[[H:.*]] = arith.muli %[[Y]], %c4
// CHECK:       tile.copy_async %[[Q]][%{{.*}}, %[[H]], %{{.*}}] into %{{.*}} owner 0
// CHECK:       } consumer {
// CHECK:       tile.map {{.*}} at(%c0, %{{.*}})
// CHECK:         arith.remui %{{.*}}, %c16
// CHECK:       tile.store %{{.*}} limit %{{.*}} heads 4 of 16 : tensor<64x64xf32, #tile.acc>
// CHECK:       tile.store %{{.*}} limit %{{.*}} heads 4 of 16 : tensor<64xf32, #tile.row>

// THREE:       !tile.tensor_map<21 x bf16, heads 3>
// THREE:       tile.store_async {{.*}} : tensor<64x64xf32, #tile.acc>, <21 x bf16, heads 3>
// THREE:       tile.store %{{.*}} heads 3 of 21 : tensor<64xf32, #tile.row>

// 63 rows of 128 bytes arrive in a slot of 64.
// BYTES:       mov.b32 %[[BYTES:.*]], 8064;
// BYTES:       mbarrier.arrive.expect_tx.shared::cta.b64 _, [%{{.*}}], %[[BYTES]];
func.func @causal(%q: tensor<2x8x?x64xbf16>, %k: tensor<2x2x?x64xbf16>, %v: tensor<2x2x?x64xbf16>)
    -> (tensor<2x8x?x64xbf16>, tensor<2x8x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<2x8x?x64xbf16>, tensor<2x2x?x64xbf16>, tensor<2x2x?x64xbf16>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<2x8x?x64xbf16>, tensor<2x8x?xf32>
  return %o, %lse : tensor<2x8x?x64xbf16>, tensor<2x8x?xf32>
}
