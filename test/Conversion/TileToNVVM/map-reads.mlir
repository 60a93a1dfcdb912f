// RUN: %vary %s | flashc-opt --convert-tile-to-nvvm --split-input-file | FileCheck %s

!acc = tensor<64x16xf32, #tile.acc>
!o = memref<1x1x?x16xf32, strided<[?, ?, ?, 1]>>
!bias = memref<?x?xbf16, strided<[?, 1]>>
!words = memref<?x?xf32, strided<[?, 1]>>
!bytes = memref<?x?xi8, strided<[?, 1]>>
!flags = memref<?xi1, strided<[1]>>
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @NAME(%o: !o, %bias: !bias, %words: !words, %bytes: !bytes, %flags: !flags, %n: index, %row: index,
                  %col: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<2.0> : !acc
      %y = tile.map %x at (%row, %col) {
      ^bb0(%s: f32, %i: index, %j: index):
        tile.yield %s : f32 // BODY
      } : !acc
      tile.store %y, %o[%c0, %c0, %c0] limit %n : !acc, !o
    }
    gpu.return
  }
}

// An array of rows is read in pairs of columns where the addresses of both rows' first element are multiples of four, in
// every thread of the warp. Both branches give a register for every pair.
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
// VARY in_pairs
//     %inside = arith.minsi %i, %n : index
//     %b = memref.load %bias[%inside, %j] : !bias
//     %f = arith.extf %b : bf16 to f32
//     %t = arith.addf %s, %f : f32
//     tile.yield %t : f32

// What only the key decides is read once for both rows.
// CHECK-LABEL: gpu.func @of_the_key
// CHECK:         %[[ALL:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.all.sync"
// CHECK-NOT:     vote.all
// CHECK:         %[[R:.*]]:2 = scf.if %[[ALL]] -> (vector<2xf32>, vector<2xf32>) {
// CHECK-COUNT-2:   llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK:         } else {
// CHECK-COUNT-4:   llvm.load %{{.*}} : !llvm.ptr<1> -> f32
// CHECK-NOT:       llvm.load
// CHECK:         }
// CHECK:         llvm.extractelement %[[R]]#0[%c0
// CHECK:         llvm.extractelement %[[R]]#0[%c1
// CHECK:         llvm.extractelement %[[R]]#0[%c0
// CHECK:         llvm.extractelement %[[R]]#0[%c1
// CHECK:         llvm.extractelement %[[R]]#1[%c0
// VARY of_the_key
//     %b = memref.load %words[%n, %j] : !words
//     %t = arith.addf %s, %b : f32
//     tile.yield %t : f32

// Two bytes are one number of 16 bits, the first in its lower half; flags of it are tested where they are. In masked tiles
// they are kept inside their array, and read in pairs if that moves neither the first of the thread's columns nor the last.
// CHECK-LABEL: gpu.func @bytes
// CHECK-SAME:    %[[LAST:[a-z0-9]*]]: index, %{{[a-z0-9]*}}: index, %{{[a-z0-9]*}}: index)
// CHECK:         %[[BYTES:.*]]:4 = scf.if %{{.*}} -> (i16, i16, i16, i16) {
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> i16
// CHECK:         } else {
// CHECK:           %[[LOW:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> i8
// CHECK:           %[[HIGH:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> i8
// CHECK:           %[[LOW16:.*]] = arith.extui %[[LOW]] : i8 to i16
// CHECK:           %[[HIGH16:.*]] = arith.extui %[[HIGH]] : i8 to i16
// CHECK:           %[[SHIFTED:.*]] = arith.shli %[[HIGH16]], %c8
// CHECK:           arith.ori %[[LOW16]], %[[SHIFTED]]
// CHECK-COUNT-6:   llvm.load %{{.*}} : !llvm.ptr<1> -> i8
// CHECK:         }
// CHECK:         arith.trunci %[[BYTES]]#0 : i16 to i8
// CHECK:         %[[SECOND:.*]] = arith.shrui %[[BYTES]]#0, %c8
// CHECK:         arith.trunci %[[SECOND]] : i16 to i8
// CHECK:         %[[ALIGNED:[0-9]+]] = arith.cmpi eq, {{.*}} : i32
// CHECK:         %[[MIN:.*]] = arith.minsi %[[J:.*]], %[[LAST]]
// CHECK:         %[[MAX:.*]] = arith.maxsi %[[MIN]]
// CHECK:         %[[SAME:.*]] = arith.cmpi eq, %[[MAX]], %[[J]]
// CHECK:         %[[FIRST:.*]] = arith.andi %[[ALIGNED]], %[[SAME]]
// CHECK:         %[[J9:.*]] = arith.addi %[[J]], %c9
// CHECK:         arith.minsi %[[J9]], %[[LAST]]
// CHECK:         %[[BOTH:.*]] = arith.andi %[[FIRST]], %{{.*}} : i1
// CHECK:         %[[ALL:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.all.sync"(%{{.*}}, %[[BOTH]])
// CHECK:         %[[FLAGS:.*]]:2 = scf.if %[[ALL]] -> (i16, i16) {
// CHECK-NOT:       arith.minsi
// CHECK-COUNT-2:   llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> i16
// CHECK:         } else {
// CHECK:           arith.minsi
// CHECK-COUNT-4:   llvm.load %{{.*}} : !llvm.ptr<1> -> i1
// CHECK:         }
// CHECK:         %[[WORD:.*]] = arith.extui %[[FLAGS]]#0 : i16 to i32
// CHECK:         llvm.inline_asm {{.*}}and.b32 t, $1, $2;{{.*}} %[[WORD]], %c1_i32
// CHECK:         llvm.inline_asm {{.*}}and.b32 t, $1, $2;{{.*}} %{{.*}}, %c256_i32
// VARY bytes
//     %b = memref.load %bytes[%i, %j] : !bytes
//     %f = arith.sitofp %b : i8 to f32
//     %min = arith.minsi %j, %n : index
//     %inside = arith.maxsi %min, %c0 : index
//     %keep = memref.load %flags[%inside] : !flags
//     %t = arith.select %keep, %s, %f : f32
//     tile.yield %t : f32

// One by one: what is read at another place than j, or in a row that j decides; what is kept inside an array of words, or
// inside what differs along a row.
// Columns are constants behind the thread's first one, as LLVM is told.
// CHECK-LABEL: gpu.func @one_by_one
// CHECK-SAME:    %[[COL:[a-z0-9]*]]: index)
// CHECK-NOT:     vote.all
// CHECK:         %[[J:.*]] = arith.addi %[[COL]], %{{.*}} : index
// CHECK:         arith.addi %[[J]], %c1{{.*}} overflow<nsw> : index
// CHECK:         arith.addi %[[J]], %c9{{.*}} overflow<nsw> : index
// VARY one_by_one
//     %distance = arith.subi %n, %j : index
//     %inside = arith.minsi %j, %distance : index
//     %next = arith.addi %j, %row : index
//     %a = memref.load %words[%i, %inside] : !words
//     %b = memref.load %words[%j, %i] : !words
//     %least = arith.minsi %j, %n : index
//     %k = memref.load %words[%i, %least] : !words
//     %c = memref.load %words[%j, %j] : !words
//     %d = memref.load %words[%i, %next] : !words
//     %t = arith.addf %s, %a : f32
//     %u = arith.addf %t, %b : f32
//     %v = arith.addf %u, %c : f32
//     %vk = arith.addf %v, %k : f32
//     %z = arith.addf %vk, %d : f32
//     tile.yield %z : f32
