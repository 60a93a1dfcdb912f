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
      // expected-error @+1 {{'tile.merge_cluster' op expected a cluster of CTAs that divides the warps, got 1 of 8 warps}}
      %x:4 = tile.merge_cluster %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (!acc, !row, !row, index)
    }
    gpu.return
  }
}
