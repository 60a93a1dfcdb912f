// Gradients where the loop over queries has one iteration, which is inlined, or where the only head's dq is carried whole.
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize --cse \
// RUN:   --flash-swap-loops --flash-bound-loops --flash-parallelize | FileCheck %s
// RUN: flashc %s --check-each-pass --function=few_queries --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=EACH
// RUN: flashc %s --check-each-pass --function=one_head --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=EACH
// RUN: flashc %s --check-each-pass --function=one_tile --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=EACH
// RUN: flashc %s --check-each-pass --function=one_tile --split-gradients=each --q-tile=16 --kv-tile=8 | FileCheck %s --check-prefix=EACH

// dk and dv begin as one tensor of zeros, which cse makes of two.
// EACH: after flash-parallelize: {{.*}} PASS
// EACH: after cse: {{.*}} PASS


!q = tensor<1x2x13x8xf32>
!k = tensor<1x2x32x8xf32>
!lse = tensor<1x2x13xf32>

// CHECK-LABEL: @few_queries
// CHECK: scf.forall (%[[H:.*]], %[[J:.*]]) = (0, 0) to (2, 32) step (1, 8)
// CHECK: %[[DQ:.*]] = linalg.fill {{.*}} -> tensor<1x1x13x8xf32>
// CHECK: %[[PADDED:.*]] = tensor.pad %[[DQ]]
// CHECK: %[[DK:.*]] = linalg.fill {{.*}} -> tensor<1x1x8x8xf32>
// CHECK-NOT: scf.for
// CHECK: %[[T:.*]]:3 = flash.accumulate_gradients {{.*}} outs(%[[PADDED]], %[[DK]],
// CHECK: %[[CUT:.*]] = tensor.extract_slice %[[T]]#0
// CHECK: scf.forall.in_parallel
// CHECK-NEXT: flash.parallel_add_slice %[[CUT]] into %{{.*}}[0, %[[H]], 0, 0] [1, 1, 13, 8] [1, 1, 1, 1]
// CHECK-NEXT: tensor.parallel_insert_slice %[[T]]#1
// CHECK-NEXT: tensor.parallel_insert_slice %[[T]]#2
func.func @few_queries(%q: !q, %k: !k, %lse: !lse) -> (!q, !k, !k) {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 0.25 : f32}
      -> !q, !k, !k
  return %dq, %dk, %dv : !q, !k, !k
}

!q1 = tensor<1x1x48x8xf32>
!k1 = tensor<1x1x32x8xf32>
!lse1 = tensor<1x1x48xf32>

// CHECK-LABEL: @one_head
// CHECK: scf.forall (%[[J:.*]]) = (0) to (32) step (8)
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<1x1x48x8xf32>
// CHECK: %[[LAST:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %[[ZERO]],
// CHECK: scf.forall.in_parallel
// CHECK-NEXT: flash.parallel_add_slice %[[LAST]]#0 into %{{.*}}[0, 0, 0, 0] [1, 1, 48, 8] [1, 1, 1, 1]
// CHECK-NEXT: tensor.parallel_insert_slice %[[LAST]]#1
func.func @one_head(%q: !q1, %k: !k1, %lse: !lse1) -> (!q1, !k1, !k1) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %k, %q, %lse, %q : !q1, !k1, !k1, !q1, !lse1, !q1) {scale = 0.25 : f32} -> !q1, !k1, !k1
  return %dq, %dk, %dv : !q1, !k1, !k1
}

!q2 = tensor<1x1x13x8xf32>
!k2 = tensor<1x1x7x8xf32>
!lse2 = tensor<1x1x13xf32>

// Nothing is left to be parallel.
// CHECK-LABEL: @one_tile
// CHECK-NOT: scf.for
// CHECK: flash.accumulate_gradients
// CHECK-NOT: scf.for
func.func @one_tile(%q: !q2, %k: !k2, %lse: !lse2) -> (!q2, !k2, !k2) {
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %k, %q, %lse, %q : !q2, !k2, !k2, !q2, !lse2, !q2) {scale = 0.25 : f32} -> !q2, !k2, !k2
  return %dq, %dk, %dv : !q2, !k2, !k2
}
