// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

!acc = tensor<16x64xf32, #tile.acc>
!row = tensor<16xf32, #tile.row>
gpu.module @kernels {
  gpu.func @invalid(%map: !tile.tensor_map<16 x bf16>, %n: index, %x_arg: tensor<64xf32, #tile.row>,
      %q: memref<2x8x4x64xbf16>, %q2: memref<2x8x4x32xbf16>, %x2: tensor<16xf32, #tile.row>, %o: memref<2x8x4x64xf32>,
      %acc: !acc, %m: !row, %table: memref<?x?xi32>, %x3: memref<2x8x4x64xbf16>, %x4: memref<2x8x4x32xbf16>,
      %k_arg: !tile.slot<16, 64, i8>, %a_arg: tensor<16x16xbf16, #tile.operand_a>, %v: !tile.slot<16, 40, i8>) kernel {
    // BODY
    gpu.return
  }
}

// VARY shared_ring
//     %ring = tile.alloc_ring : <2, 16, 64, bf16>
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %k = tile.wait %ring[%n] : <2, 16, 64, bf16> -> <16, 64, bf16>
//       | error: 'tile.wait' op expected private rings in a tile.warp_program, got '!tile.ring<2, 16, 64, bf16>'
//     }
// VARY rows
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %y = arith.addf %x_arg, %x_arg : tensor<64xf32, #tile.row>
//       | error: 'arith.addf' op expected tiles of 16 rows in a tile.warp_program, got 'tensor<64xf32, #tile.row>'
//     }
// VARY too_many_rows
//     %a = tile.read_rows %q[%n, %n, %n] heads 4 tokens 5 limit %n : memref<2x8x4x64xbf16> -> tensor<16x64xbf16, #tile.operand_a>
//     | error: 'tile.read_rows' op expected at most 16 rows, got 4 heads of 5 tokens
// VARY other_rows
//     %a = tile.read_rows %q2[%n, %n, %n] heads 4 tokens 1 limit %n : memref<2x8x4x32xbf16> -> tensor<16x64xbf16, #tile.operand_a>
//     | error: 'tile.read_rows' op expected rows of 64 x 'bf16', got 'memref<2x8x4x32xbf16>'
// VARY rank
//     tile.write_rows %x2, %o[%n, %n, %n, %n] heads 4 tokens 1 limit %n : tensor<16xf32, #tile.row>, memref<2x8x4x64xf32>
//     | error: 'tile.write_rows' op expected a destination of rank 3, got 'memref<2x8x4x64xf32>'
// VARY part
//     tile.warp_program 4 {
//     ^bb0(%w: index):
//       %x:3 = tile.merge_warps %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (tensor<16x8xf32, #tile.acc>, !row, !row)
//       | error: 'tile.merge_warps' op expected 16 of 64 columns for each of 4 warps, got 'tensor<16x8xf32, #tile.acc>'
//     }
// VARY alone
//     tile.warp_program 8 {
//     ^bb0(%w: index):
//       %x:4 = tile.merge_cluster %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (!acc, !row, !row, index)
//       | error: 'tile.merge_cluster' op expected a cluster size of at least 2 that divides the number of warps, got 1 for 8 warps
//     }
// VARY pages_of_rows
//     %p = tile.read_pages %table[%n, %n] of %n size 8 : memref<?x?xi32> -> tensor<64xi32, #tile.row>
//     | error: 'tile.read_pages' op expected pages of 16 rows, got 'tensor<64xi32, #tile.row>'
// VARY size
//     %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
//     %k = tile.load_rows %x3[%n, %n, %n] size 8 limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
//     | error: 'tile.load_rows' op expected a page for each row if and only if there is a page size
// VARY source
//     %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
//     %k = tile.load_rows %x4[%n, %n, %n] limit %n into %ring : memref<2x8x4x32xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
//     | error: 'tile.load_rows' op expected rows of 64 x 'bf16', got 'memref<2x8x4x32xbf16>'
// VARY slot
//     %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
//     %k = tile.load_rows %x3[%n, %n, %n] limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 32, bf16>
//     | error: 'tile.load_rows' op expected a slot of '!tile.ring<2, 16, 64, bf16, private true>', got '!tile.slot<16, 32, bf16>'
// VARY rows_of_ring
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16, private true>
//     %k = tile.load_rows %x3[%n, %n, %n] limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 64, 64, bf16, private true> -> <64, 64, bf16>
//     | error: 'tile.load_rows' op expected a ring of 16 rows, got '!tile.ring<2, 64, 64, bf16, private true>'
// VARY shared_bytes
//     %ring = tile.alloc_ring : <2, 64, 64, i8>
//     | error: 'tile.alloc_ring' op expected a 16-bit element type or f32, got 'i8'
// VARY quads
//     %a = tile.read_rows %q[%n, %n, %n] heads 1 tokens 1 limit %n : memref<2x8x4x64xbf16> -> tensor<16x64xbf16, #tile.operand_a>
//     %t = tile.mma_async %a, %k_arg transpose_b : tensor<16x64xbf16, #tile.operand_a>, <16, 64, i8> -> <tensor<16x16xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected A to have its columns in quads if and only if B has 8 bits
// VARY half_a_step
//     %t = tile.mma_async %a_arg, %v : tensor<16x16xbf16, #tile.operand_a>, <16, 40, i8> -> <tensor<16x40xf32, #tile.acc>>
//     | error: 'tile.mma_async' op expected a B of 8 bits in steps of 16 x 16, got '!tile.slot<16, 40, i8>'
