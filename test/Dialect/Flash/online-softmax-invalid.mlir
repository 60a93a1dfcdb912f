// RUN: flashc-opt %s --flash-online-softmax --verify-diagnostics

!t = memref<1x1x8x8xf32>

func.func @memrefs(%q: !t, %o: !t, %lse: memref<1x1x8xf32>) {
  // expected-error @+1 {{expected an op on tensors, got 'memref<1x1x8x8xf32>' (run flash-to-tensors first)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x8xf32>) {scale = 1.0 : f32}
  return
}

func.func @column_sums_on_memrefs(%q: !t, %lse: memref<1x1x8xf32>, %c: memref<1x1x8xf32>) {
  // expected-error @+1 {{expected an op on tensors, got 'memref<1x1x8x8xf32>' (run flash-to-tensors first)}}
  flash.column_sums ins(%q, %q, %lse : !t, !t, memref<1x1x8xf32>) outs(%c : memref<1x1x8xf32>) {scale = 1.0 : f32}
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!k = tensor<1x2x32x16xf32>
!lse = tensor<1x4x64xf32>

func.func @captured_gradient(%q: !q, %k: !k, %lse: !lse, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected no gradients of captured tensors (flash-differentiate-captures comes first)}}
  %g = flash.captured_gradient ins(%q, %k, %k, %q, %lse, %q : !q, !k, !k, !q, !lse, !q) of(%x : tensor<4xf32>)
      {scale = 1.0 : f32} -> tensor<4xf32>
  return %g : tensor<4xf32>
}
