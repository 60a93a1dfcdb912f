// RUN: flashc-opt %s --flash-online-softmax --verify-diagnostics

!t = memref<1x1x8x8xf32>

func.func @memrefs(%q: !t, %o: !t, %lse: memref<1x1x8xf32>) {
  // expected-error @+1 {{expected an op on tensors, got 'memref<1x1x8x8xf32>' (run flash-to-tensors first)}}
  flash.attention ins(%q, %q, %q : !t, !t, !t) outs(%o, %lse : !t, memref<1x1x8xf32>) {scale = 1.0 : f32}
  return
}

func.func @column_sums_on_memrefs(%q: !t, %lse: memref<1x1x8xf32>) {
  // expected-error @+1 {{expected an op on tensors, got 'memref<1x1x8x8xf32>' (run flash-to-tensors first)}}
  flash.column_sums ins(%q, %q, %lse : !t, !t, memref<1x1x8xf32>) outs(%lse : memref<1x1x8xf32>) {scale = 1.0 : f32}
  return
}
