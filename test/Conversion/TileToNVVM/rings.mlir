// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize | FileCheck %s

// Shared memory: K 3 x 16 rows x 2 panels of 128 bytes = 12288 bytes, then Q (private, two consumers) 2 x 64 x 128 =
// 16384, then the barriers: 48 of K, 32 of Q; 1024 to align.
// CHECK-LABEL: gpu.func @rings
// CHECK-SAME: flashc.shared_memory = 29776 : i64
// CHECK-SAME: flashc.threads = 384 : i32
gpu.module @kernels {
  gpu.func @rings(%kmap: !tile.tensor_map<16 x f16>, %qmap: !tile.tensor_map<64 x f16>, %b: index, %h: index, %row: index, %g: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = true>} {
    %c0 = arith.constant 0 : index
    // CHECK-DAG: %[[KFULL:.*]] = arith.addi %{{.*}}, %c28672_i32
    // CHECK-DAG: %[[KEMPTY:.*]] = arith.addi %{{.*}}, %c28696_i32
    %kring = tile.alloc_ring : !tile.ring<3, 16, 128, f16>
    %qring = tile.alloc_ring : !tile.ring<1, 64, 64, f16, private true>
    // An empty barrier of a shared ring expects every consumer.
    // CHECK: scf.if
    // CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c2_i32
    // CHECK: "fence.mbarrier_init.release.cluster;"
    // CHECK: "bar.sync 0;"
    // CHECK: scf.if
    // CHECK: "setmaxnreg.dec.sync.aligned.u32 24;"
    tile.warp_specialize 2 registers(24, 240) producer {
      // The producer waits for the complement of the phase (g / 3) mod 2, on the slot g mod 3.
      // CHECK: %[[SLOT:.*]] = arith.remui %{{.*}}, %c3_i32
      // CHECK: %[[TURN:.*]] = arith.divui %{{.*}}, %c3_i32
      // CHECK: %[[PHASE:.*]] = arith.andi %[[TURN]], %c1_i32
      // CHECK: %[[PARITY:.*]] = arith.xori %[[PHASE]], %c1_i32
      // CHECK: mbarrier.try_wait.parity.shared::cta.b64{{.*}} %{{.*}}, %[[PARITY]]
      tile.acquire %kring[%g] : !tile.ring<3, 16, 128, f16>
      // All bytes of the slot are published; one copy per panel of 64 columns.
      // CHECK: "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}" %{{.*}}, %c4096_i32
      // CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes
      tile.copy_async %kmap[%b, %h, %row] into %kring[%g] : !tile.tensor_map<16 x f16>, !tile.ring<3, 16, 128, f16>
      tile.acquire %qring[%c0] owner 1 : !tile.ring<1, 64, 64, f16, private true>
      // CHECK-COUNT-1: cp.async.bulk.tensor.4d
      tile.copy_async %qmap[%b, %h, %row] into %qring[%c0] owner 1 : !tile.tensor_map<64 x f16>, !tile.ring<1, 64, 64, f16, private true>
    } consumer {
    // CHECK: else
    // CHECK: "setmaxnreg.inc.sync.aligned.u32 240;"
    // The last consumer gives the first one its first turn.
    // CHECK: setp.eq.u32 p, $0, 2;\0A @p bar.arrive 1, 256;
    ^bb0(%w: index):
      // CHECK: mbarrier.try_wait.parity
      %k = tile.wait %kring[%g] : !tile.ring<3, 16, 128, f16> -> !tile.slot<16, 128, f16>
      // CHECK: "bar.sync $0, 256;"
      tile.ping_pong_wait %w
      // CHECK: "bar.arrive $0, 256;"
      tile.ping_pong_pass %w
      // CHECK: %[[BARRIER:.*]] = arith.addi %{{.*}}, %c4_i32
      // CHECK: "bar.sync $0, 128;"{{.*}} %[[BARRIER]]
      tile.warpgroup_barrier
      // One thread arrives for its warpgroup.
      // CHECK: setp.eq.u32 p, $1, 0;\0A @p mbarrier.arrive.shared::cta.b64 _, [$0];
      tile.release %k : !tile.slot<16, 128, f16>
    }
    gpu.return
  }

  // A release behind elements of a tile asks them, spread evenly from the last on, a question whose answer is yes, also
  // of a NaN: the arrival cannot be made before they are known. A thread holds four elements of 64x8.
  // CHECK-LABEL: gpu.func @release_after
  // CHECK: %[[K:.*]] = llvm.inline_asm has_side_effects "redux.sync.or.b32
  // CHECK: %[[INGROUP:.*]] = arith.andi %{{.*}}, %c127_i32
  gpu.func @release_after(%g: index, %q: !tile.slot<64, 16, f16>) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %kring = tile.alloc_ring : !tile.ring<3, 8, 16, f16>
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // CHECK: %[[EMPTY:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
      %k = tile.wait %kring[%g] : !tile.ring<3, 8, 16, f16> -> !tile.slot<8, 16, f16>
      %l = tile.wait %kring[%g] : !tile.ring<3, 8, 16, f16> -> !tile.slot<8, 16, f16>
      %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 16, f16>, !tile.slot<8, 16, f16> -> !tile.token<tensor<64x8xf32, #tile.acc>>
      %s = tile.mma_wait %t : !tile.token<tensor<64x8xf32, #tile.acc>> -> tensor<64x8xf32, #tile.acc>
      // CHECK: %[[P0:.*]] = math.exp2
      // CHECK-NEXT: %[[P1:.*]] = math.exp2
      // CHECK-NEXT: %[[P2:.*]] = math.exp2
      // CHECK-NEXT: %[[P3:.*]] = math.exp2
      %p = math.exp2 %s : tensor<64x8xf32, #tile.acc>
      // CHECK-NEXT: "{\0A .reg .pred p;\0A setp.eq.u32 p, $1, 0;\0A setp.geu.and.f32 p, $2, 0f00000000, p;\0A setp.geu.and.f32 p, $3, 0f00000000, p;\0A @p mbarrier.arrive.shared::cta.b64 _, [$0];\0A }",
      // CHECK-SAME: "r,r,f,f,~{memory}" %{{.*}}, %[[INGROUP]], %[[P3]], %[[P1]] :
      tile.release %k after %p : tensor<64x8xf32, #tile.acc> {elements = 2} : !tile.slot<8, 16, f16>
      // CHECK-NEXT: "r,r,f,f,f,f,~{memory}" %{{.*}}, %[[INGROUP]], %[[P3]], %[[P2]], %[[P1]], %[[P0]] :
      tile.release %l after %p : tensor<64x8xf32, #tile.acc> {elements = 4} : !tile.slot<8, 16, f16>
    }
    gpu.return
  }
}
