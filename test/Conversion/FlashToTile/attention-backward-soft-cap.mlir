// Where all of a warp's arguments of a soft cap's tanh are small, P and the slopes come from a polynomial: neither needs
// the multi-function unit for it. What leaves the branches is rounded.
// RUN: sed s/x64x/x128x/ %s | flashc --emit=tile | FileCheck %s
// RUN: flashc %s --emit=tile | FileCheck %s --check-prefix=NONE --implicit-check-not=tile.all_within
// RUN: sed s/x64x/x128x/ %s | flashc --emit=tile --schedule=split-gradients=each | FileCheck %s --check-prefix=EACH

// CHECK:         } consumer {
// CHECK:           %[[S:.*]] = tile.mma_wait %{{.*}} : <tensor<64x64xf32, #tile.acc>>
// 0.75 / (0.02 * 0.125)
// CHECK:           %[[SMALL:.*]] = tile.all_within %[[S]] {limit = 3.000000e+02 : f32}
// CHECK:           %[[B:.*]]:2 = scf.if %[[SMALL]] -> (tensor<64x64xbf16, #tile.operand_a>, tensor<64x64xbf16, #tile.operand_a>) {
// CHECK-NOT:         math.tanh
// CHECK:             math.exp2
// CHECK-NOT:         math.tanh
// CHECK:           } else {
// CHECK-COUNT-2:     math.tanh
// CHECK:           }
// CHECK:           tile.mma_async %[[B]]#0,
// CHECK:           tile.from_operand_a %[[B]]#1
// Where d > 64 only.
// NONE: math.tanh
// dv alone needs no slopes, dq alone nothing rounded.
// EACH: scf.if %{{.*}} -> (tensor<64x{{[0-9]+}}xf32, #tile.acc>, tensor<64x{{[0-9]+}}xbf16, #tile.operand_a>) {
!q = tensor<?x4x?x64xbf16>
!lse = tensor<?x4x?xf32>
func.func @cap(%q: !q, %k: !q, %v: !q, %o: !q, %lse: !lse, %do: !q) -> (!q, !q, !q) {
  %small = arith.constant 0.02 : f32
  %cap = arith.constant 50.0 : f32
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !q, !q, !q, !q, !lse, !q) {scale = 0.125 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %u = arith.mulf %s, %small : f32
        %t = math.tanh %u : f32
        %r = arith.mulf %t, %cap : f32
        flash.yield %r : f32
      } -> !q, !q, !q
  return %g#0, %g#1, %g#2 : !q, !q, !q
}
