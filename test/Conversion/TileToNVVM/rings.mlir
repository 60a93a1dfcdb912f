// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize | FileCheck %s

// Shared memory: K 3 x 16 rows x 2 panels of 128 bytes = 12288 bytes, then Q (private, two consumers) 2 x 64 x 128 =
// 16384, then the barriers: 48 of K, 32 of Q; 1024 to align.
// CHECK-LABEL: gpu.func @rings
// CHECK-SAME: flashc.shared_memory = 29776 : i64
// CHECK-SAME: flashc.threads = 384 : i32
gpu.module @kernels {
  gpu.func @rings(%kmap: !tile.tensor_map<16 x f16>, %qmap: !tile.tensor_map<64 x f16>, %b: index, %h: index, %row: index, %g: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, kv_tile = 16, stages = 3, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = true>} {
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
      // All bytes of the slot are announced; one copy per panel of 64 columns.
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
      tile.turn_wait %w
      // CHECK: "bar.arrive $0, 256;"
      tile.turn_pass %w
      // One thread arrives for its warpgroup.
      // CHECK: setp.eq.u32 p, $1, 0;\0A @p mbarrier.arrive.shared::cta.b64 _, [$0];
      tile.release %k : !tile.slot<16, 128, f16>
    }
    gpu.return
  }
}
