// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>
!q2 = tensor<1x4x64x16xbf16>
!k2 = tensor<1x2x32x16xbf16>
!t = tensor<64xf32>
func.func @invalid(%q: !q, %k: !k, %lse: !lse, %q2: !q2, %k2: !k2, %do: tensor<1x4x64x16xf32>,
    %dv: tensor<1x4x32x16xf32>, %x: !t) {
  // BODY
  return
}

// VARY gradient_for_query_heads
//     %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32}
//     | error: expected k and dk to agree on Hk, got 2 and 4 (C5)
//         -> !q, tensor<1x4x32x16xf32>, !k
// VARY element_of_do
//     %g:3 = flash.attention_backward ins(%q2, %k2, %k2, %q2, %lse, %do : !q2, !k2, !k2, !q2, !lse, tensor<1x4x64x16xf32>)
//     | error: expected do of element type 'bf16', got 'f32' (C3)
//         {scale = 1.0 : f32} -> !q2, !k2, !k2
// VARY element_of_dq
//     %g:3 = flash.attention_backward ins(%q2, %k2, %k2, %q2, %lse, %q2 : !q2, !k2, !k2, !q2, !lse, !q2) {scale = 1.0 : f32}
//     | error: expected dq of element type 'bf16' or f32, got 'f16' (C3)
//         -> tensor<1x4x64x16xf16>, !k2, !k2
// VARY two_results
//     %g:2 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32} -> !q, !k
//     | error: expected three results on tensors, or three 'outs' and no result on memrefs, got 2 results and 0 outs (C10)
// VARY derivative_alone
//     %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32}
//     | error: expected a derivative together with a score only (C8)
//         derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
//           flash.yield %s : f32
//         } -> !q, !k, !k
// VARY queries_and_keys
//     %c0 = arith.constant 0 : index
//     %g:2 = flash.accumulate_gradients ins(%q, %k, %k, %q, %lse, %lse : !q, !k, !k, !q, !lse, !lse)
//     | error: expected dq, dk and dv, dk and dv, one of them, or sums of one kind, each with a tensor of 'outs', got <dq, dv> and 2 outs
//         outs(%q, %dv : !q, tensor<1x4x32x16xf32>) at(%c0, %c0, %c0, %c0)
//         {gradients = #flash.gradients<dq, dv>, scale = 1.0 : f32} -> !q, tensor<1x4x32x16xf32>
// VARY no_derivative
//     %c0 = arith.constant 0 : index
//     %g = flash.accumulate_gradients ins(%q, %k, %k, %q, %lse, %lse : !q, !k, !k, !q, !lse, !lse)
//     | error: expected the score's derivative (flash-differentiate-scores comes first)
//         outs(%q : !q) at(%c0, %c0, %c0, %c0) {gradients = #flash.gradients<dq>, scale = 1.0 : f32}
//         score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
//           flash.yield %s : f32
//         } -> !q
// VARY added_outside
//     flash.parallel_add_slice %x into %x[0] [64] [1] : !t into !t
//     | error: expected an op in the terminator of an scf.forall that shares the destination (C1)

// -----

!t = tensor<64xf32>

func.func @added_size(%x: !t) -> !t {
  %r = scf.forall (%i) in (4) shared_outs(%sum = %x) -> !t {
    scf.forall.in_parallel {
      // expected-error @+1 {{expected a source with the sizes of the slice, got 'tensor<64xf32>' (C2)}}
      flash.parallel_add_slice %x into %sum[0] [32] [1] : !t into !t
    }
  }
  return %r : !t
}
