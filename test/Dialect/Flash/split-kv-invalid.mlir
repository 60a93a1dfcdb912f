// RUN: flashc-opt %s --flash-split-kv=kv-chunk=0 --verify-diagnostics

!t = tensor<1x1x8x8xf32>
!r = tensor<1x1x8xf32>

func.func @no_keys_per_chunk(%t: !t, %r: !r) -> !t {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected a positive chunk of keys, got 0}}
  %0:3 = flash.online_attention ins(%t, %t, %t : !t, !t, !t) outs(%t, %r, %r : !t, !r, !r) at(%c0, %c0, %c0, %c0)
    {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !t, !r, !r
  return %0#0 : !t
}
