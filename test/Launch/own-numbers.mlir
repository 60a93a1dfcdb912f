// What is read for a warpgroup's own visits is in the list for each of them, and each hears its own numbers.
// RUN: flashc-opt %s --tile-order --canonicalize --cse > %t.order
// RUN: FileCheck %s --check-prefix=ORDER < %t.order
// RUN: flashc-opt %t.order | flashc-opt | FileCheck %s --check-prefix=ORDER
// RUN: flashc-opt %t.order --tile-pipeline --tile-persist --canonicalize --cse > %t.persist
// RUN: FileCheck %s --check-prefix=PERSIST < %t.persist
// RUN: flashc-opt %t.persist --tile-ping-pong --tile-specialize --tile-place-waits --canonicalize --cse | flashc-opt | FileCheck %s --check-prefix=SPECIAL

!acc = tensor<64x64xf32, #tile.acc>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!qring = !tile.ring<1, 64, 64, bf16, private true>
!slot = !tile.slot<64, 64, bf16>
#arguments = [{name = "grid", role = "input", shape = [-1, -1, -1], dtype = "f32"},
              {name = "keys", role = "input", shape = [-1, -1, -1, 64], dtype = "bf16"},
              {name = "work", role = "input", shape = [-1], dtype = "i32"}]
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = true>

// Behind the number of visits of all come the last own visits of warpgroup 0 and those of warpgroup 1: with its work an
// item is eight words. %begin is read for own visits only: it is no number of all, and read once.
// ORDER-LABEL: gpu.func @own(
// ORDER-SAME:    workspace = "mul64(4, add(mul(8, arg0.dim0), 1))"
// ORDER:         tile.program 2 grid({{.*}}) list({{.*}}) by <list numbers 1 own 1> {
// ORDER:           %[[N:.*]] = tile.list_number 0
// ORDER-NEXT:      %[[TOTAL:.*]] = arith.maxsi %[[N]], %c1
// ORDER-NEXT:      %[[LAST:.*]] = tile.list_number 1
// ORDER-NOT:       memref.load
// ORDER:           tile.own_visits %c0 to %[[LAST]] of %[[TOTAL]] listed
// ORDER-LABEL: gpu.func @own_order(
// ORDER:         memref.load %[[ARRAY:.*]][%[[ITEM:.*]]] : memref<?xi32>
// ORDER:         %[[WORK:.*]] = arith.maxsi %{{.*}}, %c1
// ORDER-NEXT:    %[[NEXT:.*]] = arith.addi %[[ITEM]], %{{.*}}
// ORDER-NEXT:    memref.load %[[ARRAY]][%[[NEXT]]]
// ORDER-NEXT:    %[[BEGIN:.*]] = arith.index_cast
// ORDER-NEXT:    %[[LAST0:.*]] = arith.subi %[[BEGIN]], %[[BEGIN]]
// ORDER-NEXT:    %[[PLACE1:.*]] = arith.addi %[[NEXT]], %c1
// ORDER-NEXT:    memref.load %[[ARRAY]][%[[PLACE1]]]
// ORDER-NEXT:    %[[OWN1:.*]] = arith.index_cast
// ORDER-NEXT:    %[[LAST1:.*]] = arith.subi %[[OWN1]], %[[BEGIN]]
// ORDER-NOT:     memref.load
// ORDER:         %[[NUMBER0:.*]] = arith.index_cast %[[WORK]]
// ORDER:         memref.store %[[NUMBER0]]
// ORDER:         %[[NUMBER1:.*]] = arith.index_cast %[[LAST0]]
// ORDER:         memref.store %[[NUMBER1]]
// ORDER:         %[[NUMBER2:.*]] = arith.index_cast %[[LAST1]]
// ORDER:         memref.store %[[NUMBER2]]

// An entry is an item and three numbers. The warpgroup has its own from its place on.
// PERSIST-LABEL: gpu.func @own(
// PERSIST:         ^bb0(%[[W:.*]]: index):
// PERSIST:           %[[PLACE:.*]] = arith.muli %{{.*}}, %c4
// PERSIST:           %[[OWN:.*]] = arith.addi %[[W]], %c2
// PERSIST:           %[[AT:.*]] = arith.addi %[[PLACE]], %[[OWN]]
// PERSIST:           memref.load %{{.*}}[%[[AT]]]
// PERSIST:           scf.for {{.*}} iter_args(
// PERSIST:             tile.draw
// PERSIST:               %[[AT:.*]] = arith.addi %{{.*}}, %[[OWN]]
// PERSIST-NEXT:          %[[READ:.*]] = memref.load %{{.*}}[%[[AT]]]
// PERSIST-NEXT:          %[[NUMBER:.*]] = arith.index_cast %[[READ]]
// PERSIST-NEXT:          tile.drawn %{{.*}}, %[[NUMBER]] : index, index, index, index, index

// The producer carries no number of one consumer, and publishes those of both, of x, y, z and the number of all behind
// them. What is computed of the warpgroup in front of the loop it computes again for each.
// SPECIAL-LABEL: gpu.func @own(
// SPECIAL:         tile.warp_specialize 2 registers(24, 240) producer {
// SPECIAL:           scf.for %[[TURN:[^ ]*]] = %c0 to %{{[^ ]*}} step %c1 iter_args(%{{[^,]*}}, %[[N:[^ ]*]] = %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) ->
// SPECIAL:             %[[TOTAL:.*]] = arith.maxsi %[[N]], %c1
// SPECIAL:             scf.for %{{.*}} = %c1 to %[[TOTAL]] step
// SPECIAL:             tile.publish %{{[^ ]*}}, %[[X:[^ ]*]], %c0, %{{[^ ]*}}, %[[NEXT:[^ ]*]] own %[[OWN0:[^ ]*]], %[[OWN1:[^ ]*]] in %[[TURN]]
// SPECIAL:             scf.yield %[[X]], %[[NEXT]],
// SPECIAL:         } consumer {
// SPECIAL:         ^bb0(%[[W:.*]]: index):
// SPECIAL:             %{{.*}}, %[[ALL:.*]]:4, %[[OWN:.*]] = tile.published %{{.*}} : index, index, index, index own of %[[W]] : index
// SPECIAL-DAG:         %[[X:.*]] = tile.uniform %[[ALL]]#0
// SPECIAL-DAG:         %[[N:.*]] = tile.uniform %[[ALL]]#3
// SPECIAL-DAG:         %[[LAST:.*]] = tile.uniform %[[OWN]]
// SPECIAL:             scf.yield %[[X]], %[[N]], %[[LAST]],
gpu.module @kernels {
  gpu.func @own(%nx: index, %map: !map, %array: memref<?xi32>, %out: memref<1x1x?x64xbf16>) kernel
      attributes {tile.schedule = #schedule, flashc.launch = {schema = "flashc.manifest", version = 1, kernel = "own", target = "sm_90a",
                                  arguments = #arguments, work_tiles = ["arg0.dim0", "1", "1"],
                                  parameters = [{kind = "extent", argument = 0, dim = 0}, {kind = "tensor_map", argument = 1, box = [64, 64, 1, 1], swizzle = 128},
                                                {kind = "pointer", argument = 2}, {kind = "pointer", argument = 2}],
                                  grid = ["1", "1", "1"], block = [1, 1, 1], cluster = [1, 1, 1], dynamic_shared_memory = 0}} {
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : !acc
    tile.program 2 grid(%nx, %c1, %c1) by <sorted> {
    ^bb0(%w: index):
      %x = gpu.block_id x
      %i32 = memref.load %array[%x] : memref<?xi32>
      %n = arith.index_cast %i32 : i32 to index
      %total = arith.maxsi %n, %c1 : index
      %row = arith.addi %x, %w : index
      %q = tile.load %map[%c0, %c0, %row] into %qring : !map, !qring -> !slot
      %next = arith.addi %x, %nx : index
      %begin32 = memref.load %array[%next] : memref<?xi32>
      %begin = arith.index_cast %begin32 : i32 to index
      %place = arith.addi %next, %w : index
      %own32 = memref.load %array[%place] : memref<?xi32>
      %own = arith.index_cast %own32 : i32 to index
      %distance = arith.subi %own, %begin : index
      %last = tile.uniform %distance
      %from, %to = tile.own_visits %c0 to %last of %total listed
      tile.advance_ring %from of %kring, %vring : !ring, !ring
      %o = scf.for %u = %from to %to step %c1 iter_args(%acc = %zero) -> (!acc) {
        %k = tile.load %map[%c0, %c0, %u] into %kring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> tensor<64x64xbf16, #tile.operand_a>
        %v = tile.load %map[%c0, %c0, %u] into %vring : !map, !ring -> !slot
        %to2 = tile.mma_async %p, %v into %acc : !acc {stage = 1 : i64} : tensor<64x64xbf16, #tile.operand_a>, !slot -> !tile.token<!acc>
        %sum = tile.mma_wait %to2 : !tile.token<!acc> -> !acc
        scf.yield %sum : !acc
      }
      %rest = arith.subi %total, %to : index
      tile.advance_ring %rest of %kring, %vring : !ring, !ring
      tile.store %o, %out[%c0, %c0, %row] limit %nx : !acc, memref<1x1x?x64xbf16>
    }
    gpu.return
  }
}
