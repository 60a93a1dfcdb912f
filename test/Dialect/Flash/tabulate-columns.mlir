// What a mapped mask computes of a key alone, or of a query where these are streamed, is a table's element.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=16 kv-tile=32" --canonicalize --cse --flash-swap-loops --flash-bound-loops
// RUN: flashc-opt %s %{l1} --flash-tabulate-columns --canonicalize --cse | FileCheck %s

!q = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>

// Six operations of %j become one read, in all loops of the same table; of %i they stay, as they are done once a row.
// Tables have whole tiles.
// CHECK-DAG:     #[[$TILES:.*]] = affine_map<()[s0] -> ((s0 ceildiv 32) * 32)>

// CHECK-LABEL: func @keys
// CHECK:         %[[WHOLE:.*]] = affine.apply #[[$TILES]]()[%{{.*}}]
// CHECK:         %[[TABLE:.*]] = flash.row_table(%c1, %c1, %[[WHOLE]]) {
// CHECK:         ^bb0(%{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK-COUNT-2:   arith.remui
// CHECK:           arith.index_cast %{{.*}} : index to i32
// CHECK:         } : tensor<1x1x?xi32>
// CHECK-NOT:     flash.row_table
// CHECK:         flash.online_attention {{.*}} mask (%{{.*}}, %{{.*}}, %[[I:.*]]: index, %[[KEY:.*]]: index)
// CHECK:           arith.remui %[[I]]
// CHECK:           tensor.extract %[[TABLE]][%c0, %c0, %[[KEY]]]
// CHECK-NOT:       arith.remui %[[KEY]]
// CHECK:           flash.yield
// CHECK:         flash.online_attention {{.*}} mask
// CHECK:           tensor.extract %[[TABLE]]
func.func @keys(%q: !q, %k: !q, %v: !q) -> !q {
  %c6 = arith.constant 6 : index
  %c96 = arith.constant 96 : index
  %c7 = arith.constant 7 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x0 = arith.remui %i, %c96 : index
        %x1 = arith.muli %x0, %x0 : index
        %x2 = arith.remui %x1, %c7 : index
        %y0 = arith.remui %j, %c96 : index
        %y1 = arith.muli %y0, %y0 : index
        %y2 = arith.remui %y1, %c7 : index
        %keep = arith.cmpi ule, %x2, %y2 : index
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// A condition on the key alone is one; that the key exists may be a part of it.
// CHECK-LABEL: func @condition
// CHECK:         flash.row_table
// CHECK:           arith.extui %{{.*}} : i1 to i32
// CHECK:         flash.online_attention {{.*}} mask (%{{.*}}, %{{.*}}, %{{.*}}, %[[KEY:.*]]: index)
// CHECK:           %[[READ:.*]] = tensor.extract
// CHECK:           %[[KEEP:.*]] = arith.trunci %[[READ]] : i32 to i1
// CHECK:           flash.yield %[[KEEP]]
func.func @condition(%q: !q, %k: !q, %v: !q) -> !q {
  %c3 = arith.constant 3 : index
  %c11 = arith.constant 11 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = arith.remui %j, %c11 : index
        %y = arith.muli %x, %x : index
        %z = arith.remui %y, %c11 : index
        %keep = arith.cmpi ult, %z, %c3 : index
        flash.yield %keep : i1
      } -> !q, !r
  return %o : !q
}

// Short code stays, and that of a mask whose bounds say it all.
// CHECK-LABEL: func @short
// CHECK-NOT:     flash.row_table
func.func @short(%q: !q, %k: !q, %v: !q) -> (!q, !q) {
  %c3 = arith.constant 3 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = arith.muli %j, %i : index
        %y = arith.remui %x, %c3 : index
        %keep = arith.cmpi ult, %y, %j : index
        flash.yield %keep : i1
      } -> !q, !r
  %o2, %lse2 = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !r
  return %o, %o2 : !q, !q
}
