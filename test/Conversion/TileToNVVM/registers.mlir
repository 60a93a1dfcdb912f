// RUN: flashc-opt %s --convert-tile-to-nvvm --split-input-file | FileCheck %s

!acc = tensor<64x8xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!part = tensor<64xf32, #tile.row_partial>
!o = memref<?x1x?x8xf32, strided<[?, ?, ?, 1]>>
!lse = memref<?x1x?xf32, strided<[?, ?, 1]>>

// A thread holds four elements of a 64x8 tile: elements 0 and 1 of its first row, 2 and 3 of its second.
// CHECK-LABEL: gpu.func @rows_and_elements
gpu.module @kernels {
  gpu.func @rows_and_elements(%o: !o, %lse: !lse, %n: index, %f: f32) kernel attributes {tile.schedule = #tile.schedule<consumers = 1, kv_tile = 16, stages = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %x = tile.map %zero at (%c0, %c0) {
      ^bb0(%s: f32, %i: index, %j: index):
        tile.yield %f : f32
      } : !acc
      // CHECK: %[[A:.*]] = math.exp2 %{{.*}} : f32
      // CHECK: %[[B:.*]] = math.exp2 %{{.*}} : f32
      // CHECK: %[[C:.*]] = math.exp2 %{{.*}} : f32
      // CHECK: %[[D:.*]] = math.exp2 %{{.*}} : f32
      %e = math.exp2 %x : !acc
      // The maximum of a row: locally, then over the four lanes that share the row.
      // CHECK: %[[M0:.*]] = arith.maxnumf %[[A]], %[[B]] : f32
      // CHECK: %[[S0:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[M0]], %{{.*}}, %{{.*}}
      // CHECK: %[[M1:.*]] = arith.maxnumf %[[M0]], %[[S0]] : f32
      // CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[M1]],
      // CHECK: arith.maxnumf %[[C]], %[[D]] : f32
      // CHECK-COUNT-2: shfl.sync.bfly.f32
      %m = tile.row_reduce max %e : !acc -> !row
      // The sum stays one addend per lane until it is combined.
      // CHECK-NOT: shfl
      // CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
      // CHECK: arith.addf %[[C]], %[[D]] : f32
      %rs = tile.row_reduce sum %e : !acc -> !part
      // CHECK: shfl.sync.bfly.f32"(%{{.*}}, %[[S]]
      %l = tile.combine %rs : !part -> !row
      %y = tile.scale_rows %e, %m : !acc, !row
      tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
      tile.store %l, %lse[%c0, %c0, %c0] limit %n : !row, !lse
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x8xf32, #tile.acc>
!o = memref<?x1x?x8xf32, strided<[?, ?, ?, 1]>>

// User code runs once per element, with the element's own (i, j). A bound on j becomes a distance from the thread's first
// column, once per row and brought near, so that elements compare it with constants.
// CHECK-LABEL: gpu.func @map_positions
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: index, %[[ROW:.*]]: index, %[[COL:.*]]: index
gpu.module @kernels {
  gpu.func @map_positions(%o: !o, %n: index, %row: index, %col: index) kernel attributes {tile.schedule = #tile.schedule<consumers = 1, kv_tile = 16, stages = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      // CHECK: %[[I0:.*]] = arith.addi %[[ROW]], %{{.*}} : index
      // CHECK: %[[I8:.*]] = arith.addi %[[I0]], %c8
      // CHECK: %[[J:.*]] = arith.addi %[[COL]], %{{.*}} : index
      // CHECK: %[[BEFORE:.*]] = arith.addi %[[J]], %c-2
      // CHECK: %[[MAX0:.*]] = arith.maxsi %[[I0]], %[[BEFORE]]
      // CHECK: %[[BEHIND:.*]] = arith.addi %[[J]], %c9
      // CHECK: %[[MIN0:.*]] = arith.minsi %[[MAX0]], %[[BEHIND]]
      // CHECK: %[[D0:.*]] = arith.subi %[[MIN0]], %[[J]]
      // CHECK: arith.cmpi sge, %[[D0]], %c0
      // CHECK: arith.cmpi sge, %[[D0]], %c1
      // CHECK: %[[MAX8:.*]] = arith.maxsi %[[I8]],
      // CHECK: %[[MIN8:.*]] = arith.minsi %[[MAX8]],
      // CHECK: %[[D8:.*]] = arith.subi %[[MIN8]], %[[J]]
      // CHECK: arith.cmpi sge, %[[D8]], %c0
      // CHECK: arith.cmpi sge, %[[D8]], %c1
      // CHECK-NOT: arith.cmpi sge
      %y = tile.map %x at (%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %keep = arith.cmpi sle, %j, %i : index
        %zero = arith.constant 0.0 : f32
        %t = arith.select %keep, %s, %zero : f32
        tile.yield %t : f32
      } : !acc
      tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
    }
    gpu.return
  }
}
