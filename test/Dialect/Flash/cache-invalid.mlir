// RUN: flashc-opt %s --split-input-file --verify-diagnostics

func.func @neither(%cache: tensor<2x4x64x32xf16>) {
  // expected-error @+1 {{'flash.cache_view' op expected lengths or pages (C3)}}
  %k = flash.cache_view %cache : tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @other_type(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>) {
  // expected-error @+1 {{expected a result of the cache's element type and static head dimension (C1)}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf32>
  return
}

// -----

func.func @dynamic_page(%cache: tensor<?x4x?x32xf16>, %table: tensor<?x?xi32>) {
  // expected-error @+1 {{expected pages of a static number of rows (C1), got 'tensor<?x4x?x32xf16>'}}
  %k = flash.cache_view %cache pages(%table : tensor<?x?xi32>): tensor<?x4x?x32xf16> -> tensor<?x4x?x32xf16>
  return
}

// -----

func.func @heads(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>) {
  // expected-error @+1 {{expected as many key heads as the cache has (C1)}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<2x8x64x32xf16>
  return
}

// -----

func.func @batches(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<3xi32>) {
  // expected-error @+1 {{expected one number of sequences (C2), got 2 and 3}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<3xi32>): tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @keys(%cache: tensor<9x4x16x32xf16>, %table: tensor<2x3xi32>) {
  // expected-error @+1 {{expected 48 keys (C2), got 64}}
  %k = flash.cache_view %cache pages(%table : tensor<2x3xi32>): tensor<9x4x16x32xf16> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @tile_of_two_heads(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>, %i: index) {
  // expected-error @+1 {{'flash.cache_tile' op expected a tile of 1 x 1 x n x D, got 'tensor<1x2x16x32xf16>'}}
  %t = flash.cache_tile %cache[%i, %i, %i] lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xf16> -> tensor<1x2x16x32xf16>
  return
}

// -----

func.func @no_scales(%cache: tensor<2x4x64x32xi8>, %lengths: tensor<2xi32>) {
  // expected-error @+1 {{expected scales where the cache has elements of 8 bits, and there only (C4), got 'i8'}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>): tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @scales_of_floats(%cache: tensor<2x4x64x32xf16>, %lengths: tensor<2xi32>, %scales: tensor<1x1xf32>) {
  // expected-error @+1 {{expected scales where the cache has elements of 8 bits, and there only (C4), got 'f16'}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>) scales(%scales : tensor<1x1xf32>)
    : tensor<2x4x64x32xf16> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @scales_of_heads(%cache: tensor<2x4x64x32xi8>, %lengths: tensor<2xi32>, %scales: tensor<1x3xf32>) {
  // expected-error @+1 {{expected scales of one or all key heads, got 'tensor<1x3xf32>'}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>) scales(%scales : tensor<1x3xf32>)
    : tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
  return
}

// -----

func.func @scales_of_pages(%cache: tensor<2x4x64x32xi8>, %lengths: tensor<2xi32>, %scales: tensor<2x4xf32>) {
  // expected-error @+1 {{expected scales of one or all pages, where there are pages, got 'tensor<2x4xf32>'}}
  %k = flash.cache_view %cache lengths(%lengths : tensor<2xi32>) scales(%scales : tensor<2x4xf32>)
    : tensor<2x4x64x32xi8> -> tensor<2x4x64x32xf16>
  return
}
