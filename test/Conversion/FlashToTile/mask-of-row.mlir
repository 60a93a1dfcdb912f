// What a mask reads for a row is the row's, though its place is one in the whole tile: it is compared in the map.
// RUN: flashc %s --emit=tile --schedule=consumers=2,kv-tile=64,q-stages=1,store=registers | FileCheck %s
!q = tensor<1x4x?x64xbf16>
// CHECK-LABEL: gpu.func @row(
// CHECK:         tile.rows
// CHECK:         tile.map
// CHECK:           arith.cmpi
// CHECK:           tile.yield
func.func @row(%q: !q, %k: !q, %v: !q, %numbers: tensor<?xindex>) -> !q {
  %c64 = arith.constant 64 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !q, !q, !q) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = arith.divui %i, %c64 : index
        %number = tensor.extract %numbers[%x] : tensor<?xindex>
        %y = arith.divui %j, %c64 : index
        %keep = arith.cmpi eq, %number, %y : index
        flash.yield %keep : i1
      } -> !q, tensor<1x4x?xf32>
  return %o : !q
}
