// Dropout: every step knows the seed and the offset, whatever its tile, and tiles stay where blocks of 16 queries are.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s --check-prefix=ROUND
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax | FileCheck %s --check-prefix=STEP
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-split-gradients | FileCheck %s --check-prefix=SPLIT
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize --cse \
// RUN:   --flash-swap-loops --flash-align-queries --flash-bound-loops | FileCheck %s --check-prefix=LOOPS
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize --cse \
// RUN:   --flash-swap-loops --flash-print-mask-bounds 2>&1 | FileCheck %s --check-prefix=MASK
// RUN: flashc-opt %s --flash-decompose | FileCheck %s --check-prefix=LINALG

!q = tensor<1x4x64x8xf32>
!k = tensor<1x2x32x8xf32>
!lse = tensor<1x4x64xf32>

// ROUND-LABEL: @attention
// ROUND: flash.attention ins({{.*}}) dropout(%arg3 : tensor<2xi64>) {dropout_p = 1.000000e-01 : f32, scale = 2.500000e-01 : f32}
// STEP-LABEL: @attention
// STEP: flash.online_attention {{.*}} dropout(%arg3 : tensor<2xi64>) at(%[[ZERO:.*]], %[[ZERO]], %[[ZERO]], %[[ZERO]]) {dropout_p = 1.000000e-01 : f32
// STEP: flash.finalize
// STEP-NOT: dropout
// LOOPS-LABEL: @attention
// LOOPS: flash.online_attention {{.*}} dropout(%arg3 : tensor<2xi64>) at(%{{.*}}, %[[H:.*]], %[[I:.*]], %[[J:.*]]) {dropout_p
// The rate is 26/256, and what is kept is divided by 230/256. The sum of a row has all of P.
// LINALG-LABEL: @attention
// LINALG: %[[P:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%{{[0-9]+}}, %{{[0-9]+}} :
// LINALG: math.exp
// LINALG: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[P]] :
// LINALG: tensor.extract %arg3
// LINALG: tensor.extract %arg3
// LINALG: linalg.generic {{.*}} ins(%[[P]] :
// LINALG-COUNT-20: arith.mului_extended
// LINALG: %[[KEPT:.*]] = arith.cmpi uge, %{{.*}}, %c26_i32
// LINALG: %[[SCALED:.*]] = arith.divf %{{.*}}, %cst{{.*}} : f32
// LINALG: arith.select %[[KEPT]], %[[SCALED]]
func.func @attention(%q: !q, %k: !k, %v: !k, %philox: tensor<2xi64>) -> (!q, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0.1 : f32, scale = 0.25 : f32} -> !q, !lse
  return %o, %lse : !q, !lse
}

// ROUND-LABEL: @memrefs
// ROUND: flash.attention ins({{.*}}) sinks(%arg3 : memref<4xf32>) dropout(%arg4 : memref<2xi64>) outs(%arg5, %arg6 :
// STEP-LABEL: @memrefs
// STEP: %[[PHILOX:.*]] = bufferization.to_tensor %arg4 restrict : memref<2xi64> to tensor<2xi64>
// STEP: flash.online_attention {{.*}} dropout(%[[PHILOX]] : tensor<2xi64>)
func.func @memrefs(%q: memref<1x4x64x8xf32>, %k: memref<1x2x32x8xf32>, %v: memref<1x2x32x8xf32>, %sinks: memref<4xf32>,
                   %philox: memref<2xi64>, %o: memref<1x4x64x8xf32>, %lse: memref<1x4x64xf32>) {
  flash.attention ins(%q, %k, %v : memref<1x4x64x8xf32>, memref<1x2x32x8xf32>, memref<1x2x32x8xf32>)
      sinks(%sinks : memref<4xf32>) dropout(%philox : memref<2xi64>)
      outs(%o, %lse : memref<1x4x64x8xf32>, memref<1x4x64xf32>) {dropout_p = 0.5 : f32, scale = 0.25 : f32}
  return
}

// ROUND-LABEL: @gradients
// ROUND: flash.attention_backward ins({{.*}}) dropout(%arg6 : tensor<2xi64>) {dropout_p
// SPLIT-LABEL: @gradients
// SPLIT: flash.accumulate_gradients {{.*}} dropout(%arg6 : tensor<2xi64>) at({{.*}}gradients = #flash.gradients<dk, dv>
// SPLIT: flash.accumulate_gradients {{.*}} dropout(%arg6 : tensor<2xi64>) at({{.*}}gradients = #flash.gradients<dq>
func.func @gradients(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %philox: tensor<2xi64>) -> (!q, !k, !k) {
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q)
      dropout(%philox : tensor<2xi64>) {dropout_p = 0.1 : f32, scale = 0.25 : f32} -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}

// Without dropout, tiles of queries and of keys begin where the sequences do.
// MASK-LABEL: mask in @packed:
// MASK-NOT: origin
// MASK-LABEL: mask in @aligned:
// MASK: origin
// LOOPS-LABEL: @packed
// LOOPS-NOT: flash.segment_tile
// LOOPS: scf.for %[[I:.*]] = %c0{{.*}} to %{{.*}} step %c16
// LOOPS-LABEL: @aligned
// LOOPS: flash.segment_tile
func.func @packed(%q: tensor<1x4x?x8xf32>, %offsets: tensor<?xi32>, %philox: tensor<2xi64>)
    -> (tensor<1x4x?x8xf32>, tensor<1x4x?xf32>) {
  %sorted = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>)
      dropout(%philox : tensor<2xi64>) {dropout_p = 0.1 : f32, scale = 0.25 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = flash.count_le %i in %sorted : index, tensor<?xi32>
        %y = flash.count_le %j in %sorted : index, tensor<?xi32>
        %keep = arith.cmpi eq, %x, %y : index
        flash.yield %keep : i1
      } -> tensor<1x4x?x8xf32>, tensor<1x4x?xf32>
  return %o, %lse : tensor<1x4x?x8xf32>, tensor<1x4x?xf32>
}
func.func @aligned(%q: tensor<1x4x?x8xf32>, %offsets: tensor<?xi32>) -> (tensor<1x4x?x8xf32>, tensor<1x4x?xf32>) {
  %sorted = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>)
      {scale = 0.25 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = flash.count_le %i in %sorted : index, tensor<?xi32>
        %y = flash.count_le %j in %sorted : index, tensor<?xi32>
        %keep = arith.cmpi eq, %x, %y : index
        flash.yield %keep : i1
      } -> tensor<1x4x?x8xf32>, tensor<1x4x?xf32>
  return %o, %lse : tensor<1x4x?x8xf32>, tensor<1x4x?xf32>
}
