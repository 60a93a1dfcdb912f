// RUN: flashc-opt %s --convert-tile-to-nvvm --split-input-file | FileCheck %s

!acc = tensor<64x16xf32, #tile.acc>
!o = memref<1x1x?x16xf32, strided<[?, ?, ?, 1]>>
!bias = memref<?x?xbf16, strided<[?, 1]>>
#schedule = #tile.schedule<consumers = 1, kv_tile = 16, stages = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// An array of rows is read in pairs of columns where the addresses of both rows' first element are multiples of four. Both
// branches give a register for every pair.
// CHECK-LABEL: gpu.func @in_pairs
// CHECK:         %[[FIRST:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.all.sync"
// CHECK:         %[[SECOND:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.all.sync"
// CHECK:         %[[BOTH:.*]] = arith.andi %[[FIRST]], %[[SECOND]]
// CHECK:         %[[R:.*]]:4 = scf.if %[[BOTH]] -> (vector<2xbf16>, vector<2xbf16>, vector<2xbf16>, vector<2xbf16>) {
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK:         } else {
// CHECK-COUNT-8:   llvm.load %{{.*}} : !llvm.ptr<1> -> bf16
// CHECK:         }
// CHECK-NOT:     llvm.load
// CHECK:         llvm.extractelement %[[R]]#0[%c0
// CHECK:         llvm.extractelement %[[R]]#0[%c1
// CHECK:         llvm.extractelement %[[R]]#1[%c0
gpu.module @kernels {
  gpu.func @in_pairs(%o: !o, %bias: !bias, %n: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at (%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %inside = arith.minsi %i, %n : index
        %b = memref.load %bias[%inside, %j] : !bias
        %f = arith.extf %b : bf16 to f32
        %t = arith.addf %s, %f : f32
        tile.yield %t : f32
      } : !acc
      tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
    }
    gpu.return
  }
}

// -----

!acc = tensor<64x16xf32, #tile.acc>
!o = memref<1x1x?x16xf32, strided<[?, ?, ?, 1]>>
!bias = memref<?xf32, strided<[1]>>
!bytes = memref<?x?xi8, strided<[?, 1]>>
!bits = memref<?x?xf32, strided<[?, 1]>>
#schedule = #tile.schedule<consumers = 1, kv_tile = 16, stages = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// One by one: what is the same for all rows, bytes, and what is read at another place than j. Columns are constants behind
// the thread's first one, as LLVM is told.
// CHECK-LABEL: gpu.func @one_by_one
// CHECK-SAME:    %[[COL:[a-z0-9]*]]: index)
// CHECK-NOT:     vote.all
// CHECK:         %[[J:.*]] = arith.addi %[[COL]], %{{.*}} : index
// CHECK:         arith.addi %[[J]], %c1{{.*}} overflow<nsw> : index
// CHECK:         arith.addi %[[J]], %c9{{.*}} overflow<nsw> : index
gpu.module @kernels {
  gpu.func @one_by_one(%o: !o, %bias: !bias, %bytes: !bytes, %bits: !bits, %n: index, %row: index, %col: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at (%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        %b = memref.load %bias[%j] : !bias
        %c = memref.load %bytes[%i, %j] : !bytes
        %g = arith.sitofp %c : i8 to f32
        %inside = arith.minsi %j, %n : index
        %d = memref.load %bits[%i, %inside] : !bits
        %e = memref.load %bits[%j, %i] : !bits
        %t = arith.addf %s, %b : f32
        %u = arith.addf %t, %g : f32
        %v = arith.addf %u, %d : f32
        %z = arith.addf %v, %e : f32
        tile.yield %z : f32
      } : !acc
      tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
    }
    gpu.return
  }
}
