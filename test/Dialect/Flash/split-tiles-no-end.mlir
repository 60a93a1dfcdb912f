// RUN: flashc-opt %s --flash-split-kv="splits=2" --verify-diagnostics

!q = tensor<1x8x4x16xbf16>
!acc = tensor<1x8x4x16xf32>
!row = tensor<1x8x4xf32>

func.func @state(%q: !q, %acc: !acc, %m: !row, %l: !row) -> (!acc, !row, !row) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected its state to end in one flash.finalize with normalize = deferred}}
  %0:3 = flash.online_attention ins(%q, %q, %q : !q, !q, !q) outs(%acc, %m, %l : !acc, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !row, !row
  return %0#0, %0#1, %0#2 : !acc, !row, !row
}
