// DEFINE: %{tile} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse
// DEFINE: %{fa2} = %{tile} --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --split-input-file --verify-diagnostics %{fa2} --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2

!q = tensor<1x2x256x128xf32>
!lse = tensor<1x2x256xf32>
func.func @f32(%q: !q, %k: !q, %v: !q) -> !q {
  // expected-error @below {{expected bf16 or f16 on sm_90a, got 'f32'}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @two_attentions(%q: !q, %k: !q, %v: !q) -> (!q, !q) {
  // expected-note @below {{the first one}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  // expected-error @below {{expected one attention per module, got a second one}}
  %o2, %lse2 = flash.attention ins(%k, %q, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o, %o2 : !q, !q
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

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @computed_bias(%q: !q, %k: !q, %v: !q, %bias: tensor<256xf32>) -> !q {
  // expected-note @below {{it is this}}
  %more = arith.addf %bias, %bias : tensor<256xf32>
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @below {{expected a captured array to be a function argument}}
      %x = tensor.extract %more[%j] : tensor<256xf32>
      %t = arith.addf %s, %x : f32
      flash.yield %t : f32
    } -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @scattered_bias(%q: !q, %k: !q, %v: !q, %bias: memref<256xf32, strided<[2]>>) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @below {{expected a captured memref that is contiguous in its innermost dimension, got 'memref<256xf32, strided<[2]>>'}}
      %x = memref.load %bias[%j] : memref<256xf32, strided<[2]>>
      %t = arith.addf %s, %x : f32
      flash.yield %t : f32
    } -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @computed_query(%p: !q, %k: !q, %v: !q) -> !q {
  // expected-note @below {{it is a tile of this}}
  %q = arith.negf %p : !q
  // expected-error @below {{expected q to be a tile of a function argument}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @epilogue(%q: !q, %k: !q, %v: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  // expected-error @below {{expected result 0 of flash.finalize to be returned or written to an argument only, got another use}}
  %n = arith.negf %o : !q
  return %n : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
// expected-error @below {{expected every function result to be an output of the attention}}
func.func @passes_an_input_on(%q: !q, %k: !q, %v: !q) -> (!q, !q) {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o, %q : !q, !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @writes_elsewhere(%q: !q, %k: !q, %v: !q, %flag: memref<i32>) -> !q {
  %c1 = arith.constant 1 : i32
  // expected-error @below {{expected a function that computes an attention only, got another side effect}}
  memref.store %c1, %flag[] : memref<i32>
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

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

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @in_another_tensor(%q: !q, %k: !q, %v: !q, %all: tensor<1x2x512x128xbf16>) -> tensor<1x2x512x128xbf16> {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  // expected-error @below {{expected result 0 of flash.finalize to be returned or written to an argument only, got another use}}
  %r = tensor.insert_slice %o into %all[0, 0, 256, 0] [1, 2, 256, 128] [1, 1, 1, 1] : !q into tensor<1x2x512x128xbf16>
  return %r : tensor<1x2x512x128xbf16>
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
// expected-error @below {{expected a name of letters, digits, '_' and '$', as PTX has them, got 'a-b'}}
func.func @"a-b"(%q: !q, %k: !q, %v: !q) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
// expected-error @below {{expected scalars and ranked tensors or memrefs to pass to a kernel, got 'tensor<*xf32>'}}
func.func @unranked(%q: !q, %k: !q, %v: !q, %unused: tensor<*xf32>) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
// expected-error @below {{expected a parameter of 1, 8, 16, 32 or 64 bits, f16, bf16, f32 or f64, got 'i7'}}
func.func @odd_parameter(%q: !q, %k: !q, %v: !q, %limit: i7) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = arith.sitofp %limit : i7 to f32
      %t = arith.addf %s, %x : f32
      flash.yield %t : f32
    } -> !q, !lse
  return %o : !q
}

// -----

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @odd_array(%q: !q, %k: !q, %v: !q, %bias: tensor<2xi128>) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
    score (%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @below {{expected an array of 1, 8, 16, 32 or 64 bits an element, f16, bf16, f32 or f64, got 'i128'}}
      %x = tensor.extract %bias[%h] : tensor<2xi128>
      %y = arith.sitofp %x : i128 to f32
      %t = arith.addf %s, %y : f32
      flash.yield %t : f32
    } -> !q, !lse
  return %o : !q
}
