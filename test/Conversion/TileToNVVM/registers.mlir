// RUN: %vary %s | flashc-opt --convert-tile-to-nvvm --split-input-file | FileCheck %s

!acc = tensor<64x16xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!part = tensor<64xf32, #tile.lane_partial>
!o = memref<?x1x?x16xf32, strided<[?, ?, ?, 1]>>
!lse = memref<?x1x?xf32, strided<[?, ?, 1]>>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @NAME(%lse: !lse, %fill: f32, %o: !o, %n: index, %row: index, %col: index, %slope: f32) kernel
      attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // BODY
    }
    gpu.return
  }
}

// A thread holds four elements of a 64x8 tile: elements 0 and 1 of its first row, 2 and 3 of its second.
// CHECK-LABEL: gpu.func @rows_and_elements
// VARY rows_and_elements
//     %zero = arith.constant dense<0.0> : !acc
//     %x = tile.map %zero at (%c0, %c0) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       tile.yield %fill : f32
//     } : !acc
// CHECK: %[[A:.*]] = math.exp2 %{{.*}} : f32
// CHECK: %[[B:.*]] = math.exp2 %{{.*}} : f32
// CHECK: %[[C:.*]] = math.exp2 %{{.*}} : f32
// CHECK: %[[D:.*]] = math.exp2 %{{.*}} : f32
//     %e = math.exp2 %x : !acc
// The maximum of a row: locally, then over the four lanes that share the row.
// CHECK: %[[M0:.*]] = arith.maxnumf %[[A]], %[[B]] : f32
// CHECK: %[[S0:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[M0]], %{{.*}}, %{{.*}}
// CHECK: %[[M1:.*]] = arith.maxnumf %[[M0]], %[[S0]] : f32
// CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[M1]],
// CHECK: arith.maxnumf %[[C]], %[[D]] : f32
// CHECK-COUNT-2: shfl.sync.bfly.f32
//     %m = tile.row_reduce max %e : !acc -> !row
// The sum stays one addend per lane until it is combined.
// CHECK-NOT: shfl
// CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK: arith.addf %[[C]], %[[D]] : f32
//     %rs = tile.row_reduce sum %e : !acc -> !part
// CHECK: shfl.sync.bfly.f32"(%{{.*}}, %[[S]]
//     %l = tile.combine %rs : !part -> !row
//     %y = tile.scale_rows %e, %m : !acc, !row
//     tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
//     tile.store %l, %lse[%c0, %c0, %c0] limit %n : !row, !lse
//   <64x16xf32 => <64x8xf32
//   ?x16xf32 => ?x8xf32

// User code runs once per element, with the element's own (i, j). A bound on j becomes a word for each row: one bit for
// every element of the thread. The distance from the thread's first column is brought near first.
// CHECK-LABEL: gpu.func @map_positions
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: index, %[[ROW:.*]]: index, %[[COL:.*]]: index
// VARY map_positions
//     %x = arith.constant dense<2.0> : !acc
// CHECK: %[[I0:.*]] = arith.addi %[[ROW]], %{{.*}} : index
// CHECK: %[[I8:.*]] = arith.addi %[[I0]], %c8
// CHECK: %[[J:.*]] = arith.addi %[[COL]], %{{.*}} : index
// CHECK: %[[BEFORE:.*]] = arith.addi %[[J]], %c-2
// CHECK: %[[MAX0:.*]] = arith.maxsi %[[I0]], %[[BEFORE]]
// CHECK: %[[BEHIND:.*]] = arith.addi %[[J]], %c9
// CHECK: %[[MIN0:.*]] = arith.minsi %[[MAX0]], %[[BEHIND]]
// CHECK: %[[D0:.*]] = arith.subi %[[MIN0]], %[[J]]
// CHECK: %[[W0:.*]] = llvm.inline_asm "bmsk.clamp.b32 $0, $1, $2;", "=r,r,r" %{{.*}}, %{{.*}} : (i32, i32) -> i32
// CHECK: %[[B0:.*]] = llvm.inline_asm {{.*}}setp.ne{{.*}} %[[W0]], %c1_i32{{.*}} -> i1
// CHECK: arith.select %[[B0]], %
// CHECK: %[[B1:.*]] = llvm.inline_asm {{.*}}setp.ne{{.*}} %[[W0]], %c2_i32{{.*}} -> i1
// CHECK: arith.select %[[B1]], %
// CHECK: %[[MAX8:.*]] = arith.maxsi %[[I8]],
// CHECK: %[[MIN8:.*]] = arith.minsi %[[MAX8]],
// CHECK: %[[D8:.*]] = arith.subi %[[MIN8]], %[[J]]
// CHECK: %[[W8:.*]] = llvm.inline_asm {{.*}}bmsk
// CHECK-COUNT-2: llvm.inline_asm {{.*}}setp.ne{{.*}} %[[W8]],
// CHECK-NOT: arith.cmpi sge
//     %y = tile.map %x at (%row, %col) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       %keep = arith.cmpi sle, %j, %i : index
//       %zero = arith.constant 0.0 : f32
//       %t = arith.select %keep, %s, %zero : f32
//       tile.yield %t : f32
//     } : !acc
//     tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
//   <64x16xf32 => <64x8xf32
//   ?x16xf32 => ?x8xf32

// Code once per row, read by every element of it. 36 elements of a row need two words.
// CHECK-LABEL: gpu.func @rows
// CHECK-SAME: %[[N:[^:]*]]: index, %[[ROW:[^:]*]]: index, %[[COL:[^:]*]]: index
// VARY rows
//     %x = arith.constant dense<2.0> : !acc
// CHECK: %[[I0:.*]] = arith.addi %[[ROW]],
// CHECK: arith.index_cast %[[I0]]
// CHECK: %[[R0:.*]] = arith.sitofp
// CHECK: %[[I8:.*]] = arith.addi %[[I0]], %c8
// CHECK: arith.index_cast %[[I8]]
// CHECK: %[[R8:.*]] = arith.sitofp
// CHECK-NOT: arith.sitofp
//     %r = tile.rows at(%row) {
//     ^bb0(%i: index):
//       %i32 = arith.index_cast %i : index to i32
//       %f = arith.sitofp %i32 : i32 to f32
//       tile.yield %f : f32
//     } : !row
// CHECK: llvm.inline_asm "bmsk
// CHECK-COUNT-32: arith.mulf %{{.*}}, %[[R0]]
// CHECK: arith.addi %{{.*}}, %c-32
// CHECK: llvm.inline_asm "bmsk
// CHECK-COUNT-3: arith.mulf %{{.*}}, %[[R0]]
// CHECK-COUNT-36: arith.mulf %{{.*}}, %[[R8]]
//     %y = tile.map %x rows(%r : !row) at (%row, %col) {
//     ^bb0(%s: f32, %i: index, %j: index, %f: f32):
//       %keep = arith.cmpi sle, %j, %i : index
//       %t = arith.mulf %s, %f : f32
//       %u = arith.select %keep, %s, %t : f32
//       tile.yield %u : f32
//     } : !acc
//     tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
//   <64x16xf32 => <64x144xf32
//   ?x16xf32 => ?x144xf32

// What is the same for a thread's elements of a row comes once for each of its two rows, of the thread's first column;
// elements have their distance from that column, which is a constant.
// CHECK-LABEL: gpu.func @map_offset
// CHECK-SAME: %[[ROW:[^:]*]]: index, %[[COL:[^:]*]]: index, %[[SLOPE:[^:]*]]: f32
// VARY map_offset
//     %x = arith.constant dense<2.0> : !acc
// CHECK: %[[I0:.*]] = arith.addi %[[ROW]], %{{.*}} : index
// CHECK: %[[FIRST:.*]] = arith.addi %[[COL]], %{{.*}} : index
// CHECK: %[[D:.*]] = arith.subi %[[FIRST]], %[[I0]] : index
// CHECK: %[[D32:.*]] = arith.index_cast %[[D]]
// CHECK: %[[F:.*]] = arith.sitofp %[[D32]]
// CHECK: %[[H0:.*]] = arith.mulf %[[SLOPE]], %[[F]]
// CHECK: %[[ZERO:.*]] = arith.subi %[[FIRST]], %[[FIRST]]
// CHECK: %[[ZERO32:.*]] = arith.index_cast %[[ZERO]]
// CHECK: %[[C0:.*]] = arith.sitofp %[[ZERO32]]
// CHECK: %[[E0:.*]] = math.fma %[[SLOPE]], %[[C0]], %
// CHECK: %[[C1:.*]] = arith.addf %[[C0]], %cst{{.*}} : f32
// CHECK: %[[E1:.*]] = math.fma %[[SLOPE]], %[[C1]], %
// CHECK: %[[C8:.*]] = arith.addf %[[C0]], %cst{{.*}} : f32
// CHECK: %[[E2:.*]] = math.fma %[[SLOPE]], %[[C8]], %
// CHECK: %[[C9:.*]] = arith.addf %[[C0]], %cst{{.*}} : f32
// CHECK: %[[E3:.*]] = math.fma %[[SLOPE]], %[[C9]], %
// CHECK: %[[F8:.*]] = arith.addf %[[F]], %cst{{.*}} : f32
// CHECK: %[[H8:.*]] = arith.mulf %[[SLOPE]], %[[F8]]
// CHECK-COUNT-4: math.fma %[[SLOPE]],
//     %u, %h = tile.map %x at (%row, %col) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       %first = tile.first_column %j
//       %d = arith.subi %first, %i : index
//       %d32 = arith.index_cast %d : index to i32
//       %f = arith.sitofp %d32 : i32 to f32
//       %rest = arith.mulf %slope, %f : f32
//       %c = arith.subi %j, %first : index
//       %c32 = arith.index_cast %c : index to i32
//       %column = arith.sitofp %c32 : i32 to f32
//       %r = math.fma %slope, %column, %s : f32
//       tile.yield %r, %rest : f32, f32
//     } : !acc, !part
// The maximum stays in its lane until it is combined.
// CHECK-NOT: shfl
// CHECK: arith.maxnumf %[[E0]], %[[E2]]
// CHECK: arith.maxnumf %[[E1]], %[[E3]]
// CHECK: %[[L0:.*]] = arith.maxnumf
// CHECK: %[[S0:.*]] = arith.addf %{{.*}}, %[[H0]]
// CHECK: arith.addf %{{.*}}, %[[H8]]
// CHECK: %[[X:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[S0]],
// CHECK: %[[X1:.*]] = arith.maxnumf %[[S0]], %[[X]]
// CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"(%{{.*}}, %[[X1]],
// CHECK: %[[M0:.*]] = arith.maxnumf %[[X1]],
// CHECK-COUNT-2: shfl.sync.bfly.f32
//     %local = tile.row_reduce max %u : !acc -> !part
//     %sum = arith.addf %local, %h : !part
//     %m = tile.combine max %sum : !part -> !row
// A row's value in its lanes, and a lane's in its columns: the same registers.
// CHECK: %[[O0:.*]] = arith.subf %[[H0]], %[[M0]]
// CHECK: %[[O8:.*]] = arith.subf %[[H8]], %
// CHECK-COUNT-2: arith.addf %{{.*}}, %[[O0]]
// CHECK-COUNT-2: arith.addf %{{.*}}, %[[O8]]
// CHECK-COUNT-2: arith.addf %{{.*}}, %[[O0]]
// CHECK-COUNT-2: arith.addf %{{.*}}, %[[O8]]
//     %same = tile.broadcast %m : !row -> !part
//     %offset = arith.subf %h, %same : !part
//     %wide = tile.broadcast %offset : !part -> !acc
//     %y = arith.addf %u, %wide : !acc
//     tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
//     tile.store %m, %lse[%c0, %c0, %c0] limit %n : !row, !lse

// The f32 of a distance's magnitude: one conversion of the distance, by way of 32 bits; the magnitudes are those of sums.
// CHECK-LABEL: gpu.func @magnitude
// CHECK: %[[D:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK: %[[D32:.*]] = arith.index_cast %[[D]] : index to i32
// CHECK: %[[F:.*]] = arith.sitofp %[[D32]] : i32 to f32
// CHECK-NOT: arith.sitofp
// CHECK: math.absf %[[F]] : f32
// CHECK-NOT: arith.sitofp
// CHECK: %[[NEXT:.*]] = arith.addf %[[F]], %{{.*}} : f32
// CHECK-NEXT: math.absf %[[NEXT]] : f32
// CHECK-NOT: arith.sitofp
// CHECK: gpu.return
// VARY magnitude
//     %x = arith.constant dense<2.0> : !acc
//     %y = tile.map %x at (%row, %col) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       %d = arith.subi %i, %j : index
//       %size = math.absi %d : index
//       %size64 = arith.index_cast %size : index to i64
//       %f = arith.sitofp %size64 : i64 to f32
//       tile.yield %f : f32
//     } : !acc
//     tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o

// A maximum of bits: of signed integers, in two chains.
// CHECK-LABEL: gpu.func @max_of_bits
// CHECK: %[[A:.*]] = arith.bitcast %[[X0:.*]] : f32 to i32
// CHECK: %[[B:.*]] = arith.bitcast %[[X4:.*]] : f32 to i32
// CHECK: %[[AB:.*]] = arith.maxsi %[[A]], %[[B]] : i32
// CHECK: %[[MOST:.*]] = arith.bitcast %[[AB]] : i32 to f32
// CHECK-COUNT-5: arith.maxsi
// CHECK-NOT: arith.max
// VARY max_of_bits
//     %zero = arith.constant dense<0.0> : !acc
//     %x = tile.map %zero at (%c0, %c0) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       tile.yield %fill : f32
//     } : !acc
//     %local = tile.row_reduce max_of_bits %x : !acc -> tensor<64xf32, #tile.lane_partial>
//     %m = tile.combine %local : tensor<64xf32, #tile.lane_partial> -> tensor<64xf32, #tile.row>
//     tile.store %m, %lse[%c0, %c0, %c0] limit %n : tensor<64xf32, #tile.row>, memref<?x1x?xf32, strided<[?, ?, 1]>>

// Whether all elements are within a limit: the greatest of the sums of two magnitudes each, the first and the last, the
// second and the last but one, ..., as integers in two chains. A NaN is the greatest; the comparison is false for it; a
// vote.
// CHECK-LABEL: gpu.func @within
// CHECK: %[[A:.*]] = llvm.intr.fabs(%[[X0:.*]])
// CHECK: %[[H:.*]] = llvm.intr.fabs(%[[X7:.*]])
// CHECK: %[[AH:.*]] = arith.addf %[[A]], %[[H]] : f32
// CHECK: %[[S0:.*]] = arith.bitcast %[[AH]] : f32 to i32
// CHECK: %[[B:.*]] = llvm.intr.fabs(
// CHECK: %[[G:.*]] = llvm.intr.fabs(
// CHECK: %[[BG:.*]] = arith.addf %[[B]], %[[G]] : f32
// CHECK: %[[S1:.*]] = arith.bitcast %[[BG]] : f32 to i32
// CHECK: %[[CF:.*]] = arith.addf
// CHECK: %[[S2:.*]] = arith.bitcast %[[CF]] : f32 to i32
// CHECK: %[[M0:.*]] = arith.maxsi %[[S0]], %[[S2]] : i32
// CHECK: %[[DE:.*]] = arith.addf
// CHECK: %[[S3:.*]] = arith.bitcast %[[DE]] : f32 to i32
// CHECK: %[[M1:.*]] = arith.maxsi %[[S1]], %[[S3]] : i32
// CHECK: %[[M:.*]] = arith.maxsi %[[M0]], %[[M1]] : i32
// CHECK: %[[MOST:.*]] = arith.bitcast %[[M]] : i32 to f32
// CHECK: %[[IS:.*]] = arith.cmpf ole, %[[MOST]], %{{.*}} : f32
// CHECK: %[[ALL:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.all.sync"(%{{.*}}, %[[IS]])
// CHECK: scf.if %[[ALL]]
// VARY within
//     %zero = arith.constant dense<0.0> : !acc
//     %x = tile.map %zero at (%c0, %c0) {
//     ^bb0(%s: f32, %i: index, %j: index):
//       tile.yield %fill : f32
//     } : !acc
//     %is = tile.all_within %x {limit = 0.5 : f32} : !acc
//     scf.if %is {
//       tile.store %x, %o[%c0, %c0, %c0] limit %n : !acc, !o
//     }
