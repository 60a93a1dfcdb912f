// RUN: flashc-opt %s --tile-pipeline | FileCheck %s
// RUN: flashc-opt %s --tile-pipeline=print-plan -o /dev/null | FileCheck %s --check-prefix=PLAN
// RUN: flashc-opt %S/Inputs/causal.mlir --tile-pipeline --canonicalize | FileCheck %s --check-prefix=CAUSAL

!acc = tensor<64x64xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#overlap = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                          overlap = true, ping_pong = false>
#in_order = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                           overlap = false, ping_pong = false>

gpu.module @kernels {
  // PLAN:      pipeline of 2 stages:
  // PLAN-NEXT:   tile u: arith.muli, tile.load, tile.mma_async
  // PLAN-NEXT:   tile u - 1: arith.muli, tile.load, tile.mma_async
  // PLAN-NEXT:   tile u: tile.mma_wait, tile.row_reduce, arith.maximumf, math.exp2
  // PLAN-NEXT:   tile u - 1: tile.mma_wait
  // PLAN-NEXT:   tile u: tile.scale_rows, tile.to_operand_a

  // CHECK-LABEL: gpu.func @dynamic_trip_count(
  // CHECK-SAME:      %[[Q:arg0]]: !tile.slot<64, 64, bf16>, %[[MAP:arg1]]: {{.*}}, %[[O0:arg2]]: {{.*}}, %[[M0:arg3]]:
  // CHECK-SAME:      %[[N:arg4]]: index

  // Prologue: stage 0 of the first tile.
  // CHECK:         %[[TOTAL:.*]] = arith.maxsi %[[N]], %[[C1:.*]] :
  // CHECK-NEXT:    %[[J:.*]] = arith.muli %[[C0:.*]], %[[C64:.*]] :
  // CHECK-NEXT:    %[[K:.*]] = tile.load %[[MAP]][%[[C0]], %[[C0]], %[[J]]] into %[[KRING:.*]] :
  // CHECK-NEXT:    %[[TS:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b
  // CHECK-NEXT:    %[[S:.*]] = tile.mma_wait %[[TS]] : <
  // CHECK-NEXT:    %[[X:.*]] = tile.row_reduce max %[[S]]
  // CHECK-NEXT:    %[[M:.*]] = arith.maximumf %[[M0]], %[[X]]
  // CHECK-NEXT:    %[[O:.*]] = tile.scale_rows %[[O0]], %[[M]]
  // CHECK-NEXT:    %[[E:.*]] = math.exp2 %[[S]]
  // CHECK-NEXT:    %[[P:.*]] = tile.to_operand_a %[[E]]
  // CHECK-NEXT:    %[[SECOND:.*]] = arith.constant 1 : index

  // Kernel: the second product of tile u - 1 beside the softmax of tile u.
  // CHECK-NEXT:    %[[R:.*]]:3 = scf.for %[[U:.*]] = %[[SECOND]] to %[[TOTAL]] step %[[C1]]
  // CHECK-SAME:        iter_args(%[[MI:.*]] = %[[M]], %[[PI:.*]] = %[[P]], %[[OI:.*]] = %[[O]])
  // CHECK-NEXT:      %[[PREV:.*]] = arith.subi %[[U]], %[[C1]]
  // CHECK-NEXT:      %[[J:.*]] = arith.muli %[[U]], %[[C64]]
  // CHECK-NEXT:      %[[K:.*]] = tile.load %[[MAP]][%[[C0]], %[[C0]], %[[J]]] into %[[KRING]]
  // CHECK-NEXT:      %[[TS:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b
  // CHECK-NEXT:      %[[JV:.*]] = arith.muli %[[PREV]], %[[C64]]
  // CHECK-NEXT:      %[[V:.*]] = tile.load %[[MAP]][%[[C0]], %[[C0]], %[[JV]]] into %[[VRING:.*]] :
  // CHECK-NEXT:      %[[TO:.*]] = tile.mma_async %[[PI]], %[[V]] into %[[OI]]
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_wait %[[TS]] {pending = 1 : i64}
  // CHECK-NEXT:      %[[X:.*]] = tile.row_reduce max %[[S]]
  // CHECK-NEXT:      %[[M:.*]] = arith.maximumf %[[MI]], %[[X]]
  // CHECK-NEXT:      %[[E:.*]] = math.exp2 %[[S]]
  // CHECK-NEXT:      %[[PV:.*]] = tile.mma_wait %[[TO]] : <
  // CHECK-NEXT:      %[[O:.*]] = tile.scale_rows %[[PV]], %[[M]]
  // CHECK-NEXT:      %[[P:.*]] = tile.to_operand_a %[[E]]
  // CHECK-NEXT:      scf.yield %[[M]], %[[P]], %[[O]]
  // CHECK-NEXT:    }

  // Epilogue: the second product of the last tile.
  // CHECK-NEXT:    %[[PREV:.*]] = arith.subi %[[TOTAL]], %[[C1]]
  // CHECK-NEXT:    %[[JV:.*]] = arith.muli %[[PREV]], %[[C64]]
  // CHECK-NEXT:    %[[V:.*]] = tile.load %[[MAP]][%[[C0]], %[[C0]], %[[JV]]] into %[[VRING]]
  // CHECK-NEXT:    %[[TO:.*]] = tile.mma_async %[[R]]#1, %[[V]] into %[[R]]#2
  // CHECK-NEXT:    %[[PV:.*]] = tile.mma_wait %[[TO]] : <
  // CHECK-NEXT:    tile.scale_rows %[[PV]], %[[R]]#0
  gpu.func @dynamic_trip_count(%q: !slot, %map: !map, %o: !acc, %m: !row, %n: index) kernel
      attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %total = arith.maxsi %n, %c1 : index
      %r:2 = scf.for %u = %c0 to %total step %c1 iter_args(%acc = %o, %mi = %m) -> (!acc, !row) {
        %j = arith.muli %u, %c64 : index
        %k = tile.load %map[%c0, %c0, %j] into %kring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %x = tile.row_reduce max %s : !acc -> !row
        %mx = arith.maximumf %mi, %x : !row
        %acc1 = tile.scale_rows %acc, %mx : !acc, !row
        %e = math.exp2 %s : !acc
        %p = tile.to_operand_a %e : !acc -> !a
        %v = tile.load %map[%c0, %c0, %j] into %vring : !map, !ring -> !slot
        %to = tile.mma_async %p, %v into %acc1 : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2, %mx : !acc, !row
      }
      %used = tile.scale_rows %r#0, %r#1 : !acc, !row
    }
    gpu.return
  }

  // The second product reads a slot from outside, and the accumulator as the loop carries it.
  // CHECK-LABEL: gpu.func @static_trip_count
  // CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[P:.*]] = %{{.*}}, %[[O:.*]] = %arg2)
  // CHECK:           %[[TO:.*]] = tile.mma_async %[[P]], %arg0 into %[[O]]
  // CHECK-NEXT:      tile.mma_wait %{{.*}} {pending = 1 : i64}
  // CHECK-NEXT:      %[[PV:.*]] = tile.mma_wait %[[TO]]
  // CHECK-NEXT:      %[[P2:.*]] = tile.to_operand_a
  // CHECK-NEXT:      scf.yield %[[P2]], %[[PV]]

  // A kernel that does not ask for overlap keeps its loop.
  // CHECK-LABEL: gpu.func @in_order
  // CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[O:.*]] = %arg2) ->
  // CHECK-NEXT:      tile.mma_async %arg0, %arg0 transpose_b
  // CHECK-NEXT:      tile.mma_wait
  // CHECK-NEXT:      tile.to_operand_a
  // CHECK-NEXT:      tile.mma_async %{{.*}}, %arg0 into %[[O]]
  gpu.func @static_trip_count(%q: !slot, %map: !map, %o: !acc) kernel attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    tile.program 1 {
    ^bb0(%w: index):
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %to = tile.mma_async %p, %q into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }
  gpu.func @in_order(%q: !slot, %map: !map, %o: !acc) kernel attributes {tile.schedule = #in_order} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    tile.program 1 {
    ^bb0(%w: index):
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%acc = %o) -> (!acc) {
        %ts = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %to = tile.mma_async %p, %q into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %acc2 = tile.mma_wait %to : !tile.token<!acc> -> !acc
        scf.yield %acc2 : !acc
      }
    }
    gpu.return
  }
}

// In the whole program: the mask question stays in the prologue; the vote stands before the wait, the rescale after it.
// CAUSAL:      tile.outside %c0 of
// CAUSAL:      scf.for
// CAUSAL:        tile.load %arg1
// CAUSAL-NEXT:   tile.mma_async
// CAUSAL:        tile.load %arg2
// CAUSAL-NEXT:   %[[TO:.*]] = tile.mma_async
// CAUSAL-NEXT:   tile.mma_wait {{.*}} {pending = 1 : i64}
// CAUSAL:        tile.map
// CAUSAL:        tile.row_reduce sum
// CAUSAL:        %[[ANY:.*]] = tile.vote_any
// CAUSAL-NEXT:   %[[O:.*]] = tile.mma_wait %[[TO]]
// CAUSAL-NEXT:   tile.to_operand_a
// CAUSAL-NEXT:   scf.if %[[ANY]]
// CAUSAL-NEXT:     tile.scale_rows %[[O]]
