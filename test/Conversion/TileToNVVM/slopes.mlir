// RUN: flashc-opt %s --convert-tile-to-nvvm | FileCheck %s
// RUN: sed s/bf16/f16/g %s | flashc-opt --convert-tile-to-nvvm | FileCheck %s --check-prefix=F16

// A step of depth more: slopes of rows, written once, times numbers of columns, written at the start.

!s = tensor<64x144xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!ring = !tile.ring<1, 144, 16, bf16>
!qring = !tile.ring<1, 64, 16, bf16, private true>
!slopes = !tile.slot<64, 16, bf16>
!columns = !tile.slot<144, 16, bf16>
// Shared memory: Q 2 x 64 rows x 128 bytes, K 144 x 128, slopes 2 x 64 x 32, columns 144 x 32, six barriers; 1024 to align.
// CHECK-LABEL: gpu.func @slopes
// CHECK-SAME: flashc.shared_memory = 44592 : i64
gpu.module @kernels {
  gpu.func @slopes(%slope: f32, %lse: memref<?x1x?xf32, strided<[?, ?, 1]>>, %n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    // CHECK: %[[BASE:.*]] = arith.andi %{{.*}}, %c-1024_i32
    // CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
    // CHECK: %[[GROUP:.*]] = llvm.inline_asm has_side_effects "redux.sync.or.b32
    // CHECK: %[[INGROUP:.*]] = arith.andi %[[THREAD]], %c127_i32
    // CHECK: %[[LANECOL:.*]] = arith.andi %{{.*}}, %c3_i32
    // CHECK: %[[ROW:.*]] = arith.addi
    // The slopes of consumer w are 2048 w behind the slots, the columns behind all slopes.
    // CHECK: %[[W:.*]] = arith.addi %[[GROUP]], %c-1_i32
    // CHECK: %[[MINE:.*]] = arith.muli %[[W]], %c2048_i32
    // CHECK: %[[OFFSET:.*]] = arith.addi %[[MINE]], %c34816_i32
    // CHECK: %[[ADDRESS:.*]] = arith.addi %[[BASE]], %[[OFFSET]]
    // CHECK: %[[UNITS:.*]] = arith.shrui %[[ADDRESS]], %c4_i32
    // CHECK: %[[FIELD:.*]] = arith.andi %[[UNITS]], %c16383_i32
    // CHECK: %[[SLOPES:.*]] = arith.extui %[[FIELD]] : i32 to i64
    // CHECK: arith.addi %[[BASE]], %c38912_i32
    // CHECK: %[[COLUMNS:.*]] = arith.extui
    %slopes = tile.alloc_slot slopes : !slopes
    %columns = tile.alloc_slot columns : !columns
    // Each thread of warpgroup 0 writes rows n and n + 128, the latter below 144: 64 n and n / 32, n / 32 and 0.
    // CHECK: "fence.mbarrier_init.release.cluster;"
    // CHECK: %[[BYTES:.*]] = arith.muli %[[INGROUP]], %c32_i32
    // CHECK-NEXT: %[[AT:.*]] = arith.addi %{{.*}}, %[[BYTES]] : i32
    // CHECK-NEXT: %[[N:.*]] = arith.uitofp %[[INGROUP]] : i32 to f32
    // CHECK-NEXT: %[[C64:.*]] = arith.constant 6.400000e+01 : f32
    // CHECK-NEXT: %[[HIGH:.*]] = arith.mulf %[[N]], %[[C64]] : f32
    // CHECK-NEXT: %[[C32:.*]] = arith.constant 3.125000e-02 : f32
    // CHECK-NEXT: %[[LOW:.*]] = arith.mulf %[[N]], %[[C32]] : f32
    // CHECK-NEXT: %[[PAIR:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[LOW]], %[[HIGH]]
    // CHECK: %[[THIRD:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %{{.*}}, %[[LOW]]
    // CHECK: "{{.*}} setp.lt.u32 p, $2, 144;{{.*}} @p st.shared.v4.b32 [$0], {$1, $3, $4, $4};{{.*}} @p st.shared.v4.b32 [$0+16], {$1, $3, $4, $4};
    // CHECK-SAME: %[[AT]], %[[PAIR]], %[[INGROUP]], %[[THIRD]]
    // CHECK: %[[NEXT:.*]] = arith.addi %[[INGROUP]], %c128_i32
    // CHECK: "{{.*}} setp.lt.u32 p, $2, 144;
    // CHECK-SAME: %[[NEXT]]
    // CHECK-NEXT: "fence.proxy.async.shared::cta;", "~{memory}" : () -> ()
    // CHECK-NEXT: }
    // CHECK-NEXT: "bar.sync 0;"
    // F16: cvt.rn.f16x2.f32
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %rows = tile.rows at(%c0) {
      ^bb1(%i: index):
        tile.yield %slope : f32
      } : !row
      // hi = slope / 64, mid of what that leaves, times 32, lo of the rest; every second lane writes zeros, the upper two of
      // four the row eight below. All warps have come before anything is written, and when it is.
      // CHECK: "setmaxnreg.inc
      // CHECK: %[[SECOND:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
      // CHECK: %[[HALF:.*]] = arith.andi %[[LANECOL]], %c1_i32
      // CHECK: %[[SLOPE:.*]] = arith.select %[[SECOND]], %{{.*}}, %{{.*}} : f32
      // CHECK: arith.constant 1.562500e-02 : f32
      // CHECK: %[[HI16:.*]] = arith.truncf %{{.*}} : f32 to bf16
      // CHECK-NEXT: %[[HI:.*]] = arith.extf %[[HI16]]
      // CHECK-NEXT: %[[MINUS:.*]] = arith.constant -6.400000e+01 : f32
      // CHECK-NEXT: %[[REST:.*]] = math.fma %[[HI]], %[[MINUS]], %[[SLOPE]] : f32
      // CHECK-NEXT: %[[C32:.*]] = arith.constant 3.200000e+01 : f32
      // CHECK-NEXT: %[[X:.*]] = arith.mulf %[[REST]], %[[C32]] : f32
      // CHECK-NEXT: %[[MID16:.*]] = arith.truncf %[[X]] : f32 to bf16
      // CHECK-NEXT: %[[MID:.*]] = arith.extf %[[MID16]]
      // CHECK-NEXT: %[[MINUS:.*]] = arith.constant -3.125000e-02 : f32
      // CHECK-NEXT: %[[REST2:.*]] = math.fma %[[MID]], %[[MINUS]], %[[REST]] : f32
      // CHECK: %[[LO16:.*]] = arith.truncf
      // CHECK-NEXT: %[[LO:.*]] = arith.extf %[[LO16]]
      // CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[HALF]], %{{.*}} : i32
      // CHECK: %[[PAIR:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[MID]], %[[HI]]
      // CHECK-NEXT: %[[PAIR0:.*]] = arith.select %[[IS_FIRST]], %[[PAIR]], %[[ZERO:.*]] : i32
      // CHECK-NEXT: %[[THIRD:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %{{.*}}, %[[LO]]
      // CHECK-NEXT: %[[THIRD0:.*]] = arith.select %[[IS_FIRST]], %[[THIRD]], %[[ZERO]] : i32
      // CHECK: %[[MY_ROW:.*]] = arith.addi %[[ROW]], %{{.*}} : i32
      // CHECK: %[[BYTES:.*]] = arith.muli %[[MY_ROW]], %c32_i32
      // CHECK: %[[CHUNK:.*]] = arith.muli %[[HALF]], %c16_i32
      // CHECK: %[[OFFSET:.*]] = arith.addi %[[BYTES]], %[[CHUNK]] : i32
      // CHECK: %[[TO:.*]] = arith.addi %{{.*}}, %[[OFFSET]] : i32
      // CHECK: "bar.sync $0, 128;"
      // CHECK-NEXT: "st.shared.v4.b32 [$0], {$1, $2, $3, $3};", "r,r,r,r,~{memory}" %[[TO]], %[[PAIR0]], %[[THIRD0]], %[[ZERO]]
      // CHECK: "fence.proxy.async.shared::cta;\0A bar.sync $0, 128;"
      // F16-COUNT-3: arith.truncf %{{.*}} : f32 to f16
      tile.store_slopes %rows into %slopes : !row, !slopes
      %q = tile.wait %qring[%c0] : !qring -> !tile.slot<64, 16, bf16>
      %k = tile.wait %kring[%c0] : !ring -> !tile.slot<144, 16, bf16>
      // Behind the one step over d = 16. Layout type 3 (32 bytes), eight rows are 256 bytes: 3 * 2^62 + 16 * 2^32 + 2^16.
      // CHECK: wgmma.mma_async.sync.aligned.m64n144k16.f32.bf16.bf16 {$0, {{.*}}, $71}, $72, $73, p, 1, 1, 0, 0;
      // CHECK: %[[FIELDS:.*]] = arith.constant -4611685949707845632 : i64
      // CHECK-NEXT: %[[A:.*]] = arith.addi %[[SLOPES]], %[[FIELDS]] : i64
      // CHECK-NEXT: %[[FIELDS:.*]] = arith.constant -4611685949707845632 : i64
      // CHECK-NEXT: %[[B:.*]] = arith.addi %[[COLUMNS]], %[[FIELDS]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n144k16.f32.bf16.bf16 {$0, {{.*}}, $71}, $144, $145, p, 1, 1, 0, 0;
      // CHECK-SAME: %[[A]], %[[B]] : (
      // CHECK-NOT: wgmma.mma_async
      // CHECK: wgmma.commit_group
      // F16-COUNT-2: wgmma.mma_async.sync.aligned.m64n144k16.f32.f16.f16
      %t = tile.mma_async %q, %k slopes %slopes times %columns : !slopes, !columns transpose_b : !tile.slot<64, 16, bf16>, !tile.slot<144, 16, bf16> -> !tile.token<!s>
      %o = tile.mma_wait %t : !tile.token<!s> -> !s
      tile.release %q : !tile.slot<64, 16, bf16>
      tile.release %k : !tile.slot<144, 16, bf16>
      %max = tile.row_reduce max %o : !s -> !row
      tile.store %max, %lse[%c0, %c0, %c0] limit %n : !row, memref<?x1x?xf32, strided<[?, ?, 1]>>
    }
    gpu.return
  }
}
