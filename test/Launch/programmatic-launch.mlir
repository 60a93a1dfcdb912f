// RUN: flashc-opt %s --split-input-file --tile-programmatic-launch | FileCheck %s

#schedule = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>

// Each role waits where it first touches memory, outside of loops; what goes on without is in front of that.
// CHECK-LABEL: gpu.func @roles(
// CHECK-NOT: overlap
// CHECK-SAME: programmatic_launch = true
// CHECK-NOT: griddepcontrol
// CHECK: tile.warp_specialize
// CHECK: %[[LAST:.*]] = arith.addi
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: scf.for %{{.*}} = %c0 to %[[LAST]]
// CHECK-NOT: griddepcontrol
// CHECK: } consumer {
// CHECK: %[[FIRST:.*]] = arith.addi %arg3
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: memref.load %{{.*}}[%[[FIRST]]]
// CHECK-NOT: griddepcontrol
// CHECK: gpu.return
// The first kernel waits for nobody.
// CHECK-LABEL: gpu.func @roles_rows(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK-NOT: griddepcontrol
// CHECK: gpu.return
// The second one waits for the first, whatever it reads.
// CHECK-LABEL: gpu.func @roles_order(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK-NEXT: arith.constant
// CHECK-NEXT: gpu.thread_id
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: memref.store
// CHECK-NEXT: gpu.return
gpu.module @kernels {
  gpu.func @roles(%n: index, %map: !tile.tensor_map<64 x bf16>, %list: memref<?xi32>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "roles", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          before = [{kernel = "roles_rows", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0},
                                    {kernel = "roles_order", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %ring = tile.alloc_ring : !tile.ring<2, 64, 64, bf16>
    tile.warp_specialize 1 registers(24, 240) producer {
      %last = arith.addi %n, %c1 : index
      scf.for %u = %c0 to %last step %c1 {
        %x = memref.load %list[%u] : memref<?xi32>
        %row = arith.index_cast %x : i32 to index
        tile.acquire %ring[%u] : !tile.ring<2, 64, 64, bf16>
        tile.copy_async %map[%c0, %c0, %row] into %ring[%u] : !tile.tensor_map<64 x bf16>, !tile.ring<2, 64, 64, bf16>
      }
    } consumer {
    ^bb0(%w: index):
      %last = arith.addi %n, %c1 : index
      %first = arith.addi %w, %c1 : index
      %x = memref.load %list[%first] : memref<?xi32>
      scf.for %u = %c0 to %last step %c1 {
        %s = tile.wait %ring[%u] : !tile.ring<2, 64, 64, bf16> -> !tile.slot<64, 64, bf16>
        tile.release %s : !tile.slot<64, 64, bf16>
      }
    }
    gpu.return
  }
  gpu.func @roles_rows(%rows: memref<?xi32>) kernel {
    %i = gpu.thread_id x
    %x = memref.load %rows[%i] : memref<?xi32>
    memref.store %x, %rows[%i] : memref<?xi32>
    gpu.return
  }
  gpu.func @roles_order(%list: memref<?xi32>) kernel {
    %zero = arith.constant 0 : i32
    %i = gpu.thread_id x
    memref.store %zero, %list[%i] : memref<?xi32>
    gpu.return
  }
}

// -----

// What is read in front of the roles is read behind the only wait.
// CHECK-LABEL: gpu.func @reads_early(
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: memref.load
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: gpu.func @reads_early_order(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
gpu.module @kernels {
  gpu.func @reads_early(%n: index, %list: memref<?xi32>) kernel
      attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "reads_early", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          before = [{kernel = "reads_early_order", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %x = memref.load %list[%n] : memref<?xi32>
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      memref.store %x, %list[%w] : memref<?xi32>
    }
    gpu.return
  }
  gpu.func @reads_early_order() kernel {
    gpu.return
  }
}

// -----

// A role that touches nothing waits all the same, and so does a kernel.
// CHECK-LABEL: gpu.func @touches_nothing(
// CHECK: tile.warp_specialize 1 registers(24, 240) producer {
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: } consumer {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: memref.load
// CHECK-LABEL: gpu.func @touches_nothing_runs(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: gpu.return
gpu.module @kernels {
  gpu.func @touches_nothing(%list: memref<?xi32>) kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "touches_nothing", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          before = [{kernel = "touches_nothing_minmax", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0},
                                    {kernel = "touches_nothing_runs", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %x = memref.load %list[%w] : memref<?xi32>
    }
    gpu.return
  }
  gpu.func @touches_nothing_minmax() kernel {
    gpu.return
  }
  gpu.func @touches_nothing_runs() kernel {
    gpu.return
  }
}

// -----

// Nothing runs before @alone, and nobody asks for @apart.
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: gpu.func @alone(
// CHECK-SAME: kernel = "alone", parameters = [], requires
// CHECK-LABEL: gpu.func @apart(
// CHECK-SAME: kernel = "apart", parameters = [], schema
// CHECK-LABEL: gpu.func @apart_order(
// CHECK-NOT: griddepcontrol
gpu.module @kernels {
  gpu.func @alone() kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "alone", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    gpu.return
  }
  gpu.func @apart() kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "apart", target = "sm_90a",
                          arguments = [], parameters = [],
                          before = [{kernel = "apart_order", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    gpu.return
  }
  gpu.func @apart_order() kernel {
    gpu.return
  }
}

// -----

// What runs after the main kernel waits for it, and starts when it has ended: the main kernel lets nobody start early.
// CHECK-LABEL: gpu.func @middle(
// CHECK-SAME: programmatic_launch = true
// CHECK-NOT: launch_dependents
// CHECK: nvvm.griddepcontrol wait
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: gpu.func @middle_first(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK-NEXT: gpu.return
// CHECK-LABEL: gpu.func @middle_merge(
// CHECK-NEXT: nvvm.griddepcontrol launch_dependents
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: gpu.return
// CHECK-LABEL: gpu.func @middle_last(
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: gpu.return
// The first of all waits for nobody, also if it is the main kernel.
// CHECK-LABEL: gpu.func @first(
// CHECK-NEXT: gpu.return
// CHECK-LABEL: gpu.func @first_merge(
// CHECK-NEXT: nvvm.griddepcontrol wait
// CHECK-NEXT: gpu.return
gpu.module @kernels {
  gpu.func @middle() kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "middle", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          before = [{kernel = "middle_first", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          after = [{kernel = "middle_merge", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0},
                                    {kernel = "middle_last", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    gpu.return
  }
  gpu.func @middle_first() kernel {
    gpu.return
  }
  gpu.func @middle_merge() kernel {
    gpu.return
  }
  gpu.func @middle_last() kernel {
    gpu.return
  }
  gpu.func @first() kernel attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "first", target = "sm_90a",
                          arguments = [], parameters = [], overlap = true,
                          after = [{kernel = "first_merge", parameters = [], grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}],
                          grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    gpu.return
  }
  gpu.func @first_merge() kernel {
    gpu.return
  }
}

// -----

// A decoding kernel that is alone waits itself, behind its barriers, and lets the next launch start when it only stores.
// CHECK-LABEL: gpu.func @warps(
// CHECK-SAME:  programmatic_launch = true
// CHECK:         tile.alloc_ring
// CHECK-NEXT:    tile.warp_program 4
// CHECK:           gpu.block_id
// CHECK-NEXT:      nvvm.griddepcontrol wait
// CHECK-NEXT:      memref.load
// CHECK:           tile.merge_warps
// CHECK-NEXT:      nvvm.griddepcontrol launch_dependents
// CHECK-NOT:     griddepcontrol
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @warps(%data: memref<?xf32>, %acc: tensor<16x64xf32, #tile.acc>, %rows: tensor<16xf32, #tile.row>) kernel
      attributes {flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "warps", target = "sm_90a",
                  arguments = [], parameters = [], overlap = true,
                  grid = ["1", "1", "1"], block = [128, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %ring = tile.alloc_ring : <2, 16, 64, bf16, private true>
    tile.warp_program 4 {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %f = memref.load %data[%x] : memref<?xf32>
      %merged:3 = tile.merge_warps %acc, %rows, %rows factor 1.0
          : (tensor<16x64xf32, #tile.acc>, tensor<16xf32, #tile.row>, tensor<16xf32, #tile.row>)
         -> (tensor<16x16xf32, #tile.acc>, tensor<16xf32, #tile.row>, tensor<16xf32, #tile.row>)
      memref.store %f, %data[%w] : memref<?xf32>
    }
    gpu.return
  }
}
