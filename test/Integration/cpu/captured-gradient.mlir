// The gradients of what scores read, by the whole matrix and by tiles, with lengths and tiles that do not fit each other.
// RUN: flashc %s --run=cpu --check --algorithm=standard | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --algorithm=fa1 --q-tile=16 --kv-tile=8 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --run=cpu --check --q-tile=8 --kv-tile=16 --dims=B=2,Nq=29,Nk=17 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --function=slopes --q-tile=8 --kv-tile=16 \
// RUN:   | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL

// EACH: after flash-differentiate-captures: @slopes: {{.*}} PASS
// EACH: after flash-tile: @slopes: {{.*}} PASS
// EACH: after flash-parallelize: @slopes: {{.*}} PASS

!q = tensor<?x4x?x8xf32>
!k = tensor<?x2x?x8xf32>
!lse = tensor<?x4x?xf32>

// CHECK: check @slopes: {{.*}} PASS
func.func @slopes(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %slopes: tensor<4xf32>) -> tensor<4xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%slopes : tensor<4xf32>)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %slope = tensor.extract %slopes[%h] : tensor<4xf32>
        %t = arith.mulf %s, %slope : f32
        flash.yield %t : f32
      } mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// CHECK: check @bias_of_keys: {{.*}} PASS
func.func @bias_of_keys(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %bias: tensor<4x200xbf16>) -> tensor<4x200xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%bias : tensor<4x200xbf16>)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %c2 = arith.constant 2 : index
        %place = arith.divui %j, %c2 : index
        %e = tensor.extract %bias[%h, %place] : tensor<4x200xbf16>
        %wide = arith.extf %e : bf16 to f32
        %t = arith.addf %s, %wide : f32
        flash.yield %t : f32
      } -> tensor<4x200xf32>
  return %d : tensor<4x200xf32>
}

// CHECK: check @table: {{.*}} PASS
func.func @table(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %table: tensor<21x4xf32>) -> tensor<21x4xf32> {
  %c0 = arith.constant 0 : index
  %c10 = arith.constant 10 : index
  %c20 = arith.constant 20 : index
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%table : tensor<21x4xf32>)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %distance = arith.subi %i, %j : index
        %shifted = arith.addi %distance, %c10 : index
        %most = arith.minsi %shifted, %c20 : index
        %place = arith.maxsi %most, %c0 : index
        %e = tensor.extract %table[%place, %h] : tensor<21x4xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> tensor<21x4xf32>
  return %d : tensor<21x4xf32>
}

// CHECK: check @bias: {{.*}} PASS
func.func @bias(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %bias: tensor<200x200xf32>) -> tensor<200x200xf32> {
  %d = flash.captured_gradient ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q) of(%bias : tensor<200x200xf32>)
      {scale = 0.35 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %e = tensor.extract %bias[%j, %i] : tensor<200x200xf32>
        %t = arith.addf %s, %e : f32
        flash.yield %t : f32
      } -> tensor<200x200xf32>
  return %d : tensor<200x200xf32>
}
