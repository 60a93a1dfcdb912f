// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of the ops on tiles in registers.

func.func @reduce_source(%s: tensor<32x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<32x64xf32, #tile.acc>'}}
  %r = tile.row_reduce max %s : tensor<32x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @reduce_max(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r = tile.row_reduce max %s : tensor<64x64xf32, #tile.acc> -> tensor<64xf32>
  return
}

// -----

func.func @reduce_sum(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op expected a sum with encoding #tile.lane_partial, got 'tensor<64xf32, #tile.row>'}}
  %r = tile.row_reduce sum %s : tensor<64x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @combine_source(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.combine' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r = tile.combine %s : tensor<64xf32, #tile.row> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @combine_result(%s: tensor<64xf32, #tile.lane_partial>) {
  // expected-error @+1 {{'tile.combine' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got 'tensor<64xf32>'}}
  %r = tile.combine %s : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32>
  return
}

// -----

func.func @broadcast_source(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.broadcast' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r = tile.broadcast %s : tensor<64x64xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>
  return
}

// -----

func.func @broadcast_result(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.broadcast' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r = tile.broadcast %s : tensor<64xf32, #tile.row> -> tensor<64x64xf32, #tile.operand_a>
  return
}

// -----

func.func @broadcast_partial_to_partial(%s: tensor<64xf32, #tile.lane_partial>) {
  // expected-error @+1 {{'tile.broadcast' op expected a result with encoding #tile.acc, got}}
  %r = tile.broadcast %s : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @scale_source(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.scale_rows' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc or a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r = tile.scale_rows %s, %s : tensor<64xf32, #tile.row>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @scale_factor(%s: tensor<64x64xf32, #tile.acc>, %f: tensor<64xf32, #tile.lane_partial>) {
  // expected-error @+1 {{'tile.scale_rows' op operand #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, but got}}
  %r = tile.scale_rows %s, %f : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @operand_source(%s: tensor<64x64xf32>) {
  // expected-error @+1 {{'tile.to_operand_a' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got}}
  %r = tile.to_operand_a %s : tensor<64x64xf32> -> tensor<64x64xbf16, #tile.operand_a>
  return
}

// -----

func.func @operand_result(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.to_operand_a' op result #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.operand_a, but got}}
  %r = tile.to_operand_a %s : tensor<64x64xf32, #tile.acc> -> tensor<64x64xbf16, #tile.acc>
  return
}

// -----

func.func @operand_type(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.to_operand_a' op expected a 16-bit result shaped like 'tensor<64x64xf32, #tile.acc>', got 'tensor<64x64xf32, #tile.operand_a>'}}
  %r = tile.to_operand_a %s : tensor<64x64xf32, #tile.acc> -> tensor<64x64xf32, #tile.operand_a>
  return
}

// -----

func.func @map_arguments(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected region arguments ('f32', 'index', 'index'), got ('f32', 'index')}}
  %r = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index):
    tile.yield %e : f32
  } : tensor<64x64xf32, #tile.acc>
  return
}

// -----

func.func @map_yield(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected to yield 'f32'}}
  %r = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    tile.yield %row : index
  } : tensor<64x64xf32, #tile.acc>
  return
}

// -----

func.func @map_one_value(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected to yield as many values as there are results}}
  %r, %o = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    tile.yield %e : f32
  } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @map_offset(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op result #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.lane_partial, but got}}
  %r, %o = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    %h = arith.constant 1.0 : f32
    tile.yield %e, %h : f32, f32
  } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @map_offset_type(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected a second value of 'f32', got 'index'}}
  %r, %o = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    tile.yield %e, %row : f32, index
  } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @map_offset_of_element(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  // expected-error @+1 {{'tile.map' op expected a second value that is the same for the elements of a row that a thread holds}}
  %r, %o = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    %h = arith.negf %e : f32
    tile.yield %e, %h : f32, f32
  } : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.lane_partial>
  return
}

// -----

func.func @first_column_of_row(%s: tensor<64x64xf32, #tile.acc>, %i: index) {
  %r = tile.map %s at(%i, %i) {
  ^bb0(%e: f32, %row: index, %col: index):
    // expected-error @+1 {{'tile.first_column' op expected the position j of the tile.map around it}}
    %first = tile.first_column %row
    tile.yield %e : f32
  } : tensor<64x64xf32, #tile.acc>
  return
}

// -----

func.func @rows_two_values(%i: index) {
  // expected-error @+1 {{'tile.rows' op expected to yield one value}}
  %r = tile.rows at(%i) {
  ^bb0(%row: index):
    tile.yield %row, %row : index, index
  } : tensor<64xindex, #tile.row>
  return
}

// -----

func.func @aligned_indices(%m: memref<4x4xf32>, %i: index) {
  // expected-error @+1 {{'tile.is_aligned' op expected 2 indices, got 1}}
  %r = tile.is_aligned %m[%i] to 8 : memref<4x4xf32>
  return
}

// -----

func.func @aligned_bytes(%m: memref<4xf32>, %i: index) {
  // expected-error @+1 {{'tile.is_aligned' op attribute 'bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive whose value is a power of two > 0}}
  %r = tile.is_aligned %m[%i] to 12 : memref<4xf32>
  return
}

// -----

func.func @pair_indices(%m: memref<4xf32>, %i: index) {
  // expected-error @+1 {{'tile.read_pair' op expected 1 indices, got 2}}
  %r = tile.read_pair %m[%i, %i] : memref<4xf32> -> vector<2xf32>
  return
}

// -----

func.func @pair_type(%m: memref<4xf32>, %i: index) {
  // expected-error @+1 {{'tile.read_pair' op expected 'vector<2xf32>' as a pair of 'f32', got 'vector<4xf32>'}}
  %r = tile.read_pair %m[%i] : memref<4xf32> -> vector<4xf32>
  return
}

// -----

func.func @pair_of_bytes(%m: memref<4xi8>, %i: index) {
  // expected-error @+1 {{'tile.read_pair' op expected 'i16' as a pair of 'i8', got 'vector<2xi8>'}}
  %r = tile.read_pair %m[%i] : memref<4xi8> -> vector<2xi8>
  return
}

// -----

func.func @pair_of_nibbles(%m: memref<4xi4>, %i: index) {
  // expected-error @+1 {{'tile.read_pair' op expected elements of 8, 16 or more bits, got 'memref<4xi4>'}}
  %r = tile.read_pair %m[%i] : memref<4xi4> -> i16
  return
}

// -----

func.func @within_rows(%x: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.all_within' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, of f32, but got}}
  %r = tile.all_within %x {limit = 1.0 : f32} : tensor<64xf32, #tile.row>
  return
}

// -----

func.func @within_type(%x: tensor<64x64xf16, #tile.acc>) {
  // expected-error @+1 {{'tile.all_within' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, of f32, but got 'tensor<64x64xf16, #tile.acc>'}}
  %r = tile.all_within %x {limit = 1.0 : f32} : tensor<64x64xf16, #tile.acc>
  return
}

// -----

func.func @within_zero(%x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.all_within' op attribute 'limit' failed to satisfy constraint: 32-bit float attribute positive and finite}}
  %r = tile.all_within %x {limit = 0.0 : f32} : tensor<64x64xf32, #tile.acc>
  return
}

// -----

// Tiles of another rank.
func.func @reduce_rank(%s: tensor<64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got}}
  %r = tile.row_reduce max %s : tensor<64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @dropout_flags(%seed: i64, %i: index) {
  // expected-error @+1 {{'tile.dropout_mask' op expected flags (i1) of a multiple of 16 columns, got 'tensor<64x24xi1, #tile.flags>'}}
  %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 26 : tensor<64x24xi1, #tile.flags>
  return
}

// -----

func.func @dropout_element(%seed: i64, %i: index) {
  // expected-error @+1 {{'tile.dropout_mask' op expected flags (i1) of a multiple of 16 columns, got 'tensor<64x64xi8, #tile.flags>'}}
  %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 26 : tensor<64x64xi8, #tile.flags>
  return
}

// -----

func.func @dropout_threshold(%seed: i64, %i: index) {
  // expected-error @+1 {{'tile.dropout_mask' op attribute 'threshold' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1 whose maximum value is 255}}
  %x = tile.dropout_mask %seed, %seed at(%i, %i, %i, %i) least 256 : tensor<64x64xi1, #tile.flags>
  return
}

// -----

func.func @keep_shape(%a: tensor<64x64xbf16, #tile.operand_a>, %flags: tensor<64x128xi1, #tile.flags>) {
  // expected-error @+1 {{'tile.keep' op failed to verify that all of {source, flags} have same shape}}
  %x = tile.keep %a where %flags : tensor<64x64xbf16, #tile.operand_a>, tensor<64x128xi1, #tile.flags>
  return
}
