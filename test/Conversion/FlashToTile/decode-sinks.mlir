// A row of a decoding kernel has the sink of its own head, in whatever tile of tokens it is: rows count from 0 on.
// RUN: flashc %s --emit=tile | FileCheck %s
// CHECK:     tile.rows at(%c0) {
// CHECK:     ^bb0(%[[ROW:.*]]: index):
// CHECK:       %[[HEAD:.*]] = arith.divui %[[ROW]], %c4
// CHECK:       %[[OWN:.*]] = arith.addi %{{.*}}, %[[HEAD]]
// CHECK:       memref.load %{{.*}}[%[[OWN]]]
func.func @decode(%q: tensor<?x8x9x64xbf16>, %kc: tensor<?x2x16x64xbf16>, %vc: tensor<?x2x16x64xbf16>, %lengths: tensor<?xi32>,
                  %table: tensor<?x?xi32>, %sinks: tensor<8xf32>) -> tensor<?x8x9x64xbf16> {
  %k = flash.cache_view %kc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x16x64xbf16> -> tensor<?x2x?x64xbf16>
  %v = flash.cache_view %vc lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>) : tensor<?x2x16x64xbf16> -> tensor<?x2x?x64xbf16>
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x8x9x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>)
    sinks(%sinks : tensor<8xf32>) {scale = 0.125 : f32}
    mask (%b: index, %h: index, %i: index, %j: index) {
      %n = tensor.extract %lengths[%b] : tensor<?xi32>
      %length = arith.index_cast %n : i32 to index
      %keep = arith.cmpi slt, %j, %length : index
      flash.yield %keep : i1
    } -> tensor<?x8x9x64xbf16>, tensor<?x8x9xf32>
  return %o : tensor<?x8x9x64xbf16>
}
