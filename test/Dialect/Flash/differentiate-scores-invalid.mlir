// RUN: flashc-opt %s --flash-differentiate-scores --split-input-file --verify-diagnostics
// RUN: flashc-opt %s --flash-decompose --split-input-file --verify-diagnostics

// The bits of a float.
!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @bits(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  // expected-error @+1 {{expected a score that has a derivative}}
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{'arith.bitcast' has none}}
      %n = arith.bitcast %s : f32 to i32
      %y = arith.bitcast %n : i32 to f32
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// -----

// Formats with a scale.
!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @scaled_format(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  // expected-error @+1 {{expected a score that has a derivative}}
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %e = arith.truncf %cap : f32 to f8E8M0FNU
      // expected-note @+1 {{'arith.scaling_truncf' has none}}
      %n = arith.scaling_truncf %s, %e : f32, f8E8M0FNU to f4E2M1FN
      %y = arith.extf %n : f4E2M1FN to f32
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// -----

// Scores in a tensor.
!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @tensor(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  // expected-error @+1 {{expected a score that has a derivative}}
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %c0 = arith.constant 0 : index
      // expected-note @+1 {{'tensor.splat' has none}}
      %t = tensor.splat %s : tensor<1xf32>
      %y = tensor.extract %t[%c0] : tensor<1xf32>
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// -----

// In a branch of a loop.
!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @nested(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  // expected-error @+1 {{expected a score that has a derivative}}
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %y = scf.for %n = %c0 to %i step %c1 iter_args(%x = %s) -> f32 {
        %even = arith.cmpi eq, %n, %j : index
        %a = scf.if %even -> f32 {
          // expected-note @+1 {{'arith.bitcast' has none}}
          %k = arith.bitcast %x : f32 to i32
          %z = arith.sitofp %k : i32 to f32
          scf.yield %z : f32
        } else {
          scf.yield %x : f32
        }
        scf.yield %a : f32
      }
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// -----

// A region of several blocks.
!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @blocks(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  // expected-error @+1 {{expected a score that has a derivative}}
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{'scf.execute_region' has none}}
      %y = scf.execute_region -> f32 {
        cf.br ^next(%s : f32)
      ^next(%x: f32):
        scf.yield %x : f32
      }
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}
