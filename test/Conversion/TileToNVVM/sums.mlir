// RUN: flashc-opt %s --split-input-file --convert-tile-to-nvvm | FileCheck %s
// RUN: sed s/bf16/f16/g %s | flashc-opt --split-input-file --convert-tile-to-nvvm | FileCheck %s --check-prefix=F16

!p = tensor<64x32xbf16, #tile.operand_a>
!summed = tensor<64x72xf32, #tile.acc>
!columns = tensor<64x64xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!ring = !tile.ring<1, 32, 64, bf16>
!slot = !tile.slot<32, 64, bf16>
!ones = !tile.slot<16, 64, bf16>

// Shared memory: V 32 rows x 128 bytes, the ones 16 x 128 behind it, two barriers; 1024 to align.
// CHECK-LABEL: gpu.func @sums
// CHECK-SAME: flashc.shared_memory = 7184 : i64
gpu.module @kernels {
  gpu.func @sums(%p: f32, %out: memref<?x1x?x64xbf16, strided<[?, ?, ?, 1]>>, %lse: memref<?x1x?xf32, strided<[?, ?, 1]>>, %n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %vring = tile.alloc_ring : !ring
    // The ones lie behind the slots and in front of the barriers; a slot is the address field of a descriptor.
    // CHECK: %[[BASE:.*]] = arith.andi %{{.*}}, %c-1024_i32
    // CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
    // CHECK: %[[GROUP:.*]] = llvm.inline_asm has_side_effects "redux.sync.or.b32
    // CHECK: %[[INGROUP:.*]] = arith.andi %[[THREAD]], %c127_i32
    // CHECK: arith.addi %[[BASE]], %c6144_i32
    // CHECK: arith.addi %[[BASE]], %c6152_i32
    // CHECK: %[[ADDRESS:.*]] = arith.addi %[[BASE]], %c4096_i32
    // CHECK: %[[UNITS:.*]] = arith.shrui %[[ADDRESS]], %c4_i32
    // CHECK: %[[FIELD:.*]] = arith.andi %[[UNITS]], %c16383_i32
    // CHECK: %[[ONES:.*]] = arith.extui %[[FIELD]] : i32 to i64
    %ones = tile.alloc_slot ones : !ones
    // Warpgroup 0 writes them before the CTA synchronises, 16 bytes a thread; 1065369472 is 0x3F803F80, a pair of ones in
    // bf16, and 1006648320 is 0x3C003C00, a pair in f16.
    // CHECK: "fence.mbarrier_init.release.cluster;"
    // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[GROUP]], %c0_i32{{.*}} : i32
    // CHECK-NEXT: scf.if %[[FIRST]] {
    // CHECK: %[[AT:.*]] = arith.addi %[[BASE]], %c4096_i32
    // CHECK: %[[MINE:.*]] = arith.muli %[[INGROUP]], %c16_i32
    // CHECK: %[[TO:.*]] = arith.addi %[[AT]], %[[MINE]]
    // CHECK: %[[PAIR:.*]] = arith.constant 1065369472 : i32
    // CHECK-NEXT: llvm.inline_asm has_side_effects "st.shared.v4.b32 [$0], {$1, $1, $1, $1};", "r,r,~{memory}" %[[TO]], %[[PAIR]]
    // CHECK-NEXT: "fence.proxy.async.shared::cta;", "~{memory}" : () -> ()
    // CHECK-NEXT: }
    // CHECK-NEXT: "bar.sync 0;"
    // F16: %[[PAIR:.*]] = arith.constant 1006648320 : i32
    // F16-NEXT: "st.shared.v4.b32 [$0], {$1, $1, $1, $1};{{.*}} %{{.*}}, %[[PAIR]]
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : tensor<64x32xf32, #tile.acc>
      %a = tile.to_operand_a %x : tensor<64x32xf32, #tile.acc> -> !p
      %zero = arith.constant dense<0.0> : !summed
      %v = tile.wait %vring[%c0] : !ring -> !slot
      // Two steps over the 32 keys. B has 72 columns: its descriptor's leading offset (bits 16 to 29) leads to the ones, from
      // 16 rows further on (128 units of 16 bytes) in the second step, where it is that much shorter.
      // CHECK: "wgmma.fence.sync.aligned;"
      // CHECK-NEXT: %[[DISTANCE:.*]] = arith.subi %[[ONES]], %[[V:.*]] : i64
      // CHECK-NEXT: %[[C16:.*]] = arith.constant 16 : i64
      // CHECK-NEXT: %[[LEADING:.*]] = arith.shli %[[DISTANCE]], %[[C16]] : i64
      // CHECK-NEXT: %[[B0:.*]] = arith.addi %[[V]], %[[LEADING]] : i64
      // CHECK-NEXT: %[[FIELDS0:.*]] = arith.constant 4611686293305294848 : i64
      // CHECK-NEXT: %[[B:.*]] = arith.addi %[[B0]], %[[FIELDS0]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16 {$0, {{.*}}, $35}, {$72, $73, $74, $75}, $76, p, 1, 1, 1;
      // CHECK-SAME: %[[B]] : (
      // CHECK: %[[DISTANCE:.*]] = arith.subi %[[ONES]], %[[V]] : i64
      // CHECK: %[[LEADING:.*]] = arith.shli %[[DISTANCE]],
      // CHECK: %[[B0:.*]] = arith.addi %[[V]], %[[LEADING]] : i64
      // CHECK-NEXT: %[[FIELDS1:.*]] = arith.constant 4611686293296906368 : i64
      // CHECK-NEXT: arith.addi %[[B0]], %[[FIELDS1]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n72k16
      // CHECK-NOT: wgmma.mma_async
      // F16-COUNT-2: wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16
      %t = tile.mma_async %a, %v ones %ones : !ones into %zero : !summed : !p, !slot -> !tile.token<!summed>
      %o = tile.mma_wait %t : !tile.token<!summed> -> !summed
      tile.release %v : !slot
      // The last four of a thread's 36 elements are sums, all of its two rows.
      // CHECK: "wgmma.wait_group.sync.aligned 0;"
      // CHECK: %[[X0:.*]] = llvm.extractvalue %{{.*}}[0]
      // CHECK: %[[X2:.*]] = llvm.extractvalue %{{.*}}[2]
      // CHECK: %[[X31:.*]] = llvm.extractvalue %{{.*}}[31]
      // CHECK: %[[ROW0:.*]] = llvm.extractvalue %{{.*}}[32]
      // CHECK: %[[ROW8:.*]] = llvm.extractvalue %{{.*}}[34]
      // CHECK: arith.mulf %[[X0]], %[[ROW0]]
      // CHECK: arith.mulf %[[X2]], %[[ROW8]]
      // CHECK: arith.mulf %[[X31]], %[[ROW8]]
      // CHECK-NOT: arith.mulf
      %columns, %sums = tile.split_sums %o : !summed -> !columns, !row
      %y = tile.scale_rows %columns, %sums : !columns, !row
      tile.store %y, %out[%c0, %c0, %c0] limit %n : !columns, memref<?x1x?x64xbf16, strided<[?, ?, ?, 1]>>
      tile.store %sums, %lse[%c0, %c0, %c0] limit %n : !row, memref<?x1x?xf32, strided<[?, ?, 1]>>
    }
    gpu.return
  }
}

// -----

// V of 128 columns, two panels of 32 rows (256 units of 16 bytes): the first is a product of its own; the ones stand behind
// the second.
!p = tensor<64x32xbf16, #tile.operand_a>
!row = tensor<64xf32, #tile.row>
!ones = !tile.slot<16, 64, bf16>
gpu.module @wide {
  // CHECK-LABEL: gpu.func @wide_sums
  gpu.func @wide_sums(%out: memref<?x1x?xf32, strided<[?, ?, 1]>>, %n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %vring = tile.alloc_ring : !tile.ring<1, 32, 128, bf16>
    %ones = tile.alloc_slot ones : !ones
    // CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %c8192_i32
    // CHECK-NEXT: %{{.*}} = arith.constant 4 : i32
    // CHECK-NEXT: %[[UNITS:.*]] = arith.shrui %[[AT]],
    // CHECK: %[[FIELD:.*]] = arith.andi %[[UNITS]],
    // CHECK: %[[ONES:.*]] = arith.extui %[[FIELD]] : i32 to i64
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : tensor<64x32xf32, #tile.acc>
      %a = tile.to_operand_a %x : tensor<64x32xf32, #tile.acc> -> !p
      %zero = arith.constant dense<0.0> : tensor<64x136xf32, #tile.acc>
      %v = tile.wait %vring[%c0] : !tile.ring<1, 32, 128, bf16> -> !tile.slot<32, 128, bf16>
      // CHECK: "wgmma.fence.sync.aligned;"
      // CHECK: %[[FIELDS:.*]] = arith.constant 4611686293322072064 : i64
      // CHECK-NEXT: %[[B:.*]] = arith.addi %[[V:.*]], %[[FIELDS]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0, {{.*}}, $31}, {$64, $65, $66, $67}, $68, p, 1, 1, 1;
      // CHECK-SAME: %[[B]] : (
      // CHECK: %[[DISTANCE:.*]] = arith.subi %[[ONES]], %[[V]] : i64
      // CHECK: %[[LEADING:.*]] = arith.shli %[[DISTANCE]],
      // CHECK: %[[B0:.*]] = arith.addi %[[V]], %[[LEADING]] : i64
      // 2^62 + 64 * 2^32 + 256 - 256 * 2^16
      // CHECK-NEXT: %[[FIELDS:.*]] = arith.constant 4611686293288517888 : i64
      // CHECK-NEXT: arith.addi %[[B0]], %[[FIELDS]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16 {$0, {{.*}}, $35}, {$72, $73, $74, $75}, $76, p, 1, 1, 1;
      // The second step: 128 units further.
      // CHECK: wgmma.mma_async.sync.aligned.m64n64k16
      // CHECK: %[[FIELDS:.*]] = arith.constant 4611686293280129408 : i64
      // CHECK-NEXT: arith.addi %{{.*}}, %[[FIELDS]] : i64
      // CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n72k16
      // CHECK-NOT: wgmma.mma_async
      %t = tile.mma_async %a, %v ones %ones : !ones into %zero : tensor<64x136xf32, #tile.acc> : !p, !tile.slot<32, 128, bf16> -> !tile.token<tensor<64x136xf32, #tile.acc>>
      %o = tile.mma_wait %t : !tile.token<tensor<64x136xf32, #tile.acc>> -> tensor<64x136xf32, #tile.acc>
      tile.release %v : !tile.slot<32, 128, bf16>
      // CHECK: "wgmma.wait_group.sync.aligned 0;"
      %columns, %sums = tile.split_sums %o : tensor<64x136xf32, #tile.acc> -> tensor<64x128xf32, #tile.acc>, !row
      tile.store %sums, %out[%c0, %c0, %c0] limit %n : !row, memref<?x1x?xf32, strided<[?, ?, 1]>>
    }
    gpu.return
  }
}
