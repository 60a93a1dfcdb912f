// RUN: flashc-opt %s --convert-tile-to-nvvm | FileCheck %s

!s = tensor<64x16xf32, #tile.acc>
!p = tensor<64x16xbf16, #tile.operand_a>
!o = tensor<64x32xf32, #tile.acc>
!out = memref<?x1x?x32xbf16, strided<[?, ?, ?, 1]>>

// CHECK-LABEL: gpu.func @two_products
gpu.module @kernels {
  gpu.func @two_products(%qmap: !tile.tensor_map<64 x bf16>, %kmap: !tile.tensor_map<16 x bf16>, %vmap: !tile.tensor_map<16 x bf16>, %out: !out, %n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %qring = tile.alloc_ring : !tile.ring<1, 64, 32, bf16>
    %kring = tile.alloc_ring : !tile.ring<1, 16, 32, bf16>
    %vring = tile.alloc_ring : !tile.ring<1, 16, 32, bf16>
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !o
      %q = tile.wait %qring[%c0] : !tile.ring<1, 64, 32, bf16> -> !tile.slot<64, 32, bf16>
      %k = tile.wait %kring[%c0] : !tile.ring<1, 16, 32, bf16> -> !tile.slot<16, 32, bf16>
      %v = tile.wait %vring[%c0] : !tile.ring<1, 16, 32, bf16> -> !tile.slot<16, 32, bf16>
      // Two steps of 16 over D = 32, both operands in shared memory; the first begins at zero (scale-d false), neither is
      // transposed. The second step's descriptor is 32 bytes (2 units of 16) further on.
      // CHECK: "wgmma.fence.sync.aligned;"
      // CHECK: llvm.inline_asm has_side_effects "{\0A .reg .pred p;\0A setp.ne.b32 p, 0, 0;\0A wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$0, $1, $2, $3, $4, $5, $6, $7}, $8, $9, p, 1, 1, 0, 0;\0A }", "=f,=f,=f,=f,=f,=f,=f,=f,l,l"
      // CHECK: arith.constant 4611686293305360386 : i64
      // CHECK: "{\0A .reg .pred p;\0A setp.ne.b32 p, 1, 0;\0A wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$0, $1, $2, $3, $4, $5, $6, $7}, $16, $17, p, 1, 1, 0, 0;\0A }", "=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,l,l"
      // CHECK: "wgmma.commit_group.sync.aligned;"
      %ts = tile.mma_async %q, %k transpose_b : !tile.slot<64, 32, bf16>, !tile.slot<16, 32, bf16> -> !tile.token<!s>
      // The wait ties the accumulator, so that no use of it can move above.
      // CHECK: "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,~{memory}"
      %s = tile.mma_wait %ts : !tile.token<!s> -> !s
      // CHECK-COUNT-4: llvm.inline_asm "cvt.rn.bf16x2.f32 $0, $1, $2;"
      %p = tile.to_operand_a %s : !s -> !p
      // One step over the 16 keys: A in registers, B transposed.
      // CHECK: "wgmma.fence.sync.aligned;"
      // CHECK: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, {$32, $33, $34, $35}, $36, p, 1, 1, 1;
      %to = tile.mma_async %p, %v into %zero : !o : !p, !tile.slot<16, 32, bf16> -> !tile.token<!o>
      // CHECK: "wgmma.wait_group.sync.aligned 1;"
      %o = tile.mma_wait %to {pending = 1} : !tile.token<!o> -> !o
      tile.release %k : !tile.slot<16, 32, bf16>
      tile.release %v : !tile.slot<16, 32, bf16>
      tile.release %q : !tile.slot<64, 32, bf16>
      // 32 columns of 16 bits: a transposition among four lanes, then one 16-byte store per row.
      // CHECK-COUNT-4: shfl.sync.bfly.i32
      // CHECK: @p st.global.v4.b32 [$0], {$2, $3, $4, $5};
      // CHECK-COUNT-4: shfl.sync.bfly.i32
      // CHECK: @p st.global.v4.b32
      // CHECK-NOT: st.global
      tile.store %o, %out[%c0, %c0, %c0] limit %n : !o, !out
    }
    gpu.return
  }
}

// The address of A goes through assembly that LLVM cannot move: descriptors of all steps follow from it. That of B does not.
// CHECK-LABEL: gpu.func @local_descriptors
gpu.module @local {
  gpu.func @local_descriptors(%n: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    %qring = tile.alloc_ring : !tile.ring<1, 64, 32, bf16>
    %kring = tile.alloc_ring : !tile.ring<1, 16, 32, bf16>
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %q = tile.wait %qring[%c0] : !tile.ring<1, 64, 32, bf16> -> !tile.slot<64, 32, bf16>
      %k = tile.wait %kring[%c0] : !tile.ring<1, 16, 32, bf16> -> !tile.slot<16, 32, bf16>
      // CHECK: %[[A:.*]] = llvm.inline_asm has_side_effects "mov.b64 $0, $1;", "=l,l"
      // CHECK: %[[FIRST:.*]] = arith.addi %[[A]],
      // CHECK: wgmma.mma_async{{.*}} %[[FIRST]], %
      // CHECK: %[[SECOND:.*]] = arith.addi %[[A]],
      // CHECK: wgmma.mma_async{{.*}} %[[SECOND]], %
      // CHECK-NOT: mov.b64
      %ts = tile.mma_async %q, %k transpose_b {local_descriptors}
          : !tile.slot<64, 32, bf16>, !tile.slot<16, 32, bf16> -> !tile.token<!s>
      %s = tile.mma_wait %ts : !tile.token<!s> -> !s
      tile.release %k : !tile.slot<16, 32, bf16>
      tile.release %q : !tile.slot<64, 32, bf16>
    }
    gpu.return
  }
}
