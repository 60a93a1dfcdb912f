// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of the ops on tiles in registers.

func.func @invalid(%s: tensor<32x64xf32, #tile.acc>, %s2: tensor<64x64xf32, #tile.acc>,
    %s3: tensor<64xf32, #tile.row>, %s4: tensor<64xf32, #tile.lane_partial>, %f: tensor<64xf32, #tile.lane_partial>,
    %s5: tensor<64x64xf32>, %i: index, %m: memref<4x4xf32>, %m2: memref<4xf32>, %m3: memref<4xi8>, %m4: memref<4xi4>,
    %x_arg: tensor<64xf32, #tile.row>, %x2: tensor<64x64xf16, #tile.acc>, %x3: tensor<64x64xf32, #tile.acc>,
    %s6: tensor<64xf32, #tile.acc>, %seed: i64, %a: tensor<64x64xbf16, #tile.operand_a>,
    %flags: tensor<64x128xi1, #tile.flags>) {
  // BODY
  return
}

// VARY reduce_source
//     %r = tile.row_reduce max %s : tensor<32x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
//     | error: 'tile.row_reduce' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<32x64xf32, #tile.acc>'
// VARY reduce_max
//     %r = tile.row_reduce max %s2 : tensor<64x64xf32, #tile.acc> -> tensor<64xf32>
//     | error: 'tile.row_reduce' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
// VARY reduce_sum
//     %r = tile.row_reduce sum %s2 : tensor<64x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
//     | error: 'tile.row_reduce' op expected a sum with encoding #tile.lane_partial, got 'tensor<64xf32, #tile.row>'
// VARY combine_source
//     %r = tile.combine %s3 : tensor<64xf32, #tile.row> -> tensor<64xf32, #tile.row>
//     | error: 'tile.combine' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
// VARY combine_result
//     %r = tile.combine %s4 : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32>
//     | error: 'tile.combine' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got 'tensor<64xf32>'
// VARY broadcast_source
//     %r = tile.broadcast %s2 : tensor<64x64xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>
//     | error: 'tile.broadcast' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
// VARY broadcast_result
//     %r = tile.broadcast %s3 : tensor<64xf32, #tile.row> -> tensor<64x64xf32, #tile.operand_a>
//     | error: 'tile.broadcast' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
// VARY broadcast_partial_to_partial
//     %r = tile.broadcast %s4 : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.lane_partial>
//     | error: 'tile.broadcast' op expected a result with encoding #tile.acc, got
// VARY scale_source
//     %r = tile.scale_rows %s3, %s3 : tensor<64xf32, #tile.row>, tensor<64xf32, #tile.row>
//     | error: 'tile.scale_rows' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
// VARY scale_factor
//     %r = tile.scale_rows %s2, %f : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
//     | error: 'tile.scale_rows' op operand #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got
// VARY operand_source
//     %r = tile.to_operand_a %s5 : tensor<64x64xf32> -> tensor<64x64xbf16, #tile.operand_a>
//     | error: 'tile.to_operand_a' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got
// VARY operand_result
//     %r = tile.to_operand_a %s2 : tensor<64x64xf32, #tile.acc> -> tensor<64x64xbf16, #tile.acc>
//     | error: 'tile.to_operand_a' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.operand_a, but got
// VARY operand_type
//     %r = tile.to_operand_a %s2 : tensor<64x64xf32, #tile.acc> -> tensor<64x64xf32, #tile.operand_a>
//     | error: 'tile.to_operand_a' op expected a 16-bit result shaped like 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x64xf32, #tile.operand_a>'
// VARY map_arguments
//     %r = tile.map %s2 at(%i, %i) {
//     | error: 'tile.map' op expected region arguments ('f32', 'index', 'index'), got ('f32', 'index')
//     ^bb0(%e: f32, %row: index):
//       tile.yield %e : f32
//     } : tensor<64x64xf32, #tile.acc>
// VARY map_yield
//     %r = tile.map %s2 at(%i, %i) { | error: 'tile.map' op expected to yield 'f32'
//     ^bb0(%e: f32, %row: index, %col: index):
//       tile.yield %row : index
//     } : tensor<64x64xf32, #tile.acc>
// VARY map_one_value
//     %r, %o = tile.map %s2 at(%i, %i) {
//     | error: 'tile.map' op expected to yield as many values as there are results
//     ^bb0(%e: f32, %row: index, %col: index):
//       tile.yield %e : f32
//     } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
// VARY map_offset
//     %r, %o = tile.map %s2 at(%i, %i) {
//     | error: 'tile.map' op result #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got
//     ^bb0(%e: f32, %row: index, %col: index):
//       %h = arith.constant 1.0 : f32
//       tile.yield %e, %h : f32, f32
//     } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
// VARY map_offset_type
//     %r, %o = tile.map %s2 at(%i, %i) { | error: 'tile.map' op expected a second value of 'f32', got 'index'
//     ^bb0(%e: f32, %row: index, %col: index):
//       tile.yield %e, %row : f32, index
//     } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
// VARY map_offset_of_element
//     %r, %o = tile.map %s2 at(%i, %i) {
//     | error: 'tile.map' op expected a second value that is the same for the elements of a row that a thread holds
//     ^bb0(%e: f32, %row: index, %col: index):
//       %h = arith.negf %e : f32
//       tile.yield %e, %h : f32, f32
//     } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
// VARY first_column_of_row
//     %r = tile.map %s2 at(%i, %i) {
//     ^bb0(%e: f32, %row: index, %col: index):
//       %first = tile.first_column %row
//       | error: 'tile.first_column' op expected the position j of the tile.map around it
//       tile.yield %e : f32
//     } : tensor<64x64xf32, #tile.acc>
// VARY rows_two_values
//     %r = tile.rows at(%i) { | error: 'tile.rows' op expected to yield one value
//     ^bb0(%row: index):
//       tile.yield %row, %row : index, index
//     } : tensor<64xindex, #tile.row>
// VARY aligned_indices
//     %r = tile.is_aligned %m[%i] to 8 : memref<4x4xf32> | error: 'tile.is_aligned' op expected 2 indices, got 1
// VARY aligned_bytes
//     %r = tile.is_aligned %m2[%i] to 12 : memref<4xf32>
//     | error: 'tile.is_aligned' op attribute 'bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive whose value is a power of two > 0
// VARY pair_indices
//     %r = tile.read_pair %m2[%i, %i] : memref<4xf32> -> vector<2xf32>
//     | error: 'tile.read_pair' op expected 1 indices, got 2
// VARY pair_type
//     %r = tile.read_pair %m2[%i] : memref<4xf32> -> vector<4xf32>
//     | error: 'tile.read_pair' op expected 'vector<2xf32>' as a pair of 'f32', got 'vector<4xf32>'
// VARY pair_of_bytes
//     %r = tile.read_pair %m3[%i] : memref<4xi8> -> vector<2xi8>
//     | error: 'tile.read_pair' op expected 'i16' as a pair of 'i8', got 'vector<2xi8>'
// VARY pair_of_nibbles
//     %r = tile.read_pair %m4[%i] : memref<4xi4> -> i16
//     | error: 'tile.read_pair' op expected elements of 8, 16 or more bits, got 'memref<4xi4>'
// VARY within_rows
//     %r = tile.all_within %x_arg {limit = 1.0 : f32} : tensor<64xf32, #tile.row>
//     | error: 'tile.all_within' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, of f32, but got
// VARY within_type
//     %r = tile.all_within %x2 {limit = 1.0 : f32} : tensor<64x64xf16, #tile.acc>
//     | error: 'tile.all_within' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, of f32, but got 'tensor<64x64xf16, #tile.acc>'
// VARY within_zero
//     %r = tile.all_within %x3 {limit = 0.0 : f32} : tensor<64x64xf32, #tile.acc>
//     | error: 'tile.all_within' op attribute 'limit' failed to satisfy constraint: 32-bit float attribute positive and finite
// VARY reduce_rank: Tiles of another rank.
//     %r = tile.row_reduce max %s6 : tensor<64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
//     | error: 'tile.row_reduce' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got
// VARY dropout_flags
//     %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 26 : tensor<64x24xi1, #tile.flags>
//     | error: 'tile.dropout_mask' op expected flags (i1) of a multiple of 16 columns, got 'tensor<64x24xi1, #tile.flags>'
// VARY dropout_element
//     %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 26 : tensor<64x64xi8, #tile.flags>
//     | error: 'tile.dropout_mask' op expected flags (i1) of a multiple of 16 columns, got 'tensor<64x64xi8, #tile.flags>'
// VARY dropout_threshold
//     %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 256 : tensor<64x64xi1, #tile.flags>
//     | error: 'tile.dropout_mask' op attribute 'threshold' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1 whose maximum value is 255
// VARY keep_shape
//     %x = tile.keep %a where %flags : tensor<64x64xbf16, #tile.operand_a>, tensor<64x128xi1, #tile.flags>
//     | error: 'tile.keep' op failed to verify that all of {source, flags} have same shape
