// DEFINE: %{tile} = --flash-to-tensors --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse
// DEFINE: %{fa2} = %{tile} --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// RUN: flashc-opt %s --verify-diagnostics %{fa2} --convert-flash-to-tile=target=sm_42

!q = tensor<1x2x256x128xbf16>
!lse = tensor<1x2x256xf32>
func.func @no_facts_of_this_gpu(%q: !q, %k: !q, %v: !q) -> !q {
  // expected-error @below {{expected the target to be one of sm_90a, got 'sm_42'}}
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32} -> !q, !lse
  return %o : !q
}
