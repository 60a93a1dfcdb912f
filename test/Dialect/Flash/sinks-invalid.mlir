// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>

func.func @of_key_heads(%q: !q, %k: !k, %sinks: tensor<2xf32>) {
  // expected-error @+1 {{expected q and sinks to agree on Hq, got 4 and 2 (C5)}}
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) sinks(%sinks : tensor<2xf32>) {scale = 1.0 : f32}
      -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>

func.func @of_batches(%q: !q, %k: !k, %sinks: tensor<1x4xf32>) {
  // expected-error @+1 {{expected sinks of rank 1, got 'tensor<1x4xf32>' (C2)}}
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) sinks(%sinks : tensor<1x4xf32>) {scale = 1.0 : f32}
      -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xbf16>
!k = tensor<1x2x32x16xbf16>

func.func @element(%q: !q, %k: !k, %sinks: tensor<4xbf16>) {
  // expected-error @+1 {{expected sinks of element type 'f32', got 'bf16' (C3)}}
  %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) sinks(%sinks : tensor<4xbf16>) {scale = 1.0 : f32}
      -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!lse = tensor<1x4x64xf32>

func.func @without_dsinks(%q: !q, %lse: !lse, %sinks: tensor<4xf32>) {
  // expected-error @+1 {{expected four results on tensors, or four 'outs' and no result on memrefs, got 3 results and 0 outs (C10)}}
  %g:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : !q, !q, !q, !q, !lse, !q)
      sinks(%sinks : tensor<4xf32>) {scale = 1.0 : f32} -> !q, !q, !q
  return
}

// -----

func.func @of_another_tile(%acc: tensor<1x2x64x16xf32>, %m: tensor<1x2x64xf32>, %sinks: tensor<4xf32>,
                           %o: tensor<1x2x64x16xf32>) {
  // expected-error @+1 {{expected m and sinks to agree on Hq, got 'tensor<1x2x64xf32>' and 'tensor<4xf32>'}}
  %r:2 = flash.finalize ins(%acc, %m, %m : tensor<1x2x64x16xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>)
      sinks(%sinks : tensor<4xf32>) outs(%o, %m : tensor<1x2x64x16xf32>, tensor<1x2x64xf32>)
      {normalize = #flash.normalize<deferred>} -> tensor<1x2x64x16xf32>, tensor<1x2x64xf32>
  return
}
