// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize --cse --split-input-file | FileCheck %s

// Two rows at once, 16 lanes each; the page of a row comes from a lane that has it. All lanes arrive when their copies have.
// CHECK-LABEL: gpu.func @pages(
// CHECK:         mbarrier.init.shared::cta.b64 [$0], $1;{{.*}} %{{.*}}, %[[ALL:.*]] :
// CHECK:         bar.warp.sync
// CHECK:         shfl.sync.idx.i32
// CHECK:         cp.async.cg.shared.global [$0], [$1], 16, $2;
// CHECK-COUNT-7: cp.async.cg
// CHECK-NOT:     cp.async.cg
// CHECK:         cp.async.mbarrier.arrive.noinc.shared::cta.b64
// CHECK:         mbarrier.try_wait.parity
gpu.module @kernels {
  gpu.func @pages(%x: memref<?x8x8x128xbf16, strided<[?, ?, ?, 1]>>, %table: memref<?x?xi32, strided<[?, 1]>>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 128, bf16, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      %pages = tile.read_pages %table[%n, %n] of %n size 8 : memref<?x?xi32, strided<[?, 1]>> -> tensor<16xi32, #tile.row>
      tile.copy_rows %x[%pages, %n, %n] size 8 limit %n into %ring[%n]
        : memref<?x8x8x128xbf16, strided<[?, ?, ?, 1]>>, tensor<16xi32, #tile.row>, <2, 16, 128, bf16, private true>
      %slot = tile.wait %ring[%n] : <2, 16, 128, bf16, private true> -> <16, 128, bf16>
    }
    gpu.return
  }
}

// -----

// Without Hopper's instructions.
// CHECK-LABEL: gpu.func @ampere(
// CHECK-NOT:     fence.mbarrier_init
// CHECK-COUNT-4: cp.async.cg
// CHECK-NOT:     cp.async.cg
// CHECK:         mbarrier.test_wait.parity
gpu.module @kernels [#nvvm.target<chip = "sm_80">] {
  gpu.func @ampere(%x: memref<?x8x?x64xbf16, strided<[?, ?, ?, 1]>>, %n: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 64, bf16, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      tile.copy_rows %x[%n, %n, %n] limit %n into %ring[%n] : memref<?x8x?x64xbf16, strided<[?, ?, ?, 1]>>, index, <2, 16, 64, bf16, private true>
      %slot = tile.wait %ring[%n] : <2, 16, 64, bf16, private true> -> <16, 64, bf16>
    }
    gpu.return
  }
}
