// DEFINE: %{tile} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse
// DEFINE: %{fa2} = %{tile} --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: split-file %s %t
// RUN: flashc-opt %t/unknown.mlir --verify-diagnostics %{fa2} --convert-flash-to-tile=target=sm_42
// RUN: flashc-opt %t/ampere.mlir --verify-diagnostics %{fa2} --convert-flash-to-tile=target=sm_80

//--- unknown.mlir
!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @no_facts_of_this_gpu(%q: !q, %k: !q, %v: !q) -> !q {
  // expected-error @below {{expected the target to be one of sm_90a, sm_80, got 'sm_42'}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}

//--- ampere.mlir
!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @no_kernel_of_warpgroups(%q: !q, %k: !q, %v: !q) -> !q {
  // expected-error @below {{expected a decoding kernel (algorithm split-kv) on sm_80, whose warpgroups compute no products}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}
