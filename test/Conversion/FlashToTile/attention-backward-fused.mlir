// There is no kernel for dq that others add to.
// RUN: flashc-opt %s --flash-online-softmax --flash-tile="q-tile=0 kv-tile=0 resident-tile=128 streamed-tile=64" \
// RUN:     --canonicalize --cse --flash-swap-loops --flash-parallelize --verify-diagnostics --convert-flash-to-tile

!t = tensor<1x2x256x64xbf16>
!l = tensor<1x2x256xf32>

func.func @fused(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %do: !t) -> (!t, !t, !t) {
  // expected-error @+1 {{expected a step that carries all of its state (flash-split-gradients makes such), got one that adds to what it streams past}}
  %g:3 = flash.attention_backward ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !l, !t) {scale = 0.125 : f32}
      -> !t, !t, !t
  return %g#0, %g#1, %g#2 : !t, !t, !t
}
