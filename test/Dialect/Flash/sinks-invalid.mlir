// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!q2 = tensor<1x4x64x16xbf16>
!k2 = tensor<1x2x32x16xbf16>
!lse = tensor<1x4x64xf32>
func.func @invalid(%q: !q, %k: !k, %sinks: tensor<2xf32>, %sinks2: tensor<1x4xf32>, %q2: !q2, %k2: !k2,
    %sinks3: tensor<4xbf16>, %lse_arg: !lse, %sinks4: tensor<4xf32>, %acc: tensor<1x2x64x16xf32>,
    %m: tensor<1x2x64xf32>, %o_arg: tensor<1x2x64x16xf32>) {
  // BODY
  return
}

// VARY of_key_heads
//     %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) sinks(%sinks : tensor<2xf32>) {scale = 1.0 : f32}
//     | error: expected q and sinks to agree on Hq, got 4 and 2 (C5)
//         -> !q, tensor<1x4x64xf32>
// VARY of_batches
//     %o, %lse = flash.attention ins(%q, %k, %k : !q, !k, !k) sinks(%sinks2 : tensor<1x4xf32>) {scale = 1.0 : f32}
//     | error: expected sinks of rank 1, got 'tensor<1x4xf32>' (C2)
//         -> !q, tensor<1x4x64xf32>
// VARY element
//     %o, %lse = flash.attention ins(%q2, %k2, %k2 : !q2, !k2, !k2) sinks(%sinks3 : tensor<4xbf16>) {scale = 1.0 : f32}
//     | error: expected sinks of element type 'f32', got 'bf16' (C3)
//         -> !q2, tensor<1x4x64xf32>
// VARY without_dsinks
//     %g:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse_arg, %q : !q, !q, !q, !q, !lse, !q)
//     | error: expected four results on tensors, or four 'outs' and no result on memrefs, got 3 results and 0 outs (C10)
//         sinks(%sinks4 : tensor<4xf32>) {scale = 1.0 : f32} -> !q, !q, !q
// VARY of_another_tile
//     %r:2 = flash.finalize ins(%acc, %m, %m : tensor<1x2x64x16xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>)
//     | error: expected m and sinks to agree on Hq, got 'tensor<1x2x64xf32>' and 'tensor<4xf32>'
//         sinks(%sinks4 : tensor<4xf32>) outs(%o_arg, %m : tensor<1x2x64x16xf32>, tensor<1x2x64xf32>)
//         {normalize = #flash.normalize<deferred>} -> tensor<1x2x64x16xf32>, tensor<1x2x64xf32>
