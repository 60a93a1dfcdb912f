// The role that adds up: what consumers share goes through swizzled slots, products have A transposed, and additions are
// vectors in the order in which threads hold them. A kernel that has such needs PTX 8.1.
// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize | FileCheck %s

!shared = !tile.ring<2, 64, 128, bf16, private true>
!own = !tile.ring<1, 64, 128, bf16, private true>
!numbers = !tile.ring<2, 2, 64, f32>
!slot = !tile.slot<64, 128, bf16>
!panel = !tile.slot<64, 64, bf16>
!acc = tensor<64x64xf32, #tile.acc>

// CHECK: gpu.module @kernels [#nvvm.target<chip = "sm_90a", features = "+ptx81">]
// CHECK: gpu.func @reducer
// CHECK-SAME: flashc.threads = 384 : i32
gpu.module @kernels {
  gpu.func @reducer(%sums: memref<?x?x?x2x4096xf32, strided<[?, ?, 8192, 4096, 1]>>,
                    %array: memref<2x?x?x?xf32, strided<[?, ?, ?, 1]>>, %g: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 32, consumer_registers = 208, overlap = false, ping_pong = false>} {
    %shared = tile.alloc_ring : !shared
    %own = tile.alloc_ring : !own
    %numbers = tile.alloc_ring : !numbers
    // What is shared: four warps say that it is there, the reducer that it has been read. What the reducer reads beside a
    // consumer is empty when both have said so. One thread of the consumer says that f32 have been read.
    // CHECK-COUNT-2: mbarrier.init{{.*}} %{{.*}}, %c4_i32
    // CHECK: mbarrier.init{{.*}} %{{.*}}, %c2_i32
    // CHECK: mbarrier.init{{.*}} %{{.*}}, %c1_i32
    // CHECK: mbarrier.init{{.*}} %{{.*}}, %c1_i32
    tile.warp_specialize 1 registers(32, 208, 264) producer {
      // 2 rows of 64 f32, by one copy each.
      // CHECK: mbarrier.arrive.expect_tx{{.*}} %{{.*}}, %c512_i32
      // CHECK-COUNT-2: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];
      tile.acquire %numbers[%g] : !numbers
      tile.copy_async %array[%g, %g, %g] into %numbers[%g] : memref<2x?x?x?xf32, strided<[?, ?, ?, 1]>>, !numbers
    } consumer {
    ^bb0(%w: index):
      // The reducer is the role that is asked for first: warpgroup 2.
      // CHECK: "setmaxnreg.dec.sync.aligned.u32 264;"
      // CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, p, 1, 1, 1, 1;
      // CHECK: "wgmma.commit_group.sync.aligned;"
      // A product that goes on with one in flight: nothing has been written since.
      // CHECK-NOT: wgmma.fence
      // CHECK: wgmma.mma_async
      // CHECK: "wgmma.wait_group.sync.aligned 0;"
      // CHECK: "red.relaxed.gpu.global.add.v4.f32 [$0+0], {$1, $2, $3, $4};"
      // CHECK: "red.relaxed.gpu.global.add.v4.f32 [$0+2048], {$1, $2, $3, $4};"
      // CHECK: "red.relaxed.gpu.global.add.v4.f32 [$0+14336], {$1, $2, $3, $4};"
      // CHECK: "setmaxnreg.inc.sync.aligned.u32 208;"
      // CHECK: "ld.shared.v2.f32 {$0, $1}, [$2+256];"
      // CHECK: "ld.shared.v2.f32 {$0, $1}, [$2+480];"
      %full = tile.wait %numbers[%g] : !numbers -> !tile.slot<2, 64, f32>
      %columns = tile.read_columns %full[1] : !tile.slot<2, 64, f32> -> tensor<64xf32, #tile.col>
      %one = arith.constant dense<1.0> : !acc
      // Elements 2 and 3 are of the row below, and of the same columns as 0 and 1.
      // CHECK: arith.addf %{{.*}}, %[[COLUMN:.*]] : f32
      // CHECK: arith.addf %{{.*}}, %{{.*}} : f32
      // CHECK: arith.addf %{{.*}}, %[[COLUMN]] : f32
      %x = tile.map %one rows(%columns : tensor<64xf32, #tile.col>) at(%w, %w) {
      ^bb0(%e: f32, %r: index, %c: index, %column: f32):
        %sum = arith.addf %e, %column : f32
        tile.yield %sum : f32
      } : !acc
      // One thread releases each slot: the slot that threads read, and the slot that products read.
      // CHECK-COUNT-2: setp.eq.u32 p, $1, 0;{{.*}} @p mbarrier.arrive.shared::cta.b64 _, [$0];
      tile.release %full : !tile.slot<2, 64, f32>
      %k = tile.wait %own[%g] : !own -> !slot
      tile.release %k : !slot
      %wide = arith.constant dense<1.0> : tensor<64x128xf32, #tile.acc>
      %a = tile.to_operand_a %wide : tensor<64x128xf32, #tile.acc> -> tensor<64x128xbf16, #tile.operand_a>
      // The upper half of the word is the second element's f32.
      // CHECK: arith.shli %{{.*}}, %c16_i32
      // CHECK: arith.andi %{{.*}}, %c-65536_i32
      %again = tile.from_operand_a %a : tensor<64x128xbf16, #tile.operand_a> -> tensor<64x128xf32, #tile.acc>
      // 128 columns: eight times two blocks.
      // CHECK: mbarrier.try_wait
      // CHECK-COUNT-8: stmatrix.sync.aligned.m8n8.x4.shared.b16
      // CHECK-NOT: stmatrix
      // CHECK: fence.proxy.async.shared::cta;{{.*}}bar.warp.sync 0xffffffff;{{.*}}mbarrier.arrive.shared::cta.b64
      tile.share %a into %shared[%g] : tensor<64x128xbf16, #tile.operand_a>, !shared
      %kept = tile.all_within %again {limit = 1.0 : f32} : tensor<64x128xf32, #tile.acc>
      %used = tile.all_within %x {limit = 1.0 : f32} : !acc
    } reducer {
      %c1 = arith.constant 1 : index
      %ds = tile.wait %shared[%g] owner 0 : !shared -> !slot
      %k = tile.wait %own[%g] owner 0 : !own -> !slot
      %left = tile.panel %ds[%g] : !slot -> !panel
      %right = tile.panel %k[%c1] : !slot -> !panel
      %t = tile.mma_async %left, %right transpose_a : !panel, !panel -> !tile.token<!acc>
      %u = tile.mma_async %left, %right into %t : !tile.token<!acc> transpose_a : !panel, !panel -> !tile.token<!acc>
      %sum = tile.mma_wait %u : !tile.token<!acc> -> !acc
      tile.atomic_add %sum to %sums[%g, %g, %g, %c1] : !acc, memref<?x?x?x2x4096xf32, strided<[?, ?, 8192, 4096, 1]>>
      tile.release %ds : !slot
      tile.release %k : !slot
    }
    gpu.return
  }
}
