// RUN: flashc-opt %s --flash-online-softmax --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,DEFERRED
// RUN: flashc-opt %s --flash-online-softmax=normalize=each-step --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,STEP

// CHECK-LABEL: func @regions_move(
// CHECK-SAME:      %[[Q:[^:]*]]: tensor<?x8x?x64xbf16>, %[[K:[^:]*]]: tensor<?x2x?x64xbf16>, %[[V:[^:]*]]: tensor<?x2x?x32xbf16>, %[[BIAS:[^:]*]]: f32)
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.0{{.*}} : f32
// CHECK-DAG:     %[[NEG_INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[B:.*]] = tensor.dim %[[Q]], %[[C0]]
// CHECK-DAG:     %[[NQ:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK:         %[[ACC0:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<?x8x?x32xf32>)
// CHECK:         %[[M0:.*]] = linalg.fill ins(%[[NEG_INF]] : f32) outs(%{{.*}} : tensor<?x8x?xf32>)
// CHECK:         %[[L0:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.*}} : tensor<?x8x?xf32>)
// CHECK:         %[[ACC:.*]], %[[M:.*]], %[[L:.*]] = flash.online_attention ins(%[[Q]], %[[K]], %[[V]] :
// CHECK-SAME:        outs(%[[ACC0]], %[[M0]], %[[L0]] :
// CHECK-SAME:        at(%[[C0]], %[[C0]], %[[C0]], %[[C0]])
// DEFERRED-SAME:     {normalize = #flash.normalize<deferred>, scale = 1.250000e-01 : f32}
// STEP-SAME:         {normalize = #flash.normalize<each_step>, scale = 1.250000e-01 : f32}
// CHECK-SAME:        score (%[[S:[^:]*]]: f32, {{.*}}) {
// CHECK-NEXT:          arith.addf %[[S]], %[[BIAS]] : f32
// CHECK:             } mask ({{.*}}) {
// CHECK-NEXT:          arith.cmpi sle
// CHECK:         %[[O0:.*]] = tensor.empty(%{{.*}}, %{{.*}}) : tensor<?x8x?x32xbf16>
// CHECK:         %[[LSE0:.*]] = tensor.empty(%{{.*}}, %{{.*}}) : tensor<?x8x?xf32>
// CHECK:         %[[O:.*]], %[[LSE:.*]] = flash.finalize ins(%[[ACC]], %[[M]], %[[L]] : {{.*}}) outs(%[[O0]], %[[LSE0]] :
// DEFERRED-SAME:     {normalize = #flash.normalize<deferred>}
// STEP-SAME:         {normalize = #flash.normalize<each_step>}
// CHECK:         return %[[O]], %[[LSE]]
func.func @regions_move(%q: tensor<?x8x?x64xbf16>, %k: tensor<?x2x?x64xbf16>, %v: tensor<?x2x?x32xbf16>, %bias: f32)
    -> (tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>) {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x32xbf16>)
    {scale = 1.250000e-01 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %t = arith.addf %s, %bias : f32
      flash.yield %t : f32
    }
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
  return %o, %lse : tensor<?x8x?x32xbf16>, tensor<?x8x?xf32>
}

// -----

// The state knows every extent that q, o or lse knows.

// CHECK-LABEL: func @extents_are_joined(
// CHECK:         flash.online_attention {{.*}} -> tensor<2x1x16x8xf32>, tensor<2x1x16xf32>, tensor<2x1x16xf32>
// CHECK:         flash.finalize {{.*}} -> tensor<2x1x16x8xf32>, tensor<2x1x16xf32>
// CHECK-DAG:     tensor.cast %{{.*}} : tensor<2x1x16x8xf32> to tensor<?x1x16x8xf32>
// CHECK-DAG:     tensor.cast %{{.*}} : tensor<2x1x16xf32> to tensor<?x1x?xf32>
func.func @extents_are_joined(%q: tensor<2x1x?x8xf32>) -> (tensor<?x1x16x8xf32>, tensor<?x1x?xf32>) {
  %o, %lse = flash.attention ins(%q, %q, %q : tensor<2x1x?x8xf32>, tensor<2x1x?x8xf32>, tensor<2x1x?x8xf32>)
    {scale = 1.0 : f32} -> tensor<?x1x16x8xf32>, tensor<?x1x?xf32>
  return %o, %lse : tensor<?x1x16x8xf32>, tensor<?x1x?xf32>
}
