// The gradient of what a score reads becomes sums, of a kind that follows from the indices of each read, and what adds
// them up.
// RUN: flashc-opt %s --flash-differentiate-captures | FileCheck %s
// RUN: flashc-opt %s | flashc-opt | FileCheck %s --check-prefix=SYNTAX

// SYNTAX: flash.captured_gradient ins({{.*}}) of(%{{.*}} : tensor<4xf32>) {scale = 5.000000e-01 : f32} score
// SYNTAX: -> tensor<4xf32>

!q = tensor<2x4x9x8xf32>
!k = tensor<2x2x11x8xf32>
!lse = tensor<2x4x9xf32>

// A slope of each head: its derivative is the distance.
// CHECK-LABEL: func.func @rows
func.func @rows(%q: !q, %k: !k, %lse: !lse, %slopes: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[ROWS:.*]] = flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<2x4x9xf32>)
  // CHECK-SAME: gradients = #flash.gradients<rows>, number = 0
  // CHECK: } derivative (%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index) {
  // CHECK:   %[[D:.*]] = arith.subi %[[J]], %[[I]]
  // CHECK:   %[[F:.*]] = arith.sitofp
  // CHECK:   flash.yield %[[F]] : f32
  // CHECK: %[[RESULT:.*]] = flash.scatter_sum ins(%[[ROWS]] : tensor<2x4x9xf32>) outs(%{{.*}} : tensor<4xf32>) of(%{{.*}}) queries(%{{.*}}) {gradients = #flash.gradients<rows>} index (%{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index) {
  // CHECK-NEXT: flash.yield_index %[[H]]
  // CHECK: return %[[RESULT]]
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%slopes : tensor<4xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %slope = tensor.extract %slopes[%h] : tensor<4xf32>
        %distance = arith.subi %j, %i : index
        %number = arith.index_cast %distance : index to i32
        %x = arith.sitofp %number : i32 to f32
        %bias = arith.mulf %slope, %x : f32
        %t = arith.addf %s, %bias : f32
        flash.yield %t : f32
      } -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// Two reads of one tensor: their sums are added up after each other.
// CHECK-LABEL: func.func @columns
func.func @columns(%q: !q, %k: !k, %lse: !lse, %x: tensor<?x?xbf16>) -> tensor<?x?xf32> {
  // CHECK: %[[A:.*]] = flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<2x4x11xf32>) {{.*}}gradients = #flash.gradients<columns>, number = 0
  // CHECK: %[[FIRST:.*]] = flash.scatter_sum ins(%[[A]] : tensor<2x4x11xf32>)
  // CHECK: %[[B:.*]] = flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<2x4x9xf32>) {{.*}}gradients = #flash.gradients<rows>, number = 1
  // CHECK: flash.scatter_sum ins(%[[B]] : tensor<2x4x9xf32>) outs(%[[FIRST]] : tensor<?x?xf32>)
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<?x?xbf16>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %a = tensor.extract %x[%b, %j] : tensor<?x?xbf16>
        %c = tensor.extract %x[%b, %i] : tensor<?x?xbf16>
        %product = arith.mulf %a, %c : bf16
        %wide = arith.extf %product : bf16 to f32
        %t = arith.addf %s, %wide : f32
        flash.yield %t : f32
      } -> tensor<?x?xf32>
  return %d : tensor<?x?xf32>
}

// A table of distances: what is computed of i and j is of their difference alone, casts, clamps and comparisons too, and
// what both have in common (where a sequence begins) cancels. Batches are added up, since no index hangs on them.
// CHECK-LABEL: func.func @diagonals
func.func @diagonals(%q: !q, %k: !k, %lse: !lse, %table: tensor<4x19xf32>, %starts: tensor<9xindex>) -> tensor<4x19xf32> {
  // CHECK: flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<1x4x19xf32>) {{.*}}gradients = #flash.gradients<diagonals>
  // CHECK: derivative
  // CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.0
  // CHECK-NEXT: flash.yield %[[ONE]] : f32
  // CHECK: flash.scatter_sum ins(%{{.*}} : tensor<1x4x19xf32>)
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%table : tensor<4x19xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %start = tensor.extract %starts[%i] : tensor<9xindex>
        %query = arith.subi %i, %start : index
        %key = arith.subi %j, %start : index
        %distance = arith.subi %query, %key : index
        %place = arith.addi %distance, %c9 : index
        %floor = arith.maxsi %place, %c0 : index
        %isBehind = arith.cmpi sgt, %j, %i : index
        %chosen = arith.select %isBehind, %c0, %floor : index
        %e = tensor.extract %table[%h, %chosen] : tensor<4x19xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<4x19xf32>
  return %d : tensor<4x19xf32>
}

// Pairs, each at a place of its own.
// CHECK-LABEL: func.func @pairs
func.func @pairs(%q: !q, %k: !k, %lse: !lse, %bias: tensor<12x4x9xf32>) -> tensor<12x4x9xf32> {
  // CHECK: flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<1x4x9x11xf32>) {{.*}}gradients = #flash.gradients<pairs>
  // CHECK: flash.yield_index %{{.*}}, %{{.*}}, %{{.*}}
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%bias : tensor<12x4x9xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c1 = arith.constant 1 : index
        %place = arith.addi %j, %c1 : index
        %e = tensor.extract %bias[%place, %h, %i] : tensor<12x4x9xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<12x4x9xf32>
  return %d : tensor<12x4x9xf32>
}

// Any other index: here a table of two distances on a grid of three columns (Swin), of one head each.
// CHECK-LABEL: func.func @grid
func.func @grid(%q: !q, %k: !k, %lse: !lse, %table: tensor<7x5x4xf32>) -> tensor<7x5x4xf32> {
  // CHECK: %[[SUMS:.*]] = flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<1x4x9x11xf32>) {{.*}}gradients = #flash.gradients<pairs>
  // CHECK: flash.scatter_sum ins(%[[SUMS]] : tensor<1x4x9x11xf32>) {{.*}} index (%{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index) {
  // CHECK: flash.yield_index %{{.*}}, %{{.*}}, %[[H]]
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%table : tensor<7x5x4xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c3 = arith.constant 3 : index
        %i0 = arith.floordivsi %i, %c3 : index
        %j0 = arith.floordivsi %j, %c3 : index
        %i1 = arith.remsi %i, %c3 : index
        %j1 = arith.remsi %j, %c3 : index
        %d0 = arith.subi %i0, %j0 : index
        %d1 = arith.subi %i1, %j1 : index
        %place0 = arith.addi %d0, %c3 : index
        %place1 = arith.addi %d1, %c3 : index
        %e = tensor.extract %table[%place0, %place1, %h] : tensor<7x5x4xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<7x5x4xf32>
  return %d : tensor<7x5x4xf32>
}

// The first key of a query's sequence, and not of the key's: the distance does not cancel it.
// CHECK-LABEL: func.func @moved_distance
func.func @moved_distance(%q: !q, %k: !k, %lse: !lse, %x: tensor<99xf64>, %starts: tensor<9xindex>) -> tensor<99xf32> {
  // CHECK: flash.accumulate_gradients {{.*}} outs(%{{.*}} : tensor<1x1x9x11xf32>) {{.*}}gradients = #flash.gradients<pairs>
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<99xf64>)
      {scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %start = tensor.extract %starts[%i] : tensor<9xindex>
        %distance = arith.subi %j, %i : index
        %place = arith.addi %distance, %start : index
        %wide = tensor.extract %x[%place] : tensor<99xf64>
        %e = arith.truncf %wide : f64 to f32
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<99xf32>
  return %g : tensor<99xf32>
}

// What is not read has a gradient of zeros; so has what only dead code reads.
// CHECK-LABEL: func.func @unread
func.func @unread(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: flash.accumulate_gradients
  // CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} tensor<4xf32>
  // CHECK: return %[[ZEROS]]
  %d = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 0.5 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = tensor.extract %x[%h] : tensor<4xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %s : f32
      } -> tensor<4xf32>
  return %d : tensor<4xf32>
}
