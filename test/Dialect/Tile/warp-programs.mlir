// RUN: flashc-opt %s | flashc-opt | FileCheck %s

!acc = tensor<16x64xf32, #tile.acc>
!part = tensor<16x8xf32, #tile.acc>
!row = tensor<16xf32, #tile.row>

// CHECK-LABEL: gpu.func @program(
// CHECK:         tile.warp_program 8 cluster 4 {
// CHECK:           tile.read_rows %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] heads 4 tokens 2 limit %{{.*}}
// CHECK:           tile.clear_rows %{{.*}} from %{{.*}} before %{{.*}} : <16, 64, bf16>
// CHECK:           tile.mma_async %{{.*}}, %{{.*}} transpose_b : tensor<16x64xbf16, #tile.operand_a>, <16, 64, bf16> -> <tensor<16x16xf32, #tile.acc>>
// CHECK:           tile.merge_warps %{{.*}}, %{{.*}}, %{{.*}} factor 1.000000e+00
// CHECK:           tile.merge_cluster
// CHECK:           tile.write_rows
gpu.module @kernels {
  gpu.func @program(%map: !tile.tensor_map<16 x bf16>, %q: memref<2x8x?x64xbf16, strided<[?, ?, ?, 1]>>,
                    %o: memref<2x8x?x64xf32, strided<[?, ?, ?, 1]>>, %table: memref<?x?xi32>, %n: index, %acc: !acc, %m: !row) kernel {
    %ring = tile.alloc_ring : <2, 16, 64, bf16, private true>
    %pages = tile.read_pages %table[%n, %n] of %n size 8 : memref<?x?xi32> -> tensor<16xi32, #tile.row>
    %paged = tile.load_rows %q[%pages, %n, %n] size 8 limit %n into %ring
      : memref<2x8x?x64xbf16, strided<[?, ?, ?, 1]>>, tensor<16xi32, #tile.row>, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
    tile.copy_rows %q[%n, %n, %n] limit %n into %ring[%n]
      : memref<2x8x?x64xbf16, strided<[?, ?, ?, 1]>>, index, <2, 16, 64, bf16, private true>
    tile.warp_program 8 cluster 4 {
    ^bb0(%w: index):
      %a = tile.read_rows %q[%n, %n, %n] heads 4 tokens 2 limit %n
        : memref<2x8x?x64xbf16, strided<[?, ?, ?, 1]>> -> tensor<16x64xbf16, #tile.operand_a>
      %k = tile.wait %ring[%n] : <2, 16, 64, bf16, private true> -> <16, 64, bf16>
      tile.clear_rows %k from %n before %n : <16, 64, bf16>
      %t = tile.mma_async %a, %k transpose_b : tensor<16x64xbf16, #tile.operand_a>, <16, 64, bf16> -> <tensor<16x16xf32, #tile.acc>>
      %s = tile.mma_wait %t : <tensor<16x16xf32, #tile.acc>> -> tensor<16x16xf32, #tile.acc>
      %x:3 = tile.merge_warps %acc, %m, %m factor 1.0 : (!acc, !row, !row) -> (!part, !row, !row)
      %y:4 = tile.merge_cluster %x#0, %x#1, %x#2 factor 1.0 : (!part, !row, !row) -> (!part, !row, !row, index)
      tile.write_rows %y#0, %o[%n, %n, %n, %y#3] heads 4 tokens 2 limit %n : !part, memref<2x8x?x64xf32, strided<[?, ?, ?, 1]>>
    }
    gpu.return
  }
}
