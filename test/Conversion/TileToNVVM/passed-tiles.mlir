// RUN: flashc-opt %s --convert-tile-to-nvvm | FileCheck %s

// A tile passes from one consumer to another: 16 bytes of each thread at a time, and 2048 of a warpgroup. Each barrier
// counts four warps, and each warp arrives after its threads.

!acc = tensor<64x16xf32, #tile.acc>
!passed = !tile.ring<2, 64, 16, f32>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @pass(
  gpu.func @pass(%out: memref<?x?x?x16xf32>, %n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %one = arith.constant dense<1.0> : !acc
    // CHECK-COUNT-4: mbarrier.init{{.*}} %{{.*}}, %c4_i32
    %passed = tile.alloc_ring : !passed
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %first = arith.cmpi eq, %w, %c0 : index
      scf.if %first {
        // CHECK: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;
        // CHECK: "st.shared.v4.f32 [$0+0], {$1, $2, $3, $4};"
        // CHECK: "st.shared.v4.f32 [$0+2048], {$1, $2, $3, $4};"
        // CHECK-NOT: st.shared
        // CHECK: bar.warp.sync 0xffffffff;{{.*}}mbarrier.arrive.shared::cta.b64 _, [$0];
        tile.send %one into %passed[%n] : !acc, !passed
      } else {
        // CHECK: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;
        // CHECK: "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4+0];"
        // CHECK: "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4+2048];"
        // CHECK-NOT: ld.shared
        // CHECK: bar.warp.sync 0xffffffff;{{.*}}mbarrier.arrive.shared::cta.b64 _, [$0];
        %p = tile.receive %passed[%n] : !passed -> !acc
        tile.store %p, %out[%c0, %c0, %c0] limit %n : !acc, memref<?x?x?x16xf32>
      }
    }
    gpu.return
  }
}
