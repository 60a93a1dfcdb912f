// The maximum and the sum may begin with one value, whose op is then erased once.
// RUN: flashc-opt %s --flash-fa2 | FileCheck %s

// CHECK-LABEL: func.func @maximum_begins_with_zero
// CHECK:         flash.online_attention
// CHECK:         flash.finalize
!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
func.func @maximum_begins_with_zero(%q: !q, %k: !k, %v: !k, %eacc: !acc, %em: !m) -> (!q, !m) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %s:3 = flash.online_attention ins(%q, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
      at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
  %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%q, %em : !q, !m)
      {normalize = #flash.normalize<deferred>} -> !q, !m
  return %o, %lse : !q, !m
}

// Steps of other nests may begin with the same zeros, where there are no loops.
// CHECK-LABEL: func.func @two_nests
// CHECK:         %[[DK:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dk>
// CHECK:         %[[DV:.*]] = flash.accumulate_gradients {{.*}}gradients = #flash.gradients<dv>
// CHECK:         return %[[DK]], %[[DV]]
func.func @two_nests(%q: !k, %lse: tensor<1x1x64xf32>, %empty: tensor<1x1x64x64xf32>)
    -> (tensor<1x1x64x64xf32>, tensor<1x1x64x64xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x1x64x64xf32>) -> tensor<1x1x64x64xf32>
  %dk = flash.accumulate_gradients
      ins(%q, %q, %q, %q, %lse, %lse : !k, !k, !k, !k, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
      outs(%init : tensor<1x1x64x64xf32>) at(%c0, %c0, %c0, %c0)
      {gradients = #flash.gradients<dk>, scale = 1.0 : f32} -> tensor<1x1x64x64xf32>
  %dv = flash.accumulate_gradients
      ins(%q, %q, %q, %q, %lse, %lse : !k, !k, !k, !k, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
      outs(%init : tensor<1x1x64x64xf32>) at(%c0, %c0, %c0, %c0)
      {gradients = #flash.gradients<dv>, scale = 1.0 : f32} -> tensor<1x1x64x64xf32>
  return %dk, %dv : tensor<1x1x64x64xf32>, tensor<1x1x64x64xf32>
}
