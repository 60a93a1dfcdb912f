// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of products, waits for them, and the sums that they bring along. Those of the ring protocol are in
// protocol-invalid.mlir.

func.func @invalid(%a: tensor<64x64xbf16, #tile.acc>, %b: !tile.slot<64, 64, bf16>, %a2: !tile.slot<64, 64, f16>,
    %a3: !tile.slot<64, 64, bf16>, %b2: !tile.slot<128, 32, bf16>, %a4: tensor<64x16xbf16, #tile.operand_a>,
    %b3: !tile.slot<16, 64, bf16>, %b4: !tile.slot<64, 128, bf16>, %acc: tensor<64x64xf32, #tile.operand_a>,
    %a5: !tile.slot<64, 24, bf16>, %b5: !tile.slot<24, 64, bf16>, %ones: !tile.slot<16, 64, bf16>,
    %b6: !tile.slot<64, 96, bf16>, %ones2: !tile.slot<16, 64, f16>, %q: !tile.slot<64, 64, bf16>,
    %k: !tile.slot<64, 64, bf16>, %slopes_arg: !tile.slot<64, 16, bf16>, %columns_arg: !tile.slot<64, 16, bf16>,
    %s_arg: tensor<64x72xf32>, %s2: tensor<64x72xf32, #tile.acc>, %t_arg: !tile.token<tensor<64x64xf32, #tile.acc>>) {
  // BODY
  return
}

// VARY mma_a_encoding
//     %t = tile.mma_async %a, %b : tensor<64x64xbf16, #tile.acc>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op operand #0 must be a full slot of a ring, readable by a product until it is released or a tile of 64 rows, or 16 of a warp, with encoding #tile.operand_a, but got 'tensor<64x64xbf16, #tile.acc>'
// VARY mma_types
//     %t = tile.mma_async %a2, %b : !tile.slot<64, 64, f16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected A and B of one 16-bit type, got 'f16' and 'bf16'
// VARY mma_depth_of_a
//     %t = tile.mma_async %a3, %b2 transpose_b | error: 'tile.mma_async' op expected A of 64 x 32, got 64 x 64
//         : !tile.slot<64, 64, bf16>, !tile.slot<128, 32, bf16> -> !tile.token<tensor<64x128xf32, #tile.acc>>
// VARY mma_local_descriptors
//     %t = tile.mma_async %a4, %b3 {local_descriptors}
//     | error: 'tile.mma_async' op expected A in a slot for local_descriptors, got 'tensor<64x16xbf16, #tile.operand_a>'
//         : tensor<64x16xbf16, #tile.operand_a>, !tile.slot<16, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
// VARY mma_result
//     %t = tile.mma_async %a3, %b4 : !tile.slot<64, 64, bf16>, !tile.slot<64, 128, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected a result of 64 x 128 x f32 with encoding #tile.acc, got 'tensor<64x64xf32, #tile.acc>'
// VARY mma_accumulator
//     %t = tile.mma_async %a3, %a3 into %acc : tensor<64x64xf32, #tile.operand_a>
//     | error: 'tile.mma_async' op expected an accumulator of type 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x64xf32, #tile.operand_a>'
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
// VARY mma_depth
//     %t = tile.mma_async %a5, %b5 : !tile.slot<64, 24, bf16>, !tile.slot<24, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected a depth in steps of 16, got 24
// VARY ones_transposed
//     %t = tile.mma_async %a3, %a3 ones %ones : !tile.slot<16, 64, bf16> transpose_b
//     | error: 'tile.mma_async' op expected a B of a multiple of 64 columns with ones, not transposed
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
// VARY ones_beside_half_a_panel
//     %t = tile.mma_async %a3, %b6 ones %ones : !tile.slot<16, 64, bf16>
//     | error: 'tile.mma_async' op expected a B of a multiple of 64 columns with ones, not transposed
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 96, bf16> -> !tile.token<tensor<64x104xf32, #tile.acc>>
// VARY ones_element
//     %t = tile.mma_async %a3, %a3 ones %ones2 : !tile.slot<16, 64, f16>
//     | error: 'tile.mma_async' op expected ones of type '!tile.slot<16, 64, bf16>', got '!tile.slot<16, 64, f16>'
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
// VARY ones_rows
//     %t = tile.mma_async %a3, %a3 ones %a3 : !tile.slot<64, 64, bf16>
//     | error: 'tile.mma_async' op expected ones of type '!tile.slot<16, 64, bf16>', got '!tile.slot<64, 64, bf16>'
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
// VARY ones_result
//     %t = tile.mma_async %a3, %a3 ones %ones : !tile.slot<16, 64, bf16>
//     | error: 'tile.mma_async' op expected a result of 64 x 72 x f32 with encoding #tile.acc, got 'tensor<64x64xf32, #tile.acc>'
//         : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
// VARY slopes_not_transposed
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
//     %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
//     %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected slopes, columns and transpose_b together
// VARY slopes_of_a_ring
//     %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
//     %t = tile.mma_async %q, %k slopes %slopes_arg times %columns : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected slopes of a tile.alloc_slot slopes and columns of a tile.alloc_slot columns
// VARY columns_of_a_ring
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
//     %t = tile.mma_async %q, %k slopes %slopes times %columns_arg : !tile.slot<64, 16, bf16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected slopes of a tile.alloc_slot slopes and columns of a tile.alloc_slot columns
// VARY slopes_element
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, f16>
//     %columns = tile.alloc_slot columns : !tile.slot<64, 16, bf16>
//     %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, f16>, !tile.slot<64, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected slopes of type '!tile.slot<64, 16, bf16>', got '!tile.slot<64, 16, f16>'
// VARY columns_rows
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
//     %columns = tile.alloc_slot columns : !tile.slot<128, 16, bf16>
//     %t = tile.mma_async %q, %k slopes %slopes times %columns : !tile.slot<64, 16, bf16>, !tile.slot<128, 16, bf16> transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected columns of type '!tile.slot<64, 16, bf16>', got '!tile.slot<128, 16, bf16>'
// VARY split_source
//     %c, %l = tile.split_sums %s_arg : tensor<64x72xf32> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
//     | error: 'tile.split_sums' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got
// VARY split_columns
//     %c, %l = tile.split_sums %s2 : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.operand_a>, tensor<64xf32, #tile.row>
//     | error: 'tile.split_sums' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got
// VARY split_sums
//     %c, %l = tile.split_sums %s2 : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
//     | error: 'tile.split_sums' op result #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got
// VARY split_width
//     %c, %l = tile.split_sums %s2 : tensor<64x72xf32, #tile.acc> -> tensor<64x72xf32, #tile.acc>, tensor<64xf32, #tile.row>
//     | error: 'tile.split_sums' op expected 8 columns less than 72, got 72
// VARY split_element
//     %c, %l = tile.split_sums %s2 : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf16, #tile.row>
//     | error: 'tile.split_sums' op expected results of 'f32', got 'f16'
// VARY wait_result
//     %s = tile.mma_wait %t_arg : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x32xf32, #tile.acc>
//     | error: 'tile.mma_wait' op expected a result of type 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x32xf32, #tile.acc>'
// VARY wait_twice
//     %s0 = tile.mma_wait %t_arg : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
//     | error: 'tile.mma_wait' op expected its token to be waited for once
//     %s1 = tile.mma_wait %t_arg : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
