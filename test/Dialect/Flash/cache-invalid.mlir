// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

func.func @invalid(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>, %cache2: tensor<?x4x?x32xf16>,
    %table: tensor<?x?xi32>, %lengths2: tensor<3xi32>, %cache3: tensor<9x4x16x32xf16>, %table2: tensor<2x3xi32>,
    %i: index, %cache4: tensor<2x4x64x32xi8>, %scales: tensor<1x1xf32>, %scales2: tensor<1x3xf32>,
    %scales3: tensor<2x4xf32>) {
  // BODY
  return
}

// VARY neither
//     %k = flash.cache_view %cache : tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
//     | error: 'flash.cache_view' op expected lengths or pages (C3)
// VARY other_type
//     %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf32>
//     | error: expected a result of the cache's element type and static head dimension (C1)
// VARY dynamic_page
//     %k = flash.cache_view %cache2 pages(%table : tensor<?x?xi32>): tensor<?x4x?x32xf16> -> tensor<?x4x?x32xf16>
//     | error: expected pages of a static number of rows (C1), got 'tensor<?x4x?x32xf16>'
// VARY heads
//     %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<2x8x64x32xf16>
//     | error: expected as many key heads as the cache has (C1)
// VARY batches
//     %k = flash.cache_view %cache lengths(%lengths2 : tensor<3xi32>): tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
//     | error: expected one number of sequences (C2), got 2 and 3
// VARY keys
//     %k = flash.cache_view %cache3 pages(%table2 : tensor<2x3xi32>): tensor<9x4x16x32xf16> -> tensor<2x4x64x32xf16>
//     | error: expected 48 keys (C2), got 64
// VARY tile_of_two_heads
//     %t = flash.cache_tile %cache[%i, %i, %i] lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<1x2x16x32xf16>
//     | error: 'flash.cache_tile' op expected a tile of 1 x 1 x n x D, got 'tensor<1x2x16x32xf16>'
// VARY no_scales
//     %k = flash.cache_view %cache4 lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
//     | error: expected scales where the cache has elements of 8 bits, and there only (C4), got 'i8'
// VARY scales_of_floats
//     %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>) scales(%scales : tensor<1x1xf32>)
//     | error: expected scales where the cache has elements of 8 bits, and there only (C4), got 'f16'
//       : tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
// VARY scales_of_heads
//     %k = flash.cache_view %cache4 lengths(%lengths : tensor<2xi32>) scales(%scales2 : tensor<1x3xf32>)
//     | error: expected scales of one or all key heads, got 'tensor<1x3xf32>'
//       : tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
// VARY scales_of_pages
//     %k = flash.cache_view %cache4 lengths(%lengths : tensor<2xi32>) scales(%scales3 : tensor<2x4xf32>)
//     | error: expected scales of one or all pages, where there are pages, got 'tensor<2x4xf32>'
//       : tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
