// RUN: %vary %s | flashc-opt --tile-prefetch --split-input-file --verify-diagnostics

!ring = !tile.ring<2, 16, 64, bf16, private true>
!slot = !tile.slot<16, 64, bf16>
!three = !tile.ring<3, 16, 64, bf16, private true>
gpu.module @kernels {
  gpu.func @invalid(%map: !tile.tensor_map<16 x bf16>, %n: index) kernel {
    // BODY
    gpu.return
  }
}

// VARY no_loop
//     %ring = tile.alloc_ring : !ring
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %v = tile.load %map[%n, %n, %n] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
//       | error: 'tile.load' op expected to stand directly in a loop of its tile.warp_program
//     }
// VARY stages
//     %ring = tile.alloc_ring : !ring
//     %other = tile.alloc_ring : !three
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %c1 = arith.constant 1 : index
//       scf.for %u = %n to %n step %c1 {
//         %v = tile.load %map[%n, %n, %u] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
//         %x = tile.load %map[%n, %n, %u] into %other : !tile.tensor_map<16 x bf16>, !three -> !slot
//         | error: 'tile.load' op expected all rings of the loop to have equally many stages, got 2 and 3
//       }
//     }
// VARY carried
//     %ring = tile.alloc_ring : !ring
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %c1 = arith.constant 1 : index
//       %r = scf.for %u = %n to %n step %c1 iter_args(%x = %n) -> index {
//         %v = tile.load %map[%n, %n, %x] into %ring : !tile.tensor_map<16 x bf16>, !ring -> !slot
//         | error: 'tile.load' op expected a place that is known iterations ahead
//         %y = arith.addi %x, %u : index
//         scf.yield %y : index
//       }
//     }
