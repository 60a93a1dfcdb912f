// The regions of an op with scores stand in either order, each at most once; they are printed in one order.
// RUN: flashc-opt %s -split-input-file -verify-diagnostics | FileCheck %s

!q = tensor<1x1x8x64xf16>
!l = tensor<1x1x8xf32>

// CHECK-LABEL: func @mask_before_score
// CHECK: flash.attention {{.*}} {scale = 1.250000e-01 : f32} score (
// CHECK: } mask (
// CHECK: } ->
func.func @mask_before_score(%q: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      }
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        flash.yield %s : f32
      } -> !q, !l
  return %o : !q
}

// CHECK-LABEL: func @of_gradients
// CHECK: flash.attention_backward {{.*}} score (
// CHECK: } mask (
// CHECK: } derivative (
func.func @of_gradients(%q: !q, %lse: !l) -> (!q, !q, !q) {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : !q, !q, !q, !q, !l, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      }
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        flash.yield %s : f32
      }
      derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        %one = arith.constant 1.0 : f32
        flash.yield %one : f32
      } -> !q, !q, !q
  return %dq, %dk, %dv : !q, !q, !q
}

// -----

!q = tensor<1x1x8x64xf16>
!l = tensor<1x1x8xf32>

func.func @two_masks(%q: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %q, %q : !q, !q, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      }
      // expected-error@+1 {{expected one mask, got another one}}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !q, !l
  return %o : !q
}
