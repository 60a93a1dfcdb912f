// One work tile for each CTA: there is no loop, and a CTA may have another work tile than its number says.
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist --canonicalize --cse | FileCheck %s
// Every work tile is visited once, and the CTAs that run at once end together.
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py falling --single
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_tiles --single=tiles
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_batches --single=batches
// RUN: %vary %s | flashc-opt --split-input-file --tile-persist | %python %S/Inputs/visit_work_tiles.py list_heads --single=heads

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
gpu.module @kernels {
  gpu.func @NAME(%nx: index, %ny: index, %nz: index, %out: memref<?x?x?xf32>, %list: memref<?xi32>) kernel attributes {tile.schedule = #schedule} {
    tile.program 1 single grid(%nx, %ny, %nz) list(%list : memref<?xi32>) by <list> {
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

// The heads whose work tiles go by together: three work tiles for each CTA that runs at once.
// CHECK-LABEL: gpu.func @falling
// CHECK-SAME: (%[[NX:.*]]: index, %[[NY:.*]]: index, %[[NZ:.*]]: index, %[[OUT:.*]]: memref<?x?x?xf32>, %{{.*}}: memref<?xi32>)
// CHECK: tile.program 1 {
// CHECK: %[[SMS:.*]] = nvvm.read.ptx.sreg.nsmid
// CHECK: %[[CTAS:.*]] = arith.index_castui %[[SMS]]
// CHECK: %[[THRICE:.*]] = arith.muli %[[CTAS]], %c3
// CHECK: arith.ceildivui %[[THRICE]], %[[NX]]
// CHECK: tile.uniform
// CHECK-NOT: scf.for
// CHECK-NOT: memref.load
// CHECK: %[[X:.*]] = tile.uniform
// CHECK: %[[Y:.*]] = tile.uniform
// CHECK: %[[Z:.*]] = tile.uniform
// CHECK: memref.store %{{.*}}, %[[OUT]][%[[Z]], %[[Y]], %[[X]]]
// VARY falling
//   list(%list : memref<?xi32>) by <list> => by <paired>

// CHECK-LABEL: gpu.func @list_tiles
// CHECK-NOT: scf.for
// CHECK: memref.load
// CHECK-NOT: tile.draw
// CHECK: memref.store
// VARY list_tiles
//   by <list>

// A head that goes by alone has its items in their order: their numbers stand behind the list and the work, 4 words an
// item; in the list an entry has 3.
// CHECK-LABEL: gpu.func @list_batches
// CHECK: arith.muli %{{.*}}, %c3
// CHECK: arith.muli %{{.*}}, %c4
// CHECK: memref.store
// VARY list_batches
//   by <list> => by <list of batches numbers 2>
//   gpu.block_id x => tile.list_number 1

// CHECK-LABEL: gpu.func @list_heads
// VARY list_heads
//   by <list> => by <list of heads>
