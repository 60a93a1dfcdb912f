// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Every constraint of shared memory: rings, loads, releases, slots of no ring. Those of the ring protocol are in
// protocol-invalid.mlir.

func.func @invalid(%map: !tile.tensor_map<64 x bf16>, %ring_arg: !tile.ring<2, 64, 64, bf16>, %i: index,
    %map2: !tile.tensor_map<32 x bf16>, %s_arg: !tile.slot<64, 64, bf16>, %x: tensor<64x64xf32, #tile.acc>,
    %x2: tensor<64xf32, #tile.row>) {
  // BODY
  return
}

// VARY ring_element
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, i32>
//     | error: 'tile.alloc_ring' op expected a 16-bit element type or f32, got 'i32'
// VARY ring_of_vectors
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, vector<4xf32>>
//     | error: expected elements that are integers or floats, got 'vector<4xf32>'
// VARY ring_stages
//     %ring = tile.alloc_ring : !tile.ring<0, 64, 64, bf16>
//     | error: 'tile.alloc_ring' op expected at least one stage, got 0
// VARY ring_rows
//     %ring = tile.alloc_ring : !tile.ring<2, 264, 64, bf16>
//     | error: 'tile.alloc_ring' op expected 8 to 256 rows in steps of 8, got 264
// VARY ring_cols
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 60, bf16>
//     | error: 'tile.alloc_ring' op expected 8 to 256 columns in steps of 8, got 60
// VARY load_slot
//     %s = tile.load %map[%i, %i, %i] into %ring_arg
//     | error: 'tile.load' op expected a slot of '!tile.ring<2, 64, 64, bf16>', got '!tile.slot<64, 128, bf16>'
//         : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 128, bf16>
// VARY load_box
//     %s = tile.load %map2[%i, %i, %i] into %ring_arg
//     | error: 'tile.load' op expected the box of '!tile.tensor_map<32 x bf16>' to match '!tile.ring<2, 64, 64, bf16>'
//         : !tile.tensor_map<32 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
// VARY alloc_ones_rows
//     %ones = tile.alloc_slot ones : !tile.slot<32, 64, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<32, 64, bf16>'
// VARY alloc_ones_cols
//     %ones = tile.alloc_slot ones : !tile.slot<16, 32, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 32, bf16>'
// VARY alloc_ones_element
//     %ones = tile.alloc_slot ones : !tile.slot<16, 64, f32>
//     | error: 'tile.alloc_slot' op expected a slot of 16 x 64 elements of 16 bits, got '!tile.slot<16, 64, f32>'
// VARY alloc_output_rows
//     %o = tile.alloc_slot output : !tile.slot<16, 64, bf16>
//     | error: 'tile.alloc_slot' op expected 64 rows, got '!tile.slot<16, 64, bf16>'
// VARY release_after_nothing
//     tile.release %s_arg {elements = 4} : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op expected 'after' together with a positive number of elements
// VARY release_no_elements
//     tile.release %s_arg after %x : tensor<64x64xf32, #tile.acc> : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op expected 'after' together with a positive number of elements
// VARY release_fewer_than_none
//     tile.release %s_arg after %x : tensor<64x64xf32, #tile.acc> {elements = -1} : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op expected 'after' together with a positive number of elements
// VARY release_negative
//     tile.release %s_arg {elements = -1} : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op expected 'after' together with a positive number of elements
// VARY release_after_row
//     tile.release %s_arg after %x2 : tensor<64xf32, #tile.row> {elements = 2} : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op operand #1 must be a tile of 64 rows, or 16 of a warp, with encoding #tile.acc, but got 'tensor<64xf32, #tile.row>'
// VARY release_after_too_many
//     tile.release %s_arg after %x : tensor<64x64xf32, #tile.acc> {elements = 33} : !tile.slot<64, 64, bf16>
//     | error: 'tile.release' op expected at most the 32 elements that a thread holds, got 33
// VARY alloc_slopes_0
//     %slopes = tile.alloc_slot slopes : !tile.slot<32, 16, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<32, 16, bf16>'
// VARY alloc_slopes_1
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 64, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<64, 64, bf16>'
// VARY alloc_slopes_2
//     %slopes = tile.alloc_slot slopes : !tile.slot<64, 16, f32>
//     | error: 'tile.alloc_slot' op expected a slot of 64 x 16 elements of 16 bits, got '!tile.slot<64, 16, f32>'
// VARY alloc_columns_0
//     %columns = tile.alloc_slot columns : !tile.slot<264, 16, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<264, 16, bf16>'
// VARY alloc_columns_1
//     %columns = tile.alloc_slot columns : !tile.slot<60, 16, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<60, 16, bf16>'
// VARY alloc_columns_2
//     %columns = tile.alloc_slot columns : !tile.slot<0, 16, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<0, 16, bf16>'
// VARY alloc_columns_3
//     %columns = tile.alloc_slot columns : !tile.slot<64, 64, bf16>
//     | error: 'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<64, 64, bf16>'
// VARY alloc_columns_4
//     %columns = tile.alloc_slot columns : !tile.slot<64, 16, f32>
//     | error: 'tile.alloc_slot' op expected a slot of 8 to 256 x 16 elements of 16 bits, got '!tile.slot<64, 16, f32>'

// -----

// expected-error @+1 {{expected elements that are integers or floats, got 'index'}}
func.func private @slot_of_indices(!tile.slot<64, 64, index>)
