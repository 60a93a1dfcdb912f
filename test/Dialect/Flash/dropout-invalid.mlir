// RUN: %vary %s | flashc-opt --verify-diagnostics --split-input-file

!q = tensor<1x4x64x16xf32>
!lse = tensor<1x4x64xf32>
func.func @invalid(%q: !q, %philox: tensor<2xi64>, %philox2: tensor<1xi64>, %philox3: tensor<2xi32>,
    %philox4: tensor<1x2xi64>, %lse: !lse, %philox5: memref<2xi64>) {
  // BODY
  return
}

// VARY without_rate
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>) {scale = 1.0 : f32}
//     | error: expected dropout_p together with 'dropout' only (C11)
//         -> !q, tensor<1x4x64xf32>
// VARY without_seed
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) {dropout_p = 0.1 : f32, scale = 1.0 : f32}
//     | error: expected dropout_p together with 'dropout' only (C11)
//         -> !q, tensor<1x4x64xf32>
// VARY small_rate
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
//     | error: expected dropout_p to be nearest to one of 1/256 to 255/256, got 1.000000e-03 (C11)
//         {dropout_p = 0.001 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY all
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
//     | error: expected dropout_p to be nearest to one of 1/256 to 255/256, got 1.000000e+00 (C11)
//         {dropout_p = 1.0 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY infinite
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox : tensor<2xi64>)
//     | error: expected dropout_p to be nearest to one of 1/256 to 255/256
//         {dropout_p = 0x7F800000 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY one_number
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox2 : tensor<1xi64>)
//     | error: expected philox to hold two numbers, got 'tensor<1xi64>' (C11)
//         {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY element
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox3 : tensor<2xi32>)
//     | error: expected philox of element type 'i64', got 'i32' (C3)
//         {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY rank
//     %r:2 = flash.attention ins(%q, %q, %q : !q, !q, !q) dropout(%philox4 : tensor<1x2xi64>)
//     | error: expected philox of rank 1, got 'tensor<1x2xi64>' (C2)
//         {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, tensor<1x4x64xf32>
// VARY buffers
//     %g:3 = flash.attention_backward ins(%q, %q, %q, %q, %lse, %q : !q, !q, !q, !q, !lse, !q)
//     | error: expected only tensors or only memrefs, got q of type 'tensor<1x4x64x16xf32>' and philox of type 'memref<2xi64>' (C1)
//         dropout(%philox5 : memref<2xi64>) {dropout_p = 0.1 : f32, scale = 1.0 : f32} -> !q, !q, !q
