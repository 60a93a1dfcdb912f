// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @gradient_for_query_heads(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected k and dk to agree on Hk, got 2 and 4 (C5)}}
  %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32}
      -> !q, tensor<1x4x32x16xf32>, !k
  return
}

// -----

!q = tensor<1x4x64x16xbf16>
!k = tensor<1x2x32x16xbf16>
!lse = tensor<1x4x64xf32>

func.func @element_of_do(%q: !q, %k: !k, %lse: !lse, %do: tensor<1x4x64x16xf32>) {
  // expected-error @+1 {{expected do of element type 'bf16', got 'f32' (C3)}}
  %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %do : !q, !k, !k, !q, !lse, tensor<1x4x64x16xf32>)
      {scale = 1.0 : f32} -> !q, !k, !k
  return
}

// -----

!q = tensor<1x4x64x16xbf16>
!k = tensor<1x2x32x16xbf16>
!lse = tensor<1x4x64xf32>

func.func @element_of_dq(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected dq of element type 'bf16' or f32, got 'f16' (C3)}}
  %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32}
      -> tensor<1x4x64x16xf16>, !k, !k
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @two_results(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected three results on tensors, or three 'outs' and no result on memrefs, got 2 results and 0 outs (C10)}}
  %g:2 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32} -> !q, !k
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @derivative_alone(%q: !q, %k: !k, %lse: !lse) {
  // expected-error @+1 {{expected a derivative together with a score only (C8)}}
  %g:3 = flash.attention_backward ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) {scale = 1.0 : f32}
      derivative (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        flash.yield %s : f32
      } -> !q, !k, !k
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @queries_and_keys(%q: !q, %k: !k, %lse: !lse, %dv: tensor<1x4x32x16xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected dq, dk and dv, dk and dv, one of them, or sums of one kind, each with a tensor of 'outs', got <dq, dv> and 2 outs}}
  %g:2 = flash.accumulate_gradients ins(%q, %k, %k, %q, %lse, %lse : !q, !k, !k, !q, !lse, !lse)
      outs(%q, %dv : !q, tensor<1x4x32x16xf32>) at(%c0, %c0, %c0, %c0)
      {gradients = #flash.gradients<dq, dv>, scale = 1.0 : f32} -> !q, tensor<1x4x32x16xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @no_derivative(%q: !q, %k: !k, %lse: !lse) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected the score's derivative (flash-differentiate-scores comes first)}}
  %g = flash.accumulate_gradients ins(%q, %k, %k, %q, %lse, %lse : !q, !k, !k, !q, !lse, !lse)
      outs(%q : !q) at(%c0, %c0, %c0, %c0) {gradients = #flash.gradients<dq>, scale = 1.0 : f32}
      score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
        flash.yield %s : f32
      } -> !q
  return
}

// -----

!t = tensor<64xf32>

func.func @added_outside(%x: !t) {
  // expected-error @+1 {{expected an op in the terminator of an scf.forall that shares the destination (C1)}}
  flash.parallel_add_slice %x into %x[0] [64] [1] : !t into !t
  return
}

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
