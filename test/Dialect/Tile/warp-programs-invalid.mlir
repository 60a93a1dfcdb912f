// RUN: flashc-opt %s --split-input-file --verify-diagnostics

gpu.module @kernels {
  gpu.func @shared_ring(%map: !tile.tensor_map<16 x bf16>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 64, bf16>
    tile.warp_program 8 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.wait' op expected private rings in a tile.warp_program, got '!tile.ring<2, 16, 64, bf16>'}}
      %k = tile.wait %ring[%n] : <2, 16, 64, bf16> -> <16, 64, bf16>
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @rows(%x: tensor<64xf32, #tile.row>) kernel {
    tile.warp_program 8 {
    ^bb0(%w: index):
      // expected-error @+1 {{'arith.addf' op expected tiles of 16 rows in a tile.warp_program, got 'tensor<64xf32, #tile.row>'}}
      %y = arith.addf %x, %x : tensor<64xf32, #tile.row>
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @too_many_rows(%q: memref<2x8x4x64xbf16>, %n: index) kernel {
    // expected-error @+1 {{'tile.read_rows' op expected at most 16 rows, got 4 heads of 5 tokens}}
    %a = tile.read_rows %q[%n, %n, %n] heads 4 tokens 5 limit %n : memref<2x8x4x64xbf16> -> tensor<16x64xbf16, #tile.operand_a>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @other_rows(%q: memref<2x8x4x32xbf16>, %n: index) kernel {
    // expected-error @+1 {{'tile.read_rows' op expected rows of 64 x 'bf16', got 'memref<2x8x4x32xbf16>'}}
    %a = tile.read_rows %q[%n, %n, %n] heads 4 tokens 1 limit %n : memref<2x8x4x32xbf16> -> tensor<16x64xbf16, #tile.operand_a>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @rank(%x: tensor<16xf32, #tile.row>, %o: memref<2x8x4x64xf32>, %n: index) kernel {
    // expected-error @+1 {{'tile.write_rows' op expected a destination of rank 3, got 'memref<2x8x4x64xf32>'}}
    tile.write_rows %x, %o[%n, %n, %n, %n] heads 4 tokens 1 limit %n : tensor<16xf32, #tile.row>, memref<2x8x4x64xf32>
    gpu.return
  }
}

// -----

!acc = tensor<16x64xf32, #tile.acc>
!row = tensor<16xf32, #tile.row>

gpu.module @kernels {
  gpu.func @part(%acc: !acc, %m: !row) kernel {
    tile.warp_program 4 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.merge_warps' op expected 16 of 64 columns for each of 4 warps, got 'tensor<16x8xf32, #tile.acc>'}}
      %x:3 = tile.merge_warps %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (tensor<16x8xf32, #tile.acc>, !row, !row)
    }
    gpu.return
  }
}

// -----

!acc = tensor<16x64xf32, #tile.acc>
!row = tensor<16xf32, #tile.row>

gpu.module @kernels {
  gpu.func @alone(%acc: !acc, %m: !row) kernel {
    tile.warp_program 8 {
    ^bb0(%w: index):
      // expected-error @+1 {{'tile.merge_cluster' op expected a cluster size of at least 2 that divides the number of warps, got 1 for 8 warps}}
      %x:4 = tile.merge_cluster %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (!acc, !row, !row, index)
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @pages_of_rows(%table: memref<?x?xi32>, %n: index) kernel {
    // expected-error @+1 {{'tile.read_pages' op expected pages of 16 rows, got 'tensor<64xi32, #tile.row>'}}
    %p = tile.read_pages %table[%n, %n] of %n size 8 : memref<?x?xi32> -> tensor<64xi32, #tile.row>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @size(%x: memref<2x8x4x64xbf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
    // expected-error @+1 {{'tile.load_rows' op expected a page for each row if and only if there is a page size}}
    %k = tile.load_rows %x[%n, %n, %n] size 8 limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @source(%x: memref<2x8x4x32xbf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
    // expected-error @+1 {{'tile.load_rows' op expected rows of 64 x 'bf16', got 'memref<2x8x4x32xbf16>'}}
    %k = tile.load_rows %x[%n, %n, %n] limit %n into %ring : memref<2x8x4x32xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @slot(%x: memref<2x8x4x64xbf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !tile.ring<2, 16, 64, bf16, private true>
    // expected-error @+1 {{'tile.load_rows' op expected a slot of '!tile.ring<2, 16, 64, bf16, private true>', got '!tile.slot<16, 32, bf16>'}}
    %k = tile.load_rows %x[%n, %n, %n] limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 16, 64, bf16, private true> -> <16, 32, bf16>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @rows_of_ring(%x: memref<2x8x4x64xbf16>, %n: index) kernel {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16, private true>
    // expected-error @+1 {{'tile.load_rows' op expected a ring of 16 rows, got '!tile.ring<2, 64, 64, bf16, private true>'}}
    %k = tile.load_rows %x[%n, %n, %n] limit %n into %ring : memref<2x8x4x64xbf16>, index, <2, 64, 64, bf16, private true> -> <64, 64, bf16>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @shared_bytes() kernel {
    // expected-error @+1 {{'tile.alloc_ring' op expected a 16-bit element type or f32, got 'i8'}}
    %ring = tile.alloc_ring : <2, 64, 64, i8>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @quads(%q: memref<2x8x4x64xbf16>, %n: index, %k: !tile.slot<16, 64, i8>) kernel {
    %a = tile.read_rows %q[%n, %n, %n] heads 1 tokens 1 limit %n : memref<2x8x4x64xbf16> -> tensor<16x64xbf16, #tile.operand_a>
    // expected-error @+1 {{'tile.mma_async' op expected A to have its columns in quads if and only if B has 8 bits}}
    %t = tile.mma_async %a, %k transpose_b : tensor<16x64xbf16, #tile.operand_a>, <16, 64, i8> -> <tensor<16x16xf32, #tile.acc>>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @half_a_step(%a: tensor<16x16xbf16, #tile.operand_a>, %v: !tile.slot<16, 40, i8>) kernel {
    // expected-error @+1 {{'tile.mma_async' op expected a B of 8 bits in steps of 16 x 16, got '!tile.slot<16, 40, i8>'}}
    %t = tile.mma_async %a, %v : tensor<16x16xbf16, #tile.operand_a>, <16, 40, i8> -> <tensor<16x40xf32, #tile.acc>>
    gpu.return
  }
}
