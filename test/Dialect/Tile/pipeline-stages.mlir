// RUN: flashc-opt %s --tile-pipeline | FileCheck %s
// RUN: flashc-opt %s --tile-pipeline=print-plan -o /dev/null | FileCheck %s --check-prefix=PLAN
// RUN: flashc-opt %s --tile-pipeline --remark-format=emitRemark --remarks-filter-missed=tile -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Pipelines of other loops than attention's: any number of products, accumulators and stages.

!acc = tensor<64x64xf32, #tile.acc>
!part = tensor<64xf32, #tile.lane_partial>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
#overlap = #tile.schedule<consumers = 1, producer_registers = 24, consumer_registers = 240,
                          overlap = true, ping_pong = false>

gpu.module @kernels {
  // Two products read what becomes of the third, each with an accumulator. The first of them is read in its own tile,
  // too.
  // PLAN:      pipeline of 2 stages:
  // PLAN-NEXT:   tile u: tile.load, tile.mma_async
  // PLAN-NEXT:   tile u - 1: tile.load, tile.mma_async, tile.load, tile.mma_async
  // PLAN-NEXT:   tile u: tile.mma_wait, math.exp2
  // PLAN-NEXT:   tile u - 1: tile.mma_wait, tile.row_reduce, arith.addf, tile.mma_wait
  // PLAN-NEXT:   tile u: tile.to_operand_a, arith.addf

  // CHECK-LABEL: gpu.func @three_products_two_accumulators(
  // CHECK-SAME:      %[[Q:arg0]]: {{.*}}, %[[MAP:arg1]]: {{.*}}, %[[O0:arg2]]: {{.*}}, %[[L0:arg3]]: tensor

  // Prologue
  // CHECK:         tile.load %[[MAP]][%[[C0:.*]], %[[C0]], %[[C0]]] into %[[KRING:.*]] :
  // CHECK-NEXT:    %[[TS:.*]] = tile.mma_async %[[Q]], %{{.*}} transpose_b
  // CHECK-NEXT:    %[[S:.*]] = tile.mma_wait %[[TS]] : <
  // CHECK-NEXT:    %[[E:.*]] = math.exp2 %[[S]]
  // CHECK-NEXT:    %[[P:.*]] = tile.to_operand_a %[[E]]
  // CHECK-NEXT:    %[[Z:.*]] = arith.addf %[[O0]], %[[E]]

  // Kernel
  // CHECK:         %[[R:.*]]:4 = scf.for %[[U:.*]] = %{{.*}} to %{{.*}} step %[[C1:.*]] iter_args(
  // CHECK-SAME:        %[[PI:.*]] = %[[P]], %[[XI:.*]] = %[[O0]], %[[ZI:.*]] = %[[Z]], %[[LI:.*]] = %[[L0]])
  // CHECK-NEXT:      %[[PREV:.*]] = arith.subi %[[U]], %[[C1]]
  // CHECK-NEXT:      tile.load %[[MAP]][%[[C0]], %[[C0]], %[[U]]] into %[[KRING]]
  // CHECK-NEXT:      %[[TS:.*]] = tile.mma_async %[[Q]], %{{.*}} transpose_b :
  // CHECK-NEXT:      %[[V:.*]] = tile.load %[[MAP]][%[[C0]], %[[C1]], %[[PREV]]] into %[[VRING:.*]] :
  // CHECK-NEXT:      %[[TX:.*]] = tile.mma_async %[[PI]], %[[V]] into %[[XI]] : {{.*}} {stage = 1 : i64}
  // CHECK-NEXT:      %[[V2:.*]] = tile.load %[[MAP]][%[[C0]], %[[C4:.*]], %[[PREV]]] into %[[WRING:.*]] :
  // CHECK-NEXT:      %[[TY:.*]] = tile.mma_async %[[PI]], %[[V2]] into %[[ZI]] : {{.*}} {stage = 1 : i64}
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_wait %[[TS]] {pending = 2 : i64}
  // CHECK-NEXT:      %[[E:.*]] = math.exp2 %[[S]]
  // CHECK-NEXT:      %[[X:.*]] = tile.mma_wait %[[TX]] {pending = 1 : i64}
  // CHECK-NEXT:      %[[LX:.*]] = tile.row_reduce sum %[[X]]
  // CHECK-NEXT:      %[[L:.*]] = arith.addf %[[LI]], %[[LX]]
  // CHECK-NEXT:      %[[Y:.*]] = tile.mma_wait %[[TY]] : <
  // CHECK-NEXT:      %[[P2:.*]] = tile.to_operand_a %[[E]]
  // CHECK-NEXT:      %[[Z2:.*]] = arith.addf %[[Y]], %[[E]]
  // CHECK-NEXT:      scf.yield %[[P2]], %[[X]], %[[Z2]], %[[L]]
  // CHECK-NEXT:    }

  // Epilogue
  // CHECK-NEXT:    %[[C3:.*]] = arith.constant 3 : index
  // CHECK-NEXT:    %[[V:.*]] = tile.load %[[MAP]][%[[C0]], %[[C1]], %[[C3]]] into %[[VRING]]
  // CHECK-NEXT:    %[[TX:.*]] = tile.mma_async %[[R]]#0, %[[V]] into %[[R]]#1
  // CHECK-NEXT:    %[[V2:.*]] = tile.load %[[MAP]][%[[C0]], %[[C4]], %[[C3]]] into %[[WRING]]
  // CHECK-NEXT:    %[[TY:.*]] = tile.mma_async %[[R]]#0, %[[V2]] into %[[R]]#2
  // CHECK-NEXT:    %[[X:.*]] = tile.mma_wait %[[TX]] {pending = 1 : i64}
  // CHECK-NEXT:    %[[LX:.*]] = tile.row_reduce sum %[[X]]
  // CHECK-NEXT:    %[[L:.*]] = arith.addf %[[R]]#3, %[[LX]]
  // CHECK-NEXT:    %[[Y:.*]] = tile.mma_wait %[[TY]] : <
  // CHECK-NEXT:    arith.addf %[[X]], %[[Y]]
  // CHECK-NEXT:    tile.combine %[[L]]
  gpu.func @three_products_two_accumulators(%q: !slot, %map: !map, %o: !acc, %sum: !part) kernel
      attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    %wring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %r:3 = scf.for %u = %c0 to %c4 step %c1 iter_args(%x = %o, %y = %o, %l = %sum) -> (!acc, !acc, !part) {
        %k = tile.load %map[%c0, %c0, %u] into %kring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %e = math.exp2 %s : !acc
        %p = tile.to_operand_a %e : !acc -> !a
        %v = tile.load %map[%c0, %c1, %u] into %vring : !map, !ring -> !slot
        %tx = tile.mma_async %p, %v into %x : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %z = arith.addf %y, %e : !acc
        %v2 = tile.load %map[%c0, %c4, %u] into %wring : !map, !ring -> !slot
        %ty = tile.mma_async %p, %v2 into %z : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %x2 = tile.mma_wait %tx : !tile.token<!acc> -> !acc
        %lx = tile.row_reduce sum %x2 : !acc -> !part
        %l2 = arith.addf %l, %lx : !part
        %y2 = tile.mma_wait %ty : !tile.token<!acc> -> !acc
        scf.yield %x2, %y2, %l2 : !acc, !acc, !part
      }
      %used = arith.addf %r#0, %r#1 : !acc
      %used2 = tile.combine %r#2 : !part -> tensor<64xf32, #tile.row>
    }
    gpu.return
  }

  // The product of the next tile is issued before the exponentials of this one.
  // PLAN:      pipeline of 2 stages:
  // PLAN-NEXT:   tile u: tile.load, tile.mma_async
  // PLAN-NEXT:   tile u - 1: math.exp2, tile.row_reduce, arith.addf
  // PLAN-NEXT:   tile u: tile.mma_wait

  // CHECK-LABEL: gpu.func @single_product_is_reduced(
  // CHECK:         %[[T:.*]] = tile.mma_async
  // CHECK-NEXT:    %[[S:.*]] = tile.mma_wait %[[T]]
  // CHECK:         %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[SI:.*]] = %[[S]], %[[LI:.*]] = %arg2)
  // CHECK:           tile.load
  // CHECK-NEXT:      %[[T:.*]] = tile.mma_async
  // CHECK-NEXT:      %[[E:.*]] = math.exp2 %[[SI]]
  // CHECK-NEXT:      %[[X:.*]] = tile.row_reduce sum %[[E]]
  // CHECK-NEXT:      %[[L:.*]] = arith.addf %[[LI]], %[[X]]
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_wait %[[T]]
  // CHECK-NEXT:      scf.yield %[[S]], %[[L]]
  // CHECK:         %[[E:.*]] = math.exp2 %[[R]]#0
  // CHECK-NEXT:    %[[X:.*]] = tile.row_reduce sum %[[E]]
  // CHECK-NEXT:    %[[L:.*]] = arith.addf %[[R]]#1, %[[X]]
  // CHECK-NEXT:    tile.combine %[[L]]
  gpu.func @single_product_is_reduced(%q: !slot, %map: !map, %sum: !part) kernel
      attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %ring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %r = scf.for %u = %c0 to %c4 step %c1 iter_args(%l = %sum) -> (!part) {
        %k = tile.load %map[%c0, %c0, %u] into %ring : !map, !ring -> !slot
        %t = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t {read_stage = 1 : i64} : !tile.token<!acc> -> !acc
        %e = math.exp2 %s : !acc
        %x = tile.row_reduce sum %e : !acc -> !part
        %l2 = arith.addf %l, %x : !part
        scf.yield %l2 : !part
      }
      %used = tile.combine %r : !part -> tensor<64xf32, #tile.row>
    }
    gpu.return
  }

  // Three stages: two tiles are begun before the loop, and two ended behind it. The slot goes to both products that
  // read it, and the index is computed where it is needed.
  // PLAN:      pipeline of 3 stages:
  // PLAN-NEXT:   tile u: arith.muli, tile.load, tile.mma_async
  // PLAN-NEXT:   tile u - 1: tile.mma_async
  // PLAN-NEXT:   tile u - 2: arith.muli, tile.load, tile.mma_async
  // PLAN-NEXT:   tile u: tile.mma_wait
  // PLAN-NEXT:   tile u - 1: tile.mma_wait
  // PLAN-NEXT:   tile u: tile.to_operand_a
  // PLAN-NEXT:   tile u - 2: tile.mma_wait
  // PLAN-NEXT:   tile u - 1: tile.to_operand_a

  // CHECK-LABEL: gpu.func @three_stages(
  // Tile 0 has done stages 0 and 1, tile 1 stage 0.
  // CHECK:         %[[K0:.*]] = tile.load
  // CHECK:         %[[P0:.*]] = tile.to_operand_a
  // CHECK:         %[[K1:.*]] = tile.load
  // CHECK:         %[[TS:.*]] = tile.mma_async %arg0, %[[K1]] transpose_b
  // CHECK-NEXT:    %[[TT:.*]] = tile.mma_async %[[P0]], %[[K0]] {stage = 1 : i64}
  // CHECK-NEXT:    %[[S:.*]] = tile.mma_wait %[[TS]] {pending = 1 : i64}
  // CHECK-NEXT:    %[[T:.*]] = tile.mma_wait %[[TT]] : <
  // CHECK-NEXT:    %[[PT0:.*]] = tile.to_operand_a %[[T]]
  // CHECK-NEXT:    %[[P1:.*]] = tile.to_operand_a %[[S]]
  // CHECK:         %[[R:.*]]:4 = scf.for %{{.*}} = %c2{{.*}} iter_args(%[[P:.*]] = %[[P1]], %[[K:.*]] = %[[K1]],
  // CHECK-SAME:        %[[PT:.*]] = %[[PT0]], %[[X:.*]] = %arg2)
  // CHECK:           %[[KN:.*]] = tile.load
  // CHECK-NEXT:      %[[TS:.*]] = tile.mma_async %arg0, %[[KN]] transpose_b
  // CHECK-NEXT:      %[[TT:.*]] = tile.mma_async %[[P]], %[[K]] {stage = 1 : i64}
  // CHECK:           %[[V:.*]] = tile.load
  // CHECK-NEXT:      %[[TX:.*]] = tile.mma_async %[[PT]], %[[V]] into %[[X]] : {{.*}} {stage = 2 : i64}
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_wait %[[TS]] {pending = 2 : i64}
  // CHECK-NEXT:      %[[T:.*]] = tile.mma_wait %[[TT]] {pending = 1 : i64}
  // CHECK-NEXT:      %[[PN:.*]] = tile.to_operand_a %[[S]]
  // CHECK-NEXT:      %[[XN:.*]] = tile.mma_wait %[[TX]] : <
  // CHECK-NEXT:      %[[PTN:.*]] = tile.to_operand_a %[[T]]
  // CHECK-NEXT:      scf.yield %[[PN]], %[[KN]], %[[PTN]], %[[XN]]
  // The last tile but one does stage 2, the last tile stages 1 and 2.
  // CHECK:         tile.mma_async %[[R]]#0, %[[R]]#1 {stage = 1 : i64}
  // CHECK:         tile.mma_async %[[R]]#2, %{{.*}} into %[[R]]#3 : {{.*}} {stage = 2 : i64}
  // CHECK:         %[[PT:.*]] = tile.to_operand_a
  // CHECK:         %[[V:.*]] = tile.load
  // CHECK-NEXT:    %[[T:.*]] = tile.mma_async %[[PT]], %[[V]] into %{{.*}} : {{.*}} {stage = 2 : i64}
  // CHECK-NEXT:    %[[X:.*]] = tile.mma_wait %[[T]]
  // CHECK-NEXT:    arith.addf %[[X]], %[[X]]
  gpu.func @three_stages(%q: !slot, %map: !map, %o: !acc, %n: index) kernel attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %ring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.program 1 {
    ^bb0(%w: index):
      %total = arith.maxsi %n, %c2 : index
      %r = scf.for %u = %c0 to %total step %c1 iter_args(%x = %o) -> (!acc) {
        %j = arith.muli %u, %n : index
        %k = tile.load %map[%c0, %c0, %j] into %ring : !map, !ring -> !slot
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        %p = tile.to_operand_a %s : !acc -> !a
        %tt = tile.mma_async %p, %k {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %t = tile.mma_wait %tt : !tile.token<!acc> -> !acc
        %pt = tile.to_operand_a %t : !acc -> !a
        %v = tile.load %map[%c0, %c0, %j] into %vring : !map, !ring -> !slot
        %tx = tile.mma_async %pt, %v into %x : !acc {stage = 2 : i64} : !a, !slot -> !tile.token<!acc>
        %x2 = tile.mma_wait %tx : !tile.token<!acc> -> !acc
        scf.yield %x2 : !acc
      }
      %used = arith.addf %r, %r : !acc
    }
    gpu.return
  }

  // A loop without stages stays as it is.
  // CHECK-LABEL: gpu.func @one_stage
  // CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} {
  // CHECK-NEXT:      tile.mma_async
  // CHECK-NEXT:      tile.mma_wait
  // CHECK-NEXT:    }
  // CHECK-NEXT:  }
  gpu.func @one_stage(%q: !slot) kernel attributes {tile.schedule = #overlap} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    tile.program 1 {
    ^bb0(%w: index):
      // REMARK: [[@LINE+1]]:7: remark: [Missed] pipeline | Category:tile | Remark="all products are of stage 0"
      scf.for %u = %c0 to %c4 step %c1 {
        %t = tile.mma_async %q, %q transpose_b : !slot, !slot -> !tile.token<!acc>
        %s = tile.mma_wait %t : !tile.token<!acc> -> !acc
      }
    }
    gpu.return
  }
}
