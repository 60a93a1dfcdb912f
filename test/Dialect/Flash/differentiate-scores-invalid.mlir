// RUN: %vary %s > %t.mlir
// RUN: flashc-opt %t.mlir --flash-differentiate-scores --split-input-file --verify-diagnostics -o /dev/null
// RUN: flashc-opt %t.mlir --flash-decompose --split-input-file --verify-diagnostics -o /dev/null

!q = tensor<1x2x8x8xf32>
!lse = tensor<1x2x8xf32>
func.func @backward(%q: !q, %o: !q, %lse: !lse, %cap: f32) -> !q {
  %dq, %dk, %dv = flash.attention_backward ins(%q, %q, %q, %o, %lse, %o : !q, !q, !q, !q, !lse, !q) {scale = 1.0 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %y = arith.divf %s, %cap : f32 // BODY
      flash.yield %y : f32
    } -> !q, !q, !q
  return %dq : !q
}

// VARY bits: The bits of a float.
//     %n = arith.bitcast %s : f32 to i32 | note: 'arith.bitcast' has none
//     %y = arith.bitcast %n : i32 to f32
//   %dq, %dk, %dv = | error: expected a score that has a derivative
// VARY scaled_format: Formats with a scale.
//     %e = arith.truncf %cap : f32 to f8E8M0FNU
//     %n = arith.scaling_truncf %s, %e : f32, f8E8M0FNU to f4E2M1FN | note: 'arith.scaling_truncf' has none
//     %y = arith.extf %n : f4E2M1FN to f32
//   %dq, %dk, %dv = | error: expected a score that has a derivative
// VARY tensor: Scores in a tensor.
//     %c0 = arith.constant 0 : index
//     %t = tensor.splat %s : tensor<1xf32> | note: 'tensor.splat' has none
//     %y = tensor.extract %t[%c0] : tensor<1xf32>
//   %dq, %dk, %dv = | error: expected a score that has a derivative
// VARY nested: In a branch of a loop.
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     %y = scf.for %n = %c0 to %i step %c1 iter_args(%x = %s) -> f32 {
//       %even = arith.cmpi eq, %n, %j : index
//       %a = scf.if %even -> f32 {
//         %k = arith.bitcast %x : f32 to i32 | note: 'arith.bitcast' has none
//         %z = arith.sitofp %k : i32 to f32
//         scf.yield %z : f32
//       } else {
//         scf.yield %x : f32
//       }
//       scf.yield %a : f32
//     }
//   %dq, %dk, %dv = | error: expected a score that has a derivative
// VARY blocks: A region of several blocks.
//     %y = scf.execute_region -> f32 { | note: 'scf.execute_region' has none
//       cf.br ^next(%s : f32)
//     ^next(%x: f32):
//       scf.yield %x : f32
//     }
//   %dq, %dk, %dv = | error: expected a score that has a derivative
