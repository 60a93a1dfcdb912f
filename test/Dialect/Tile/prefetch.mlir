// RUN: flashc-opt %s --tile-prefetch --split-input-file | FileCheck %s

// Two loads are under way before the loop; an iteration waits for its own, and starts that of the second one behind it. The
// page's number is read an iteration earlier still.
// CHECK-LABEL: gpu.func @pages(
// CHECK-SAME:      %[[MAP:.*]]: !tile.tensor_map<16 x bf16>, %[[TABLE:.*]]: memref<?xi32>, %[[LOWER:[^:]*]]: index, %[[UPPER:[^:]*]]: index
// CHECK:           %[[RING:.*]] = tile.alloc_ring
// CHECK:             scf.if
// CHECK:               tile.copy_async %[[MAP]]{{.*}} into %[[RING]][%c0
// CHECK:             scf.if
// CHECK:               tile.copy_async %[[MAP]]{{.*}} into %[[RING]][%c1
// CHECK:             %[[FIRST:.*]] = memref.load %[[TABLE]]
// CHECK:             scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[COUNT:.*]] = %{{.*}}, %[[PAGE:.*]] = %[[FIRST]])
// CHECK:               tile.wait %[[RING]][%[[COUNT]]]
// CHECK-NOT:           tile.load
// CHECK:               %[[NEXT:.*]] = arith.addi %[[COUNT]], %c2
// CHECK:               scf.if
// CHECK:                 arith.index_cast %[[PAGE]]
// CHECK:                 tile.copy_async %[[MAP]]{{.*}} into %[[RING]][%[[NEXT]]]
// CHECK:               %[[LATER:.*]] = memref.load %[[TABLE]]
// CHECK:               scf.yield %{{.*}}, %{{.*}}, %[[LATER]]
gpu.module @kernels {
  gpu.func @pages(%map: !tile.tensor_map<16 x bf16>, %table: memref<?xi32>, %lower: index, %upper: index, %acc: tensor<16x64xf32, #tile.acc>,
                  %a: tensor<16x16xbf16, #tile.operand_a>) kernel {
    %ring = tile.alloc_ring : <2, 16, 64, bf16, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      %step = arith.constant 128 : index
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %r = scf.for %u = %lower to %upper step %step iter_args(%x = %acc) -> tensor<16x64xf32, #tile.acc> {
        %slot = arith.divui %u, %c16 : index
        %entry = memref.load %table[%slot] : memref<?xi32>
        %page = arith.index_cast %entry : i32 to index
        %v = tile.load %map[%page, %c0, %c0] into %ring : !tile.tensor_map<16 x bf16>, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
        %t = tile.mma_async %a, %v into %x : tensor<16x64xf32, #tile.acc> : tensor<16x16xbf16, #tile.operand_a>, <16, 64, bf16> -> <tensor<16x64xf32, #tile.acc>>
        %y = tile.mma_wait %t : <tensor<16x64xf32, #tile.acc>> -> tensor<16x64xf32, #tile.acc>
        scf.yield %y : tensor<16x64xf32, #tile.acc>
      }
    }
    gpu.return
  }
}

// -----

// Rows that lanes copy are started ahead like boxes; the pages of rows are read an iteration earlier.
// CHECK-LABEL: gpu.func @rows(
// CHECK:           %[[RING:.*]] = tile.alloc_ring
// CHECK-COUNT-2:   tile.copy_rows
// CHECK:           %[[FIRST:.*]] = tile.read_pages
// CHECK:           scf.for {{.*}} iter_args(%[[COUNT:.*]] = %{{.*}}, %[[PAGES:.*]] = %[[FIRST]])
// CHECK:             tile.wait %[[RING]][%[[COUNT]]]
// CHECK-NOT:         tile.load_rows
// CHECK:             scf.if
// CHECK:               tile.copy_rows %{{.*}}[%[[PAGES]], %c0, %{{.*}}] size 8 limit %{{.*}} into %[[RING]]
// CHECK:             %[[LATER:.*]] = tile.read_pages
// CHECK:             scf.yield %{{.*}}, %[[LATER]]
gpu.module @kernels {
  gpu.func @rows(%x: memref<2x8x4x64xbf16>, %table: memref<?x?xi32>, %lower: index, %upper: index) kernel {
    %ring = tile.alloc_ring : <2, 16, 64, bf16, private true>
    tile.warp_program 8 {
    ^bb0(%w: index):
      %step = arith.constant 128 : index
      %c0 = arith.constant 0 : index
      scf.for %u = %lower to %upper step %step {
        %pages = tile.read_pages %table[%c0, %u] of %upper size 8 : memref<?x?xi32> -> tensor<16xi32, #tile.row>
        %v = tile.load_rows %x[%pages, %c0, %u] size 8 limit %upper into %ring
          : memref<2x8x4x64xbf16>, tensor<16xi32, #tile.row>, <2, 16, 64, bf16, private true> -> <16, 64, bf16>
        tile.clear_rows %v from %c0 : <16, 64, bf16>
      }
    }
    gpu.return
  }
}
