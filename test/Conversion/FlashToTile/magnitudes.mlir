// |i - j| under a causal mask is i - j, of keys' rows and queries' columns, too: column less row.
// RUN: flashc %s --function=gradients --emit=tile | FileCheck %s
// RUN: flashc %s --function=sums --emit=tile | FileCheck %s

// CHECK:      ^bb0(%{{.*}}: f32, %[[ROW:.*]]: index, %[[COLUMN:.*]]: index):
// CHECK:      %[[DISTANCE:.*]] = arith.subi %[[COLUMN]], %[[ROW]] : index
// CHECK-NEXT: %[[NUMBER:.*]] = arith.index_cast %[[DISTANCE]]
// CHECK-NEXT: arith.sitofp %[[NUMBER]]

!q = tensor<1x1x128x64xbf16>
!lse = tensor<1x1x128xf32>

func.func @gradients(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q) -> (!q, !q, !q) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %d = arith.subi %i, %j : index
        %d32 = arith.index_cast %d : index to i32
        %size = math.absi %d32 : i32
        %x = arith.sitofp %size : i32 to f32
        %t = arith.subf %s, %x : f32
        flash.yield %t : f32
      } mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !q, !q
  return %g#0, %g#1, %g#2 : !q, !q, !q
}

func.func @sums(%q: !q, %k: !q, %lse: !lse) -> !lse {
  %c = flash.column_sums ins(%q, %k, %lse : !q, !q, !lse) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %d = arith.subi %i, %j : index
        %d32 = arith.index_cast %d : index to i32
        %size = math.absi %d32 : i32
        %x = arith.sitofp %size : i32 to f32
        %t = arith.subf %s, %x : f32
        flash.yield %t : f32
      } mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !lse
  return %c : !lse
}
