// Bounds by data that is declared sorted: a few searches in front of the loops. The mask keeps its form.
// RUN: flashc-opt %s --flash-bound-loops --canonicalize --cse | FileCheck %s

!q = tensor<1x1x16x8xf32>
!k = tensor<1x1x32x8xf32>
!m = tensor<1x1x16xf32>
!ids = tensor<2x1024xi32>

// CHECK-DAG:   #[[LAST_MAP:.*]] = affine_map<()[s0] -> (s0 + 15)>
// CHECK-LABEL: func @documents(
// CHECK-SAME:      %[[IDS:[^:]*]]: tensor<2x1024xi32>, %[[B:[^:]*]]: index, %[[I:[^:]*]]: index)
// CHECK-DAG:     %[[S:.*]] = flash.assume_sorted %[[IDS]]
// CHECK-DAG:     %[[LAST:.*]] = affine.apply #[[LAST_MAP]]()[%[[I]]]
// CHECK-DAG:     %[[X0:.*]] = tensor.extract %[[S]][%[[B]], %[[I]]]
// CHECK-DAG:     flash.count_le %[[X0]] in %[[S]][%[[B]]] {strict} : i32, tensor<2x1024xi32>
// CHECK-DAG:     %[[X1:.*]] = tensor.extract %[[S]][%[[B]], %[[LAST]]]
// CHECK-DAG:     flash.count_le %[[X1]] in %[[S]][%[[B]]] : i32, tensor<2x1024xi32>
// Masked tiles, whole ones, masked ones.
// CHECK:         scf.for
// CHECK:           mask (%{{.*}}: index, %{{.*}}: index, %[[MI:.*]]: index, %[[MJ:.*]]: index)
// CHECK-DAG:         tensor.extract %{{.*}}[%{{.*}}, %[[MI]]]
// CHECK-DAG:         tensor.extract %{{.*}}[%{{.*}}, %[[MJ]]]
// CHECK-NOT:         flash.count_le
// CHECK:             arith.cmpi eq
// CHECK:         scf.for
// CHECK-NOT:       mask
// CHECK:         scf.for
// CHECK:           mask (
func.func @documents(%q: !q, %k: !k, %acc: !q, %m: !m, %ids: !ids, %batch: index, %i0: index) -> !q {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c1024 = arith.constant 1024 : index
  %s = flash.assume_sorted %ids : !ids
  %r:3 = scf.for %j0 = %c0 to %c1024 step %c32 iter_args(%a = %acc, %b = %m, %c = %m) -> (!q, !m, !m) {
    %t:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%a, %b, %c : !q, !m, !m)
        at(%batch, %c0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%mb: index, %h: index, %i: index, %j: index) {
          %x = tensor.extract %s[%mb, %i] : !ids
          %y = tensor.extract %s[%mb, %j] : !ids
          %keep = arith.cmpi eq, %x, %y : i32
          flash.yield %keep : i1
        } -> !q, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !q, !m, !m
  }
  return %r#0 : !q
}

// What the loop computes is not known in front of it: no bounds.
// CHECK-LABEL: func @computed_in_loop(
// CHECK:         scf.for
// CHECK:           flash.assume_sorted
// CHECK:           mask (
// CHECK-NOT:     scf.for
func.func @computed_in_loop(%q: !q, %k: !k, %acc: !q, %m: !m, %ids: !ids, %i0: index) -> !q {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c1024 = arith.constant 1024 : index
  %r:3 = scf.for %j0 = %c0 to %c1024 step %c32 iter_args(%a = %acc, %b = %m, %c = %m) -> (!q, !m, !m) {
    %s = flash.assume_sorted %ids : !ids
    %t:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%a, %b, %c : !q, !m, !m)
        at(%c0, %c0, %i0, %j0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%mb: index, %h: index, %i: index, %j: index) {
          %x = tensor.extract %s[%mb, %i] : !ids
          %y = tensor.extract %s[%mb, %j] : !ids
          %keep = arith.cmpi eq, %x, %y : i32
          flash.yield %keep : i1
        } -> !q, !m, !m
    scf.yield %t#0, %t#1, %t#2 : !q, !m, !m
  }
  return %r#0 : !q
}
