// RUN: %vary %s | flashc-opt --split-input-file --tile-order --verify-diagnostics

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
#schedule2 = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @invalid(%n: index, %map: !tile.tensor_map<64 x bf16>, %list: memref<?xi32>) kernel attributes {tile.schedule = #schedule} {
    // BODY
    gpu.return
  }
}

// VARY by_warpgroup
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
//     tile.program 1 grid(%n, %n, %n) by <sorted> {
//     | error: 'tile.program' op cannot sort its work tiles: expected the loop over keys to be as long as scalar code says
//     ^bb0(%w: index): | note: it depends on this value
//       %total = arith.addi %w, %c1 : index
//       scf.for %u = %c0 to %total step %c1 {
//         %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
//       }
//     }
// VARY parts_without_size
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
//     tile.program 1 grid(%n, %n, %n) by <sorted parts 4> {
//     | error: 'tile.program' op cannot sort its work tiles: expected a tile.part_size if query tiles have parts
//     ^bb0(%w: index):
//       scf.for %u = %c0 to %n step %c1 {
//         %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
//       }
//     }
// VARY in_steps
//     %c0 = arith.constant 0 : index
//     %c2 = arith.constant 2 : index
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
//     tile.program 1 grid(%n, %n, %n) by <sorted> {
//     | error: 'tile.program' op cannot sort its work tiles: expected a loop over keys in steps of one
//     ^bb0(%w: index):
//       scf.for %u = %c0 to %n step %c2 {
//         %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
//       }
//     }
// VARY many_own_numbers: Nine of each warpgroup's.
//     %c0 = arith.constant 0 : index
//     %c1 = arith.constant 1 : index
//     %c2 = arith.constant 2 : index
//     %c3 = arith.constant 3 : index
//     %c4 = arith.constant 4 : index
//     %c5 = arith.constant 5 : index
//     %c6 = arith.constant 6 : index
//     %c7 = arith.constant 7 : index
//     %c8 = arith.constant 8 : index
//     %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
//     tile.program 2 grid(%n, %n, %n) by <sorted> {
//     | error: 'tile.program' op cannot sort its work tiles: expected at most 16 numbers of warpgroups' own, got 18
//     ^bb0(%w: index):
//       %total = arith.maxsi %n, %c1 : index
//       %p0 = arith.addi %w, %c0 : index
//       %r0 = memref.load %list[%p0] : memref<?xi32>
//       %n0 = arith.index_cast %r0 : i32 to index
//       %u0 = tile.uniform %n0
//       %p1 = arith.addi %w, %c1 : index
//       %r1 = memref.load %list[%p1] : memref<?xi32>
//       %n1 = arith.index_cast %r1 : i32 to index
//       %u1 = tile.uniform %n1
//       %p2 = arith.addi %w, %c2 : index
//       %r2 = memref.load %list[%p2] : memref<?xi32>
//       %n2 = arith.index_cast %r2 : i32 to index
//       %u2 = tile.uniform %n2
//       %p3 = arith.addi %w, %c3 : index
//       %r3 = memref.load %list[%p3] : memref<?xi32>
//       %n3 = arith.index_cast %r3 : i32 to index
//       %u3 = tile.uniform %n3
//       %p4 = arith.addi %w, %c4 : index
//       %r4 = memref.load %list[%p4] : memref<?xi32>
//       %n4 = arith.index_cast %r4 : i32 to index
//       %u4 = tile.uniform %n4
//       %p5 = arith.addi %w, %c5 : index
//       %r5 = memref.load %list[%p5] : memref<?xi32>
//       %n5 = arith.index_cast %r5 : i32 to index
//       %u5 = tile.uniform %n5
//       %p6 = arith.addi %w, %c6 : index
//       %r6 = memref.load %list[%p6] : memref<?xi32>
//       %n6 = arith.index_cast %r6 : i32 to index
//       %u6 = tile.uniform %n6
//       %p7 = arith.addi %w, %c7 : index
//       %r7 = memref.load %list[%p7] : memref<?xi32>
//       %n7 = arith.index_cast %r7 : i32 to index
//       %u7 = tile.uniform %n7
//       %p8 = arith.addi %w, %c8 : index
//       %r8 = memref.load %list[%p8] : memref<?xi32>
//       %n8 = arith.index_cast %r8 : i32 to index
//       %u8 = tile.uniform %n8
//       %b0, %e0 = tile.own_visits %c0 to %u0 of %total listed
//       tile.advance_ring %b0 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e0 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b1, %e1 = tile.own_visits %c0 to %u1 of %total listed
//       tile.advance_ring %b1 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e1 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b2, %e2 = tile.own_visits %c0 to %u2 of %total listed
//       tile.advance_ring %b2 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e2 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b3, %e3 = tile.own_visits %c0 to %u3 of %total listed
//       tile.advance_ring %b3 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e3 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b4, %e4 = tile.own_visits %c0 to %u4 of %total listed
//       tile.advance_ring %b4 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e4 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b5, %e5 = tile.own_visits %c0 to %u5 of %total listed
//       tile.advance_ring %b5 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e5 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b6, %e6 = tile.own_visits %c0 to %u6 of %total listed
//       tile.advance_ring %b6 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e6 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b7, %e7 = tile.own_visits %c0 to %u7 of %total listed
//       tile.advance_ring %b7 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e7 of %ring : !tile.ring<2, 64, 64, bf16>
//       %b8, %e8 = tile.own_visits %c0 to %u8 of %total listed
//       tile.advance_ring %b8 of %ring : !tile.ring<2, 64, 64, bf16>
//       tile.advance_ring %e8 of %ring : !tile.ring<2, 64, 64, bf16>
//       scf.for %u = %c0 to %total step %c1 {
//         %k = tile.load %map[%c0, %c0, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
//       }
//     }
