// Kernels of a launch whose grids are to have one dimension: each takes its place in the grid apart, by the extents of x and
// y, its last parameters.
// RUN: flashc-opt %s --allow-unregistered-dialect --tile-fold-grid | FileCheck %s

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// CHECK-LABEL: gpu.func @main(
// CHECK-SAME:    %{{.*}}: memref<?xi32>, %[[NX:[^ ]*]]: index, %[[NY:[^ ]*]]: index)
// CHECK-SAME:    after = [{{.*}}grid = ["arg0.dim2", "1", "1"], kernel = "main_flat", parameters = []}]
// CHECK-SAME:    before = [{{.*}}grid = ["mul(mul(arg0.dim2, 8), 2)", "1", "1"], kernel = "main_delta"
// CHECK-SAME:      parameters = [{kind = "value", value = "arg0.dim2"}, {kind = "value", value = "8"}]}]
// CHECK-SAME:    grid = ["mul(mul(ceildiv(arg0.dim2, 64), arg0.dim1), arg0.dim0)", "1", "1"], kernel = "main"
// CHECK-SAME:    parameters = [{argument = 0 : i64, kind = "pointer"},
// CHECK-SAME:      {kind = "value", value = "ceildiv(arg0.dim2, 64)"}, {kind = "value", value = "arg0.dim1"}]
// CHECK:         %[[NUMBER:.*]] = gpu.block_id x
// CHECK-NEXT:    %[[REST:.*]] = arith.divui %[[NUMBER]], %[[NX]]
// CHECK-NEXT:    %[[ROWS:.*]] = arith.muli %[[REST]], %[[NX]]
// CHECK-NEXT:    %[[X:.*]] = arith.subi %[[NUMBER]], %[[ROWS]]
// CHECK-NEXT:    %[[Z:.*]] = arith.divui %[[REST]], %[[NY]]
// CHECK-NEXT:    %[[HEADS:.*]] = arith.muli %[[Z]], %[[NY]]
// CHECK-NEXT:    %[[Y:.*]] = arith.subi %[[REST]], %[[HEADS]]
// Warps that work on tiles together are told the same.
// CHECK-NEXT:    %[[UX:.*]] = tile.uniform %[[X]]
// CHECK-NEXT:    %[[UY:.*]] = tile.uniform %[[Y]]
// CHECK-NEXT:    %[[UZ:.*]] = tile.uniform %[[Z]]
// CHECK-NOT:     gpu.block_id
// CHECK:         tile.warp_specialize
// CHECK:           memref.load %{{.*}}[%[[UZ]]]
// CHECK:           memref.load %{{.*}}[%[[UX]]]
// CHECK:           memref.load %{{.*}}[%[[UY]]]

// CHECK-LABEL: gpu.func @main_delta(
// CHECK-SAME:    %[[NX:[^ ]*]]: index, %[[NY:[^ ]*]]: index)
// CHECK-NEXT:    gpu.block_id x
// CHECK-NOT:     tile.uniform
// CHECK:         "test.use"(%{{.*}}, %[[NX]])

// CHECK-LABEL: gpu.func @main_flat()
// CHECK-NEXT:    %[[X:.*]] = gpu.block_id x
// CHECK-NEXT:    "test.use"(%[[X]])
gpu.module @kernels {
  gpu.func @main(%list: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 4, kernel = "main", target = "sm_90a",
                    arguments = [{name = "q", role = "input", shape = [-1, -1, -1, 64], dtype = "bf16"}],
                    parameters = [{kind = "pointer", argument = 0}],
                    before = [{kernel = "main_delta", parameters = [], grid = ["arg0.dim2", "8", "2"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                    after = [{kernel = "main_flat", parameters = [], grid = ["arg0.dim2", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                    grid = ["ceildiv(arg0.dim2, 64)", "arg0.dim1", "arg0.dim0"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    tile.warp_specialize 1 registers(24, 240) producer {
      %z = gpu.block_id z
      %a = memref.load %list[%z] : memref<?xi32>
    } consumer {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %y = gpu.block_id y
      %a = memref.load %list[%x] : memref<?xi32>
      %b = memref.load %list[%y] : memref<?xi32>
    }
    gpu.return
  }
  gpu.func @main_delta() kernel attributes {flashc.threads = 1 : i32} {
    %x = gpu.block_id x
    %n = gpu.grid_dim x
    "test.use"(%x, %n) : (index, index) -> ()
    gpu.return
  }
  gpu.func @main_flat() kernel attributes {flashc.threads = 1 : i32} {
    %x = gpu.block_id x
    "test.use"(%x) : (index) -> ()
    gpu.return
  }
}
