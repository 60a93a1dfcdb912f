// RUN: flashc-opt %s --split-input-file --tile-order --canonicalize --cse | FileCheck %s
// And the kernels sort what they say they do, without a race:
// RUN: flashc-opt %s --split-input-file --tile-order --canonicalize --cse > %t.mlir
// RUN: %python %S/Inputs/run_order.py tiles < %t.mlir
// RUN: %python %S/Inputs/run_order.py batches < %t.mlir
// RUN: %python %S/Inputs/run_order.py heads < %t.mlir
// RUN: %python %S/Inputs/run_order.py parts < %t.mlir

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
#arguments = [{name = "grid", role = "input", shape = [-1, -1, -1], dtype = "f32"},
              {name = "keys", role = "input", shape = [-1, -1, -1, 64], dtype = "bf16"},
              {name = "work", role = "input", shape = [-1], dtype = "i32"}]

// The list is the last parameter of both kernels; the new one takes of the others what the loop's bounds read, and
// measures by the same code. What the program computes of what it reads stands behind an item in the list: the bound, and
// where the keys begin.
// CHECK-LABEL: gpu.func @tiles
// CHECK-SAME: (%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: !tile.tensor_map<64 x bf16>, %{{.*}}: memref<?xi32>, %[[LIST:.*]]: memref<?xi32>)
// CHECK-SAME: before = [{block = [1024, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0 : i64, grid = ["1", "1", "1"], kernel = "tiles_order",
// CHECK-SAME: parameters = [{argument = 0 : i64, dim = 0 : i64, kind = "extent"}, {argument = 2 : i64, kind = "pointer"}, {kind = "workspace"}]}]
// CHECK-SAME: parameters = [{argument = 0 : i64, dim = 0 : i64, kind = "extent"},
// CHECK-SAME: {argument = 2 : i64, kind = "pointer"}, {kind = "workspace"}]
// CHECK-SAME: workspace = "mul64(4, add(mul(6, arg0.dim0), 1))"}
// CHECK-NOT: work tiles
// CHECK: tile.program 1 grid(%{{.*}}, %{{.*}}, %{{.*}}) list(%[[LIST]] : memref<?xi32>) by <list numbers 2> {
// CHECK-DAG: %[[FIRST:.*]] = tile.list_number 0
// CHECK-DAG: %[[BOUND:.*]] = tile.list_number 1
// CHECK-NOT: memref.load
// CHECK: %[[TOTAL:.*]] = arith.maxsi %[[BOUND]], %c1
// CHECK: scf.for %[[U:.*]] = %c0 to %[[TOTAL]] step %c1 {
// CHECK-NEXT: arith.addi %[[FIRST]], %[[U]]
// CHECK: memref.global "private" @tiles_order_scratch : memref<8256xi32, #gpu.address_space<workgroup>> = uninitialized
// CHECK-LABEL: gpu.func @tiles_order
// CHECK-SAME: (%[[NX:.*]]: index, %[[WORK:.*]]: memref<?xi32>, %[[LIST2:.*]]: memref<?xi32>) kernel attributes {flashc.threads = 1024 : i32}
// Nobody has drawn a number: the counter lies behind all.
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %thread_id_x, %c0
// CHECK: scf.if %[[IS_FIRST]]
// CHECK: %[[COUNTER:.*]] = arith.muli %[[NX]], %c6
// CHECK: memref.store %c0_i32, %[[LIST2]][%[[COUNTER]]]
// Measure.
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[ITEM:.*]], %[[NX]]
// CHECK: scf.if %[[INSIDE]] -> (i32) {
// CHECK: memref.load %[[WORK]][%[[ITEM]]]
// CHECK: %[[MOST:.*]] = arith.maxsi
// CHECK: %[[W:.*]] = arith.index_castui %[[MOST]] : index to i32
// CHECK: %[[OF:.*]] = arith.muli %[[NX]], %c3
// CHECK: %[[PLACE:.*]] = arith.addi %[[OF]], %[[ITEM]]
// CHECK: memref.store %[[W]], %[[LIST2]][%[[PLACE]]]
// CHECK: %[[N0:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: memref.store %[[N0]], %[[LIST2]]
// CHECK: %[[N1:.*]] = arith.index_cast %[[MOST]] : index to i32
// CHECK: memref.store %[[N1]], %[[LIST2]]
// CHECK: nvvm.redux.sync umax
// CHECK: nvvm.barrier0
// Count.
// CHECK: nvvm.match.sync any
// CHECK: llvm.intr.ctpop
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.barrier0
// Sum and place.
// CHECK-COUNT-5: nvvm.shfl.sync up
// CHECK: nvvm.barrier0
// CHECK: nvvm.barrier0
// Deal.
// CHECK: nvvm.match.sync any
// CHECK-COUNT-3: memref.store %{{.*}}, %[[LIST2]]
// CHECK-COUNT-2: nvvm.bar.warp.sync
// CHECK: gpu.return
gpu.module @kernels {
  gpu.func @tiles(%nx: index, %ny: index, %nz: index, %map: !tile.tensor_map<64 x bf16>, %work: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "tiles", target = "sm_90a",
                                  arguments = #arguments, work_tiles = ["arg0.dim0", "arg0.dim1", "arg0.dim2"],
                                  parameters = [{kind = "extent", argument = 0, dim = 0}, {kind = "extent", argument = 0, dim = 1},
                                                {kind = "extent", argument = 0, dim = 2}, {kind = "tensor_map", argument = 1, box = [64, 64, 1, 1], swizzle = 128},
                                                {kind = "pointer", argument = 2}],
                                  grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%nx, %ny, %nz) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %i32 = memref.load %work[%x] : memref<?xi32>
      %n = arith.index_cast %i32 : i32 to index
      %first = arith.subi %c0, %n : index
      %total = arith.maxsi %n, %c1 : index
      scf.for %u = %c0 to %total step %c1 {
        %key = arith.addi %first, %u : index
        %k = tile.load %map[%x, %y, %key] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
#arguments = [{name = "grid", role = "input", shape = [-1, -1, -1], dtype = "f32"},
              {name = "keys", role = "input", shape = [-1, -1, -1, 64], dtype = "bf16"},
              {name = "work", role = "input", shape = [-1], dtype = "i32"}]

// Where bounds differ between batches, every batch has items of its own. An array of two
// dimensions, which the new kernel leaves out, is two of the manifest's parameters.
// CHECK-LABEL: gpu.func @batches
// CHECK-SAME: parameters = [{argument = 0 : i64, dim = 0 : i64, kind = "extent"}, {argument = 0 : i64, dim = 2 : i64, kind = "extent"}, {argument = 2 : i64, kind = "pointer"}, {kind = "workspace"}]}]
// CHECK-SAME: workspace = "mul64(4, add(mul(mul(4, arg0.dim0), arg0.dim2), 1))"
// CHECK: list(%{{.*}} : memref<?xi32>) by <list of batches numbers 1> {
// CHECK-LABEL: gpu.func @batches_order
// CHECK-SAME: (%[[NX:.*]]: index, %[[NZ:.*]]: index, %{{.*}}: memref<?xi32>, %{{.*}}: memref<?xi32>)
// CHECK: %[[COUNT:.*]] = arith.muli %[[NX]], %[[NZ]]
// CHECK: arith.cmpi ult, %[[ITEM:.*]], %[[COUNT]]
// CHECK: %[[Z:.*]] = arith.divui %[[ITEM]], %[[NX]]
// CHECK: %[[X:.*]] = arith.remui %[[ITEM]], %[[NX]]
gpu.module @kernels {
  gpu.func @batches(%nx: index, %ny: index, %nz: index, %map: !tile.tensor_map<64 x bf16>, %unused: memref<?x?xi32, strided<[?, 1]>>, %work: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "batches", target = "sm_90a",
                                  arguments = #arguments, work_tiles = ["arg0.dim0", "arg0.dim1", "arg0.dim2"],
                                  parameters = [{kind = "extent", argument = 0, dim = 0}, {kind = "extent", argument = 0, dim = 1},
                                                {kind = "extent", argument = 0, dim = 2}, {kind = "tensor_map", argument = 1, box = [64, 64, 1, 1], swizzle = 128},
                                                {kind = "pointer", argument = 1}, {kind = "stride", argument = 1, dim = 0},
                                                {kind = "pointer", argument = 2}],
                                  grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%nx, %ny, %nz) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %z = gpu.block_id z
      %first = arith.muli %z, %nx : index
      %place = arith.addi %first, %x : index
      %i32 = memref.load %work[%place] : memref<?xi32>
      %n = arith.index_cast %i32 : i32 to index
      %total = arith.maxsi %n, %c1 : index
      scf.for %u = %c0 to %total step %c1 {
        %k = tile.load %map[%z, %x, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// CHECK-LABEL: gpu.func @heads(
// CHECK: list(%{{.*}} : memref<?xi32>) by <list of heads numbers 1> {
// CHECK-LABEL: gpu.func @heads_order
gpu.module @kernels {
  gpu.func @heads(%nx: index, %ny: index, %nz: index, %map: !tile.tensor_map<64 x bf16>, %work: memref<?xi32>) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%nx, %ny, %nz) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %z = gpu.block_id z
      %0 = arith.muli %z, %ny : index
      %1 = arith.addi %0, %y : index
      %2 = arith.muli %1, %nx : index
      %place = arith.addi %2, %x : index
      %i32 = memref.load %work[%place] : memref<?xi32>
      %n = arith.index_cast %i32 : i32 to index
      %total = arith.maxsi %n, %c1 : index
      scf.for %u = %c0 to %total step %c1 {
        %k = tile.load %map[%z, %y, %u] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// One tile of keys: every work tile is as long as any other.
// CHECK-LABEL: gpu.func @one_tile
// CHECK-SAME: kernel = "one_tile", parameters = [], requires = [], schedule = "", schema = "flashc.manifest", target
// CHECK: tile.program 1 grid(%{{.*}}, %{{.*}}, %{{.*}}) {
// CHECK-NOT: gpu.func
gpu.module @kernels {
  gpu.func @one_tile(%n: index, %map: !tile.tensor_map<64 x bf16>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "one_tile", target = "sm_90a",
                                  arguments = [], work_tiles = ["1", "1", "1"], sorted = "why", parameters = [],
                                  grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%n, %n, %n) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %k = tile.load %map[%x, %x, %x] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
    }
    gpu.return
  }
}

// -----

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>
#arguments = [{name = "grid", role = "input", shape = [-1, -1, -1], dtype = "f32"},
              {name = "keys", role = "input", shape = [-1, -1, -1, 64], dtype = "bf16"},
              {name = "work", role = "input", shape = [-1], dtype = "i32"}]

// Items are cut into at most four parts. The first number of an entry is the size of the item's parts; the program
// computes the bounds of its part from the numbers.
// CHECK-LABEL: gpu.func @parts
// CHECK-SAME: workspace = "mul64(4, add(mul(6, arg0.dim0), 2))"
// CHECK: list(%{{.*}} : memref<?xi32>) by <list numbers 2 parts 4> {
// CHECK-DAG: %[[SIZE:.*]] = tile.list_number 0
// CHECK-DAG: %[[N:.*]] = tile.list_number 1
// CHECK-NOT: memref.load
// CHECK-NOT: tile.part_size
// CHECK: %[[PART:.*]] = arith.remui %{{.*}}, %c4
// CHECK: %[[BEGIN:.*]] = arith.muli %[[PART]], %[[SIZE]]
// CHECK: arith.minsi %[[BEGIN]], %[[N]]
// CHECK-LABEL: gpu.func @parts_order
// CHECK-SAME: (%[[NX:.*]]: index, %[[NY:.*]]: index, %[[NZ:.*]]: index, %{{.*}}: memref<?xi32>, %[[LIST:.*]]: memref<?xi32>)
// CHECK-DAG: %[[TILES:.*]] = arith.divui %[[NX]], %c4
// CHECK-DAG: arith.muli %[[NY]], %[[NZ]]
// CHECK: nvvm.shfl.sync  idx
gpu.module @kernels {
  gpu.func @parts(%nx: index, %ny: index, %nz: index, %map: !tile.tensor_map<64 x bf16>, %work: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "parts", target = "sm_90a",
                                  arguments = #arguments, work_tiles = ["arg0.dim0", "arg0.dim1", "arg0.dim2"],
                                  parameters = [{kind = "extent", argument = 0, dim = 0}, {kind = "extent", argument = 0, dim = 1},
                                                {kind = "extent", argument = 0, dim = 2}, {kind = "tensor_map", argument = 1, box = [64, 64, 1, 1], swizzle = 128},
                                                {kind = "pointer", argument = 2}],
                                  grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.program 1 grid(%nx, %ny, %nz) by <sorted parts 4> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %part = arith.remui %x, %c4 : index
      %tile = arith.divui %x, %c4 : index
      %i32 = memref.load %work[%tile] : memref<?xi32>
      %n = arith.index_cast %i32 : i32 to index
      %size = tile.part_size of %n rows %n
      %begin = arith.muli %part, %size : index
      %from = arith.minsi %begin, %n : index
      %end = arith.addi %begin, %size : index
      %to = arith.minsi %end, %n : index
      %visits = arith.subi %to, %from : index
      %total = arith.maxsi %visits, %c1 : index
      scf.for %u = %c0 to %total step %c1 {
        %key = arith.addi %from, %u : index
        %k = tile.load %map[%x, %y, %key] into %ring : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
}
