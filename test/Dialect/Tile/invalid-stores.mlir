// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of stores. Those of the ring protocol are in protocol-invalid.mlir.

func.func @invalid(%s: tensor<64xf32, #tile.lane_partial>, %m: memref<1x1x64xf32>, %i: index,
    %s2: tensor<64xf32, #tile.row>, %m2: memref<1x1x64x64xf32>, %s3: tensor<64x64xf32, #tile.acc>,
    %m3: memref<1x1x64x?xbf16>, %m4: memref<1x1x64x32xf32>, %x: tensor<64x64xf32, #tile.acc>,
    %map: !tile.tensor_map<64 x bf16>, %x2: tensor<64x64xbf16, #tile.operand_a>, %q: !tile.slot<64, 64, bf16>,
    %q2: !tile.slot<128, 64, bf16>, %x3: tensor<64x72xf32, #tile.acc>, %map2: !tile.tensor_map<64 x f16>,
    %map3: !tile.tensor_map<128 x bf16>, %dest: memref<1x1x?x64xbf16>, %dest2: memref<1x1x?x64xf16>,
    %rows: tensor<64xf32, #tile.lane_partial>, %rows2: tensor<64xf16, #tile.row>, %rows3: tensor<64xf32, #tile.row>,
    %slopes_arg: !tile.slot<64, 16, bf16>, %map4: !tile.tensor_map<13 x bf16, heads 5>) {
  // BODY
  return
}

// VARY store_source
//     tile.store %s, %m[%i, %i, %i] limit %i : tensor<64xf32, #tile.lane_partial>, memref<1x1x64xf32>
//     | error: 'tile.store' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got
// VARY store_row_rank
//     tile.store %s2, %m2[%i, %i, %i] limit %i : tensor<64xf32, #tile.row>, memref<1x1x64x64xf32>
//     | error: 'tile.store' op expected a destination of rank 3, got 'memref<1x1x64x64xf32>'
// VARY store_part
//     tile.store %s3, %m3[%i, %i, %i] limit %i columns(%i, %i) : tensor<64x64xf32, #tile.acc>, memref<1x1x64x?xbf16>
//     | error: 'tile.store' op expected the first column and the end of the columns for a tile that is stored in f32, got 2 numbers and 'memref<1x1x64x?xbf16>'
// VARY store_cols
//     tile.store %s3, %m4[%i, %i, %i] limit %i : tensor<64x64xf32, #tile.acc>, memref<1x1x64x32xf32>
//     | error: 'tile.store' op expected 64 columns in the destination, got 'memref<1x1x64x32xf32>'
// VARY store_heads_of_nothing
//     tile.store %s2, %m[%i, %i, %i] limit %i heads 5 of 0 : tensor<64xf32, #tile.row>, memref<1x1x64xf32>
//     | error: 'tile.store' op expected a number of heads together with a number of rows, got 5 and 0
// VARY store_heads
//     tile.store %s2, %m[%i, %i, %i] limit %i heads 5 of 13 : tensor<64xf32, #tile.row>, memref<1x1x64xf32>
//     | error: 'tile.store' op expected rows of heads within a tile of 64 rows, and all columns, got 5 heads of 13 rows
// VARY store_async_heads
//     tile.store_async %x, %map4[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<13 x bf16, heads 5>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected a map of 64 rows of 'bf16', got '!tile.tensor_map<13 x bf16, heads 5>'
// VARY store_async_output
//     %o = tile.alloc_slot output : !tile.slot<64, 64, bf16>
//     tile.store_wait
//     tile.store_async %x, %map[%i, %i, %i] through %o : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected tile.store_wait all before it: the store before goes through the same slot
// VARY store_async_source
//     tile.store_async %x2, %map[%i, %i, %i] through %q : tensor<64x64xbf16, #tile.operand_a>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<64x64xbf16, #tile.operand_a>'
// VARY store_async_rows
//     tile.store_async %x, %map[%i, %i, %i] through %q2 : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<128, 64, bf16>
//     | error: 'tile.store_async' op expected a slot of 64 rows with panels for 64 columns, got '!tile.slot<128, 64, bf16>'
// VARY store_async_panels
//     tile.store_async %x3, %map[%i, %i, %i] through %q : tensor<64x72xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected a slot of 64 rows with panels for 72 columns, got '!tile.slot<64, 64, bf16>'
// VARY store_async_map_element
//     tile.store_async %x, %map2[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x f16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected a map of 64 rows of 'bf16', got '!tile.tensor_map<64 x f16>'
// VARY store_async_map_rows
//     tile.store_async %x, %map3[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<128 x bf16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected a map of 64 rows of 'bf16', got '!tile.tensor_map<128 x bf16>'
// VARY store_async_limit_alone
//     tile.store_async %x, %map[%i, %i, %i] through %q limit %i : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
//     | error: 'tile.store_async' op expected 'limit' and 'else' together, got one of them
// VARY store_async_limit_of_inputs
//     tile.store_async %x, %map[%i, %i, %i] through %q limit %i else %dest : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>, memref<1x1x?x64xbf16>
//     | error: 'tile.store_async' op expected the slot of tile.alloc_slot output with a limit: all threads read it
// VARY store_async_dest
//     %o = tile.alloc_slot output : !tile.slot<64, 64, bf16>
//     tile.store_wait all
//     tile.store_async %x, %map[%i, %i, %i] through %o limit %i else %dest2 : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>, memref<1x1x?x64xf16>
//     | error: 'tile.store_async' op expected an array of 'bf16', got 'memref<1x1x?x64xf16>'
// VARY store_slopes_source
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
//     tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.lane_partial>, !tile.slot<64, 16, bf16>
//     | error: 'tile.store_slopes' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, of f32, but got 'tensor<64xf32, #tile.lane_partial>'
// VARY store_slopes_element
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
//     tile.store_slopes %rows2 into %slopes : tensor<64xf16, #tile.row>, !tile.slot<64, 16, bf16>
//     | error: 'tile.store_slopes' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, of f32, but got
// VARY store_slopes_slot
//     tile.store_slopes %rows3 into %slopes_arg : tensor<64xf32, #tile.row>, !tile.slot<64, 16, bf16>
//     | error: 'tile.store_slopes' op expected a slot of tile.alloc_slot slopes
