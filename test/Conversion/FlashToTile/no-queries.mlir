// An attention without queries has no loops, and no kernel.
// RUN: not flashc %s -o - 2>&1 | FileCheck %s
// CHECK: error: expected loops over keys (algorithm fa2), got none: an extent is 0, or the mask keeps no key
!q = tensor<1x2x0x64xbf16>
!k = tensor<1x2x128x64xbf16>
func.func @none(%q: !q, %k: !k, %v: !k) -> !q {
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !k, !k) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      flash.yield %keep : i1
    } -> !q, tensor<1x2x0xf32>
  return %o : !q
}
