// RUN: flashc-opt %s --tile-overlap-epilogue | FileCheck %s
// Without an `epilogue` nothing changes.
// RUN: sed 's/, epilogue = product//' %s | flashc-opt > %t.before
// RUN: sed 's/, epilogue = product//' %s | flashc-opt --tile-overlap-epilogue | diff %t.before -

!acc = tensor<64x64xf32, #tile.acc>
!a = tensor<64x64xbf16, #tile.operand_a>
!map = !tile.tensor_map<64 x bf16>
!qring = !tile.ring<2, 64, 64, bf16, private true>
!ring = !tile.ring<2, 64, 64, bf16>
!slot = !tile.slot<64, 64, bf16>
!out = memref<1x8x?x64xbf16>
#schedule = #tile.schedule<consumers = 2, producer_registers = 24, consumer_registers = 240,
                           overlap = true, ping_pong = true, epilogue = product>

gpu.module @kernels {
  // The producer loads the first work tile's Q and K in front of its loop, and the next work tile's in front of this
  // one's last V.
  // CHECK-LABEL: gpu.func @rotated(
  // CHECK-SAME:      %[[QMAP:arg0]]: {{.*}}, %[[KMAP:arg1]]: {{.*}}, %[[VMAP:arg2]]: {{.*}}, %[[LENGTHS:arg4]]: {{.*}}, %[[PA:arg5]]:
  // CHECK-SAME:      %[[LO:arg6]]: index, %[[HI:arg7]]: index, %[[ST:arg8]]: index)
  // CHECK:         %[[Q:.*]] = tile.alloc_ring : <2, 64, 64, bf16, private true>
  // CHECK-NEXT:    %[[K:.*]] = tile.alloc_ring
  // CHECK-NEXT:    %[[V:.*]] = tile.alloc_ring
  // CHECK:         producer {
  // CHECK-NEXT:      %[[ROW:.*]] = arith.muli %[[LO]], %c64
  // CHECK-NEXT:      %[[OTHER:.*]] = arith.addi %[[ROW]], %c64
  // CHECK-NEXT:      memref.load %[[LENGTHS]][%[[LO]]]
  // CHECK-NEXT:      tile.acquire %[[Q]][%c0] owner 0
  // CHECK-NEXT:      tile.copy_async %[[QMAP]][%c0, %c0, %[[ROW]]] into %[[Q]][%c0] owner 0
  // CHECK-NEXT:      tile.acquire %[[Q]][%c0] owner 1
  // CHECK-NEXT:      tile.copy_async %[[QMAP]][%c0, %c0, %[[OTHER]]] into %[[Q]][%c0] owner 1
  // CHECK-NEXT:      tile.acquire %[[K]][%c0]
  // CHECK-NEXT:      tile.copy_async %[[KMAP]][%c0, %c0, %c0] into %[[K]][%c0]
  // CHECK-NEXT:      arith.addi
  // The bound is read again, and the number of the first K counted again; nothing but the three numbers is carried.
  // CHECK-NEXT:      scf.for %[[P:.*]] = %[[LO]] to %[[HI]] step %[[ST]] iter_args(%[[GQ:.*]] = %c0, %[[GK:.*]] = %c0, %[[GV:.*]] = %c0) -> (index, index, index) {
  // CHECK-NEXT:        %[[LEN:.*]] = memref.load %[[LENGTHS]][%[[P]]]
  // CHECK-NEXT:        %[[GK1:.*]] = arith.addi %[[GK]], %c1
  // CHECK-NEXT:        %[[R:.*]]:2 = scf.for {{.*}} to %[[LEN]] step %c1 iter_args(%{{.*}} = %[[GK1]], %{{.*}} = %[[GV]])
  // CHECK:             %[[GV1:.*]] = arith.addi %[[R]]#1, %c1
  // CHECK-NEXT:        %[[GQ1:.*]] = arith.addi %[[GQ]], %c1
  // CHECK-NEXT:        %[[BEHIND:.*]] = arith.addi %[[P]], %[[ST]]
  // CHECK-NEXT:        %[[EXISTS:.*]] = arith.cmpi ult, %[[BEHIND]], %[[HI]]
  // CHECK-NEXT:        %[[NEXT:.*]] = arith.select %[[EXISTS]], %[[BEHIND]], %[[P]]
  // CHECK-NEXT:        %[[ROW:.*]] = arith.muli %[[NEXT]], %c64
  // CHECK-NEXT:        %[[OTHER:.*]] = arith.addi %[[ROW]], %c64
  // CHECK-NEXT:        memref.load
  // CHECK-NEXT:        tile.acquire %[[Q]][%[[GQ1]]] owner 0
  // CHECK-NEXT:        tile.copy_async %[[QMAP]][%c0, %c0, %[[ROW]]] into %[[Q]][%[[GQ1]]] owner 0
  // CHECK-NEXT:        tile.acquire %[[Q]][%[[GQ1]]] owner 1
  // CHECK-NEXT:        tile.copy_async %[[QMAP]][%c0, %c0, %[[OTHER]]] into %[[Q]][%[[GQ1]]] owner 1
  // CHECK-NEXT:        tile.acquire %[[K]][%[[R]]#0]
  // CHECK-NEXT:        tile.copy_async %[[KMAP]][%c0, %c0, %c0] into %[[K]][%[[R]]#0]
  // CHECK-NEXT:        arith.addi
  // CHECK-NEXT:        tile.acquire %[[V]][%[[R]]#1]
  // CHECK-NEXT:        tile.copy_async %[[VMAP]][%c0, %c0, %[[LEN]]] into %[[V]][%[[R]]#1]
  // CHECK-NEXT:        scf.yield %[[GQ1]], %[[R]]#0, %[[GV1]]
  // CHECK-NEXT:      }

  // The consumer's first product.
  // CHECK-NEXT:    } consumer {
  // CHECK-NEXT:    ^bb0(%[[W:.*]]: index):
  // CHECK-NEXT:      %[[ROW:.*]] = arith.muli %[[LO]], %c64
  // CHECK:           %[[K0:.*]] = tile.wait %[[K]][%c0]
  // CHECK-NEXT:      arith.addi
  // CHECK-NEXT:      %[[Q0:.*]] = tile.wait %[[Q]][%c0]
  // CHECK-NEXT:      arith.addi
  // CHECK-NEXT:      tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:      %[[T0:.*]] = tile.mma_async %[[Q0]], %[[K0]] transpose_b
  // CHECK-NEXT:      tile.ping_pong_pass %[[W]]
  // CHECK-NEXT:      %[[S0:.*]] = tile.mma_wait %[[T0]] :
  // CHECK-NEXT:      tile.release %[[K0]]
  // The loop carries the slot of Q and the scores behind its numbers. What is read of the scalars is computed again.
  // CHECK-NEXT:      %[[LAST:.*]]:5 = scf.for %[[P:.*]] = %[[LO]] to %[[HI]] step %[[ST]]
  // CHECK-SAME:          iter_args(%[[GQ:.*]] = %c0, %[[GK:.*]] = %c0, %[[GV:.*]] = %c0, %[[Q1:.*]] = %[[Q0]], %[[S:.*]] = %[[S0]])
  // CHECK-NEXT:        %[[ROW:.*]] = arith.muli %[[P]], %c64
  // CHECK-NEXT:        %[[LEN:.*]] = memref.load %[[LENGTHS]][%[[P]]]
  // CHECK-NEXT:        %[[SAME:.*]] = tile.uniform %[[ROW]]
  // CHECK-NEXT:        %[[NEXTROW:.*]] = arith.addi %[[ROW]], %c64
  // CHECK-NEXT:        %[[LONG:.*]] = arith.cmpi ugt, %[[LEN]], %c64
  // CHECK-NEXT:        %[[END:.*]] = scf.if %[[LONG]]
  // CHECK-NEXT:          memref.load %[[LENGTHS]][%[[NEXTROW]]]
  // CHECK:             } else {
  // CHECK-NEXT:          scf.yield %c64
  // CHECK-NEXT:        }
  // CHECK-NEXT:        %[[GK1:.*]] = arith.addi %[[GK]], %c1
  // CHECK-NEXT:        %[[GQ1:.*]] = arith.addi %[[GQ]], %c1
  // CHECK-NEXT:        %[[FIRST:.*]] = math.exp2 %[[S]]
  // CHECK-NEXT:        %[[R:.*]]:3 = scf.for %{{.*}} = %c1 to %[[LEN]] step %c1 iter_args(%{{.*}} = %[[FIRST]], %{{.*}} = %[[GK1]], %{{.*}} = %[[GV]])
  // CHECK:               tile.mma_async %[[Q1]],
  // CHECK:               scf.yield
  // CHECK-NEXT:        }
  // CHECK-NEXT:        tile.release %[[Q1]]
  // The last product, then the next work tile's first, in one turn.
  // CHECK-NEXT:        %[[V0:.*]] = tile.wait %[[V]][%[[R]]#2]
  // CHECK-NEXT:        %[[GV1:.*]] = arith.addi %[[R]]#2, %c1
  // CHECK-NEXT:        tile.ping_pong_wait %[[W]]
  // CHECK-NEXT:        %[[TO:.*]] = tile.mma_async %[[PA]], %[[V0]] into %[[R]]#0
  // CHECK-NEXT:        %[[BEHIND:.*]] = arith.addi %[[P]], %[[ST]]
  // CHECK-NEXT:        %[[EXISTS:.*]] = arith.cmpi ult, %[[BEHIND]], %[[HI]]
  // CHECK-NEXT:        %[[NEXT:.*]] = arith.select %[[EXISTS]], %[[BEHIND]], %[[P]]
  // CHECK-NEXT:        arith.muli %[[NEXT]], %c64
  // CHECK-NEXT:        memref.load %[[LENGTHS]][%[[NEXT]]]
  // CHECK:             %[[K0:.*]] = tile.wait %[[K]][%[[R]]#1]
  // CHECK-NEXT:        arith.addi
  // CHECK-NEXT:        %[[Q0:.*]] = tile.wait %[[Q]][%[[GQ1]]]
  // CHECK-NEXT:        arith.addi
  // CHECK-NEXT:        %[[T0:.*]] = tile.mma_async %[[Q0]], %[[K0]] transpose_b
  // CHECK-NEXT:        tile.ping_pong_pass %[[W]]
  // The last product is waited for with that one in flight; this work tile is stored, at its own place.
  // CHECK-NEXT:        %[[O:.*]] = tile.mma_wait %[[TO]] {pending = 1 : i64}
  // CHECK-NEXT:        tile.release %[[V0]]
  // CHECK-NEXT:        tile.store %[[O]], %arg3[%c0, %[[SAME]], %[[ROW]]] limit %[[END]]
  // CHECK-NEXT:        %[[S0:.*]] = tile.mma_wait %[[T0]] :
  // CHECK-NEXT:        tile.release %[[K0]]
  // CHECK-NEXT:        scf.yield %[[GQ1]], %[[R]]#1, %[[GV1]], %[[Q0]], %[[S0]]
  // CHECK-NEXT:      }
  // CHECK-NEXT:      tile.release %[[LAST]]#3
  // CHECK-NEXT:    }
  gpu.func @rotated(%qmap: !map, %kmap: !map, %vmap: !map, %o: !out, %lengths: memref<?xindex>, %pa: !a,
                    %lo: index, %hi: index, %st: index) kernel attributes {tile.schedule = #schedule} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %qring = tile.alloc_ring : !qring
    %kring = tile.alloc_ring : !ring
    %vring = tile.alloc_ring : !ring
    tile.warp_specialize 2 registers(24, 240) producer {
      scf.for %p = %lo to %hi step %st iter_args(%gq = %c0, %gk = %c0, %gv = %c0) -> (index, index, index) {
        %row = arith.muli %p, %c64 : index
        %other = arith.addi %row, %c64 : index
        %len = memref.load %lengths[%p] : memref<?xindex>
        tile.acquire %qring[%gq] owner 0 : !qring
        tile.copy_async %qmap[%c0, %c0, %row] into %qring[%gq] owner 0 : !map, !qring
        tile.acquire %qring[%gq] owner 1 : !qring
        tile.copy_async %qmap[%c0, %c0, %other] into %qring[%gq] owner 1 : !map, !qring
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
        %gq1 = arith.addi %gq, %c1 : index
        scf.yield %gq1, %r#0, %gv1 : index, index, index
      }
    } consumer {
    ^bb0(%w: index):
      scf.for %p = %lo to %hi step %st iter_args(%gq = %c0, %gk = %c0, %gv = %c0) -> (index, index, index) {
        %row = arith.muli %p, %c64 : index
        %len = memref.load %lengths[%p] : memref<?xindex>
        %same = tile.uniform %row
        %next = arith.addi %row, %c64 : index
        %isLong = arith.cmpi ugt, %len, %c64 : index
        %end = scf.if %isLong -> (index) {
          %read = memref.load %lengths[%next] : memref<?xindex>
          scf.yield %read : index
        } else {
          scf.yield %c64 : index
        }
        %unread = arith.addi %row, %c1 : index
        %k = tile.wait %kring[%gk] : !ring -> !slot
        %gk1 = arith.addi %gk, %c1 : index
        %q = tile.wait %qring[%gq] : !qring -> !slot
        %gq1 = arith.addi %gq, %c1 : index
        tile.ping_pong_wait %w
        %ts = tile.mma_async %q, %k transpose_b : !slot, !slot -> !tile.token<!acc>
        tile.ping_pong_pass %w
        %s = tile.mma_wait %ts : !tile.token<!acc> -> !acc
        tile.release %k : !slot
        %first = math.exp2 %s : !acc
        %r:3 = scf.for %u = %c1 to %len step %c1 iter_args(%acc = %first, %b = %gk1, %c = %gv) -> (!acc, index, index) {
          %k2 = tile.wait %kring[%b] : !ring -> !slot
          %b1 = arith.addi %b, %c1 : index
          tile.ping_pong_wait %w
          %t2 = tile.mma_async %q, %k2 transpose_b : !slot, !slot -> !tile.token<!acc>
          %v2 = tile.wait %vring[%c] : !ring -> !slot
          %c2 = arith.addi %c, %c1 : index
          %t3 = tile.mma_async %pa, %v2 into %acc : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
          tile.ping_pong_pass %w
          %s2 = tile.mma_wait %t2 {pending = 1} : !tile.token<!acc> -> !acc
          tile.release %k2 : !slot
          %acc1 = tile.mma_wait %t3 : !tile.token<!acc> -> !acc
          tile.release %v2 : !slot
          scf.yield %acc1, %b1, %c2 : !acc, index, index
        }
        tile.release %q : !slot
        %v = tile.wait %vring[%r#2] : !ring -> !slot
        %gv1 = arith.addi %r#2, %c1 : index
        %to = tile.mma_async %pa, %v into %r#0 : !acc {stage = 1 : i64} : !a, !slot -> !tile.token<!acc>
        %out = tile.mma_wait %to : !tile.token<!acc> -> !acc
        tile.release %v : !slot
        tile.store %out, %o[%c0, %same, %row] limit %end : !acc, !out
        scf.yield %gq1, %r#1, %gv1 : index, index, index
      }
    }
    gpu.return
  }
}
