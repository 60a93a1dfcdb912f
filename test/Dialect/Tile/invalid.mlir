// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of the types and ops. Those of the schedule are in schedule-invalid.mlir, those of the ring protocol
// in protocol-invalid.mlir.

func.func @ring_element() {
  // expected-error @+1 {{'tile.alloc_ring' op expected a 16-bit element type, got 'f32'}}
  %ring = tile.alloc_ring : !tile.ring<2, 64, 64, f32>
  return
}

// -----

func.func @ring_stages() {
  // expected-error @+1 {{'tile.alloc_ring' op expected at least one stage, got 0}}
  %ring = tile.alloc_ring : !tile.ring<0, 64, 64, bf16>
  return
}

// -----

func.func @ring_rows() {
  // expected-error @+1 {{'tile.alloc_ring' op expected 8 to 256 rows in steps of 8, got 264}}
  %ring = tile.alloc_ring : !tile.ring<2, 264, 64, bf16>
  return
}

// -----

func.func @ring_cols() {
  // expected-error @+1 {{'tile.alloc_ring' op expected 8 to 256 columns in steps of 8, got 60}}
  %ring = tile.alloc_ring : !tile.ring<2, 64, 60, bf16>
  return
}

// -----

func.func @load_slot(%map: !tile.tensor_map<64 x bf16>, %ring: !tile.ring<2, 64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.load' op expected a slot of '!tile.ring<2, 64, 64, bf16>', got '!tile.slot<64, 128, bf16>'}}
  %s = tile.load %map[%i, %i, %i] into %ring
      : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 128, bf16>
  return
}

// -----

func.func @load_box(%map: !tile.tensor_map<32 x bf16>, %ring: !tile.ring<2, 64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.load' op expected the box of '!tile.tensor_map<32 x bf16>' to match '!tile.ring<2, 64, 64, bf16>'}}
  %s = tile.load %map[%i, %i, %i] into %ring
      : !tile.tensor_map<32 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @mma_a_encoding(%a: tensor<64x64xbf16, #tile.acc>, %b: !tile.slot<64, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected A to be a tile of 64 rows with encoding #tile.operand_a, got 'tensor<64x64xbf16, #tile.acc>'}}
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
  // expected-error @+1 {{'tile.mma_async' op expected a B of 64 columns beside the ones, not transposed}}
  %t = tile.mma_async %a, %a ones %ones : !tile.slot<16, 64, bf16> transpose_b
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x72xf32, #tile.acc>>
  return
}

// -----

func.func @ones_beside_two_panels(%a: !tile.slot<64, 64, bf16>, %b: !tile.slot<64, 128, bf16>, %ones: !tile.slot<16, 64, bf16>) {
  // expected-error @+1 {{'tile.mma_async' op expected a B of 64 columns beside the ones, not transposed}}
  %t = tile.mma_async %a, %b ones %ones : !tile.slot<16, 64, bf16>
      : !tile.slot<64, 64, bf16>, !tile.slot<64, 128, bf16> -> !tile.token<tensor<64x136xf32, #tile.acc>>
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

func.func @alloc_ones_rows() {
  // expected-error @+1 {{'tile.alloc_ones' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<32, 64, bf16>'}}
  %ones = tile.alloc_ones : !tile.slot<32, 64, bf16>
  return
}

// -----

func.func @alloc_ones_cols() {
  // expected-error @+1 {{'tile.alloc_ones' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 32, bf16>'}}
  %ones = tile.alloc_ones : !tile.slot<16, 32, bf16>
  return
}

// -----

func.func @alloc_ones_element() {
  // expected-error @+1 {{'tile.alloc_ones' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 64, f32>'}}
  %ones = tile.alloc_ones : !tile.slot<16, 64, f32>
  return
}

// -----

func.func @split_source(%s: tensor<64x72xf32>) {
  // expected-error @+1 {{'tile.split_sums' op expected the source to be a tile of 64 rows with encoding #tile.acc, got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @split_columns(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op expected the first result to be a tile of 64 rows with encoding #tile.acc, got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.operand_a>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @split_sums(%s: tensor<64x72xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.split_sums' op expected the second result to be a tile of 64 rows with encoding #tile.row, got}}
  %c, %l = tile.split_sums %s : tensor<64x72xf32, #tile.acc> -> tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row_partial>
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

// -----

func.func @reduce_source(%s: tensor<32x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op expected the source to be a tile of 64 rows with encoding #tile.acc, got 'tensor<32x64xf32, #tile.acc>'}}
  %r = tile.row_reduce max %s : tensor<32x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @reduce_max(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op expected the maximum to be a tile of 64 rows with encoding #tile.row, got}}
  %r = tile.row_reduce max %s : tensor<64x64xf32, #tile.acc> -> tensor<64xf32, #tile.row_partial>
  return
}

// -----

func.func @reduce_sum(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.row_reduce' op expected the sum to be a tile of 64 rows with encoding #tile.row_partial, got}}
  %r = tile.row_reduce sum %s : tensor<64x64xf32, #tile.acc> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @combine_source(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.combine' op expected the source to be a tile of 64 rows with encoding #tile.row_partial, got}}
  %r = tile.combine %s : tensor<64xf32, #tile.row> -> tensor<64xf32, #tile.row>
  return
}

// -----

func.func @combine_result(%s: tensor<64xf32, #tile.row_partial>) {
  // expected-error @+1 {{'tile.combine' op expected the result to be a tile of 64 rows with encoding #tile.row, got 'tensor<64xf32>'}}
  %r = tile.combine %s : tensor<64xf32, #tile.row_partial> -> tensor<64xf32>
  return
}

// -----

func.func @broadcast_source(%s: tensor<64xf32, #tile.row_partial>) {
  // expected-error @+1 {{'tile.broadcast' op expected the source to be a tile of 64 rows with encoding #tile.row, got}}
  %r = tile.broadcast %s : tensor<64xf32, #tile.row_partial> -> tensor<64x64xf32, #tile.acc>
  return
}

// -----

func.func @broadcast_result(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.broadcast' op expected the result to be a tile of 64 rows with encoding #tile.acc, got}}
  %r = tile.broadcast %s : tensor<64xf32, #tile.row> -> tensor<64x64xf32, #tile.operand_a>
  return
}

// -----

func.func @scale_source(%s: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.scale_rows' op expected the source to be a tile of 64 rows with encoding #tile.acc, got}}
  %r = tile.scale_rows %s, %s : tensor<64xf32, #tile.row>, tensor<64xf32, #tile.row>
  return
}

// -----

func.func @scale_factor(%s: tensor<64x64xf32, #tile.acc>, %f: tensor<64xf32, #tile.row_partial>) {
  // expected-error @+1 {{'tile.scale_rows' op expected the factor to be a tile of 64 rows with encoding #tile.row, got}}
  %r = tile.scale_rows %s, %f : tensor<64x64xf32, #tile.acc>, tensor<64xf32, #tile.row_partial>
  return
}

// -----

func.func @operand_source(%s: tensor<64x64xf32>) {
  // expected-error @+1 {{'tile.to_operand_a' op expected the source to be a tile of 64 rows with encoding #tile.acc, got}}
  %r = tile.to_operand_a %s : tensor<64x64xf32> -> tensor<64x64xbf16, #tile.operand_a>
  return
}

// -----

func.func @operand_result(%s: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.to_operand_a' op expected the result to be a tile of 64 rows with encoding #tile.operand_a, got}}
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

func.func @store_source(%s: tensor<64xf32, #tile.row_partial>, %m: memref<1x1x64xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected the source to be a tile of 64 rows with encoding #tile.acc, got}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64xf32, #tile.row_partial>, memref<1x1x64xf32>
  return
}

// -----

func.func @store_row_rank(%s: tensor<64xf32, #tile.row>, %m: memref<1x1x64x64xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected a destination of rank 3, got 'memref<1x1x64x64xf32>'}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64xf32, #tile.row>, memref<1x1x64x64xf32>
  return
}

// -----

func.func @store_cols(%s: tensor<64x64xf32, #tile.acc>, %m: memref<1x1x64x32xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected 64 columns in the destination, got 'memref<1x1x64x32xf32>'}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64x64xf32, #tile.acc>, memref<1x1x64x32xf32>
  return
}

// -----

gpu.module @kernels {
  gpu.func @program_argument() kernel {
    // expected-error @+1 {{'tile.program' op expected one region argument, the warpgroup (index)}}
    tile.program 2 {
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_grid(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected a grid of three extents, got 2}}
    tile.program 2 grid(%n, %n) {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_sorted() kernel {
    // expected-error @+1 {{'tile.program' op expected a grid whose points are sorted}}
    tile.program 2 sorted {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_two_orders(%n: index, %list: memref<?xi32>) kernel {
    // expected-error @+1 {{'tile.program' op expected one of paired, sorted and a list}}
    tile.program 2 grid(%n, %n, %n) sorted list(%list : memref<?xi32>) of tiles {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_numbers(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected a list where there are numbers of it, got 2 without one}}
    tile.program 2 grid(%n, %n, %n) numbers 2 {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_number(%n: index, %list: memref<?xi32>) kernel {
    tile.program 2 grid(%n, %n, %n) list(%list : memref<?xi32>) of tiles numbers 2 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.list_number' op expected a number of the 2 in the list, got 2}}
      %x = tile.list_number 2
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_scope(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected a list and what its items are, or neither}}
    tile.program 2 grid(%n, %n, %n) attributes {scope = 0 : i32} {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_paired() kernel {
    // expected-error @+1 {{'tile.program' op expected a grid whose points are paired}}
    tile.program 2 paired {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @program_rotated(%n: index) kernel {
    // expected-error @+1 {{'tile.program' op expected pairs to rotate}}
    tile.program 2 grid(%n, %n, %n) rotated {
    ^bb0(%w: index):
    }
    gpu.return
  }
}

// -----

func.func @alloc_output_rows() {
  // expected-error @+1 {{'tile.alloc_output' op expected 64 rows, got '!tile.slot<16, 64, bf16>'}}
  %o = tile.alloc_output : !tile.slot<16, 64, bf16>
  return
}

// -----

func.func @store_async_output(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %i: index) {
  %o = tile.alloc_output : !tile.slot<64, 64, bf16>
  tile.store_wait
  // expected-error @+1 {{'tile.store_async' op expected tile.store_wait all in front of it: the store before goes through the same slot}}
  tile.store_async %x, %map[%i, %i, %i] through %o : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
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

func.func @store_async_source(%x: tensor<64x64xbf16, #tile.operand_a>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected the source to be a tile of 64 rows with encoding #tile.acc, got 'tensor<64x64xbf16, #tile.operand_a>'}}
  tile.store_async %x, %map[%i, %i, %i] through %q : tensor<64x64xbf16, #tile.operand_a>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @store_async_rows(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<128, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected a slot of 64 rows with panels for 64 columns, got '!tile.slot<128, 64, bf16>'}}
  tile.store_async %x, %map[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<128, 64, bf16>
  return
}

// -----

func.func @store_async_panels(%x: tensor<64x72xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected a slot of 64 rows with panels for 72 columns, got '!tile.slot<64, 64, bf16>'}}
  tile.store_async %x, %map[%i, %i, %i] through %q : tensor<64x72xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @store_async_map_element(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x f16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected a map of 64 rows of 'bf16', got '!tile.tensor_map<64 x f16>'}}
  tile.store_async %x, %map[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x f16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @store_async_map_rows(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<128 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected a map of 64 rows of 'bf16', got '!tile.tensor_map<128 x bf16>'}}
  tile.store_async %x, %map[%i, %i, %i] through %q : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<128 x bf16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_after_nothing(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected a number of elements with a tile that they are of}}
  tile.release %s {elements = 4} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_no_elements(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected a number of elements with a tile that they are of}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_fewer_than_none(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected a number of elements with a tile that they are of}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> {elements = -1} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_negative(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected a number of elements with a tile that they are of}}
  tile.release %s {elements = -1} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_after_row(%s: !tile.slot<64, 64, bf16>, %x: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.release' op expected the tile to be a tile of 64 rows with encoding #tile.acc, got 'tensor<64xf32, #tile.row>'}}
  tile.release %s after %x : tensor<64xf32, #tile.row> {elements = 2} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_after_too_many(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected at most the 32 elements that a thread holds, got 33}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> {elements = 33} : !tile.slot<64, 64, bf16>
  return
}
