// RUN: flashc-opt %s -flash-check-data | FileCheck %s

!q = tensor<2x4x?x64xf16>
!o = tensor<2x4x?xf32>

// An index of the score is outside of the array, and the mask keeps the pair. Nothing hangs on b and h.
// CHECK-LABEL: func @distance
// CHECK-SAME: attributes {flash.checked}
// CHECK:      scf.for %{{.*}} = %{{.*}} to %[[ONE_BATCH:.*]] step
// CHECK:        scf.for %{{.*}} = %{{.*}} to %[[ONE_HEAD:.*]] step
// CHECK:          scf.for %[[I:[a-z0-9]+]] =
// CHECK:            scf.for %[[J:[a-z0-9]+]] =
// CHECK:              %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]]
// CHECK:              %[[X:.*]] = arith.subi %[[I]], %[[J]]
// CHECK:              %[[FROM:.*]] = arith.cmpi sge, %[[X]],
// CHECK:              %[[TO:.*]] = arith.cmpi slt, %[[X]], %[[N:.*]] :
// CHECK:              %[[INSIDE:.*]] = arith.andi %[[FROM]], %[[TO]]
// CHECK:              %[[ERROR:.*]] = arith.select %[[INSIDE]], %c0{{.*}}, %c1{{.*}} : i32
// CHECK:              %[[KEPT:.*]] = arith.select %[[KEEP]], %[[ERROR]], %c0{{.*}} : i32
// CHECK:              %[[OK:.*]] = arith.cmpi ne, %[[KEPT]], %c1{{.*}} : i32
// CHECK:              cf.assert %[[OK]], "mask.py:7: expected an index into slopes between
// CHECK:      flash.attention
func.func @distance(%q: !q, %table: tensor<?xf32>) -> !q {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %table, %c0 : tensor<?xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = arith.subi %i, %j : index
        %p = flash.wrap_index %x of %n loc("slopes"("mask.py":7:0))
        %t = tensor.extract %table[%p] : tensor<?xf32>
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !o
  return %o : !q
}

// The name of an array is that of the argument, if the location has none.
// CHECK-LABEL: func @ascends
// CHECK:      %[[ROWS:.*]] = tensor.dim %arg1, %c0
// CHECK:      scf.for %[[ROW:.*]] = %c0{{.*}} to
// CHECK:        scf.for %[[AT:.*]] = %c1{{.*}} to
// CHECK:          %[[BEFORE:.*]] = arith.subi %[[AT]], %c1
// CHECK:          %[[X:.*]] = tensor.extract %arg1[%[[ROW]], %[[BEFORE]]]
// CHECK:          %[[Y:.*]] = tensor.extract %arg1[%[[ROW]], %[[AT]]]
// CHECK:          %[[OK:.*]] = arith.cmpi sle, %[[X]], %[[Y]] : i32
// CHECK:          cf.assert %[[OK]], "{{.*}}expected ids to ascend along its last dimension
func.func @ascends(%q: !q, %ids: tensor<?x?xi32> {flash.name = "ids"}) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %sorted = flash.assume_sorted %ids : tensor<?x?xi32>
        %begin = flash.count_le %i in %sorted[%b] : index, tensor<?x?xi32>
        %keep = arith.cmpi sge, %j, %begin : index
        flash.yield %keep : i1
      } -> !q, !o
  return %o : !q
}

// Nothing is asked: there is no index.
// CHECK-LABEL: func @plain
// CHECK-NOT: scf.for
// CHECK: flash.attention
func.func @plain(%q: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32} -> !q, !o
  return %o : !q
}
