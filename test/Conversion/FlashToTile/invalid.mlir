// DEFINE: %{tile} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse
// DEFINE: %{fa2} = %{tile} --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics %{fa2} -o /dev/null \
// RUN:   --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
!all = tensor<1x2x512x128xbf16>
func.func @attention(%q: !q, %k: !q, %v: !q, %bias: tensor<256xf32>, %apart: memref<256xf32, strided<[2]>>, %flag: memref<i32>,
    %all: !all, %limit: i7, %wide: tensor<2xi128>, %unranked: i1) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %t = arith.addf %s, %s : f32
      flash.yield %t : f32
    } -> !q, !lse
  return %o : !q
}

// VARY f32
//   !q = tensor<1x2x256x128xbf16> => !q = tensor<1x2x256x128xf32>
//   %o, %lse = | error: expected bf16 or f16 on sm_90a, got 'f32'
// VARY two_attentions
//   %o, %lse = | note: the first one
//   -> !q { => -> (!q, !q) {
//   return %o : !q => %o2, %lse2 = flash.attention ins(%k, %q, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
//     | error: expected one attention per module, got a second one
//     return %o, %o2 : !q, !q
// VARY computed_bias
//   %o, %lse = => %more = arith.addf %bias, %bias : tensor<256xf32> | note: it is this
//     %o, %lse =
//   %t = arith.addf %s, %s => %x = tensor.extract %more[%j] : tensor<256xf32>
//     | error: expected a captured array to be a function argument
//     %t = arith.addf %s, %x
// VARY scattered_bias
//   %t = arith.addf %s, %s => %x = memref.load %apart[%j] : memref<256xf32, strided<[2]>>
//     | error: expected a captured memref that is contiguous in its innermost dimension, got 'memref<256xf32, strided<[2]>>'
//     %t = arith.addf %s, %x
// VARY computed_query
//   %o, %lse = => %p = arith.negf %q : !q | note: it is a tile of this
//     %o, %lse =
//   ins(%q, => ins(%p, | error: expected q to be a tile of a function argument
// VARY epilogue
//   return %o => %n = arith.negf %o : !q
//     | error: expected result 0 of flash.finalize to be returned or written to an argument only, got another use
//     return %n
// VARY passes_an_input_on
//   func.func | error: expected every function result to be an output of the attention
//   -> !q { => -> (!q, !q) {
//   return %o : !q => return %o, %q : !q, !q
// VARY writes_elsewhere
//   %o, %lse = => %c1 = arith.constant 1 : i32
//     memref.store %c1, %flag[] : memref<i32>
//     | error: expected a function that computes an attention only, got another side effect
//     %o, %lse =
// VARY in_another_tensor
//   -> !q { => -> !all {
//   return %o : !q => %r = tensor.insert_slice %o into %all[0, 0, 256, 0] [1, 2, 256, 128] [1, 1, 1, 1] : !q into !all
//     | error: expected result 0 of flash.finalize to be returned or written to an argument only, got another use
//     return %r : !all
// VARY name_of_a_kernel
//   @attention => @"a-b" | error: expected a name of letters, digits, '_' and '$', as PTX has them, got 'a-b'
// VARY unranked
//   func.func | error: expected scalars and ranked tensors or memrefs to pass to a kernel, got 'tensor<*xf32>'
//   %unranked: i1 => %unranked: tensor<*xf32>
// VARY odd_parameter
//   %all: !all, | error: expected a parameter of 1, 8, 16, 32 or 64 bits, f16, bf16, f32 or f64, got 'i7'
//   %t = arith.addf %s, %s => %x = arith.sitofp %limit : i7 to f32
//     %t = arith.addf %s, %x
// VARY odd_array
//   %t = arith.addf %s, %s => %y = tensor.extract %wide[%h] : tensor<2xi128>
//     | error: expected an array of 1, 8, 16, 32 or 64 bits an element, f16, bf16, f32 or f64, got 'i128'
//     %x = arith.sitofp %y : i128 to f32
//     %t = arith.addf %s, %x

// -----

!q = tensor<1x1x64x128xbf16>
!lse = tensor<1x1x64xf32>
func.func @part_of_one_tile(%q: !q, %k: !q, %v: !q) -> tensor<1x1x8x128xbf16> {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  // expected-error @below {{expected result 0 of flash.finalize to be returned or written to an argument only, got another use}}
  %part = tensor.extract_slice %o[0, 0, 3, 0] [1, 1, 8, 128] [1, 1, 1, 1] : !q to tensor<1x1x8x128xbf16>
  return %part : tensor<1x1x8x128xbf16>
}

// -----

// expected-error @below {{expected an attention in the tiled loops of the algorithm fa2, got none}}
func.func @no_attention() {
  return
}

// -----

// expected-note @below {{the first one}}
func.func @first() {
  return
}
// expected-error @below {{expected the module to hold one function, got a second one}}
func.func @second() {
  return
}

// -----

// expected-error @below {{expected the module to hold one function with a body, got another op}}
func.func private @without_body()
