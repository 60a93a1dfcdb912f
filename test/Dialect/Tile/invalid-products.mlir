// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of products, waits for them, and the sums that they bring along. Those of the ring protocol are in
// protocol-invalid-products.mlir.

func.func @mma_a_encoding(%a: tensor<64x64xbf16, #tile.acc>, %b: !tile.slot<64, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op operand #0 must be a full slot of a ring, readable by a product until it is released or a tile of 64 rows, or 16 of a warp, with encoding #tile.operand_a, but got 'tensor<64x64xbf16, #tile.acc>'}}
  %t = tile.mma_async %a, %b : tensor<64x64xbf16, #tile.acc>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @mma_types(%a: !tile.slot<64, 64, f16>, %b: !tile.slot<64, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected A and B of one 16-bit type, got 'f16' and 'bf16'}}
  %t = tile.mma_async %a, %b : !tile.slot<64, 64, f16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @mma_depth_of_a(%a: !tile.slot<64, 64, bf16>, %b: !tile.slot<128, 32, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected A of 64 x 32, got 64 x 64}}
  %t = tile.mma_async %a, %b transpose_b
      : !tile.slot<64, 64, bf16>, !tile.slot<128, 32, bf16> -> !tile.token<tensor<64x128xf32, #tile.acc>>
  return
}

// -----

func.func @mma_local_descriptors(%a: tensor<64x16xbf16, #tile.operand_a>, %b: !tile.slot<16, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected A in a slot for local_descriptors, got 'tensor<64x16xbf16, #tile.operand_a>'}}
  %t = tile.mma_async %a, %b {local_descriptors}
      : tensor<64x16xbf16, #tile.operand_a>, !tile.slot<16, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @mma_result(%a: !tile.slot<64, 64, bf16>, %b: !tile.slot<64, 128, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a result of 64 x 128 x f32 with encoding #tile.acc, got 'tensor<64x64xf32, #tile.acc>'}}
  %t = tile.mma_async %a, %b : !tile.slot<64, 64, bf16>, !tile.slot<64, 128, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @mma_accumulator(%a: !tile.slot<64, 64, bf16>, %acc: tensor<64x64xf32, #tile.operand_a>) {
  // expected-error @+1 {{'tile.mma_async' op expected an accumulator of type 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x64xf32, #tile.operand_a>'}}
  %t = tile.mma_async %a, %a into %acc : tensor<64x64xf32, #tile.operand_a>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @mma_depth(%a: !tile.slot<64, 24, bf16>, %b: !tile.slot<24, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a depth in steps of 16, got 24}}
  %t = tile.mma_async %a, %b : !tile.slot<64, 24, bf16>, !tile.slot<24, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @ones_transposed(%a: !tile.slot<64, 64, bf16>, %ones: !tile.slot<16, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a B of a multiple of 64 columns with ones, not transposed}}
  %t = tile.mma_async %a, %a ones %ones : !tile.slot<16, 64, bf16> transpose_b
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
  return
}

// -----

func.func @ones_beside_half_a_panel(%a: !tile.slot<64, 64, bf16>, %b: !tile.slot<64, 96, bf16>, %ones: !tile.slot<16, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a B of a multiple of 64 columns with ones, not transposed}}
  %t = tile.mma_async %a, %b ones %ones : !tile.slot<16, 64, bf16>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 96, bf16> -> !tile.token<tensor<64x104xf32, #tile.acc>>
  return
}

// -----

func.func @ones_element(%a: !tile.slot<64, 64, bf16>, %ones: !tile.slot<16, 64, f16>) {
  // expected-error @+1 {{'tile.mma_async' op expected ones of type '!tile.slot<16, 64, bf16>', got '!tile.slot<16, 64, f16>'}}
  %t = tile.mma_async %a, %a ones %ones : !tile.slot<16, 64, f16>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
  return
}

// -----

func.func @ones_rows(%a: !tile.slot<64, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected ones of type '!tile.slot<16, 64, bf16>', got '!tile.slot<64, 64, bf16>'}}
  %t = tile.mma_async %a, %a ones %a : !tile.slot<64, 64, bf16>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
  return
}

// -----

func.func @ones_result(%a: !tile.slot<64, 64, bf16>, %ones: !tile.slot<16, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a result of 64 x 72 x f32 with encoding #tile.acc, got 'tensor<64x64xf32, #tile.acc>'}}
  %t = tile.mma_async %a, %a ones %ones : !tile.slot<16, 64, bf16>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @slopes_not_transposed(%q: !tile.slot<64, 64, bf16>, %k: !tile.slot<64, 64, bf16>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
  %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.mma_async' op expected slopes, columns and transpose_b together}}
  %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @slopes_of_a_ring(%q: !tile.slot<64, 64, bf16>, %k: !tile.slot<64, 64, bf16>, %slopes: !tile.slot<64, 16, bf16>) {
  %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.mma_async' op expected slopes of a tile.alloc_slot slopes and columns of a tile.alloc_slot columns}}
  %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @columns_of_a_ring(%q: !tile.slot<64, 64, bf16>, %k: !tile.slot<64, 64, bf16>, %columns: !tile.slot<64, 16, bf16>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.mma_async' op expected slopes of a tile.alloc_slot slopes and columns of a tile.alloc_slot columns}}
  %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @slopes_element(%q: !tile.slot<64, 64, bf16>, %k: !tile.slot<64, 64, bf16>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, f16>
  %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.mma_async' op expected slopes of type '!tile.slot<64, 16, bf16>', got '!tile.slot<64, 16, f16>'}}
  %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, f16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @columns_rows(%q: !tile.slot<64, 64, bf16>, %k: !tile.slot<64, 64, bf16>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
  %columns = tile.alloc_slot columns : !tile.slot<128, 16, bf16>
  // expected-error @+1 {{'tile.mma_async' op expected columns of type '!tile.slot<64, 16, bf16>', got '!tile.slot<128, 16, bf16>'}}
  %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<128, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
  return
}

// -----

func.func @split_source(%s: tensor<64x72xf32>) {
  // expected-error @+1 {{'tile.split_sums' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @split_columns(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.operand_a>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @split_sums(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op result #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @split_width(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op expected 8 columns less than 72, got 72}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x72xf32, #tile.acc>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @split_element(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op expected results of 'f32', got 'f16'}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf16, #tile.row>
  return
}

// -----

func.func @wait_result(%t: !tile.token<tensor<64x64xf32, #tile.acc>>) {
  // expected-error @+1 {{'tile.mma_wait' op expected a result of type 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x32xf32, #tile.acc>'}}
  %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x32xf32, #tile.acc>
  return
}

// -----

func.func @wait_twice(%t: !tile.token<tensor<64x64xf32, #tile.acc>>) {
  // expected-error @+1 {{'tile.mma_wait' op expected its token to be waited for once}}
  %s0 = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
  %s1 = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
  return
}
