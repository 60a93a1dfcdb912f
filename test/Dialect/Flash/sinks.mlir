// Sinks: a column more in every softmax, which flash.finalize folds into the state; their gradients are sums behind the
// loops.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s --check-prefix=ROUND
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax | FileCheck %s --check-prefix=STEP
// RUN: flashc-opt %s --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=16 kv-tile=8" --canonicalize --cse \
// RUN:   --flash-swap-loops --flash-parallelize | FileCheck %s --check-prefix=LOOPS

!q = tensor<1x4x64x8xf32>
!k = tensor<1x2x32x8xf32>
!lse = tensor<1x4x64xf32>

// ROUND-LABEL: @attention
// ROUND: flash.attention ins(%{{.*}}, %{{.*}}, %{{.*}} : {{.*}}) sinks(%arg3 : tensor<?xf32>) {scale = 2.500000e-01 : f32}
// STEP-LABEL: @attention
// STEP-DAG: %[[SINKS:.*]] = tensor.cast %arg3 : tensor<?xf32> to tensor<4xf32>
// STEP-DAG: %[[ACC:.*]], %[[M:.*]], %[[L:.*]] = flash.online_attention
// STEP: flash.finalize ins(%[[ACC]], %[[M]], %[[L]] : {{.*}}) sinks(%[[SINKS]] : tensor<4xf32>) outs(
// A tile has the sink of its head.
// LOOPS-LABEL: @attention
// LOOPS: scf.forall (%[[H:.*]], %{{.*}}) =
// LOOPS: %[[SINK:.*]] = tensor.extract_slice %{{.*}}[%[[H]]] [1] [1] : tensor<4xf32> to tensor<1xf32>
// LOOPS: flash.finalize {{.*}} sinks(%[[SINK]] : tensor<1xf32>)
func.func @attention(%q: !q, %k: !k, %v: !k, %sinks: tensor<?xf32>) -> (!q, !lse) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) sinks(%sinks : tensor<?xf32>) {scale = 0.25 : f32} -> !q, !lse
  return %o, %lse : !q, !lse
}

// ROUND-LABEL: @memrefs
// ROUND: flash.attention ins({{.*}}) sinks(%arg3 : memref<4xf32>) outs(%arg4, %arg5 :
// STEP-LABEL: @memrefs
// STEP: %[[SINKS:.*]] = bufferization.to_tensor %arg3 restrict : memref<4xf32> to tensor<4xf32>
// STEP: flash.finalize {{.*}} sinks(%[[SINKS]] : tensor<4xf32>)
func.func @memrefs(%q: memref<1x4x64x8xf32>, %k: memref<1x2x32x8xf32>, %v: memref<1x2x32x8xf32>, %sinks: memref<4xf32>,
                   %o: memref<1x4x64x8xf32>, %lse: memref<1x4x64xf32>) {
  flash.attention ins(%q, %k, %v : memref<1x4x64x8xf32>, memref<1x2x32x8xf32>, memref<1x2x32x8xf32>)
      sinks(%sinks : memref<4xf32>) outs(%o, %lse : memref<1x4x64x8xf32>, memref<1x4x64xf32>) {scale = 0.25 : f32}
  return
}

// ROUND-LABEL: @gradients
// ROUND: flash.attention_backward ins({{.*}}) sinks(%arg6 : tensor<4xf32>) {scale
// STEP-LABEL: @gradients
// STEP: %[[DELTA:.*]] = linalg.generic
// STEP: flash.accumulate_gradients
// STEP: %[[DSINKS:.*]] = linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "reduction"]} ins(%arg6, %arg4, %[[DELTA]] :
// STEP: return {{.*}}, %[[DSINKS]]
func.func @gradients(%q: !q, %k: !k, %v: !k, %o: !q, %lse: !lse, %do: !q, %sinks: tensor<4xf32>)
    -> (!q, !k, !k, tensor<4xf32>) {
  %g:4 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !k, !k, !q, !lse, !q)
      sinks(%sinks : tensor<4xf32>) {scale = 0.25 : f32} -> !q, !k, !k, tensor<4xf32>
  return %g#0, %g#1, %g#2, %g#3 : !q, !k, !k, tensor<4xf32>
}
