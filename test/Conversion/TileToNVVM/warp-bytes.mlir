// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize --cse --split-input-file | FileCheck %s

// Two blocks of keys by 32 bytes, which are two steps of depth, are one ldmatrix; each of its words makes both registers of B
// for one step.
// CHECK-LABEL: gpu.func @float8(
// CHECK:         ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK:         cvt.rn.f16x2.e4m3x2
// CHECK:         cvt.rn.bf16x2.f32
// CHECK:         prmt.b32
// CHECK:         cvt.rn.f16x2.e4m3x2
// CHECK:         mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT:     ldmatrix
gpu.module @kernels {
  gpu.func @float8(%q: memref<1x1x1x32xbf16, strided<[?, ?, ?, 1]>>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 32, f8E4M3FN, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      %a = tile.read_rows %q[%n, %n, %n] heads 1 tokens 1 limit %n quads : memref<1x1x1x32xbf16, strided<[?, ?, ?, 1]>> -> tensor<16x32xbf16, #tile.operand_a>
      %k = tile.wait %ring[%n] : <2, 16, 32, f8E4M3FN, private true> -> <16, 32, f8E4M3FN>
      %t = tile.mma_async %a, %k transpose_b : tensor<16x32xbf16, #tile.operand_a>, <16, 32, f8E4M3FN> -> <tensor<16x16xf32, #tile.acc>>
      %s = tile.mma_wait %t : <tensor<16x16xf32, #tile.acc>> -> tensor<16x16xf32, #tile.acc>
    }
    gpu.return
  }
}

// -----

// Each pair of words of V holds a block of even columns and a block of odd columns.
// CHECK-LABEL: gpu.func @int8(
// CHECK:         %[[EVEN:.*]] = arith.constant 16960 : i32
// CHECK:         ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK:         prmt.b32 {{.*}} %[[EVEN]]
// CHECK:         sub.rn.f16x2
// CHECK-COUNT-4: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT:     mma.sync
gpu.module @kernels {
  gpu.func @int8(%a: tensor<16x16xf16, #tile.operand_a>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 32, i8, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      %v = tile.wait %ring[%n] : <2, 16, 32, i8, private true> -> <16, 32, i8>
      %t = tile.mma_async %a, %v : tensor<16x16xf16, #tile.operand_a>, <16, 32, i8> -> <tensor<16x32xf32, #tile.acc>>
      %o = tile.mma_wait %t : <tensor<16x32xf32, #tile.acc>> -> tensor<16x32xf32, #tile.acc>
    }
    gpu.return
  }
}

// -----

// Rows of 32 bytes are two chunks, and all sixteen of them are copied at once.
// CHECK-LABEL: gpu.func @rows(
// CHECK:         llvm.getelementptr %{{.*}} : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
// CHECK:         cp.async.cg.shared.global [$0], [$1], 16, $2;
// CHECK-NOT:     cp.async.cg
gpu.module @kernels {
  gpu.func @rows(%x: memref<?x8x?x32xf8E4M3FN, strided<[?, ?, ?, 1]>>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 32, f8E4M3FN, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      tile.copy_rows %x[%n, %n, %n] limit %n into %ring[%n] : memref<?x8x?x32xf8E4M3FN, strided<[?, ?, ?, 1]>>, index, <2, 16, 32, f8E4M3FN, private true>
    }
    gpu.return
  }
}
