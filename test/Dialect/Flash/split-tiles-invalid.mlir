// RUN: flashc-opt %s --flash-split-kv="splits=2 kv-tile=0" --verify-diagnostics --split-input-file

!q = tensor<1x8x4x16xbf16>
!acc = tensor<1x8x4x16xf32>
!row = tensor<1x8x4xf32>

func.func @no_tile(%q: !q, %acc: !acc, %m: !row, %l: !row) -> (!acc, !row, !row) {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected positive tiles and parts, and chunks of whole tiles, got rows=16 kv-tile=0 splits=2 chunk=0}}
  %0:3 = flash.online_attention ins(%q, %q, %q : !q, !q, !q) outs(%acc, %m, %l : !acc, !row, !row)
    at(%c0, %c0, %c0, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !row, !row
  return %0#0, %0#1, %0#2 : !acc, !row, !row
}
