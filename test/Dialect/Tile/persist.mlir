// RUN: %vary %s | flashc-opt --split-input-file --tile-persist --canonicalize --cse | FileCheck %s
// And every work tile is visited once, whatever the grid and the number of CTAs:
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py paired
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py grouped
// By a list, too, of whatever its items are.
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_tiles --list=tiles
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_batches --list=batches
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_heads --list=heads
// Without pairs they come in order; the multipliers and shifts are right for all extents.
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py one_by_one --in-order

#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// CTA c of n works on the work tiles c, c + n, ...; the coordinates are quotients, by a multiplier and a shift that are
// made the same in every thread once. The tile of
// queries is loaded where it is first read, behind the first keys.
// CHECK-LABEL: gpu.func @plain
// CHECK-SAME: (%[[NX:.*]]: index, %[[NY:.*]]: index, %[[NZ:.*]]: index, %[[MAP:.*]]: !tile.tensor_map<64 x bf16>)
// CHECK: tile.program 2 {
// CHECK: ^bb0(%[[W:.*]]: index):
// CHECK: %[[CTA:.*]] = gpu.block_id x
// CHECK: %[[CTAS:.*]] = gpu.grid_dim x
// CHECK: %[[HEADS:.*]] = arith.muli %[[NY]], %[[NZ]]
// CHECK: %[[NY64:.*]] = arith.index_castui %[[NY]] : index to i64
// CHECK: %[[LESS:.*]] = arith.subi %[[NY64]], %c1_i64
// CHECK: %[[ZEROS:.*]] = math.ctlz %[[LESS]]
// CHECK: %[[SHIFT:.*]] = arith.subi %c95_i64, %[[ZEROS]]
// CHECK: %[[POWER:.*]] = arith.shli %c1_i64, %[[SHIFT]]
// CHECK: arith.ceildivui %[[POWER]], %[[NY64]]
// CHECK: %[[YM:.*]] = tile.uniform
// CHECK: %[[YM64:.*]] = arith.index_castui %[[YM]]
// CHECK: %[[YS:.*]] = tile.uniform
// CHECK: %[[YS64:.*]] = arith.index_castui %[[YS]]
// CHECK: %[[XM:.*]] = tile.uniform
// CHECK: %[[XM64:.*]] = arith.index_castui %[[XM]]
// CHECK: %[[XS:.*]] = tile.uniform
// CHECK: %[[XS64:.*]] = arith.index_castui %[[XS]]
// CHECK: %[[COUNT:.*]] = arith.muli %[[NX]], %[[HEADS]]
// CHECK: scf.for %[[ITEM:.*]] = %[[CTA]] to %[[COUNT]] step %[[CTAS]] {
// CHECK: %[[ITEM64:.*]] = arith.index_castui %[[ITEM]]
// CHECK: %[[PRODUCT:.*]] = arith.muli %[[ITEM64]], %[[XM64]]
// CHECK: %[[Q:.*]] = arith.shrui %[[PRODUCT]], %[[XS64]]
// CHECK: %[[HEAD:.*]] = arith.index_castui %[[Q]]
// CHECK: %[[X0:.*]] = arith.muli %[[HEAD]], %[[NX]]
// CHECK: %[[X:.*]] = arith.subi %[[ITEM]], %[[X0]]
// CHECK: %[[PRODUCT2:.*]] = arith.muli %[[Q]], %[[YM64]]
// CHECK: %[[Q2:.*]] = arith.shrui %[[PRODUCT2]], %[[YS64]]
// CHECK: %[[Z:.*]] = arith.index_castui %[[Q2]]
// CHECK: %[[Y0:.*]] = arith.muli %[[Z]], %[[NY]]
// CHECK: %[[Y:.*]] = arith.subi %[[HEAD]], %[[Y0]]
// CHECK-NOT: gpu.block_id
// CHECK: tile.load %[[MAP]][%[[Z]], %[[Y]], %[[X]]] into %[[KRING:[a-z0-9_]*]] : !tile.tensor_map<64 x bf16>, <2, 64, 64, bf16>
// CHECK: tile.load %[[MAP]][%[[Z]], %[[Y]], %[[X]]] into %[[QRING:[a-z0-9_]*]] : !tile.tensor_map<64 x bf16>, <1, 64, 64, bf16, private true>
// CHECK: tile.mma_async
gpu.module @kernels {
  gpu.func @plain(%nx: index, %ny: index, %nz: index, %map: !tile.tensor_map<64 x bf16>) kernel attributes {tile.schedule = #schedule} {
    %qring = tile.alloc_ring : !tile.ring<1, 64, 64, bf16, private true>
    %kring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 2 grid(%nx, %ny, %nz) {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %z = gpu.block_id z
      %q = tile.load %map[%z, %y, %x] into %qring : !tile.tensor_map<64 x bf16>, !tile.ring<1, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
      %k = tile.load %map[%z, %y, %x] into %kring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
      %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// With a second slot, the queries stay where they were: in front of the keys.
// CHECK-LABEL: gpu.func @two_slots
// CHECK: scf.for
// CHECK: tile.load {{.*}} <2, 64, 64, bf16, private true>
// CHECK: tile.load {{.*}} <2, 64, 64, bf16>
gpu.module @kernels {
  gpu.func @two_slots(%n: index, %map: !tile.tensor_map<64 x bf16>) kernel attributes {tile.schedule = #schedule} {
    %qring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16, private true>
    %kring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%n, %n, %n) {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %q = tile.load %map[%x, %x, %x] into %qring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16, private true> -> !tile.slot<64, 64, bf16>
      %k = tile.load %map[%x, %x, %x] into %kring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      %t = tile.mma_async %q, %k transpose_b : !tile.slot<64, 64, bf16>, !tile.slot<64, 64, bf16> -> !tile.token<tensor<64x64xf32, #tile.acc>>
      %s = tile.mma_wait %t : !tile.token<tensor<64x64xf32, #tile.acc>> -> tensor<64x64xf32, #tile.acc>
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// A program on the launch's own grid is left alone.
// CHECK-LABEL: gpu.func @launched
// CHECK: tile.program 1 {
// CHECK-NOT: scf.for
// CHECK: memref.store %{{.*}}, %{{.*}}[%block_id_x]
gpu.module @kernels {
  gpu.func @launched(%out: memref<?xf32>) kernel attributes {tile.schedule = #schedule} {
    tile.program 1 {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %one = arith.constant 1.0 : f32
      memref.store %one, %out[%x] : memref<?xf32>
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @NAME(%nx: index, %ny: index, %nz: index, %out: memref<?x?x?xf32>, %list: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule} {
    tile.program 1 grid(%nx, %ny, %nz) {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %z = gpu.block_id z
      %one = arith.constant 1.0 : f32
      memref.store %one, %out[%z, %y, %x] : memref<?x?x?xf32>
    }
    gpu.return
  }
}

// Work tiles whose time falls with x: pairs of them, of all heads but the last, which are dealt work tile by work tile
// (the script above runs it). Everything but the length of the loop is computed alike by every CTA.
// CHECK-LABEL: gpu.func @paired
// CHECK-SAME: (%[[NX:.*]]: index, %[[NY:.*]]: index, %[[NZ:.*]]: index, %[[OUT:[a-z0-9]*]]: memref<?x?x?xf32>
// CHECK: tile.program 1 {
// CHECK: %[[HEADS:.*]] = arith.muli %[[NY]], %[[NZ]]
// CHECK: %[[THRICE:.*]] = arith.muli %grid_dim_x, %c3
// CHECK: %[[WANTED:.*]] = arith.ceildivui %[[THRICE]],
// CHECK: %[[LEAST:.*]] = arith.minui %[[WANTED]], %[[HEADS]]
// CHECK: %[[TAIL:.*]] = arith.addi %[[LEAST]],
// CHECK: %[[PAIRED_HEADS:.*]] = arith.subi %[[HEADS]], %[[TAIL]]
// CHECK: %[[UPPER:.*]] = tile.uniform %{{.*}}
// CHECK: scf.for %[[U:.*]] = %c0 to %[[UPPER]] step %c1 {
// CHECK: %[[IS_PAIRED:.*]] = arith.cmpi ult, %[[U]],
// CHECK: %[[X:.*]] = arith.select %[[IS_PAIRED]],
// CHECK: %[[HEAD:.*]] = arith.select %[[IS_PAIRED]],
// CHECK: memref.store %{{.*}}, %[[OUT]][%{{.*}}, %{{.*}}, %[[X]]]
// VARY paired
//   grid(%nx, %ny, %nz) => grid(%nx, %ny, %nz) by <paired>

// Groups of heads, as by a list, in which every work tile's place is its number.
// CHECK-LABEL: gpu.func @grouped
// CHECK: %[[TWICE:.*]] = arith.muli %grid_dim_x, %c2
// CHECK: arith.ceildivui %[[TWICE]], %{{.*}}
// CHECK: scf.for %[[ROUND:.*]] = %c0 to %{{.*}} step %c1 {
// CHECK: arith.muli %[[ROUND]], %grid_dim_x
// CHECK-NOT: memref.load
// CHECK: memref.store
// VARY grouped
//   grid(%nx, %ny, %nz) => grid(%nx, %ny, %nz) by <grouped>

// The same work tiles without pairs.
// CHECK-LABEL: gpu.func @one_by_one
// CHECK-NOT: arith.divui
// CHECK: memref.store
// VARY one_by_one

// Divisions by constants are left to the back end, which knows better.
// CHECK-LABEL: gpu.func @constant_extents
// CHECK-NOT: {{math.ctlz|tile.uniform}}
// CHECK: scf.for %[[ITEM:.*]] = %
// CHECK-NEXT: %[[HEAD:.*]] = arith.divui %[[ITEM]], %c16
// CHECK-NEXT: %[[X0:.*]] = arith.muli %[[HEAD]], %c16
// CHECK-NEXT: %[[X:.*]] = arith.subi %[[ITEM]], %[[X0]]
// CHECK-NEXT: %[[Z:.*]] = arith.divui %[[HEAD]], %c6
// CHECK-NEXT: %[[Y0:.*]] = arith.muli %[[Z]], %c6
// CHECK-NEXT: %[[Y:.*]] = arith.subi %[[HEAD]], %[[Y0]]
// CHECK-NEXT: memref.store %{{.*}}, %{{.*}}[%[[Z]], %[[Y]], %[[X]]]
// VARY constant_extents
//   (%nx: index, %ny: index, => (
//   tile.program 1 =>
//     %nx = arith.constant 16 : index
//     %ny = arith.constant 6 : index
//     tile.program 1

// Work tiles by a list are drawn (the script above runs it): a CTA begins with the work tile of its own number, and a
// region finds that of the number that it draws. Quotients are left to the one thread that does it; what the first work
// tile is, is the same in every thread. If there are more CTAs than work tiles, some have none.
// CHECK-LABEL: gpu.func @list_tiles
// CHECK-SAME: %[[NX:[a-z0-9]*]]: index
// CHECK-SAME: %[[LIST:[a-z0-9]*]]: memref<?xi32>
// CHECK: tile.program 1 {
// CHECK: %[[HEADS:.*]] = arith.muli
// CHECK: %[[THRICE:.*]] = arith.muli %grid_dim_x, %c3
// CHECK: arith.ceildivui %[[THRICE]], %[[NX]]
// CHECK: %[[ALL:.*]] = arith.muli %[[NX]], %[[HEADS]]
// CHECK: %[[TOTAL:.*]] = tile.uniform %[[ALL]]
// CHECK: %[[COUNTER:.*]] = arith.muli %[[NX]], %c2
// CHECK: %[[LAST:.*]] = arith.subi %[[TOTAL]], %c1
// CHECK: arith.minui %block_id_x, %[[LAST]]
// CHECK-NOT: arith.shrui
// CHECK: %[[ENTRY:.*]] = memref.load %[[LIST]][%{{.*}}]
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[ENTRY]] : i32 to index
// CHECK: %[[X0:.*]] = tile.uniform %[[INDEX]]
// CHECK: %[[IS_ANY:.*]] = arith.cmpi ult, %block_id_x, %[[TOTAL]]
// CHECK: %[[MOST:.*]] = arith.select %[[IS_ANY]], %c2147483647, %c0
// CHECK: %[[MANY:.*]] = tile.uniform %[[MOST]]
// CHECK: scf.for %{{.*}} = %c0 to %[[MANY]] step %c1 iter_args(%[[X:.*]] = %[[X0]], %[[Y:.*]] = %{{.*}}, %[[Z:.*]] = %{{.*}})
// CHECK-NEXT: %[[NEXT:.*]]:3 = tile.draw %[[LIST]][%[[COUNTER]]] from %grid_dim_x below %[[TOTAL]] : memref<?xi32> -> index, index, index {
// CHECK-NEXT: ^bb0(%[[NUMBER:.*]]: index):
// CHECK: arith.divui %[[NUMBER]]
// CHECK: %[[ENTRY:.*]] = memref.load %[[LIST]][%{{.*}}]
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[ENTRY]] : i32 to index
// CHECK: tile.drawn %[[INDEX]], %{{.*}}, %{{.*}} : index, index, index
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[Z]], %[[Y]], %[[X]]]
// CHECK: scf.yield %[[NEXT]]#0, %[[NEXT]]#1, %[[NEXT]]#2
// VARY list_tiles
//   grid(%nx, %ny, %nz) => grid(%nx, %ny, %nz) list(%list : memref<?xi32>) by <list>

// An entry is an item and its numbers, which the loop carries behind the work tile; the program reads the last.
// CHECK-LABEL: gpu.func @list_batches
// CHECK-SAME: %[[LIST:[a-z0-9]*]]: memref<?xi32>
// CHECK: arith.muli %{{.*}}, %c6
// CHECK: scf.for {{.*}} iter_args(%[[Y:.*]] = %{{.*}}, %[[Z:.*]] = %{{.*}}, %[[NUMBER:.*]] = %{{.*}})
// CHECK: tile.draw
// CHECK: %[[BEGIN:.*]] = arith.muli %{{.*}}, %c3
// CHECK: memref.load %[[LIST]][%[[BEGIN]]]
// CHECK: %[[PLACE:.*]] = arith.addi %[[BEGIN]], %c2
// CHECK: %[[ENTRY:.*]] = memref.load %[[LIST]][%[[PLACE]]]
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[ENTRY]] : i32 to index
// CHECK: tile.drawn %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[INDEX]] :
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[Z]], %[[Y]], %[[NUMBER]]]
// VARY list_batches
//   grid(%nx, %ny, %nz) => grid(%nx, %ny, %nz) list(%list : memref<?xi32>) by <list of batches numbers 2>
//   %x = gpu.block_id x => %x = tile.list_number 1

// CHECK-LABEL: gpu.func @list_heads
// VARY list_heads
//   grid(%nx, %ny, %nz) => grid(%nx, %ny, %nz) list(%list : memref<?xi32>) by <list of heads>
