// Bounds are multiples of the tile: there are none of a tile whose size is not known.
// RUN: not flashc-opt %s --flash-online-softmax --flash-print-mask-bounds 2>&1 | FileCheck %s
// RUN: flashc-opt %s --flash-online-softmax --flash-tile="q-tile=64 kv-tile=64" --flash-print-mask-bounds | FileCheck %s --check-prefix=TILED
// CHECK: error: 'flash.online_attention' op expected tiles of static sizes (flash-tile comes first)
// TILED: kept [begin,
!t = tensor<1x1x?x64xbf16>
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !t, tensor<1x1x?xf32>
  return %o : !t
}
