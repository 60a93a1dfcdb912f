// RUN: flashc-opt %s --split-input-file | flashc-opt --split-input-file | FileCheck %s
// RUN: flashc-opt %s --flash-decompose --split-input-file | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: func @paged(
// CHECK:         flash.cache_view %{{.*}} lengths(%{{.*}} : tensor<?xi32>) pages(%{{.*}} : tensor<?x?xi32>) : tensor<?x8x16x128xbf16> -> tensor<?x8x?x128xbf16>
// What does not belong to the sequence is not read: neither the table nor the page.
// LINALG-LABEL: func @paged(
// LINALG-SAME:      %[[CACHE:.*]]: tensor<?x8x16x128xbf16>, %[[LENGTHS:.*]]: tensor<?xi32>, %[[TABLE:.*]]: tensor<?x?xi32>)
// LINALG:         linalg.generic
// LINALG:           %[[EXISTS:.*]] = arith.cmpi slt
// LINALG:           scf.if %[[EXISTS]] -> (bf16) {
// LINALG:             tensor.extract %[[TABLE]]
// An entry that is no page leads nowhere.
// LINALG:             %[[IS_PAGE:.*]] = arith.cmpi ult
// LINALG:             scf.if %[[IS_PAGE]] -> (bf16) {
// LINALG:               tensor.extract %[[CACHE]]
// LINALG:             } else {
// LINALG:               arith.constant 0x7FC0 : bf16
// LINALG:           } else {
// LINALG:               scf.yield %{{.*}} : bf16
func.func @paged(%cache: tensor<?x8x16x128xbf16>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>) -> tensor<?x8x?x128xbf16> {
  %k = flash.cache_view %cache lengths(%lengths : tensor<?xi32>) pages(%table : tensor<?x?xi32>)
    : tensor<?x8x16x128xbf16> -> tensor<?x8x?x128xbf16>
  return %k : tensor<?x8x?x128xbf16>
}

// -----

// CHECK-LABEL: func @without_lengths(
// CHECK:         flash.cache_view %{{.*}} pages(%{{.*}} : tensor<2x3xi32>) : tensor<9x2x1x8xf32> -> tensor<2x2x3x8xf32>
func.func @without_lengths(%cache: tensor<9x2x1x8xf32>, %table: tensor<2x3xi32>) -> tensor<2x2x3x8xf32> {
  %k = flash.cache_view %cache pages(%table : tensor<2x3xi32>): tensor<9x2x1x8xf32> -> tensor<2x2x3x8xf32>
  return %k : tensor<2x2x3x8xf32>
}

// -----

// CHECK-LABEL: func @tile(
// CHECK:         flash.cache_tile %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] lengths(%{{.*}} : tensor<2xi32>) : tensor<2x4x64x32xf16> -> tensor<1x1x16x32xf16>
// LINALG-LABEL: func @tile(
// LINALG:         tensor.empty() : tensor<1x1x16x32xf16>
// LINALG:         linalg.generic
func.func @tile(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>, %b: index, %h: index, %j: index) -> tensor<1x1x16x32xf16> {
  %t = flash.cache_tile %cache[%b, %h, %j] lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<1x1x16x32xf16>
  return %t : tensor<1x1x16x32xf16>
}

// -----

// An element of 8 bits stands for its value times a scale. Here each page has a scale.
// CHECK-LABEL: func @scaled(
// CHECK:         flash.cache_view %{{.*}} pages(%{{.*}} : tensor<2x3xi32>) scales(%{{.*}} : tensor<?x1xf32>) : tensor<?x2x1x8xi8> -> tensor<2x2x3x8xbf16>
// LINALG-LABEL: func @scaled(
// LINALG-SAME:      %[[CACHE:.*]]: tensor<?x2x1x8xi8>, %[[TABLE:.*]]: tensor<2x3xi32>, %[[SCALES:.*]]: tensor<?x1xf32>)
// LINALG:           scf.if
// LINALG:             %[[PAGE:.*]] = arith.index_cast
// LINALG:             %[[ELEMENT:.*]] = tensor.extract %[[CACHE]][%[[PAGE]]
// LINALG:             %[[WIDE:.*]] = arith.sitofp %[[ELEMENT]] : i8 to f32
// LINALG:             %[[SCALE:.*]] = tensor.extract %[[SCALES]][%[[PAGE]], %c0
// LINALG:             arith.mulf %[[WIDE]], %[[SCALE]] : f32
// LINALG:             arith.truncf %{{.*}} : f32 to bf16
func.func @scaled(%cache: tensor<?x2x1x8xi8>, %table: tensor<2x3xi32>, %scales: tensor<?x1xf32>) -> tensor<2x2x3x8xbf16> {
  %k = flash.cache_view %cache pages(%table : tensor<2x3xi32>) scales(%scales : tensor<?x1xf32>)
    : tensor<?x2x1x8xi8> -> tensor<2x2x3x8xbf16>
  return %k : tensor<2x2x3x8xbf16>
}

// -----

// CHECK-LABEL: func @float8(
// CHECK:         flash.cache_tile {{.*}} scales(%{{.*}} : tensor<1x4xf32>) : tensor<2x4x64x32xf8E4M3FN> -> tensor<1x1x16x32xf16>
// LINALG-LABEL: func @float8(
// LINALG:         arith.bitcast %{{.*}} : f8E4M3FN to i8
// LINALG-NOT:     arith.extf
func.func @float8(%cache: tensor<2x4x64x32xf8E4M3FN>, %lengths: tensor<2xi32>, %scales: tensor<1x4xf32>, %b: index, %h: index,
                  %j: index) -> tensor<1x1x16x32xf16> {
  %t = flash.cache_tile %cache[%b, %h, %j] lengths(%lengths : tensor<2xi32>) scales(%scales : tensor<1x4xf32>)
    : tensor<2x4x64x32xf8E4M3FN> -> tensor<1x1x16x32xf16>
  return %t : tensor<1x1x16x32xf16>
}
