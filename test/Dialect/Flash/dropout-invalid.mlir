// RUN: flashc-opt %s --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>

func.func @without_rate(%q: !q, %philox: tensor<2xi64>) {
  // expected-error @+1 {{expected dropout_p together with 'dropout' only (C11)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>) {scale = 1.0 : f32}
      -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @without_seed(%q: !q) {
  // expected-error @+1 {{expected dropout_p together with 'dropout' only (C11)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) {dropout_p = 0.1 : f32, scale = 1.0 : f32}
      -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @small_rate(%q: !q, %philox: tensor<2xi64>) {
  // expected-error @+1 {{expected dropout_p to be nearest to one of 1/256 to 255/256, got 1.000000e-03 (C11)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0.001 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @all(%q: !q, %philox: tensor<2xi64>) {
  // expected-error @+1 {{expected dropout_p to be nearest to one of 1/256 to 255/256, got 1.000000e+00 (C11)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
      {dropout_p = 1.0 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @infinite(%q: !q, %philox: tensor<2xi64>) {
  // expected-error @+1 {{expected dropout_p to be nearest to one of 1/256 to 255/256}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
      {dropout_p = 0x7F800000 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @one_number(%q: !q, %philox: tensor<1xi64>) {
  // expected-error @+1 {{expected philox to hold two numbers, got 'tensor<1xi64>' (C11)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<1xi64>)
      {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @element(%q: !q, %philox: tensor<2xi32>) {
  // expected-error @+1 {{expected philox of element type 'i64', got 'i32' (C3)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi32>)
      {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>

func.func @rank(%q: !q, %philox: tensor<1x2xi64>) {
  // expected-error @+1 {{expected philox of rank 1, got 'tensor<1x2xi64>' (C2)}}
  %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<1x2xi64>)
      {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
  return
}

// -----

!q = tensor<1x4x64x16xf32>
!lse = tensor<1x4x64xf32>

func.func @buffers(%q: !q, %lse: !lse, %philox: memref<2xi64>) {
  // expected-error @+1 {{expected only tensors or only memrefs, got q of type 'tensor<1x4x64x16xf32>' and philox of type 'memref<2xi64>' (C1)}}
  %g:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : !q, !q, !q, !q, !lse, !q)
      dropout(%philox : memref<2xi64>) {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, !q, !q
  return
}
