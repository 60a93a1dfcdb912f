// Bounds of a nest by keys. The mask of gradients keeps the searches that the bounds were made of: they are of the key, which
// is resident, where the mask as it was written reads a document for each query of a tile that comes past.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile --canonicalize --cse --flash-swap-loops --flash-bound-loops --canonicalize \
// RUN:   --cse | FileCheck %s

// CHECK-LABEL: func @documents(
// CHECK:         %[[S:.*]] = flash.assume_sorted
// CHECK:         flash.count_le {{.*}} in %[[S]][%c0] {strict}
// CHECK:         scf.for
// CHECK:           flash.accumulate_gradients
// CHECK-SAME:        mask (%[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CHECK-NEXT:      %[[ID:.*]] = tensor.extract %[[S]][%[[B]], %[[J]]]
// CHECK-NEXT:      %[[FIRST:.*]] = flash.count_le %[[ID]] in %[[S]][%[[B]]] {strict}
// CHECK-NEXT:      arith.cmpi sge, %[[I]], %[[FIRST]]
// CHECK-NEXT:      %[[LAST:.*]] = flash.count_le %[[ID]] in %[[S]][%[[B]]] :
// CHECK-NEXT:      arith.cmpi slt, %[[I]], %[[LAST]]
// CHECK-NOT:       tensor.extract %[[S]]
// CHECK:           flash.yield
// CHECK:         scf.for
// CHECK:           flash.accumulate_gradients
// CHECK-NOT:       mask
// CHECK:         scf.for
// CHECK:           flash.accumulate_gradients {{.*}} mask
// CHECK-NEXT:      tensor.extract %[[S]]
// CHECK-NEXT:      flash.count_le

!x = tensor<1x2x256x64xbf16>
!lse = tensor<1x2x256xf32>
!ids = tensor<1x256xi32>

func.func @documents(%q: !x, %k: !x, %v: !x, %o: !x, %lse: !lse, %do: !x, %ids: !ids) -> (!x, !x, !x) {
  %s = flash.assume_sorted %ids : !ids
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !x, !x, !x, !x, !lse, !x) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %of_query = tensor.extract %s[%b, %i] : !ids
        %of_key = tensor.extract %s[%b, %j] : !ids
        %same = arith.cmpi eq, %of_query, %of_key : i32
        %earlier = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %same, %earlier : i1
        flash.yield %keep : i1
      } -> !x, !x, !x
  return %g#0, %g#1, %g#2 : !x, !x, !x
}
