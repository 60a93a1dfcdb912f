// Random numbers in registers: a call of Philox for 16 elements of a thread, compared four at a time; the signs of bytes
// are flags, repeated over the bits of an element. Tiles of keys by queries exchange them.
// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize | FileCheck %s

!flags = tensor<64x64xi1, #tile.flags>
!odd = tensor<64x48xi1, #tile.flags>

gpu.module @kernels {
  // CHECK: gpu.func @dropout
  gpu.func @dropout(%seed: i64, %offset: i64, %g: index, %out: memref<?x?x?x?xf32, strided<[?, ?, ?, 1]>>) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      // 64 keys are two calls, of 20 products each. Bytes from 26 on: what is added carries into the sign, or it is set.
      // CHECK-COUNT-40: arith.mului_extended
      // CHECK-NOT: arith.mului_extended
      // CHECK: arith.andi %{{.*}}, %c2139062143_i32
      // CHECK: arith.addi %{{.*}}, %c1717986918_i32
      // CHECK: arith.ori
      %rows = tile.dropout_mask %seed, %offset at(%g, %g, %g, %g) least 26 : !flags
      %x = arith.constant dense<1.0> : tensor<64x64xf32, #tile.acc>
      %a = tile.to_operand_a %x : tensor<64x64xf32, #tile.acc> -> tensor<64x64xbf16, #tile.operand_a>
      // Two elements of a word of 16 bits each, then one of 32.
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD:.*]], %[[WORD]], %c39304_i32)
      // CHECK: arith.andi
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD]], %[[WORD]], %c48042_i32)
      %b = tile.keep %a where %rows : tensor<64x64xbf16, #tile.operand_a>, !flags
      %y = tile.from_operand_a %b : tensor<64x64xbf16, #tile.operand_a> -> tensor<64x64xf32, #tile.acc>
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD]], %[[WORD]], %c34952_i32)
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD]], %[[WORD]], %c39321_i32)
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD]], %[[WORD]], %c43690_i32)
      // CHECK: llvm.call_intrinsic "llvm.nvvm.prmt"(%[[WORD]], %[[WORD]], %c48059_i32)
      %z = tile.keep %y where %rows : tensor<64x64xf32, #tile.acc>, !flags
      %used = tile.all_within %z {limit = 1.0 : f32} : tensor<64x64xf32, #tile.acc>

      // 48 keys begin at a call's first or at its 17th: two calls, and a choice.
      // CHECK-COUNT-40: arith.mului_extended
      // CHECK-NOT: arith.mului_extended
      // CHECK: %[[HALF:.*]] = arith.cmpi eq, %{{.*}}, %c16_i32
      // CHECK-COUNT-6: arith.select %[[HALF]]
      // Bytes from 200 on: it carries, and the sign is set.
      %odd = tile.dropout_mask %seed, %offset at(%g, %g, %g, %g) least 200 : !odd
      %s = arith.constant dense<1.0> : tensor<64x48xf32, #tile.acc>
      %t = tile.keep %s where %odd : tensor<64x48xf32, #tile.acc>, !odd
      %too = tile.all_within %t {limit = 1.0 : f32} : tensor<64x48xf32, #tile.acc>

      // A call for 16 queries each; 16 flags of a lane are exchanged at once.
      // CHECK-COUNT-80: arith.mului_extended
      // CHECK-NOT: arith.mului_extended
      // CHECK: movmatrix.sync.aligned.m8n8.trans.b16
      // CHECK-NOT: movmatrix
      // CHECK-COUNT-7: arith.shli
      %columns = tile.dropout_mask %seed, %offset at(%g, %g, %g, %g) least 26 transposed : !flags
      %kept = tile.keep %x where %columns : tensor<64x64xf32, #tile.acc>, !flags
      %also = tile.all_within %kept {limit = 1.0 : f32} : tensor<64x64xf32, #tile.acc>
    }
    gpu.return
  }
}
