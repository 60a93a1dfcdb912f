// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

// Loads through a table of pages, and rows that are cleared: their constraints, and invariant 5 of TileProtocol.cpp.

!ring = !tile.ring<2, 128, 64, bf16>
!slot = !tile.slot<128, 64, bf16>
!ring2 = !tile.ring<2, 2, 128, f32>
!slot2 = !tile.slot<2, 128, f32>
func.func @invalid(%map: !tile.tensor_map<128 x bf16>, %table: memref<?x?xi32>, %ring: !ring, %i: index,
    %map2: !tile.tensor_map<4 x bf16>, %array: memref<2x?x?x?xf32>, %ring2: !ring2, %s_arg: !tile.slot<128, 64, bf16>) {
  // BODY
  return
}

// VARY box
//     %s = tile.load %map[%i, %i, %i] pages(%table : memref<?x?xi32>) of 192 until %i into %ring : !tile.tensor_map<128 x bf16>, !ring -> !slot
//     | error: 'tile.load' op expected a box of 64 rows to match '!tile.ring<2, 128, 64, bf16>', got '!tile.tensor_map<128 x bf16>'
// VARY rows
//     %s = tile.load %map2[%i, %i, %i] pages(%table : memref<?x?xi32>) of 4 until %i into %ring : !tile.tensor_map<4 x bf16>, !ring -> !slot
//     | error: 'tile.load' op expected boxes of a multiple of 8 rows, got 4
// VARY numbers
//     %s = tile.load %array[%i, %i, %i] into %ring2 clear from %i : memref<2x?x?x?xf32>, !ring2 -> !slot2
//     | error: 'tile.load' op expected pages and rows to be cleared only with a tensor map, in a tile.program
// VARY nothing
//     tile.clear_rows %s_arg : !tile.slot<128, 64, bf16>
//     | error: 'tile.clear_rows' op expected 'from' or 'before', got neither

// -----

!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!acc = tensor<64x64xf32, #tile.acc>
gpu.module @kernels {
  gpu.func @invalid(%s_arg: !slot, %q: !slot, %x_arg: i1) kernel {
    // BODY
    gpu.return
  }
}

// VARY cleared_in_producer
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//       tile.clear_rows %s_arg from %c0 : !slot | error: 'tile.clear_rows' op expected in the consumer only
//     } consumer {
//     ^bb0(%w: index):
//     }
// VARY cleared_late
//     %ring = tile.alloc_ring : !ring
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//     } consumer {
//     ^bb0(%w: index):
//       %s = tile.wait %ring[%c0] : !ring -> !slot
//       %t = tile.mma_async %q, %s transpose_b : !slot, !slot -> !tile.token<!acc> | note: this product is before it
//       tile.clear_rows %s from %c0 : !slot
//       | error: 'tile.clear_rows' op expected before the products that read the slot
//       %x = tile.mma_wait %t : !tile.token<!acc> -> !acc
//       tile.release %s : !slot
//     }
// VARY cleared_in_a_branch
//     %ring = tile.alloc_ring : !ring
//     %c0 = arith.constant 0 : index
//     tile.warp_specialize 2 registers(24, 240) producer {
//     } consumer {
//     ^bb0(%w: index):
//       %s = tile.wait %ring[%c0] : !ring -> !slot
//       scf.if %x_arg {
//         tile.clear_rows %s from %c0 : !slot
//         | error: 'tile.clear_rows' op expected in the block that waits for the slot
//       }
//       tile.release %s : !slot
//     }
