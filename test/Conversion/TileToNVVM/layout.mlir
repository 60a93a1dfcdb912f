// RUN: flashc-opt %s --convert-tile-to-nvvm | FileCheck %s

// Shared memory of any number of each: the ring first, whose tiles begin at multiples of 1024 bytes; 24 and 8 columns of
// 32 bytes; two barriers; 1024 to align.
// CHECK-LABEL: gpu.func @layout
// CHECK-SAME: flashc.shared_memory = 10256 : i64
gpu.module @kernels {
  gpu.func @layout() kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24,
                                                 consumer_registers = 240, overlap = false, ping_pong = false>} {
    // CHECK: %[[BASE:.*]] = arith.andi %{{.*}}, %c-1024_i32
    // The full and the empty barrier of the ring, which is at 0, and the second columns.
    // CHECK: arith.addi %[[BASE]], %c9216_i32
    // CHECK: arith.addi %[[BASE]], %c9224_i32
    // CHECK: arith.addi %[[BASE]], %c8960_i32
    // Both have their numbers written.
    // CHECK: "{{.*}} setp.lt.u32 p, $2, 24;
    // CHECK: arith.addi %[[BASE]], %c8960_i32
    // CHECK: "{{.*}} setp.lt.u32 p, $2, 8;
    %first = tile.alloc_slot columns : !tile.slot<24, 16, bf16>
    %ring = tile.alloc_ring : !tile.ring<1, 64, 64, bf16>
    %second = tile.alloc_slot columns : !tile.slot<8, 16, bf16>
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
    }
    gpu.return
  }
}
