// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize --split-input-file | FileCheck %s
// RUN: sed s/bf16/f16/g %s | flashc-opt --convert-tile-to-nvvm --canonicalize --split-input-file | FileCheck %s --check-prefix=F16

// A tile of 72 columns through a slot of two panels: 64 columns as four times four matrices (both halves of two blocks
// of eight columns), the last eight as two.

!acc = tensor<64x72xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<1, 64, 128, bf16, private true>
!slot = !tile.slot<64, 128, bf16>

// CHECK-LABEL: gpu.func @through_a_slot
// CHECK-SAME: (%[[MAP:.*]]: !llvm.ptr, %[[B:.*]]: index, %[[H:.*]]: index, %[[ROW:.*]]: index)
// F16-LABEL: gpu.func @through_a_slot
gpu.module @kernels {
  gpu.func @through_a_slot(%map: !map, %b: index, %h: index, %row: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    // CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
    // CHECK: %[[GROUP:.*]] = llvm.inline_asm has_side_effects "redux.sync.or.b32
    // CHECK: %[[INGROUP:.*]] = arith.andi %[[THREAD]], %c127_i32
    %ring = tile.alloc_ring : !ring
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : !acc
      // CHECK: mbarrier.try_wait.parity
      %q = tile.wait %ring[%c0] : !ring -> !slot
      // The slot's address, of the descriptor's field.
      // CHECK: %[[FIELD:.*]] = arith.andi %{{.*}}, %c16383_i32
      // CHECK: %[[DATA:.*]] = arith.muli %[[FIELD]], %c16_i32
      // Lane l: row l mod 8 of matrix l / 8; matrices 1 and 3 are the lower half's, 2 and 3 the next block's. Each warp
      // has 16 rows of 128 bytes; the eight columns of block c are at 16 * (c xor row mod 8).
      // CHECK: %[[LANE:.*]] = arith.andi %[[INGROUP]], %c31_i32
      // CHECK: %[[R:.*]] = arith.andi %[[LANE]], %c7_i32
      // CHECK: %[[L3:.*]] = arith.shrui %[[LANE]], %c3_i32
      // CHECK: %[[HALF:.*]] = arith.andi %[[L3]], %c1_i32
      // CHECK: %[[NEXT:.*]] = arith.shrui %[[LANE]], %c4_i32
      // CHECK: %[[WARP:.*]] = arith.shrui %[[INGROUP]], %c5_i32
      // CHECK: %[[WARPROW:.*]] = arith.muli %[[WARP]], %c16_i32
      // CHECK: %[[R1:.*]] = arith.addi %[[WARPROW]], %[[R]]
      // CHECK: %[[DOWN:.*]] = arith.muli %[[HALF]], %c8_i32
      // CHECK: %[[R2:.*]] = arith.addi %[[R1]], %[[DOWN]]
      // CHECK: %[[CHUNK:.*]] = arith.xori %[[NEXT]], %[[R]]
      // CHECK: %[[LINE:.*]] = arith.muli %[[R2]], %c128_i32
      // CHECK: %[[COL:.*]] = arith.muli %[[CHUNK]], %c16_i32
      // CHECK: %[[OFFSET:.*]] = arith.addi %[[LINE]], %[[COL]]
      // Blocks 0 and 1, 2 and 3, 4 and 5, 6 and 7.
      // CHECK: %[[A0:.*]] = arith.addi %[[DATA]], %[[OFFSET]]
      // CHECK: "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}" %[[A0]],
      // CHECK: %[[O2:.*]] = arith.xori %[[OFFSET]], %c32_i32
      // CHECK: %[[A2:.*]] = arith.addi %[[DATA]], %[[O2]]
      // CHECK: stmatrix.sync.aligned.m8n8.x4{{.*}}~{memory}" %[[A2]],
      // CHECK: %[[O4:.*]] = arith.xori %[[OFFSET]], %c64_i32
      // CHECK: %[[A4:.*]] = arith.addi %[[DATA]], %[[O4]]
      // CHECK: stmatrix.sync.aligned.m8n8.x4{{.*}}~{memory}" %[[A4]],
      // CHECK: %[[O6:.*]] = arith.xori %[[OFFSET]], %c96_i32
      // CHECK: %[[A6:.*]] = arith.addi %[[DATA]], %[[O6]]
      // CHECK: stmatrix.sync.aligned.m8n8.x4{{.*}}~{memory}" %[[A6]],
      // Block 8 alone is the first of the second panel, 64 rows of 128 bytes further on.
      // CHECK: %[[PANEL:.*]] = arith.addi %[[DATA]], %c8192_i32
      // CHECK: %[[A8:.*]] = arith.addi %[[PANEL]], %[[OFFSET]]
      // CHECK: "stmatrix.sync.aligned.m8n8.x2.shared.b16 [$0], {$1, $2};", "r,r,r,~{memory}" %[[A8]],
      // CHECK-NOT: stmatrix
      // The warpgroup's own barrier, 4 and its number, behind those of the turns, once what it wrote is visible to
      // copies.
      // CHECK: %[[BARRIER:.*]] = arith.addi %[[GROUP]], %c4_i32
      // CHECK: "fence.proxy.async.shared::cta;\0A bar.sync $0, 128;", "r,~{memory}" %[[BARRIER]]
      // One thread copies, panel by panel: the place is {column, row, head, batch}.
      // CHECK: setp.eq.u32 p, $6, 0;\0A @p cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [$0, {$2, $3, $4, $5}], [$1];
      // CHECK-SAME: %[[MAP]], %[[DATA]], %c0_i32, %[[ROW32:.*]], %[[H32:.*]], %[[B32:.*]], %[[INGROUP]]
      // CHECK: cp.async.bulk.tensor.4d.global.shared::cta.bulk_group
      // CHECK-SAME: %[[MAP]], %[[PANEL1:.*]], %c64_i32, %{{.*}}, %{{.*}}, %{{.*}}, %[[INGROUP]]
      // CHECK-NOT: cp.async.bulk.tensor
      // CHECK: "{\0A .reg .pred p;\0A setp.eq.u32 p, $0, 0;\0A @p cp.async.bulk.commit_group;\0A }", "r,~{memory}" %[[INGROUP]]
      // F16-COUNT-4: stmatrix.sync.aligned.m8n8.x4
      // F16: stmatrix.sync.aligned.m8n8.x2
      // F16-COUNT-2: cp.async.bulk.tensor.4d.global
      tile.store_async %x, %map[%b, %h, %row] through %q : !acc, !map, !slot
      // The same thread waits, and releases.
      // CHECK-NEXT: "{\0A .reg .pred p;\0A setp.eq.u32 p, $0, 0;\0A @p cp.async.bulk.wait_group.read 0;\0A }", "r,~{memory}" %[[INGROUP]]
      // CHECK-NEXT: mbarrier.arrive.shared::cta.b64 _, [$0];\0A }", "r,r,~{memory}" %{{.*}}, %[[INGROUP]]
      tile.store_wait
      tile.release %q : !slot
    }
    gpu.return
  }
}

// -----

// The output's own slot lies behind all rings, once per consumer. Before it is written the warps meet, behind the thread
// that waited for what left it before.

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!slot = !tile.slot<64, 64, bf16>

// CHECK-LABEL: gpu.func @own_slot
// CHECK-SAME: flashc.shared_memory = 33824
// CHECK: %[[GROUP:.*]] = llvm.inline_asm has_side_effects {{.*}}redux.sync
// CHECK: %[[CONSUMER:.*]] = arith.addi %[[GROUP]], %c-1_i32
// CHECK: %[[BYTES:.*]] = arith.muli %[[CONSUMER]], %c8192_i32
// CHECK: %[[OFFSET:.*]] = arith.addi %[[BYTES]], %c16384_i32
// CHECK: arith.addi %{{.*}}, %[[OFFSET]]
gpu.module @kernels {
  gpu.func @own_slot(%map: !map, %b: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    %o = tile.alloc_slot output : !slot
    tile.warp_specialize 2 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : !acc
      // CHECK: cp.async.bulk.wait_group.read 0
      // CHECK: %[[BARRIER:.*]] = arith.addi %[[GROUP]], %c4_i32
      // CHECK: "bar.sync $0, 128;", "r,~{memory}" %[[BARRIER]]
      // CHECK: stmatrix
      // CHECK: fence.proxy.async.shared::cta;\0A bar.sync $0, 128;
      tile.store_wait all
      tile.store_async %x, %map[%b, %b, %b] through %o : !acc, !map, !slot
      // CHECK: cp.async.bulk.commit_group
      // CHECK: cp.async.bulk.wait_group.read 0
      // CHECK-NOT: bar.sync $0, 128
      tile.store_wait
    }
    gpu.return
  }
}

// -----

// A panel has room for 64 columns, whatever the slot's number of them.

!acc = tensor<64x48xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<1, 64, 40, bf16, private true>
!slot = !tile.slot<64, 40, bf16>

// CHECK-LABEL: gpu.func @wider_than_the_slot
gpu.module @kernels {
  gpu.func @wider_than_the_slot(%map: !map, %b: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %ring = tile.alloc_ring : !ring
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : !acc
      %q = tile.wait %ring[%b] : !ring -> !slot
      // CHECK-COUNT-3: stmatrix.sync.aligned.m8n8.x4
      // CHECK-NOT: stmatrix
      // CHECK: cp.async.bulk.tensor.4d.global
      // CHECK-NOT: cp.async.bulk.tensor
      tile.store_async %x, %map[%b, %b, %b] through %q : !acc, !map, !slot
      tile.store_wait
      tile.release %q : !slot
    }
    gpu.return
  }
}

// -----

// Which elements are whose: words 0 and 1 are a thread's pair in its row of the upper half and of the lower, 2 and 3
// those of the next block.

!acc = tensor<64x16xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<1, 64, 64, bf16, private true>
!slot = !tile.slot<64, 64, bf16>
!k = !tile.slot<16, 64, bf16>

// CHECK-LABEL: gpu.func @words
// F16-LABEL: gpu.func @words
gpu.module @kernels {
  gpu.func @words(%map: !map, %b: index, %k: !k) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %ring = tile.alloc_ring : !ring
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %q = tile.wait %ring[%b] : !ring -> !slot
      %t = tile.mma_async %q, %k transpose_b : !slot, !k -> !tile.token<!acc>
      %x = tile.mma_wait %t : !tile.token<!acc> -> !acc
      // CHECK: %[[X:.*]] = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;"
      // CHECK: %[[X0:.*]] = llvm.extractvalue %[[X]][0]
      // CHECK-NEXT: %[[X1:.*]] = llvm.extractvalue %[[X]][1]
      // CHECK-NEXT: %[[X2:.*]] = llvm.extractvalue %[[X]][2]
      // CHECK-NEXT: %[[X3:.*]] = llvm.extractvalue %[[X]][3]
      // CHECK-NEXT: %[[X4:.*]] = llvm.extractvalue %[[X]][4]
      // CHECK-NEXT: %[[X5:.*]] = llvm.extractvalue %[[X]][5]
      // CHECK-NEXT: %[[X6:.*]] = llvm.extractvalue %[[X]][6]
      // CHECK-NEXT: %[[X7:.*]] = llvm.extractvalue %[[X]][7]
      // CHECK: %[[P0:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[X1]], %[[X0]]
      // CHECK-NEXT: %[[P1:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[X3]], %[[X2]]
      // CHECK-NEXT: %[[P2:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[X5]], %[[X4]]
      // CHECK-NEXT: %[[P3:.*]] = llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f" %[[X7]], %[[X6]]
      // CHECK: stmatrix.sync.aligned.m8n8.x4{{.*}} %{{.*}}, %[[P0]], %[[P1]], %[[P2]], %[[P3]] :
      // F16-COUNT-4: cvt.rn.f16x2.f32
      // F16: stmatrix.sync.aligned.m8n8.x4
      tile.store_async %x, %map[%b, %b, %b] through %q : !acc, !map, !slot
      tile.store_wait
      tile.release %q : !slot
    }
    gpu.return
  }
}

// -----

// A tile of 72 columns with a limit: one that ends behind it is copied by no thread, but each thread takes 16 bytes of every
// 16th row of a panel out of the slot, if the row is in front of the limit. Of the second panel there are eight columns: one
// thread of eight has them.

!acc = tensor<64x72xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!slot = !tile.slot<64, 72, bf16>

// CHECK-LABEL: gpu.func @behind_a_limit
// CHECK-SAME: (%[[MAP:[^:]*]]: !llvm.ptr, %[[DEST:[^:]*]]: !llvm.ptr<1>,
// CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: %[[INGROUP:.*]] = arith.andi %[[THREAD]], %c127_i32
// CHECK: bar.sync $0, 128;
// CHECK: stmatrix
// CHECK: bar.sync $0, 128;
// CHECK: %[[END:.*]] = arith.addi %{{.*}}, %c64_i32
// CHECK: %[[CUT:.*]] = arith.cmpi sgt, %[[END]], %{{.*}} : i32
// CHECK: %[[ISSUER:.*]] = arith.select %[[CUT]], %c1_i32, %[[INGROUP]]
// CHECK: %[[CHUNK:.*]] = arith.andi %[[INGROUP]], %c7_i32
// CHECK: %[[FIRST:.*]] = arith.shrui %[[INGROUP]], %c3_i32
// CHECK: %[[LOW:.*]] = arith.andi %[[FIRST]], %c7_i32
// CHECK: %[[SWIZZLED:.*]] = arith.xori %[[CHUNK]], %[[LOW]]
// CHECK: arith.muli %[[FIRST]], %c128_i32
// CHECK: arith.muli %[[SWIZZLED]], %c16_i32
// CHECK: %[[R:.*]] = arith.addi %{{.*}}, %[[FIRST]] : i32
// CHECK: %[[BELOW:.*]] = arith.cmpi slt, %[[R]], %{{.*}} : i32
// CHECK: %[[STORED:.*]] = arith.andi %[[BELOW]], %[[CUT]] : i1
// CHECK: %[[P:.*]] = arith.extui %[[STORED]] : i1 to i32
// CHECK: setp.ne.u32 p, $2, 0;\0A @p ld.shared.v4.b32 {w0, w1, w2, w3}, [$1];\0A @p st.global.v4.b32 [$0], {w0, w1, w2, w3};
// CHECK-SAME: "l,r,r,~{memory}" %{{.*}}, %{{.*}}, %[[P]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi slt, %[[CHUNK]], %c1_i32
// CHECK: arith.andi %[[STORED]], %[[EXISTS]]
// CHECK-COUNT-7: ld.shared.v4.b32
// CHECK-NOT: ld.shared.v4.b32
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.global.shared::cta.bulk_group {{.*}}, %[[ISSUER]] :
// CHECK: cp.async.bulk.commit_group;{{.*}} %[[ISSUER]] :
gpu.module @kernels {
  gpu.func @behind_a_limit(%map: !map, %dest: memref<2x2x?x72xbf16>, %b: index, %limit: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %o = tile.alloc_slot output : !slot
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = arith.constant dense<1.0> : !acc
      tile.store_wait all
      tile.store_async %x, %map[%b, %b, %b] through %o limit %limit else %dest : !acc, !map, !slot, memref<2x2x?x72xbf16>
      tile.store_wait
    }
    gpu.return
  }
}
