// RUN: flashc-opt %s -flash-wrap-indices | FileCheck %s

!q = tensor<2x4x?x64xf16>
!o = tensor<2x4x?xf32>

// CHECK-LABEL: func @previous_key
// CHECK:      %[[N:.*]] = tensor.dim %arg1
// CHECK:      score (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index)
// CHECK:        %[[X:.*]] = arith.subi %[[J]],
// CHECK:        %[[NEGATIVE:.*]] = arith.cmpi slt, %[[X]], %c0
// CHECK-NEXT:   %[[END:.*]] = arith.addi %[[X]], %[[N]]
// CHECK-NEXT:   arith.select %[[NEGATIVE]], %[[END]], %[[X]] : index
func.func @previous_key(%q: !q, %table: tensor<?xf32>) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %table, %c0 : tensor<?xf32>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = arith.subi %j, %c1 : index
        %p = flash.wrap_index %x of %n
        %t = tensor.extract %table[%p] : tensor<?xf32>
        flash.yield %t : f32
      } -> !q, !o
  return %o : !q
}

// Each of them is at least 0.
// CHECK-LABEL: func @never_negative
// CHECK-NOT: arith.select
// CHECK-NOT: flash.wrap_index
// CHECK: return
func.func @never_negative(%q: !q, %table: tensor<?xf32>, %any: index) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : index
  %cm7 = arith.constant -7 : index
  %n = tensor.dim %table, %c0 : tensor<?xf32>
  %keys = tensor.dim %q, %c2 : !q
  %last = arith.subi %keys, %c1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %sum = arith.addi %i, %h : index
        %p0 = flash.wrap_index %sum of %n
        %t0 = tensor.extract %table[%p0] : tensor<?xf32>
        %distance = arith.subi %i, %j : index
        %shifted = arith.addi %distance, %last : index
        %p1 = flash.wrap_index %shifted of %n
        %t1 = tensor.extract %table[%p1] : tensor<?xf32>
        %low = arith.maxsi %distance, %cm7 : index
        %clipped = arith.minsi %low, %c7 : index
        %natural = arith.addi %clipped, %c7 : index
        %p2 = flash.wrap_index %natural of %n
        %t2 = tensor.extract %table[%p2] : tensor<?xf32>
        %p3 = flash.wrap_index %any of %n {natural}
        %t3 = tensor.extract %table[%p3] : tensor<?xf32>
        %opposite = arith.subi %c0, %distance : index
        %magnitude = arith.maxsi %distance, %opposite : index
        %p4 = flash.wrap_index %magnitude of %n
        %t4 = tensor.extract %table[%p4] : tensor<?xf32>
        %t01 = arith.addf %t0, %t1 : f32
        %t23 = arith.addf %t2, %t3 : f32
        %t0123 = arith.addf %t01, %t23 : f32
        %t = arith.addf %t0123, %t4 : f32
        flash.yield %t : f32
      } -> !q, !o
  return %o : !q
}

// Where the mask keeps a pair, the distance is not negative; in the mask itself it may be.
// CHECK-LABEL: func @distances_that_the_mask_keeps
// CHECK: score
// CHECK-NOT: arith.select
// CHECK: mask
// CHECK: arith.select
func.func @distances_that_the_mask_keeps(%q: !q, %table: tensor<?xf32>, %bits: tensor<?xi1>) -> !q {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %table, %c0 : tensor<?xf32>
  %m = tensor.dim %bits, %c0 : tensor<?xi1>
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %distance = arith.subi %i, %j : index
        %p = flash.wrap_index %distance of %n
        %t = tensor.extract %table[%p] : tensor<?xf32>
        flash.yield %t : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %distance = arith.subi %i, %j : index
        %p = flash.wrap_index %distance of %m
        %bit = tensor.extract %bits[%p] : tensor<?xi1>
        %past = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %past, %bit : i1
        flash.yield %keep : i1
      } -> !q, !o
  return %o : !q
}
