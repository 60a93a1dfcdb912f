// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of stores. Those of the ring protocol are in protocol-invalid-stores.mlir.

func.func @store_source(%s: tensor<64xf32, #tile.lane_partial>, %m: memref<1x1x64xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row or a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64xf32, #tile.lane_partial>, memref<1x1x64xf32>
  return
}

// -----

func.func @store_row_rank(%s: tensor<64xf32, #tile.row>, %m: memref<1x1x64x64xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected a destination of rank 3, got 'memref<1x1x64x64xf32>'}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64xf32, #tile.row>, memref<1x1x64x64xf32>
  return
}

// -----

func.func @store_part(%s: tensor<64x64xf32, #tile.acc>, %m: memref<1x1x64x?xbf16>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected the first column and the end of the columns for a tile that is stored in f32, got 2 numbers and 'memref<1x1x64x?xbf16>'}}
  tile.store %s, %m[%i, %i, %i] limit %i columns(%i, %i) : tensor<64x64xf32, #tile.acc>, memref<1x1x64x?xbf16>
  return
}

// -----

func.func @store_cols(%s: tensor<64x64xf32, #tile.acc>, %m: memref<1x1x64x32xf32>, %i: index) {
  // expected-error @+1 {{'tile.store' op expected 64 columns in the destination, got 'memref<1x1x64x32xf32>'}}
  tile.store %s, %m[%i, %i, %i] limit %i : tensor<64x64xf32, #tile.acc>, memref<1x1x64x32xf32>
  return
}

// -----

func.func @store_async_output(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %i: index) {
  %o = tile.alloc_slot output : !tile.slot<64, 64, bf16>
  tile.store_wait
  // expected-error @+1 {{'tile.store_async' op expected tile.store_wait all before it: the store before goes through the same slot}}
  tile.store_async %x, %map[%i, %i, %i] through %o : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @store_async_source(%x: tensor<64x64xbf16, #tile.operand_a>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<64x64xbf16, #tile.operand_a>'}}
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

func.func @store_async_limit_alone(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index) {
  // expected-error @+1 {{'tile.store_async' op expected 'limit' and 'else' together, got one of them}}
  tile.store_async %x, %map[%i, %i, %i] through %q limit %i : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @store_async_limit_of_inputs(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %q: !tile.slot<64, 64, bf16>, %i: index, %dest: memref<1x1x?x64xbf16>) {
  // expected-error @+1 {{'tile.store_async' op expected the slot of tile.alloc_slot output with a limit: all threads read it}}
  tile.store_async %x, %map[%i, %i, %i] through %q limit %i else %dest : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>, memref<1x1x?x64xbf16>
  return
}

// -----

func.func @store_async_dest(%x: tensor<64x64xf32, #tile.acc>, %map: !tile.tensor_map<64 x bf16>, %i: index, %dest: memref<1x1x?x64xf16>) {
  %o = tile.alloc_slot output : !tile.slot<64, 64, bf16>
  tile.store_wait all
  // expected-error @+1 {{'tile.store_async' op expected an array of 'bf16', got 'memref<1x1x?x64xf16>'}}
  tile.store_async %x, %map[%i, %i, %i] through %o limit %i else %dest : tensor<64x64xf32, #tile.acc>, !tile.tensor_map<64 x bf16>, !tile.slot<64, 64, bf16>, memref<1x1x?x64xf16>
  return
}

// -----

func.func @store_slopes_source(%rows: tensor<64xf32, #tile.lane_partial>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.store_slopes' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, of f32, but got 'tensor<64xf32, #tile.lane_partial>'}}
  tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.lane_partial>, !tile.slot<64, 16, bf16>
  return
}

// -----

func.func @store_slopes_element(%rows: tensor<64xf16, #tile.row>) {
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, bf16>
  // expected-error @+1 {{'tile.store_slopes' op operand #0 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.row, of f32, but got}}
  tile.store_slopes %rows into %slopes : tensor<64xf16, #tile.row>, !tile.slot<64, 16, bf16>
  return
}

// -----

func.func @store_slopes_slot(%rows: tensor<64xf32, #tile.row>, %slopes: !tile.slot<64, 16, bf16>) {
  // expected-error @+1 {{'tile.store_slopes' op expected a slot of tile.alloc_slot slopes}}
  tile.store_slopes %rows into %slopes : tensor<64xf32, #tile.row>, !tile.slot<64, 16, bf16>
  return
}
