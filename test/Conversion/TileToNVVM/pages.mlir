// RUN: flashc-opt %s --convert-tile-to-nvvm --canonicalize | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @pages
  gpu.func @pages(%map: !tile.tensor_map<16 x bf16>, %part: !tile.tensor_map<32 x bf16>, %table: memref<?x?xi32, strided<[?, 1]>>,
                  %b: index, %h: index, %row: index, %end: index, %g: index) kernel
      attributes {tile.schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = true>} {
    %ring = tile.alloc_ring : !tile.ring<2, 96, 128, bf16>
    tile.warp_specialize 2 registers(24, 240) producer {
      tile.acquire %ring[%g] : !tile.ring<2, 96, 128, bf16>
      // All bytes of the slot at once, whatever pages are there; then a box in each round, and a copy per panel. An entry is
      // read if its rows begin before the end.
      // CHECK: expect_tx{{.*}} %c24576_i32
      // CHECK: shr.u32 n, at, 4;\0A mad.wide.u32 entry, n, 4, $6;\0A
      // CHECK-SAME: setp.lt.u32 p, at, $5;\0A mov.b32 next, -1;\0A @p ld.global.b32 next, [entry];\0A
      // CHECK-SAME: BOX:\0A mov.b32 page, next;\0A mov.b32 first, 0;\0A add.s32 at, at, 16;\0A
      // CHECK-SAME: @p ld.global.b32 next, [entry];\0A
      // CHECK-SAME: mov.b32 c, 0;\0A cp.async.bulk.tensor.4d{{.*}} [box+0], [$1, {c, first, $3, page}], [$2];\0A
      // CHECK-SAME: mov.b32 c, 64;\0A cp.async.bulk.tensor.4d{{.*}} [box+12288], [$1, {c, first, $3, page}], [$2];\0A
      // CHECK-SAME: add.s32 box, box, 2048;\0A add.s32 done, done, 16;\0A setp.lt.s32 p, done, 96;\0A @p bra.uni BOX;
      tile.copy_async %map[%b, %h, %row] pages(%table : memref<?x?xi32, strided<[?, 1]>>) of 16 until %end into %ring[%g]
          : !tile.tensor_map<16 x bf16>, !tile.ring<2, 96, 128, bf16>
      tile.acquire %ring[%g] : !tile.ring<2, 96, 128, bf16>
      // Boxes of 32 of 160 rows: a box may begin anywhere in a page.
      // CHECK: div.u32 n, at, 160;
      // CHECK-SAME: mul.lo.u32 n, n, 160;\0A sub.s32 first, at, n;\0A add.s32 at, at, 32;
      tile.copy_async %part[%b, %h, %row] pages(%table : memref<?x?xi32, strided<[?, 1]>>) of 160 until %end into %ring[%g]
          : !tile.tensor_map<32 x bf16>, !tile.ring<2, 96, 128, bf16>
    } consumer {
    ^bb0(%w: index):
      %k = tile.wait %ring[%g] : !tile.ring<2, 96, 128, bf16> -> !tile.slot<96, 128, bf16>
      // Around it, unless a row is to be cleared. Then all threads of the warpgroup meet behind it.
      // CHECK: setp.ge.s32 p, $2, 96;\0A @p bra.uni DONE;
      // CHECK-SAME: max.s32 r, $2, 0;\0A CLEAR:\0A add.s32 a, r, $1;\0A setp.lt.s32 q, a, 96;\0A mad.lo.s32 a, r, 128, $0;\0A
      // CHECK-SAME: @q st.shared.v4.b32 [a+0], {z, z, z, z};\0A @q st.shared.v4.b32 [a+12288], {z, z, z, z};\0A add.s32 r, r, 16;
      // CHECK-SAME: fence.proxy.async.shared::cta;\0A bar.sync $3, 128;\0A DONE:
      tile.clear_rows %k from %end : !tile.slot<96, 128, bf16>
      // Rows before one, of which there are as many as the slot has at most.
      // CHECK: arith.minsi
      // CHECK: setp.le.s32 p, $2, 0;\0A @p bra.uni DONE;
      // CHECK-SAME: mov.b32 r, 0;\0A CLEAR:\0A add.s32 a, r, $1;\0A setp.lt.s32 q, a, $2;
      // CHECK-SAME: add.s32 r, r, 16;\0A setp.lt.s32 p, r, $2;\0A @p bra.uni CLEAR;
      tile.clear_rows %k before %row : !tile.slot<96, 128, bf16>
      tile.release %k : !tile.slot<96, 128, bf16>
    }
    gpu.return
  }
}
