// Gradients through scores whose derivatives are derived, in every algorithm, against Algorithm 0 in f64.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s
// RUN: flashc %s --run=cpu --check --algorithm=fa2 --q-tile=8 --kv-tile=16 | FileCheck %s
// RUN: flashc %s --run=cpu --check --split-gradients --q-tile=8 --kv-tile=16 | FileCheck %s
// RUN: flashc %s --check-each-pass --function=soft_cap --q-tile=8 --kv-tile=16 | FileCheck %s --check-prefix=EACH
// EACH: after flash-differentiate-scores: @soft_cap: dq {{.*}} PASS
// EACH: after flash-parallelize: @soft_cap: dq {{.*}} PASS
// EACH-NOT: FAIL

!q = tensor<?x2x?x8xf32>
!lse = tensor<?x2x?xf32>

// CHECK: check @soft_cap: dq: {{.*}} PASS
// CHECK-NEXT: check @soft_cap: dk: {{.*}} PASS
// CHECK-NEXT: check @soft_cap: dv: {{.*}} PASS
func.func @soft_cap(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q) -> (!q, !q, !q) {
  %cap = arith.constant 2.0 : f32
  %dq, %dk, %dv = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %x = arith.divf %s, %cap : f32
        %t = math.tanh %x : f32
        %y = arith.mulf %t, %cap : f32
        flash.yield %y : f32
      }
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !q, !q
  return %dq, %dk, %dv : !q, !q, !q
}

// Factors that linalg computes become code of the score, and so of its derivative; tiles stick out of them.
// CHECK-NEXT: check @factors: dq: {{.*}} PASS
// CHECK-NEXT: check @factors: dk: {{.*}} PASS
// CHECK-NEXT: check @factors: dv: {{.*}} PASS
func.func @factors(%q: tensor<2x2x21x8xf32>, %k: tensor<2x2x19x8xf32>, %o: tensor<2x2x21x8xf32>,
                   %lse: tensor<2x2x21xf32>, %factors: tensor<21x19xf32>)
    -> (tensor<2x2x21x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>) {
  %empty = tensor.empty() : tensor<21x19xf32>
  %sines = linalg.map { math.sin } ins(%factors : tensor<21x19xf32>) outs(%empty : tensor<21x19xf32>)
  %dq, %dk, %dv = flash.attention_backward
      ins(%q, %k, %k, %o, %lse, %o : tensor<2x2x21x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>,
          tensor<2x2x21x8xf32>, tensor<2x2x21xf32>, tensor<2x2x21x8xf32>)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %f = tensor.extract %sines[%i, %j] : tensor<21x19xf32>
        %x = arith.mulf %s, %f : f32
        %y = math.sin %x : f32
        flash.yield %y : f32
      } -> tensor<2x2x21x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>
  return %dq, %dk, %dv : tensor<2x2x21x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>
}

// CHECK-NEXT: check @control_flow: dq: {{.*}} PASS
// CHECK-NEXT: check @control_flow: dk: {{.*}} PASS
// CHECK-NEXT: check @control_flow: dv: {{.*}} PASS
func.func @control_flow(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q) -> (!q, !q, !q) {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %r = arith.remui %j, %c3 : index
        %near = arith.cmpi sle, %j, %i : index
        %x = scf.for %n = %c0 to %r step %c1 iter_args(%x = %s) -> f32 {
          %a = math.sin %x : f32
          scf.yield %a : f32
        }
        %y = scf.if %near -> f32 {
          %e = math.expm1 %x : f32
          scf.yield %e : f32
        } else {
          scf.yield %s : f32
        }
        flash.yield %y : f32
      } -> !q, !q, !q
  return %dq, %dk, %dv : !q, !q, !q
}
