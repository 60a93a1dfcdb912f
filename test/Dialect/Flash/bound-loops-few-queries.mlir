// If there are fewer queries than a tile has rows, the last rows do not exist. They need no key, and mask no tile.
// DEFINE: %{tiles} = --flash-online-softmax --flash-tile="q-tile=64 kv-tile=64" --canonicalize --cse --flash-swap-loops
// RUN: flashc-opt %s %{tiles} --flash-bound-loops --canonicalize --cse | FileCheck %s
!q = tensor<1x1x40x8xf32>
!k = tensor<1x1x256x8xf32>
!row = tensor<1x1x40xf32>

// Query 0 sees 151 keys, query 39, the last one, 190: two whole tiles, and one with the mask.
// CHECK-LABEL: func @shifted
// CHECK:       scf.for %{{.*}} = %c0 to %c128 step %c64
// CHECK-NOT:     mask
// CHECK:       flash.online_attention {{.*}} %c128) {{.*}} mask
// CHECK-NOT:   flash.online_attention
func.func @shifted(%q: !q, %k: !k) -> !q {
  %c150 = arith.constant 150 : index
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %c150 : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> !q, !row
  return %o : !q
}

// All queries that exist keep every key.
// CHECK-LABEL: func @every_query
// CHECK:       flash.online_attention
// CHECK-NOT:   mask
// CHECK:       return
func.func @every_query(%q: !q, %k: !k) -> !q {
  %c40 = arith.constant 40 : index
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi slt, %i, %c40 : index
        flash.yield %keep : i1
      } -> !q, !row
  return %o : !q
}
