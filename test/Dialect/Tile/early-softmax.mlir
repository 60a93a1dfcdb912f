// RUN: flashc-opt %s --tile-overlap-epilogue | FileCheck %s
// With `epilogue = product` the scores are what is handed on.
// RUN: sed 's/epilogue = softmax/epilogue = product/' %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=LATE
// The wait for the last product stands behind `wait_after` of its exponentials, or twelve.
// RUN: sed 's/epilogue = softmax/&, wait_after = 7/' %s | flashc-opt --tile-overlap-epilogue | FileCheck %s --check-prefix=AFTER

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!row = tensor<64xf32, #tile.row>
!partial = tensor<64xf32, #tile.lane_partial>
!map = !tile.tensor_map<64 x bf16>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!out = memref<1x8x?x64xbf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = true, epilogue = softmax>

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @rotated(
  // CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #tile.acc>
  // CHECK:         %[[K:.*]] = tile.alloc_ring
  // CHECK-NEXT:    %[[V:.*]] = tile.alloc_ring
  // CHECK:         } consumer {
  // CHECK-NEXT:    ^bb0(%[[W:.*]]: index):

  // The first work tile's first product and its softmax, in the order of a work tile.
  // CHECK-NEXT:      %[[ROW0:.*]] = arith.muli %[[LO:.*]], %c64
  // CHECK-NEXT:      %[[K0:.*]] = tile.wait %[[K]][%c0]
  // CHECK-NEXT:      arith.addi
  // CHECK-NEXT:      tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:      %[[T0:.*]] = tile.mma_async %[[K0]], %[[K0]] transpose_b
  // CHECK-NEXT:      tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:      %[[LEN0:.*]] = memref.load %[[LENGTHS:.*]][%[[LO]]]
  // CHECK-NEXT:      %[[S:.*]] = tile.mma_wait %[[T0]] :
  // CHECK-NEXT:      tile.release %[[K0]]
  // CHECK-NEXT:      %[[NEEDS:.*]] = tile.outside %c0 of[%c1, %[[LEN0]])
  // CHECK-NEXT:      %[[MASKED:.*]] = scf.if %[[NEEDS]]
  // CHECK:           %[[MAX0:.*]] = tile.row_reduce max %[[MASKED]]
  // CHECK-NEXT:      tile.vote_any
  // CHECK-NEXT:      %[[P:.*]] = math.exp2 %[[MASKED]]
  // CHECK-NEXT:      %[[SUM0:.*]] = tile.row_reduce sum %[[P]]
  // CHECK-NEXT:      %[[A0:.*]] = tile.to_operand_a %[[P]]

  // The loop carries what the softmax leaves, but neither scores nor slots; and what is known of the work tile.
  // CHECK-NEXT:      scf.for %[[I:.*]] = %[[LO]] to %[[HI:.*]] step %[[ST:.*]] iter_args(
  // CHECK-SAME:          %[[GK:[^ ]*]] = %c0, %[[GV:[^ ]*]] = %c0, %[[ROW:[^ ]*]] = %[[ROW0]], %[[LEN:[^ ]*]] = %[[LEN0]],
  // CHECK-SAME:          %[[MAX:[^ ]*]] = %[[MAX0]], %[[SUM:[^ ]*]] = %[[SUM0]], %[[A:[^ ]*]] = %[[A0]])
  // CHECK-NEXT:        %[[GK1:.*]] = arith.addi %[[GK]], %c1
  // CHECK-NEXT:        %[[R:.*]]:4 = scf.for %{{.*}} = %c1 to %[[LEN]] step %c1 iter_args(%{{.*}} = %[[ZERO]], %{{.*}} = %[[A]], %{{.*}} = %[[GK1]], %{{.*}} = %[[GV]])
  // CHECK:               scf.yield
  // CHECK-NEXT:        }
  // CHECK-NEXT:        %[[V0:.*]] = tile.wait %[[V]][%[[R]]#3]
  // CHECK-NEXT:        %[[GV1:.*]] = arith.addi %[[R]]#3, %c1

  // As in a step of the loop over keys: the next work tile's first product, then this work tile's last one, in one
  // turn.
  // CHECK-NEXT:        %[[BEHIND:.*]] = arith.addi %[[I]], %[[ST]]
  // CHECK-NEXT:        %[[EXISTS:.*]] = arith.cmpi ult, %[[BEHIND]], %[[HI]]
  // CHECK-NEXT:        %[[NEXT:.*]] = arith.select %[[EXISTS]], %[[BEHIND]], %[[I]]
  // CHECK-NEXT:        %[[NEXTROW:.*]] = arith.muli %[[NEXT]], %c64
  // CHECK-NEXT:        %[[K1:.*]] = tile.wait %[[K]][%[[R]]#2]
  // CHECK-NEXT:        arith.addi
  // CHECK-NEXT:        tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:        %[[T1:.*]] = tile.mma_async %[[K1]], %[[K1]] transpose_b
  // CHECK-NEXT:        %[[TO:.*]] = tile.mma_async %[[R]]#1, %[[V0]] into %[[R]]#0
  // CHECK-NEXT:        tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:        %[[NEXTLEN:.*]] = memref.load %[[LENGTHS]][%[[NEXT]]]

  // The next work tile's softmax, of the length that it has, runs beside that.
  // CHECK-NEXT:        %[[S:.*]] = tile.mma_wait %[[T1]] {pending = 1 : i64}
  // CHECK-NEXT:        %[[NEEDS:.*]] = tile.outside %c0 of[%c1, %[[NEXTLEN]])
  // CHECK-NEXT:        %[[MASKED:.*]] = scf.if %[[NEEDS]]
  // CHECK:             %[[MAX1:.*]] = tile.row_reduce max %[[MASKED]]
  // CHECK-NEXT:        tile.vote_any
  // CHECK-NEXT:        %[[P:.*]] = math.exp2 %[[MASKED]]
  // CHECK-NEXT:        %[[SUM1:.*]] = tile.row_reduce sum %[[P]]
  // CHECK-NEXT:        tile.release %[[K1]] after %[[P]] : {{.*}} {elements = 12 : i64}

  // P's registers are free when the last product is done; then this work tile is stored, with its own maximum and sum.
  // CHECK-NEXT:        %[[O:.*]] = tile.mma_wait %[[TO]] :
  // CHECK-NEXT:        tile.release %[[V0]]
  // CHECK-NEXT:        %[[A1:.*]] = tile.to_operand_a %[[P]]
  // CHECK-NEXT:        tile.combine %[[SUM]]
  // CHECK-NEXT:        %[[SCALED:.*]] = tile.scale_rows %[[O]], %[[MAX]]
  // CHECK-NEXT:        tile.store %[[SCALED]], %{{.*}}[%c0, %c0, %[[ROW]]] limit %[[LEN]]
  // CHECK-NEXT:        scf.yield %[[R]]#2, %[[GV1]], %[[NEXTROW]], %[[NEXTLEN]], %[[MAX1]], %[[SUM1]], %[[A1]]
  // CHECK-NEXT:      }
  // CHECK-NEXT:    }

  // LATE:          tile.mma_async {{.*}} into
  // LATE:          tile.mma_async {{.*}} into
  // LATE:          tile.mma_async {{.*}} transpose_b
  // LATE:          tile.mma_wait {{.*}} {pending = 1 : i64}
  // LATE:          tile.store
  // LATE-NEXT:     %[[S:.*]] = tile.mma_wait
  // LATE-NEXT:     tile.release
  // LATE-NEXT:     scf.yield {{.*}}, %[[S]] :

  // AFTER:         } consumer {
  // AFTER:         arith.select
  // AFTER:         tile.mma_async %[[K:.*]], %[[K]] transpose_b
  // AFTER-NEXT:    %[[TO:.*]] = tile.mma_async
  // AFTER:         tile.mma_wait {{.*}} {pending = 1 : i64}
  // AFTER-NOT:     tile.release
  // AFTER:         %[[P:.*]] = math.exp2
  // AFTER-NOT:     tile.release
  // AFTER:         tile.release %[[K]] after %[[P]] : {{.*}} {elements = 7 : i64}
  // AFTER-NEXT:    tile.mma_wait %[[TO]]
  gpu.func @rotated(%kmap: !map, %vmap: !map, %o: !out, %lengths: memref<?xindex>, %lo: index, %hi: index, %st: index)
      kernel attributes {tile.schedule = #schedule} {
    %zero = arith.constant dense<0.0> : !acc
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.warp_specialize 2 registers(24, 240) producer {
      scf.for %p = %lo to %hi step %st iter_args(%gk = %c0, %gv = %c0) -> (index, index) {
        %len = memref.load %lengths[%p] : memref<?xindex>
        tile.acquire %kring[%gk] : !ring
        tile.copy_async %kmap[%c0, %c0, %c0] into %kring[%gk] : !map, !ring
        %gk1 = arith.addi %gk, %c1 : index
        %r:2 = scf.for %u = %c1 to %len step %c1 iter_args(%k = %gk1, %v = %gv) -> (index, index) {
          tile.acquire %kring[%k] : !ring
          tile.copy_async %kmap[%c0, %c0, %u] into %kring[%k] : !map, !ring
          %k1 = arith.addi %k, %c1 : index
          tile.acquire %vring[%v] : !ring
          tile.copy_async %vmap[%c0, %c0, %u] into %vring[%v] : !map, !ring
          %v1 = arith.addi %v, %c1 : index
          scf.yield %k1, %v1 : index, index
        }
        tile.acquire %vring[%r#1] : !ring
        tile.copy_async %vmap[%c0, %c0, %len] into %vring[%r#1] : !map, !ring
        %gv1 = arith.addi %r#1, %c1 : index
        scf.yield %r#0, %gv1 : index, index
      }
    } consumer {
    ^bb0(%w: index):
      scf.for %p = %lo to %hi step %st iter_args(%gk = %c0, %gv = %c0) -> (index, index) {
        %row = arith.muli %p, %c64 : index
        %k = tile.wait %kring[%gk] : !ring -> !slot
        %gk1 = arith.addi %gk, %c1 : index
        tile.ping_pong_wait %w
        %ts = tile.mma_async %k, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        tile.ping_pong_pass %w
        %len = memref.load %lengths[%p] : memref<?xindex>
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        tile.release %k : !slot
        %needs = tile.outside %c0 of [%c1, %len)
        %masked = scf.if %needs -> (!acc) {
          %least = arith.minimumf %s, %zero : !acc
          scf.yield %least : !acc
        } else {
          scf.yield %s : !acc
        }
        %max = tile.row_reduce max %masked : !acc -> !row
        %any = tile.vote_any %max : !row
        %exp = math.exp2 %masked : !acc
        %sum = tile.row_reduce sum %exp : !acc -> !partial
        %pa = tile.to_operand_a %exp : !acc -> !a
        %r:4 = scf.for %u = %c1 to %len step %c1 iter_args(%acc = %zero, %x = %pa, %b = %gk1, %c = %gv)
            -> (!acc, !a, index, index) {
          %k2 = tile.wait %kring[%b] : !ring -> !slot
          %b1 = arith.addi %b, %c1 : index
          tile.ping_pong_wait %w
          %t2 = tile.mma_async %k2, %k2 transpose_b : !slot, !slot -> !tile.token<!acc>
          %v2 = tile.wait %vring[%c] : !ring -> !slot
          %c2 = arith.addi %c, %c1 : index
          %t3 = tile.mma_async %x, %v2 into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
          tile.ping_pong_pass %w
          %s2 = tile.mma_wait %t2 {pending = 1} : !tile.token<!acc> -> !acc
          tile.release %k2 : !slot
          %acc1 = tile.mma_wait %t3 : !tile.token<!acc> -> !acc
          tile.release %v2 : !slot
          %x2 = tile.to_operand_a %s2 : !acc -> !a
          scf.yield %acc1, %x2, %b1, %c2 : !acc, !a, index, index
        }
        %v = tile.wait %vring[%r#3] : !ring -> !slot
        %gv1 = arith.addi %r#3, %c1 : index
        %to = tile.mma_async %r#1, %v into %r#0 : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %out = tile.mma_wait %to : !tile.token<!acc> -> !acc
        tile.release %v : !slot
        %all = tile.combine %sum : !partial -> !row
        %scaled = tile.scale_rows %out, %max : !acc, !row
        tile.store %scaled, %o[%c0, %c0, %row] limit %len : !acc, !out
        scf.yield %r#2, %gv1 : index, index
      }
    }
    gpu.return
  }
}
