// RUN: flashc-opt %s --split-input-file --convert-tile-to-nvvm --cse | FileCheck %s

// Behind the rings lie four barriers and four places of 64 bytes, where thread 0 arrives alone. Turn t has place t mod 4,
// and the phase t / 4 mod 2.
#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

// CHECK-LABEL: gpu.func @draws(
// CHECK-SAME:    %[[LIST:.*]]: !llvm.ptr<1>, %[[PLACE:.*]]: index, %[[N:.*]]: index, %[[MANY:.*]]: index
// CHECK-SAME:    flashc.shared_memory = 34112 : i64
// CHECK-COUNT-4: mbarrier.init.shared::cta.b64
// CHECK:         arith.constant 32800 : i32
// CHECK-COUNT-4: mbarrier.init.shared::cta.b64
// CHECK-NOT:     mbarrier.init.shared::cta.b64
// The producer: a loop that ends when the condition of its body fails, or at its upper bound; it may run not at all.
// CHECK:         %[[ANY:.*]] = arith.cmpi slt, %c0, %[[MANY]]
// CHECK:         scf.if %[[ANY]] -> (index) {
// CHECK:           scf.while (%[[TURN:.*]] = %c0, %[[X:.*]] = %[[N]]) : (index, index) -> (index, index) {
// CHECK:             atom.relaxed.gpu.global.add.u32 $0, [$1], 1;
// CHECK:             st.shared.u32 [$0], $1;
// CHECK:             st.shared.u32 [$0], $1;
// CHECK:             mbarrier.arrive.shared::cta.b64 _, [$0];
// CHECK:             %[[AFTER:.*]] = arith.addi %[[TURN]], %c1
// CHECK:             %[[IS_BELOW:.*]] = arith.cmpi slt, %[[AFTER]], %[[MANY]]
// CHECK:             %[[GOES_ON:.*]] = arith.andi %{{.*}}, %[[IS_BELOW]]
// CHECK:             scf.condition(%[[GOES_ON]]) %[[AFTER]], %{{.*}} : index, index
// CHECK:           } do {
// The consumers: every thread reads, and the end of the loop is the same in all of them.
// CHECK:         scf.while (%[[TURN:.*]] = %c0, %[[X:.*]] = %[[N]])
// CHECK:           %[[TURN32:.*]] = arith.index_cast %[[TURN]] : index to i32
// CHECK:           %[[AT:.*]] = arith.andi %[[TURN32]], %c3_i32
// CHECK:           %[[ROUND:.*]] = arith.shrui %[[TURN32]], %c2_i32
// CHECK:           %[[PARITY:.*]] = arith.andi %[[ROUND]], %c1_i32
// CHECK:           mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;{{.*}} %{{.*}}, %[[PARITY]]
// CHECK:           %[[EXISTS:.*]] = llvm.inline_asm {{.*}}ld.shared.u32 $0, [$1];
// CHECK:           %[[NEXT32:.*]] = llvm.inline_asm {{.*}}ld.shared.u32 $0, [$1];
// CHECK:           %[[NEXT:.*]] = arith.index_cast %[[NEXT32]] : i32 to index
// CHECK:           %[[UNIFORM:.*]] = llvm.inline_asm {{.*}}redux.sync.or.b32 $0, $1, 0xffffffff;{{.*}} %[[EXISTS]]
// CHECK:           %[[IS:.*]] = arith.cmpi ne, %[[UNIFORM]], %c0_i32
// CHECK:           %[[GOES_ON:.*]] = arith.andi %[[IS]],
// CHECK:           scf.condition(%[[GOES_ON]]) %{{.*}}, %[[NEXT]] : index, index
gpu.module @kernels {
  gpu.func @draws(%list: memref<?xi32>, %place: index, %n: index, %many: index, %out: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 128, bf16>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 1 registers(24, 240) producer {
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %n) -> index {
        %next = tile.consume %list[%place] : memref<?xi32>
        %exists = arith.cmpi ult, %next, %n : index
        tile.publish %exists, %next in %turn
        tile.repeat_if %exists
        scf.yield %next : index
      }
    } consumer {
    ^bb0(%w: index):
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %n) -> index {
        %exists, %next = tile.published %turn : index
        tile.repeat_if %exists
        scf.yield %next : index
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

// Where some numbers are for one consumer each, a place has 128 bytes. A consumer's own, here two, are behind those of all
// and of the consumers before it.
// CHECK-LABEL: gpu.func @own(
// CHECK-SAME:    flashc.shared_memory = 34368 : i64
// CHECK:         arith.constant 128 : i32
// CHECK-COUNT-6: st.shared.u32 [$0], $1;
// CHECK-NOT:     st.shared.u32
// CHECK:         mbarrier.arrive.shared::cta.b64 _, [$0];
// CHECK:         mbarrier.try_wait.parity
// CHECK:         ld.shared.u32 $0, [$1];{{.*}} %[[WORDS:.*]] : (i32) -> i32
// CHECK:         %[[SECOND:.*]] = arith.addi %[[WORDS]], %c4_i32
// CHECK:         ld.shared.u32 $0, [$1];{{.*}} %[[SECOND]] : (i32) -> i32
// CHECK:         %[[BEHIND:.*]] = arith.muli %{{.*}}, %c8_i32
// CHECK:         %[[OWN:.*]] = arith.addi %[[WORDS]], %[[BEHIND]]
// CHECK:         %[[OWN0:.*]] = arith.addi %[[OWN]], %c8_i32
// CHECK:         ld.shared.u32 $0, [$1];{{.*}} %[[OWN0]] : (i32) -> i32
// CHECK:         %[[OWN1:.*]] = arith.addi %[[OWN]], %c12_i32
// CHECK:         ld.shared.u32 $0, [$1];{{.*}} %[[OWN1]] : (i32) -> i32
gpu.module @kernels {
  gpu.func @own(%list: memref<?xi32>, %place: index, %n: index, %many: index, %out: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule} {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 128, bf16>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    tile.warp_specialize 2 registers(24, 240) producer {
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %n) -> index {
        %next = tile.consume %list[%place] : memref<?xi32>
        %exists = arith.cmpi ult, %next, %n : index
        tile.publish %exists, %next own %next, %n, %n, %next in %turn
        tile.repeat_if %exists
        scf.yield %next : index
      }
    } consumer {
    ^bb0(%w: index):
      scf.for %turn = %c0 to %many step %c1 iter_args(%x = %n, %y = %n, %z = %n) -> (index, index, index) {
        %exists, %next, %own:2 = tile.published %turn : index own of %w : index, index
        tile.repeat_if %exists
        scf.yield %next, %own#0, %own#1 : index, index, index
      }
    }
    gpu.return
  }
}
