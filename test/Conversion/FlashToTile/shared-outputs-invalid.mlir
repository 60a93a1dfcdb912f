// Results that are written to arrays which the kernel reads, or writes twice. On memrefs the op's verifier sees it.
// RUN: flashc-opt %s --flash-fa2 --convert-flash-to-tile --verify-diagnostics --split-input-file

!m = memref<2x4x640x64xf16>
!t = tensor<2x4x640x64xf16>
!l = tensor<2x4x640xf32>

func.func @values(%q: !m, %k: !m, %v: !m) {
  %0 = bufferization.to_tensor %q restrict : !m to !t
  %1 = bufferization.to_tensor %k restrict : !m to !t
  %2 = bufferization.to_tensor %v restrict : !m to !t
  // expected-note @+1 {{reads or writes it}}
  %o, %lse = flash.attention ins(%0, %1, %2 : !t, !t, !t) {scale = 0.125 : f32} -> !t, !l
  // expected-error @+1 {{expected the output to be written to an argument that is used for nothing else, got one that shares memory with another array}}
  bufferization.materialize_in_destination %o in restrict writable %v : (!t, !m) -> ()
  return
}

// -----

!m = memref<2x4x640x64xf16>
!t = tensor<2x4x640x64xf16>
!l = tensor<2x4x640xf32>

// Before it is written the bias is computed from what lies there; the score reads it then where it is used.
func.func @computed(%q: !t, %b: memref<2x4x640xf32>) -> !t {
  %0 = bufferization.to_tensor %b restrict : memref<2x4x640xf32> to !l
  %bias = math.exp %0 : !l
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 0.125 : f32}
    score (%s: f32, %b0: index, %h: index, %i: index, %j: index) {
      // expected-note @+1 {{reads or writes it}}
      %x = tensor.extract %bias[%b0, %h, %i] : !l
      %t = arith.addf %s, %x : f32
      flash.yield %t : f32
    } -> !t, !l
  // expected-error @+1 {{expected the output to be written to an argument that is used for nothing else}}
  bufferization.materialize_in_destination %lse in restrict writable %b : (!l, memref<2x4x640xf32>) -> ()
  return %o : !t
}

// -----

!m = memref<2x4x640x64xf16>
!t = tensor<2x4x640x64xf16>
!l = tensor<2x4x640xf32>

func.func @twice(%q: !t, %k: !t, %o: !t, %lse: !l, %do: !t, %dkv: !m) -> !t {
  %0:3 = flash.attention_backward ins(%q, %k, %k, %o, %lse, %do : !t, !t, !t, !t, !l, !t) {scale = 0.125 : f32} -> !t, !t, !t
  // expected-error @+1 {{expected the output to be written to an argument that is used for nothing else}}
  bufferization.materialize_in_destination %0#1 in restrict writable %dkv : (!t, !m) -> ()
  // expected-note @+1 {{'bufferization.materialize_in_destination' reads or writes it}}
  bufferization.materialize_in_destination %0#2 in restrict writable %dkv : (!t, !m) -> ()
  return %0#0 : !t
}

// -----

// The cache of the keys.
!cache = memref<1x2x16x64xbf16>
!t = tensor<1x2x16x64xbf16>

func.func @cache(%q: !t, %cache: !cache, %v: !t, %lengths: tensor<1xi32>) {
  %0 = bufferization.to_tensor %cache restrict : !cache to !t
  %k = flash.cache_view %0 lengths(%lengths : tensor<1xi32>) : !t -> !t
  // expected-note @+1 {{'flash.cache_tile' reads or writes it}}
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32} -> !t, tensor<1x2x16xf32>
  // expected-error @+1 {{expected the output to be written to an argument that is used for nothing else}}
  bufferization.materialize_in_destination %o in restrict writable %cache : (!t, !cache) -> ()
  return
}
