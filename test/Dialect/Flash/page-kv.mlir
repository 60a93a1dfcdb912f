// RUN: flashc-opt %s --flash-page-kv --split-input-file | FileCheck %s

// A slice of the view, padded or not, is a tile of the cache; extents are those of the arrays.
// CHECK:       #[[KEYS:.*]] = affine_map<()[s0] -> (s0 * 16)>
// CHECK-LABEL: func @padded(
// CHECK-SAME:      %[[CACHE:.*]]: tensor<?x2x16x8xbf16>, %[[LENGTHS:.*]]: tensor<?xi32>, %[[TABLE:.*]]: tensor<?x?xi32>, %[[B:.*]]: index, %[[H:.*]]: index, %[[J:.*]]: index, %{{.*}}: index)
// CHECK:         affine.apply #[[KEYS]]()[%{{.*}}]
// CHECK:         %[[TILE:.*]] = flash.cache_tile %[[CACHE]][%[[B]], %[[H]], %[[J]]] lengths(%[[LENGTHS]] : tensor<?xi32>) pages(%[[TABLE]] : tensor<?x?xi32>)
// CHECK-SAME:        -> tensor<1x1x32x8xbf16>
// CHECK:         return %[[TILE]]
func.func @padded(%cache: tensor<?x2x16x8xbf16>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>, %b: index, %h: index,
                  %j: index, %n: index) -> (tensor<1x1x32x8xbf16>, index) {
  %k = flash.cache_view %cache lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>)
    : tensor<?x2x16x8xbf16> -> tensor<?x2x?x8xbf16>
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : bf16
  %nk = tensor.dim %k, %c2 : tensor<?x2x?x8xbf16>
  %c32 = arith.constant 32 : index
  %rest = arith.subi %c32, %n : index
  %s = tensor.extract_slice %k[%b, %h, %j, 0] [1, 1, %n, 8] [1, 1, 1, 1] : tensor<?x2x?x8xbf16> to tensor<1x1x?x8xbf16>
  %t = tensor.pad %s low[0, 0, 0, 0] high[0, 0, %rest, 0] {
  ^bb0(%0: index, %1: index, %2: index, %3: index):
    tensor.yield %zero : bf16
  } : tensor<1x1x?x8xbf16> to tensor<1x1x32x8xbf16>
  return %t, %nk : tensor<1x1x32x8xbf16>, index
}

// -----

// A part of the columns, or of the heads, is no tile: the view stays.
// CHECK-LABEL: func @columns(
// CHECK:         flash.cache_view
// CHECK:         tensor.extract_slice
// CHECK-NOT:     flash.cache_tile
func.func @columns(%cache: tensor<4x2x16x8xbf16>, %lengths: tensor<4xi32>) -> tensor<1x1x16x4xbf16> {
  %k = flash.cache_view %cache lengths(%lengths : tensor<4xi32>): tensor<4x2x16x8xbf16> -> tensor<4x2x16x8xbf16>
  %s = tensor.extract_slice %k[0, 0, 0, 4] [1, 1, 16, 4] [1, 1, 1, 1] : tensor<4x2x16x8xbf16> to tensor<1x1x16x4xbf16>
  return %s : tensor<1x1x16x4xbf16>
}
