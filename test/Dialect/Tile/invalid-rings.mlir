// RUN: flashc-opt %s --split-input-file --verify-diagnostics

// Every constraint of shared memory: rings, loads, releases, slots of no ring. Those of the ring protocol are in
// protocol-invalid.mlir.

func.func @ring_element() {
  // expected-error @+1 {{'tile.alloc_ring' op expected a 16-bit element type or f32, got 'i32'}}
  %ring = tile.alloc_ring : !tile.ring<2, 64, 64, i32>
  return
}

// -----

func.func @ring_of_vectors() {
  // expected-error @+1 {{expected elements that are integers or floats, got 'vector<4xf32>'}}
  %ring = tile.alloc_ring : !tile.ring<2, 64, 64, vector<4xf32>>
  return
}

// -----

// expected-error @+1 {{expected elements that are integers or floats, got 'index'}}
func.func private @slot_of_indices(!tile.slot<64, 64, index>)

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

func.func @alloc_ones_rows() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<32, 64, bf16>'}}
  %ones = tile.alloc_slot ones : !tile.slot<32, 64, bf16>
  return
}

// -----

func.func @alloc_ones_cols() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 32, bf16>'}}
  %ones = tile.alloc_slot ones : !tile.slot<16, 32, bf16>
  return
}

// -----

func.func @alloc_ones_element() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 64, f32>'}}
  %ones = tile.alloc_slot ones : !tile.slot<16, 64, f32>
  return
}

// -----

func.func @alloc_output_rows() {
  // expected-error @+1 {{'tile.alloc_slot' op expected 64 rows, got '!tile.slot<16, 64, bf16>'}}
  %o = tile.alloc_slot output : !tile.slot<16, 64, bf16>
  return
}

// -----

func.func @release_after_nothing(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected 'after' together with a positive number of elements}}
  tile.release %s {elements = 4} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_no_elements(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected 'after' together with a positive number of elements}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_fewer_than_none(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected 'after' together with a positive number of elements}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> {elements = -1} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_negative(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected 'after' together with a positive number of elements}}
  tile.release %s {elements = -1} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_after_row(%s: !tile.slot<64, 64, bf16>, %x: tensor<64xf32, #tile.row>) {
  // expected-error @+1 {{'tile.release' op operand #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<64xf32, #tile.row>'}}
  tile.release %s after %x : tensor<64xf32, #tile.row> {elements = 2} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @release_after_too_many(%s: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>) {
  // expected-error @+1 {{'tile.release' op expected at most the 32 elements that a thread holds, got 33}}
  tile.release %s after %x : tensor<64x64xf32, #tile.acc> {elements = 33} : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @alloc_slopes_0() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<32, 16, bf16>'}}
  %slopes = tile.alloc_slot slopes : !tile.slot<32, 16, bf16>
  return
}

// -----

func.func @alloc_slopes_1() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<64, 64, bf16>'}}
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @alloc_slopes_2() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<64, 16, f32>'}}
  %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, f32>
  return
}

// -----

func.func @alloc_columns_0() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<264, 16, bf16>'}}
  %columns = tile.alloc_slot columns : !tile.slot<264, 16, bf16>
  return
}

// -----

func.func @alloc_columns_1() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<60, 16, bf16>'}}
  %columns = tile.alloc_slot columns : !tile.slot<60, 16, bf16>
  return
}

// -----

func.func @alloc_columns_2() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<0, 16, bf16>'}}
  %columns = tile.alloc_slot columns : !tile.slot<0, 16, bf16>
  return
}

// -----

func.func @alloc_columns_3() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<64, 64, bf16>'}}
  %columns = tile.alloc_slot columns : !tile.slot<64, 64, bf16>
  return
}

// -----

func.func @alloc_columns_4() {
  // expected-error @+1 {{'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<64, 16, f32>'}}
  %columns = tile.alloc_slot columns : !tile.slot<64, 16, f32>
  return
}
